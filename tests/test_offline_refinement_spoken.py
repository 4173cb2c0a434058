"""Requests as people type them in a hurry in English, Spanish, Portuguese and French (X11)."""

import pytest

from tests.offline_chat import bakery
from tools import voices


@pytest.mark.parametrize(
    "text",
    [
        "no me gusta el final",
        "nao gostei do final",
        "j'aime pas la fin",
        "i dont like the ending",
        "didnt like how it ends",
    ],
)
def test_an_ending_that_is_not_liked_is_worded_anew_by_the_same_voices(text):
    chat = bakery()
    texts, cast = chat.texts, chat.cast
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.cast == cast
    assert chat.texts[:-1] == texts[:-1]
    assert chat.texts[-1] != texts[-1]


def test_another_opener_is_another_first_line_and_no_earlier_version():
    chat = bakery()
    texts = chat.texts
    reply = chat.say("dont love the first line, try another opener")
    assert chat.made == ["voices"]
    assert [old != new for old, new in zip(texts, chat.texts, strict=True)] == [True, False, False]
    assert "already" not in reply


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("add ice cream truck jingle at the start", "ice cream truck jingle"),
        ("mete una sintonía de telediario al final", "sintonía de telediario"),
        ("coloca uma vinheta de rádio no começo", "vinheta de rádio"),
    ],
)
def test_a_jingle_that_is_added_at_a_place_is_an_effect(text, named):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["sfx"]
    assert chat.effects[-1]["description"] == named


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("quita el ruido ese del principio", ["oven sizzle"]),
        ("tira o barulho do começo", ["oven sizzle"]),
        ("los efectos me sobran todos", []),
        ("não quero nenhum efeito", []),
        ("je ne veux aucun bruitage", []),
    ],
)
def test_sounds_that_are_too_much_go(text, left):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["sfx"]
    assert [one["description"] for one in chat.effects] == left


@pytest.mark.parametrize(
    ("text", "gone", "come"),
    [
        ("la guitarra fuera, mejor un piano", "guitar", "piano"),
        ("sem bateria e sem guitarra, só piano", "drums", "piano"),
        ("pas de batterie, juste une guitare acoustique", "drums", "acoustic guitar"),
        ("no drums, just a cello", "drums", "cello"),
        ("sem percussão, só piano", "percussion", "piano"),
    ],
)
def test_what_comes_instead_is_not_refused_with_what_goes(text, gone, come):
    chat = bakery()
    chat.say(text)
    assert set(chat.made) == {"music"}
    assert f"no {gone}" in chat.music
    assert come in chat.music
    assert f"no {come}" not in chat.music


@pytest.mark.parametrize("text", ["sin voz masculina, solo una chica", "no male voice, just a woman"])
def test_a_gender_that_is_refused_leaves_the_other(text):
    chat = bakery()
    texts = chat.texts
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.texts == texts
    assert {voice.gender for one in chat.cast if (voice := voices.find(one))} == {"female"}


def test_who_sounds_bored_is_recast_and_nobody_else():
    chat = bakery()
    cast = chat.cast
    chat.say("the guy sounds bored, get someone with more energy in there")
    assert chat.made == ["voices"]
    assert [old != new for old, new in zip(cast, chat.cast, strict=True)] == [True, False, True]


@pytest.mark.parametrize("text", ["uma voz só basta", "una sola voz basta"])
def test_one_voice_is_enough(text):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["voices"]
    assert len({*chat.cast}) == 1


@pytest.mark.parametrize("text", ["que empiece con una pregunta", "começa com uma pergunta pro ouvinte"])
def test_it_opens_with_a_question(text):
    chat = bakery()
    chat.say("remove the first sentence")
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.texts[0].partition("?")[1] == "?"


@pytest.mark.parametrize(
    "text",
    [
        "reviens à la musique d'avant",
        "volta à música de antes",
        "scrap that last change",
        "prefiero la musica de antes",
        "prefiro a música anterior",
    ],
)
def test_the_music_of_before_comes_back(text):
    chat = bakery()
    before = chat.music
    chat.say("use fast techno instead")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == before


@pytest.mark.parametrize("text", ["propose moi 3 accroches différentes", "give me 3 different openers"])
def test_so_many_openers_are_so_many_scripts(text):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["voices"] * 3


@pytest.mark.parametrize(
    ("text", "asked", "strange"),
    [
        ("can we get somethin a bit more chilled for the backing track", "chilled", "somethin"),
        ("deixa a musica mais animada ai", "upbeat", "ai,"),
        ("plutot du jazz manouche pour la musique", "manouche", "pour"),
    ],
)
def test_small_words_are_no_description_of_music(text, asked, strange):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["music"]
    assert asked in chat.music
    assert strange not in chat.music


@pytest.mark.parametrize(
    "text",
    [
        "faz um logo pra gente",
        "mandaselo a mi jefe por correo",
        "manda isso no whatsapp do cliente",
        "haz tambien una pancarta para el escaparate",
    ],
)
def test_what_no_ad_model_can_do_changes_nothing(text):
    chat = bakery()
    reply = chat.say(text)
    assert chat.made == []
    assert any(word in reply for word in ("imágenes", "imagens", "publicar"))


def test_a_line_is_a_place_where_it_is_numbered():
    chat = bakery()
    chat.say("bota um sininho depois da primeira fala")
    assert chat.made == ["sfx"]
    assert chat.effects[-1]["placement"] == {"type": "afterVoice", "index": 0}


def test_what_is_to_be_said_too_is_said_without_the_too():
    chat = bakery()
    chat.say("dis aussi qu'on est ouvert le lundi")
    assert chat.made == ["voices"]
    assert any("On est ouvert le lundi." in text for text in chat.texts)


@pytest.mark.parametrize(
    "text",
    [
        "le son du début, on l'enlève",
        "whats with the sound at the start, bin it",
        "el sonido del principio? fuera",
    ],
)
def test_what_was_named_before_goes(text):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["sfx"]
    assert [one["description"] for one in chat.effects] == ["oven sizzle"]


def test_a_sentence_that_was_asked_about_goes():
    chat = bakery()
    chat.say("whats the point of the first sentence? delete it")
    assert chat.made == ["voices"]
    assert chat.texts[0] == "Meet Juniper Bakery."


def test_a_bare_sound_is_no_new_effect():
    chat = bakery()
    reply = chat.say("le son du début")
    assert chat.made == []
    assert "comprends pas" in reply


def test_two_wishes_are_two_where_the_second_names_an_instrument():
    chat = bakery()
    chat.say("que la segunda voz vaya mas rapido y la musica con piano")
    assert sorted(chat.made) == ["music", "voices"]
    assert [track.get("speed", 1.0) > 1.0 for track in chat.tracks] == [False, True, False]
    assert "piano" in chat.music


def test_a_friendly_tone_leaves_family_friendly_music_whole():
    chat = bakery()
    chat.say("make the music calm and family-friendly")
    chat.say("make the music sad")
    assert "family-," not in chat.music


def test_a_text_that_comes_out_as_it_was_is_not_said_to_be_rewritten():
    chat = bakery(client="Zen", spot_s=6.0)
    for _ in range(4):
        before = chat.texts
        reply = chat.say("rewrite the first line")
        assert ("rewrote" in reply) == (chat.texts != before)


def test_the_effects_are_told_when_asked_for():
    chat = bakery()
    reply = chat.say("que efeitos sonoros tem agora?")
    assert chat.made == []
    assert "shop door bell" in reply


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("mais urgente por favor, a promoção termina domingo", "a promoção termina domingo"),
        ("plus pressant, l'offre finit dimanche", "l'offre finit dimanche"),
        ("more urgent, the offer ends sunday", "the offer ends sunday"),
    ],
)
def test_a_fact_behind_a_wish_that_is_not_used_is_said_to_be_left(text, fact):
    chat = bakery()
    reply = chat.say(text)
    assert "voices" in chat.made
    assert fact in reply

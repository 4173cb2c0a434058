"""German, Polish, Czech and Romanian requests in their own word order: done, and nothing else (X11)."""

import pytest

from tests.offline_chat import Chat, bakery


@pytest.mark.parametrize(
    "text",
    [
        "statt der Gitarre bitte ein Akkordeon nehmen",
        "šlo by místo kytary dát akordeon?",
        "a gdyby tak zamiast gitary wziąć akordeon?",
    ],
)
def test_an_instrument_instead_of_another_leaves_the_rest_of_the_music(text):
    chat = bakery()
    chat.say("an acoustic guitar in the music")
    kept = chat.music
    chat.say(text)
    assert chat.made == ["music"]
    assert "guitar" not in chat.music
    assert "accordion" in chat.music
    assert len(chat.music) > len(kept) // 2


@pytest.mark.parametrize(
    "text",
    [
        "jednak wolę muzykę z wersji 1",
        "hudbu bych radši zpátky tu z verze 1",
        "totuși prefer muzica din versiunea 1",
        "dann lieber die Musik aus Version 1",
    ],
)
def test_a_stream_and_a_version_alone_bring_that_version_back(text):
    chat = bakery()
    first = chat.music
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == first


@pytest.mark.parametrize(
    "text",
    ["v první verzi se mi hudba líbila", "jaka była muzyka w wersji 1?", "the music in version 1 was fine"],
)
def test_a_version_that_is_only_spoken_of_stays_where_it_is(text):
    chat = bakery()
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.made == []


@pytest.mark.parametrize(
    "text",
    [
        "Zamiast tej pani na początku wolałbym męski, głęboki głos",
        "místo té paní na začátku radši hlubší mužský hlas",
        "în locul doamnei de la început aș vrea o voce de bărbat, mai gravă",
    ],
)
def test_another_voice_instead_of_whoever_begins_is_cast_there_alone(text):
    chat = bakery()
    chat.say("use a woman for voice 1")
    cast = chat.cast
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.cast[0] != cast[0]
    assert chat.cast[1:] == cast[1:]


@pytest.mark.parametrize(
    "text",
    [
        "Druhou část ať čte muž, zbytek nechte",
        "Drugą część niech czyta mężczyzna, reszta bez zmian",
        "A doua parte să o citească un bărbat, restul rămâne la fel",
    ],
)
def test_what_shall_stay_behind_a_comma_does_not_hide_the_wish_before_it(text):
    chat = bakery()
    chat.say("use a woman for voice 2")
    cast = chat.cast
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.cast[0] == cast[0]
    assert chat.cast[1] != cast[1]


def test_a_place_before_the_sound_is_where_it_is_put():
    chat = bakery()
    chat.say("bagă la început și un sunet de tunet")
    assert chat.effects[-1]["placement"] == {"type": "start"}


def test_ton_is_a_sound_where_it_stands_somewhere_and_a_mood_where_it_is_changed():
    chat = bakery()
    chat.say("den Ton am Schluss bitte rausnehmen")
    assert chat.made == ["sfx"]
    chat.say("der Ton des Textes sollte freundlicher sein")
    assert chat.made == ["voices"]


def test_the_music_named_beside_the_whole_ad_is_what_is_slowed():
    chat = bakery()
    chat.say("insgesamt langsamer in der Musik")
    assert chat.made == ["music"]


def test_a_new_opening_is_the_first_part_alone():
    chat = bakery()
    rest = chat.texts[1:]
    chat.say("Der Einstieg überzeugt mich nicht, schreib bitte einen anderen")
    assert chat.made == ["voices"]
    assert chat.texts[1:] == rest


@pytest.mark.parametrize("text", ["ne, to vrať zpátky", "nein, mach das rückgängig", "nie, cofnij to"])
def test_a_no_before_an_undo_takes_the_change_back(text):
    chat = bakery()
    first = chat.music
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.music == first


def test_where_the_spot_shall_be_published_is_refused_but_what_is_said_of_it_is_spoken():
    chat = bakery()
    chat.say("pune-o te rog pe facebook")
    assert chat.made == []
    chat.say("menționează că suntem pe Facebook")
    assert chat.made == ["voices"]


def test_a_message_of_two_languages_alike_is_answered_in_that_of_the_ad():
    first = {"text": "Pekárna U Lípy.", "voiceId": "azure/cs-CZ-VlastaNeural"}
    chat = Chat([first], "folk", [], client="Pekárna U Lípy", language="czech")
    assert "Nerozumím" in chat.say("vystavte mi na to fakturu")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("der sprecher am ende ist mir zu langsam", -1),
        ("ten lektor na końcu mówi za wolno", -1),
        ("inny głos na początek, ten mnie usypia", 0),
        ("jiný hlas na začátek, tenhle mě uspává", 0),
        ("altă voce la început, asta mă adoarme", 0),
        ("the voice at the end is too slow", -1),
    ],
)
def test_the_voice_at_one_end_is_changed_alone(text, at):
    chat = bakery()
    before = chat.tracks
    chat.say(text)
    assert chat.made == ["voices"]
    changed = [place for place, (old, new) in enumerate(zip(before, chat.tracks, strict=True)) if old != new]
    assert changed == [at % len(before)]


@pytest.mark.parametrize("text", ["nimm wieder die alte Musik", "revenim la muzica de dinainte"])
def test_the_music_from_before_comes_back(text):
    chat = bakery()
    first = chat.music
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == first


@pytest.mark.parametrize(
    "text", ["kto czyta drugą część?", "kdo čte druhou část?", "cine citește a doua parte?"]
)
def test_who_reads_a_part_is_answered_with_the_voice(text):
    chat = bakery()
    reply = chat.say(text)
    assert chat.made == []
    assert chat.texts[1] not in reply
    assert "Ava" in reply


def test_one_woman_for_all_of_it_is_one_voice():
    chat = bakery()
    texts = chat.texts
    chat.say("Mohla by to celé číst jedna žena?")
    assert chat.made == ["voices"]
    assert len(set(chat.cast)) == 1
    assert chat.texts == texts


def test_a_wish_wrapped_in_courtesy_is_said_without_it():
    chat = bakery()
    chat.say("menționați vă rog și că duminica e închis")
    assert any("Duminica e închis." in text for text in chat.texts)
    chat.say("wspomnijcie jeszcze że w soboty jest nieczynne")
    assert any("W soboty jest nieczynne." in text for text in chat.texts)


def test_a_sentence_that_has_room_after_all_is_not_left_out():
    voice = {"voiceId": "azure/de-DE-KatjaNeural"}
    first = "Fahrrad kaputt? Speichenwerk. Wir sind die Werkstatt in Husum."
    offer = "Jetzt neu: Inspektion ab 49 Euro bis 31. März."
    tracks = [{**voice, "text": f"{first} {offer}"}, {**voice, "text": "Ruf an: 04841 555012."}]
    chat = Chat(tracks, "folk", [], client="Speichenwerk", language="german", spot_s=17.0)
    chat.say("sag die Telefonnummer zweimal")
    assert chat.texts[0].count("04841 555012") == 1
    assert "Speichenwerk." in chat.texts[0]

"""Requests that look like others: what is asked is done, or said not to be; nothing else changes (X11)."""

import pytest

from tests.offline_chat import Chat, bakery

HELPED = "You could say for example"


@pytest.mark.parametrize(
    "text",
    [
        "say the bakery's name three times in total",
        "let the second voice say the ticket price",
        "the music should start after two seconds",
    ],
)
def test_what_cannot_be_done_changes_nothing_and_is_said(text):
    chat = bakery()
    reply = chat.say(text)
    assert HELPED in reply
    assert chat.made == []


@pytest.mark.parametrize(
    "text",
    ["is it possible to have a woman read it instead?", "let a woman read it", "a woman should say it"],
)
def test_who_shall_read_is_cast_and_not_spoken(text):
    chat = bakery()
    texts = chat.texts
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.texts == texts
    assert len(set(chat.cast)) <= 2


def test_a_line_to_begin_or_end_with_is_spoken_and_no_effect():
    chat = bakery()
    chat.say("end with Call Juniper before it floods")
    assert chat.made == ["voices"]
    assert chat.texts[-1].endswith("Call Juniper before it floods.")
    chat.say("start with: Hungry yet?")
    assert chat.texts[0].startswith("Hungry yet?")
    chat.say("add: we take cards")
    assert any("We take cards." in text for text in chat.texts)
    assert len(chat.effects) == 2


@pytest.mark.parametrize("text", ["end with a gong", "add: thunder at the end"])
def test_a_sound_to_end_with_is_an_effect(text):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["sfx"]


def test_the_length_behind_a_comma_is_the_effects_own():
    chat = bakery()
    chat.say("gavel sound at the end, 3 seconds long")
    assert [(one["description"], one["duration"]) for one in chat.effects[2:]] == [("gavel", 3.0)]


def test_an_effect_that_is_there_does_not_hide_the_new_one_beside_it():
    chat = bakery()
    chat.say("door bell at the start and crowd cheering at the end")
    assert [one["description"] for one in chat.effects[2:]] == ["crowd cheering"]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("don't make it longer, but add a bird chirp", ["sfx"]),
        ("don't make it faster, make the music calmer", ["music"]),
        ("don't make it sadder", []),
    ],
)
def test_a_change_that_is_refused_is_not_turned_round(text, made):
    chat = bakery()
    texts, cast = chat.texts, chat.cast
    chat.say(text)
    assert chat.made == made
    assert (chat.texts, chat.cast) == (texts, cast)


def test_the_volume_of_a_voice_is_the_mixers():
    chat = bakery()
    assert "mixer" in chat.say("lower the volume of the second voice")
    assert chat.made == []


def test_a_name_in_the_script_is_not_taken_for_an_effect_that_shares_a_word():
    chat = bakery()
    chat.say('add "Fresh from the oven" at the end')
    chat.say("change fresh from the oven to Warm from the hearth everywhere")
    assert chat.made == ["voices"]
    assert chat.texts[-1].endswith("Warm from the hearth.")


def test_a_quality_names_no_effect():
    chat = bakery()
    chat.say("add a warm wind at the end")
    chat.say("make the music calmer")
    held = list(chat.effects)
    chat.say("make it warmer but don't change the words")
    assert chat.effects == held


def test_slower_a_little_is_no_repetition():
    chat = bakery()
    chat.say("drop the last sentence and slow it down a touch")
    assert not chat.texts[-1].endswith("Come by today!")
    assert all(track["speed"] < 1 for track in chat.tracks)


def test_someone_in_the_family_is_the_voice_of_that_gender():
    chat = bakery()
    before = list(chat.cast)
    chat.say("make the wife British")
    assert [at for at, (old, new) in enumerate(zip(before, chat.cast, strict=True)) if old != new] == [1]


def test_an_amount_that_brings_its_currency_replaces_the_old_ones():
    chat = bakery()
    chat.say("instead of 4 say five dollars")
    assert "costs five dollars." in chat.texts[1]


def test_what_must_not_change_is_no_part_of_the_music():
    chat = bakery()
    chat.say("Swap the music for a harp tune, but whatever you do, don't change the script")
    assert "whatever" not in chat.music
    assert "harp" in chat.music


def test_a_phone_number_is_said_twice_where_that_is_asked():
    chat = bakery()
    chat.say("say the phone number twice")
    assert " ".join(chat.texts).count("555-123-4567") == 2
    chat.say("our website juniperbread.com has to be in there, and twice!")
    assert " ".join(chat.texts).count("juniperbread.com") == 2


def test_the_second_speaker_is_a_person_and_the_first_one_is_left_alone():
    chat = bakery()
    chat.say("make the first speaker talk faster, leave the second one alone")
    assert [track["speed"] > 1 for track in chat.tracks] == [True, False, True]
    assert "did not understand" not in chat.say("and leave the second one alone")


def test_her_is_the_woman_alone():
    chat = bakery()
    before, texts = list(chat.cast), chat.texts
    chat.say("make her sound happier")
    assert [old != new for old, new in zip(before, chat.cast, strict=True)] == [False, True, False]
    assert chat.texts == texts


@pytest.mark.parametrize("text", ["make the disclaimer faster", "the dog owner should sound older"])
def test_a_thing_nobody_knows_of_is_not_taken_for_everything(text):
    chat = bakery()
    chat.say("add a dog bark at the end")
    assert "did not understand" in chat.say(text)
    assert chat.made == []


def test_music_and_effects_go_together():
    chat = bakery()
    chat.say("remove the music and the sound effects")
    assert chat.made == ["music", "sfx"]
    assert chat.effects == []


def test_effects_that_are_there_stay_where_they_are_without_a_version():
    chat = bakery()
    assert "already so" in chat.say("move the door bell to the start")
    assert chat.made == []


def test_of_two_sounds_alike_the_one_that_is_named_goes():
    chat = bakery()
    chat.say("add a puppy barking at the start")
    chat.say("add a bark at the end")
    chat.say("i dont like the bark")
    assert [one["description"] for one in chat.effects[2:]] == ["puppy barking"]


def test_a_man_instead_keeps_the_accent():
    chat = bakery()
    chat.say("make all the voices british women")
    reply = chat.say("man instead of woman, keep the accent")
    assert "did not understand" not in reply
    assert all("en-GB" in voice for voice in chat.cast)


def test_the_husbands_lines_go_to_the_wife_who_is_there():
    chat = bakery()
    wife = chat.cast[1]
    chat.say("give the husband's lines to the wife")
    assert set(chat.cast) == {wife}


def test_what_a_translation_leaves_out_of_the_brief_is_said():
    chat = bakery(client="Hale Law helps people injured at work. no win no fee.")
    chat.say("rewrite the script")
    assert "No win no fee" in " ".join(chat.texts)
    assert "No win no fee" in chat.say("translate it into Spanish")


def test_a_complaint_that_goes_back_changes_nothing_else():
    chat = bakery()
    chat.say("make the music jazz")
    first = chat.versions["music"][0]
    reply = chat.say("I don't like it, go back to the previous version")
    assert chat.versions["music"][2:] == [first]
    assert "now described" not in reply


def test_a_wrong_fact_that_is_put_right_is_no_riddle():
    chat = bakery()
    reply = chat.say("the phone number is wrong, it should be 555-999-0000")
    assert "555-999-0000" in chat.texts[2]
    assert "did not understand" not in reply


@pytest.mark.parametrize(
    ("language", "text", "made"),
    [
        ("portuguese", "coloca um sino no começo e fala mais devagar", ["voices", "sfx"]),
        ("indonesian", "suara cewek aja, musiknya jangan diubah", ["voices"]),
        ("vietnamese", "đừng đổi lời, chỉ đổi nhạc sang jazz", ["music"]),
        ("romanian", "fără efecte sonore", ["sfx"]),
        ("chinese", "把sourdough改成新鲜的面包", ["voices"]),
    ],
)
def test_the_same_in_other_languages(language, text, made):
    chat = bakery()
    reply = chat.say(text)
    assert chat.made == made, language
    assert "không hiểu" not in reply
    assert len(chat.effects) == {"portuguese": 3, "romanian": 0}.get(language, 2)


def length(chat: Chat) -> float:
    return float(chat._time()["durationSeconds"])


def test_five_seconds_shorter_is_of_the_whole_ad():
    chat = bakery(
        client="Juniper Bakery. Bread since 1920. Rolls and coffee. No sugar added. Parking behind the house."
    )
    chat.say("rewrite the script")
    before = length(chat)
    chat.say("make it 5 seconds shorter")
    assert before - 8 < length(chat) <= before - 5


def test_a_longer_ad_than_its_spot_is_not_promised():
    chat = bakery(spot_s=20.0)
    reply = chat.say("make it 30 seconds instead of 20")
    assert "longer than its spot of 20 s" in reply
    assert chat.made == []


def test_only_what_was_rewritten_is_said_to_be():
    chat = bakery()
    before = chat.texts
    reply = chat.say("keep the second voice as it is, rewrite the rest")
    changed = [str(at) for at, (old, new) in enumerate(zip(before, chat.texts, strict=True), 1) if old != new]
    assert f"I rewrote track {', '.join(changed)}." in reply


@pytest.mark.parametrize(
    "text", ["swap the first and second sentences", "add a pause of one second before the last sentence"]
)
def test_sentences_within_a_track_stay_and_that_is_said(text):
    chat = bakery()
    assert "did not understand" in chat.say(text)
    assert chat.made == []


@pytest.mark.parametrize(
    ("text", "words"),
    [("is the ad legal?", "did not understand"), ("why did you pick this voice?", "fixed rules")],
)
def test_a_question_gets_no_answer_to_another(text, words):
    assert words in bakery().say(text)


@pytest.mark.parametrize(("text", "words"), [("five, not 4", "$five"), ("it's at 8 not 7", "at 8.")])
def test_what_it_is_not_is_put_right(text, words):
    chat = bakery()
    chat.say(text)
    assert words in chat.texts[1]
    assert chat.made == ["voices"]


@pytest.mark.parametrize(
    "text",
    [
        "we changed our name, its Oak & Ash now",
        "we are now called Oak & Ash",
        "it is called Oak & Ash",
        "ahora se llama Oak & Ash",
        "teraz nazywamy się Oak & Ash",
        "jmenujeme se Oak & Ash",
        "acum ne numim Oak & Ash",
        "agora se chama Oak & Ash",
        "sekarang namanya Oak & Ash",
    ],
)
def test_another_name_stands_wherever_the_old_one_stood_and_stays(text):
    chat = bakery()
    before = chat.texts
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.texts == [one.replace("Juniper Bakery", "Oak & Ash") for one in before]
    chat.say("rewrite the script")
    assert "Oak & Ash" in " ".join(chat.texts)
    assert "Juniper" not in " ".join(chat.texts)


def test_a_name_that_was_missing_is_put_in():
    chat = bakery(client="a yoga studio")
    chat.say("rewrite the script")
    assert "our yoga studio" in " ".join(chat.texts)
    chat.say("the studio is called Lotus House")
    assert chat.made == ["voices"]
    assert "Lotus House" in " ".join(chat.texts)
    assert "our yoga studio" not in " ".join(chat.texts)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("use a British voice for voice 1", "no, I meant the second one"),
        ("haz la voz 1 más lenta", "no, me refería a la segunda"),
    ],
)
def test_who_was_meant_gets_it_instead(first, then):
    chat = bakery()
    before = [dict(track) for track in chat.tracks]
    chat.say(first)
    chat.say(then)
    changed = [old != new for old, new in zip(before, chat.tracks, strict=True)]
    assert changed == [False, True, False]

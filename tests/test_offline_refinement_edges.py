"""Corners of the rules for chat turns: several targets at once, what is missing, what cannot be done."""

from copy import deepcopy

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from tests.offline_chat import Chat, bakery
from tests.test_offline_refinement import gender, told
from tools import voices


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("make the voices and the music slower", ["voices", "music"]),
        ("speed the whole ad up", ["voices"]),
        ("make the ad a bit faster", ["voices"]),
        ("faster please", ["voices"]),
        ("the ad should be happier", ["voices", "music"]),
        ("more modern please", ["music"]),
        ("add a trumpet", ["music"]),
        ("add a guitar riff at the end", ["sfx"]),
        ("drop the bell and add a siren at the end", ["sfx"]),
        ("use rain instead of the sizzle", ["sfx"]),
        ("make the second person answer with 'Really?'", ["voices"]),
        ("voice 2 should speak more slowly", ["voices"]),
        ("let voice 1 say that we open at dawn", ["voices"]),
        ("tell listeners about the cinnamon buns at the end of the ad", ["voices"]),
        ("a countdown at the end", ["voices"]),
        ("change 'Meet' to 'Say hello to'", ["voices"]),
        ("make the copy say FRESH instead of stale", ["voices"]),
        ("the voices should not be male", ["voices"]),
        ("the announcer should be a woman", ["voices"]),
        ("turn the music down", ["music"]),
        ("lower the tempo of the music", ["music"]),
        ("make the music less loud", ["music"]),
        ("replace ukulele with banjo", ["music"]),
        ("use voice 1 instead of voice 2 for the second line", ["voices"]),
    ],
)
def test_exactly_these_streams_are_written(text, changed):
    chat = bakery()
    told(chat, text, *changed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("make it louder", "mixer"),
        ("remove the siren", "siren"),
        ("remove all effects named Bob", "effects v2"),
        ("add a bell after voice 12", "ad has 3"),
        ("rewrite track 9", "ad has 3"),
        ("shorten track 8", "ad has 3"),
        ("translate it", "Tell me the language"),
        ("make it English", "already in English"),
        ("mention", "Tell me the words"),
        ("go back to the previous voices", "no such version"),
        ("use a Klingon accent for all voices", "Klingon"),
        ("add a Martian woman's voice saying 'Hi'", "New track 4"),
        ("write me a python script that sorts numbers", "outside"),
        ("drop every sentence about the swimming pool", "swimming pool"),
        ("mention that it is baked every morning at 7", "already says"),
        ("I do not like it", "did not understand"),
        ("undo everything", "nothing to undo"),
        ("remove tracks 1, 2 and 3", "at least one"),
    ],
)
def test_what_cannot_be_done_is_told_in_time(text, words):
    assert words.lower() in bakery().say(text).lower()


def test_everything_is_undone_at_once():
    chat = bakery()
    first = deepcopy({stream: known[-1] for stream, known in chat.versions.items()})
    chat.say("make the music faster")
    chat.say("mention free parking")
    chat.say("undo everything")
    assert {stream: known[-1] for stream, known in chat.versions.items()} == first


def test_version_numbers_are_read_in_words_and_from_the_end():
    chat = bakery()
    for text in ("make the music faster", "make the music darker"):
        chat.say(text)
    second, first = chat.versions["music"][1], chat.versions["music"][0]
    told(chat, "bring back the second version of the music", "music")
    assert chat.versions["music"][-1] == second
    told(chat, "put everything back to how it was at the very beginning", "music")
    assert chat.versions["music"][-1] == first
    told(chat, "go back to the previous music", "music")
    assert chat.versions["music"][-1] == second


def test_four_versions_of_the_script_have_the_same_cast():
    chat = bakery(client="Juniper Bakery: sourdough, cinnamon buns, rye. Open since 1987. Seats outside.")
    chat.say("I need 4 versions of the script")
    assert chat.made == ["voices"] * 4
    cast = [[one["voiceId"] for one in data["voiceTracks"]] for data in chat.versions["voices"]]
    assert all(set(one) <= set(cast[0]) for one in cast)


def test_a_man_and_a_woman_take_turns():
    chat = bakery()
    chat.say("same voice for all tracks")
    told(chat, "use a man and a woman", "voices")
    assert [gender(voice) for voice in chat.cast] == ["male", "female", "male"]


def test_one_woman_reads_everything():
    chat = bakery()
    told(chat, "use one female voice for everything", "voices")
    assert len(set(chat.cast)) == 1
    assert gender(chat.cast[0]) == "female"


def test_the_other_voice_is_the_one_that_was_not_changed():
    chat = bakery()
    chat.say("slow down voice 2")
    told(chat, "now speed up the other voices", "voices")
    assert [track["speed"] for track in chat.tracks][1] == 0.86


def test_without_a_brief_new_copy_is_not_invented():
    chat = bakery()
    chat.messages[1:] = [SystemMessage("Previous conversation summary: nothing is known")]
    for text in (
        "rewrite the script",
        "make the script longer",
        "start the script with a question",
        "do it in Polish",
        "make the script funnier",
    ):
        assert "brief" in told(chat, text)
    told(chat, "make the whole ad calmer", "music")


def test_effects_that_no_longer_fit_the_tracks_are_sent_again_at_the_end():
    chat = bakery()
    refused = {
        "error": "placed after voice 1, and there are none",
        "type": "validation_error",
        "retryable": False,
    }
    chat.failures["create_sfx_draft"] = [refused]
    chat.say("add a ding after the second voice")
    assert chat.made == ["sfx", "sfx"]
    assert [one["placement"]["type"] for one in chat.effects] == ["start", "end", "end"]


def test_a_clause_of_a_long_sentence_goes_and_the_rest_stays():
    chat = Chat(
        [
            {
                "voiceId": voices.search("english")[0].id,
                "text": "Meet Juniper, with free parking, on Mill Street.",
            },
            {"voiceId": voices.search("english")[1].id, "text": "Come in."},
        ],
        "calm piano",
        [],
    )
    told(chat, "drop the part about the parking", "voices")
    assert chat.texts[0] == "Meet Juniper, on Mill Street."
    told(chat, "remove the part about Juniper", "voices")
    assert chat.texts == ["Come in."]
    assert "at least one" in told(chat, "remove 'Come in.'")


def test_an_ad_that_is_not_there_yet_is_not_changed():
    chat = bakery()
    for known in chat.versions.values():
        known.clear()
    chat.messages[2:] = []
    assert "no draft yet" in chat.say("which voices are used?")
    assert "no voices yet" in chat.say("slow down voice 2") or "There is no voice" in chat.messages[-1].text


def test_questions_of_one_kind_each_get_their_answer():
    chat = bakery()
    chat.messages[1] = HumanMessage(chat.messages[1].text.replace("30s", "12s"))
    assert "too long" in chat.say("does it fit?")
    assert "English" in chat.say("is the ad in English?")
    reply = chat.say("what does the ad look like?")
    for part in ("Script", "Voices", "Music", "Effects"):
        assert part in reply


def test_an_ad_without_music_or_effects_gets_them_when_asked():
    chat = Chat(
        [{"voiceId": voices.search("english")[0].id, "text": "Hello there. Come in."}], "calm piano", []
    )
    chat.versions["music"].clear()
    chat.versions["sfx"].clear()
    chat.messages[4:] = [HumanMessage("hello"), AIMessage("Hello!")]
    assert "no music" in chat.say("what music do we have?")
    assert "no effects" in chat.say("list the effects")
    told(chat, "make the music jazzy", "music")
    told(chat, "add rain at the end", "sfx")
    assert "no effects" in told(chat, "remove all effects", "sfx") or chat.effects == []
    assert "no effects" in told(chat, "remove all effects")

"""Versions, undo, redo, rejected voices and variations, rebuilt from the messages alone."""

from copy import deepcopy

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from tests.offline_chat import Chat, bakery
from tools import voices


def newest(chat: Chat) -> dict[str, object]:
    return {stream: deepcopy(known[-1]) for stream, known in chat.versions.items()}


def test_several_steps_are_undone_and_redone_as_new_versions_with_the_old_content():
    chat = bakery()
    states = [newest(chat)]
    for text in ("make the music faster", "add a bell at the end", "slow down voice 2"):
        chat.say(text)
        states.append(newest(chat))
    for state in (states[2], states[1], states[0]):
        chat.say("undo")
        assert newest(chat) == state
    assert "nothing to undo" in chat.say("undo")
    assert chat.made == []
    for state in (states[1], states[2], states[3]):
        chat.say("redo that")
        assert newest(chat) == state
    assert "nothing to redo" in chat.say("redo")
    assert [len(known) for known in chat.versions.values()] == [4, 4, 4], "nothing was overwritten"


def test_a_new_change_after_an_undo_leaves_nothing_to_redo():
    chat = bakery()
    chat.say("make the music faster")
    chat.say("undo that")
    chat.say("remove the bell")
    assert "nothing to redo" in chat.say("redo")


def test_undo_takes_only_the_stream_that_is_named():
    chat = bakery()
    first = newest(chat)
    chat.say("make the music faster and remove the bell")
    changed = newest(chat)
    chat.say("undo the music change")
    assert newest(chat) == {**changed, "music": first["music"]}


def test_the_last_two_changes_are_undone_at_once():
    chat = bakery()
    first = newest(chat)
    chat.say("make the music faster")
    chat.say("remove the bell")
    chat.say("undo the last two changes")
    assert newest(chat) == first


@pytest.mark.parametrize(
    "text",
    [
        "go back to version 1 of the music",
        "use the first music again",
        "return to the original music",
        "bring back music v1",
    ],
)
def test_one_stream_goes_back_to_a_version_that_is_named(text):
    chat = bakery()
    first = newest(chat)
    chat.say("make the music faster and slow down voice 1")
    changed = newest(chat)
    chat.say("make the music darker")
    chat.say(text)
    assert chat.made == ["music"]
    assert newest(chat) == {**changed, "music": first["music"]}


def test_everything_goes_back_to_the_first_draft():
    chat = bakery()
    first = newest(chat)
    chat.say("make the ad feel more urgent")
    chat.say("mention free parking")
    chat.say("go back to version 1 of everything")
    assert newest(chat) == first


def test_a_version_that_never_was_is_not_invented():
    chat = bakery()
    reply = chat.say("go back to version 9 of the music")
    assert chat.made == []
    assert "v9" in reply
    assert "v1" in reply


def test_an_old_version_out_of_sight_of_the_state_tool_is_known_from_the_messages():
    chat = bakery()
    first = newest(chat)
    for text in ("faster", "darker", "happier", "more modern", "softer", "more epic", "jazzier"):
        chat.say(f"make the music {text}")
    assert len(chat.versions["music"]) == 8
    chat.say("go back to music version 1")
    assert newest(chat)["music"] == first["music"]


def test_a_voice_that_was_rejected_is_never_offered_again():
    chat = bakery()
    seen = {chat.cast[1]}
    for text in (
        "another voice for voice 2",
        "I don't like voice 2",
        "try a different one for voice 2",
        "someone else for the second voice",
    ):
        chat.say(text)
        assert chat.made == ["voices"], text
        assert chat.cast[1] not in seen
        seen.add(chat.cast[1])


def test_when_everyone_was_rejected_the_reply_says_so_and_the_voice_stays():
    chat = bakery()
    able = {one.id for one in voices.search("english", gender="female", accent="Irish", count=50)}
    for _ in able:
        chat.say("use an Irish woman for voice 2")
    cast = chat.cast
    assert cast[1] in able
    reply = chat.say("use another Irish woman for voice 2")
    assert chat.made == []
    assert chat.cast == cast
    assert "stays" in reply


def test_variations_are_announced_made_and_one_is_chosen():
    """A77."""
    chat = bakery()
    texts = chat.texts
    reply = chat.say("Create 3 variations of this ad with different voice tones")
    assert chat.made == ["voices"] * 3
    assert [version in reply for version in ("v2", "v3", "v4")] == [True] * 3
    assert "review" in reply
    plan = next(m.text for m in reversed(chat.messages) if isinstance(m, AIMessage) and m.tool_calls)
    assert "3" in plan
    made = chat.versions["voices"][1:]
    assert len({str([track["voiceId"] for track in one["voiceTracks"]]) for one in made}) == 3
    assert all([track["text"] for track in one["voiceTracks"]] == texts for one in made)
    chat.say("I'll take the first one")
    assert chat.made == ["voices"]
    assert chat.versions["voices"][-1] == made[0]


@pytest.mark.parametrize(
    "text", ["give me three options for the music", "show me 2 different versions of the script"]
)
def test_variations_can_be_of_the_music_or_the_script(text):
    chat = bakery()
    chat.say(text)
    assert len(chat.made) >= 2
    assert set(chat.made) <= {"music", "voices"}
    stream = chat.made[0]
    made = chat.versions[stream][1:]
    assert all(made[i] != made[j] for i in range(len(made)) for j in range(i))


def test_yes_does_what_was_suggested_and_no_leaves_everything():
    chat = bakery()
    reply = chat.say("add a bell at the end")
    assert "Shall I make the music more upbeat?" in reply
    chat.say("yes please")
    assert chat.made == ["music"]
    assert "upbeat" in chat.music
    chat.say("no thanks")
    assert chat.made == []


def test_a_new_brief_is_not_undone():
    chat = bakery()
    chat.say("make the music faster")
    chat.messages.append(HumanMessage(chat.messages[1].text))
    chat.messages.append(AIMessage("A new draft."))
    chat.say("undo")
    assert chat.made == []


def test_after_a_compaction_the_state_tool_tells_what_the_messages_no_longer_do():
    chat = bakery()
    chat.say("make the music faster")
    changed = newest(chat)
    chat.messages[1:] = [SystemMessage("Previous conversation summary: music v2, voices v1, sfx v1")]
    chat.say("remove the sizzle")
    assert chat.made == ["sfx"]
    chat.say("slow down voice 2")
    assert newest(chat)["music"] == changed["music"]
    reply = chat.say("make the script funnier")
    assert chat.made == []
    assert "brief" in reply
    chat.say("undo the music change")
    assert newest(chat)["music"] == chat.versions["music"][0]

"""A refusal of the offline model names the part that it did not understand, and a request that it knows."""

import json
import re
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from callsheet.providers.offline.model import OfflineModel

_TOOLS = {
    "ads": ("get_current_state", "search_voices", "create_voice_draft", "create_music_draft"),
    "lessons": ("saveStudentInfoTool", "extractFactsTool", "generateNarrationTool"),
    "pages": ("list_elements", "modify_element", "create_element", "delete_element"),
    "video": ("submit_plan",),
}


_DECLINED = (Path(__file__).parent / "offline_refusals.jsonl").read_text(encoding="utf-8").splitlines()
_NEAREST = re.compile("the nearest request I know is “(.*?)”;")
_SCENES = "\n\n<state>\n1. scene-1 One\n2. scene-2 Two\n3. scene-3 Three\n</state>"


def reply(workflow: str, text: str) -> AIMessage:
    tools = [{"type": "function", "function": {"name": name}} for name in _TOOLS[workflow]]
    summary = SystemMessage("Previous conversation summary: there is an ad.")
    return OfflineModel().bind_tools(tools).invoke([summary, HumanMessage(text)])


@pytest.mark.parametrize(
    ("workflow", "text", "part", "nearest"),
    [
        ("ads", "make the script shorter in German", "in German", "make the script shorter"),
        (
            "ads",
            "use a Welsh voice for the second track",
            "Welsh",
            "use a British voice for the second track",
        ),
        ("video", "make scene 2 look pretty", "look pretty", "make scene 2 faster"),
        ("video", "make scene 1 red and blue", "blue", "make scene 1 red"),
        ("lessons", "My student is actually 11", "actually", "My student is 11"),
    ],
)
def test_a_refusal_names_the_unknown_part_and_a_request_of_the_same_kind(workflow, text, part, nearest):
    answer = reply(workflow, text)
    assert answer.tool_calls == []
    assert f"{part}” in “{text}”" in answer.text
    assert f"the nearest request I know is “{nearest}”" in answer.text


@pytest.mark.parametrize(
    ("workflow", "text"),
    [
        ("ads", "make the music calmer but not slower"),
        ("ads", "don't make the music calmer"),
        ("ads", "make the first voice less slow"),
        ("ads", "make both voices shorter"),
        ("pages", "delete all cards except the second card"),
        ("pages", "make all the text bigger"),
        ("video", "make all scenes faster but not scene 2"),
        ("video", "make scenes 1 and 2 purple or blue"),
        ("video", "make every second scene blue"),
        ("video", "make scene 1 10 seconds longer"),
        ("video", "swap the first and the last scene"),
        ("lessons", "Make it shorter without the hook"),
        ("lessons", "make it 90 seconds shorter"),
        ("lessons", "rewrite the ending"),
    ],
)
def test_a_refusal_offers_no_request_that_does_more_or_something_else(workflow, text):
    """Without the words that exclude, restrict or compare it would be another request; it lists all forms."""
    answer = reply(workflow, text)
    assert answer.tool_calls == []
    assert "nearest" not in answer.text
    assert "so I changed nothing: you can ask “" in answer.text


@pytest.mark.parametrize("word", ["no", "not", "non-", "without", "or", "but", "except", "only", "NOT"])
@pytest.mark.parametrize(
    ("workflow", "text"),
    [("pages", "delete {} the second card"), ("lessons", "My student loves {} football")],
)
def test_no_slot_takes_a_word_that_denies_or_excludes(workflow, text, word):
    answer = reply(workflow, text.format(word))
    assert answer.tool_calls == []
    assert f"“{word}" in answer.text


def test_a_negation_within_quotation_marks_or_a_name_is_part_of_the_text():
    assert reply("pages", 'change the headline to "No fees, not ever"').tool_calls
    assert reply("pages", "make a landing page for No Limits Gym").tool_calls


def test_a_refusal_quotes_a_request_without_a_word_of_the_grammar():
    text = "haz la música más alegre"
    reason = f"did not understand “{text}”, so I changed nothing: you can ask “make the music more upbeat”, “"
    assert reason in reply("ads", text).text


@pytest.mark.parametrize("workflow", [*_TOOLS])
def test_sentences_outside_the_grammar_call_no_tool_and_offer_what_the_file_says(workflow):
    """The file has what each refusal names as unknown, and the request that it offers, if any."""
    rows = [row for row in map(json.loads, _DECLINED) if row["workflow"] == workflow]
    for row in rows:
        answer = reply(workflow, row["say"])
        nearest = _NEAREST.search(answer.text)
        offered = {"nearest": nearest[1]} if nearest else {}
        named = answer.text.partition("did not understand “")[2].startswith(f"{row['part']}”")
        expected = {name: row[name] for name in row.keys() & {"nearest"}}
        assert (answer.tool_calls, named, offered) == ([], True, expected), row


@pytest.mark.parametrize(
    ("place", "behind"),
    [
        ("", {}),
        (" at the end", {}),
        (" at the start", {"behind": "start"}),
        (" before scene 1", {"behind": "start"}),
        (" before scene 3", {"behind": "scene-2"}),
        (" after scene 1", {"behind": "scene-1"}),
    ],
)
def test_a_new_scene_gets_the_place_that_the_request_names(place, behind):
    [call] = reply("video", f"add a scene about delivery{place}{_SCENES}").tool_calls
    [step] = call["args"]["steps"]
    assert {name: step[name] for name in step.keys() & {"behind"}} == behind
    assert (step["tool"], step["prompt"]) == ("addScene", "delivery")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("make the last 9 scenes faster", "there are 3 scenes"),
        ("add a scene about prices after scene 7", "there is no scene 7"),
        ("make a video about a bakery", "this video has scenes already"),
    ],
)
def test_a_request_about_scenes_that_are_not_there_changes_nothing(text, reason):
    answer = reply("video", f"{text}{_SCENES}")
    assert answer.tool_calls == []
    assert reason in answer.text


@pytest.mark.parametrize("text", ["she is 9 and he is 10", "He likes the sea. She is 9."])
def test_two_students_in_a_message_change_nothing(text):
    answer = reply("lessons", text)
    assert answer.tool_calls == []
    assert "one student" in answer.text

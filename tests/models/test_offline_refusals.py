"""A refusal of the offline model names the part that it did not understand, and a request that it knows."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from callsheet.providers.offline.model import OfflineModel

_TOOLS = {
    "ads": ("get_current_state", "search_voices", "create_voice_draft", "create_music_draft"),
    "lessons": ("saveStudentInfoTool", "extractFactsTool", "generateNarrationTool"),
    "pages": ("list_elements", "modify_element", "create_element", "delete_element"),
    "video": ("submit_plan",),
}


def reply(workflow: str, text: str) -> AIMessage:
    tools = [{"type": "function", "function": {"name": name}} for name in _TOOLS[workflow]]
    summary = SystemMessage("Previous conversation summary: there is an ad.")
    return OfflineModel().bind_tools(tools).invoke([summary, HumanMessage(text)])


@pytest.mark.parametrize(
    ("workflow", "text", "part", "nearest"),
    [
        ("ads", "make the music calmer but not slower", "but not slower", "make the music calmer"),
        ("ads", "don't make the music calmer", "don't", "make the music calmer"),
        ("ads", "make the script shorter in German", "in German", "make the script shorter"),
        (
            "ads",
            "use a Welsh voice for the second track",
            "Welsh",
            "use a British voice for the second track",
        ),
        ("pages", "make the hero light blue and book me a table", "book me a table", ""),
        ("pages", "delete all cards except the second card", "all cards except", ""),
        ("video", "make all scenes faster but not scene 2", "but not scene 2", "make all scenes faster"),
        ("video", "make scenes 1 and 2 purple or blue", "or blue", "make scenes 1 and 2 purple"),
        ("lessons", "Make it shorter without the hook", "without the hook", "Make it shorter"),
    ],
)
def test_a_refusal_names_the_unknown_part_and_the_nearest_request(workflow, text, part, nearest):
    answer = reply(workflow, text)
    assert answer.tool_calls == []
    assert f"did not understand “{part}” in “{text}”" in answer.text
    assert f"The nearest request I know is “{nearest}" in answer.text


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


def test_a_request_that_has_no_word_of_the_grammar_is_named_whole():
    text = "haz la música más alegre"
    assert f"did not understand “{text}”, so I changed nothing. docs/offline.md" in reply("ads", text).text

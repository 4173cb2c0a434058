"""What a teacher's sentences lead the offline model to; the sentences were written before its rules."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import providers
from state.errors import Invalid
from tests.lesson_material import material
from tests.lesson_score import TOOLS, Case, history, load, replied

CASES = load("fact_narration.jsonl")


@pytest.mark.parametrize("case", CASES, ids=[one.id for one in CASES])
def test_a_sentence_leads_to_what_it_asks_for(case: Case):
    """B1, B29, B56, B57."""
    assert case.failures() == []


@pytest.mark.parametrize("case", [one for one in CASES if one.line["calls"]], ids=lambda one: one.id)
def test_what_a_sentence_leads_to_fits_the_tools_schema(case: Case):
    reply = replied(*history(case.line["before"]), HumanMessage(case.line["say"]))
    for call in reply.tool_calls:
        TOOLS[call["name"]].schema.model_validate(call["args"])


def test_the_tools_own_words_are_what_is_said_last():
    """B69."""
    messages = [*history("new"), HumanMessage("My student is 7.")]
    call = replied(*messages).tool_calls[0]
    ran = ToolMessage(
        json.dumps({"message": "Noted: age 7.", "warnings": ["it is a guess"]}), tool_call_id=call["id"]
    )
    reply = replied(*messages, AIMessage("", tool_calls=[call]), ran)
    assert (reply.text, reply.tool_calls) == ("Noted: age 7. Note: it is a guess.", [])


def test_an_error_is_told_with_its_remedy():
    messages = [*history("new"), HumanMessage("I uploaded the file")]
    call = replied(*messages).tool_calls[0]
    failed = ToolMessage(
        json.dumps({"error": "it was scanned", "suggestion": "paste the text"}), tool_call_id=call["id"]
    )
    assert (
        replied(*messages, AIMessage("", tool_calls=[call]), failed).text == "it was scanned. Paste the text"
    )


def test_when_no_tool_may_be_called_none_is():
    reply = replied(HumanMessage("My student is 7."), choice="none")
    assert reply.tool_calls == []
    assert "go on" in reply.text


@pytest.mark.parametrize("name", ["the_moon", "great_fire", "struggle_for_existence", "growing_a_bean"])
@pytest.mark.parametrize("head", ["My student is 8 and loves chess.\n\n", ""])
def test_a_pasted_lesson_reaches_the_tool_whole(name, head):
    """B42, B56: it may speak of children, ages and likings itself."""
    text = material(name).text.strip()
    calls = {call["name"]: call["args"] for call in replied(HumanMessage(head + text)).tool_calls}
    assert "".join(calls["extractFactsTool"]["content"].split()) == "".join(text.split())
    assert ("saveStudentInfoTool" in calls) == bool(head)


@pytest.mark.parametrize("text", ["no JSON", "[1]"])
def test_a_form_is_asked_for_with_json(text):
    form = {"type": "function", "function": {"name": "FactSheet", "parameters": {"type": "object"}}}
    with pytest.raises(Invalid, match="not"):
        providers.load("offline").bind_tools([form]).invoke([HumanMessage(text)])

"""What a teacher's sentences lead the offline model to; the sentences were written before its rules."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

import providers
from state.errors import Invalid
from tests.lesson_material import material
from tools import REGISTRY
from tools.registry import definitions

FILE = Path(__file__).parent / "sentences" / "fact_narration.jsonl"
SENTENCES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
TOOLS = REGISTRY.of("lesson")
FACTS = {"success": True, "message": "I found 1 fact.", "facts": [{"id": "a", "concept": "Photosynthesis"}]}
BEFORE = {
    "new": [],
    "facts": [("extractFactsTool", FACTS)],
    "confirmed": [("extractFactsTool", FACTS)],
    "narration": [
        ("extractFactsTool", FACTS),
        ("generateNarrationTool", {"success": True, "message": "Ready."}),
    ],
}


def history(before):
    messages: list[BaseMessage] = [SystemMessage("You help teachers.")]
    for number, (tool, result) in enumerate(BEFORE[before]):
        call = {"name": tool, "args": {}, "id": f"c{number}", "type": "tool_call"}
        messages += [
            HumanMessage("Before."),
            AIMessage("", tool_calls=[call]),
            ToolMessage(json.dumps(result), tool_call_id=f"c{number}", name=tool),
            AIMessage("Done."),
        ]
    return messages


def replied(*messages, choice="auto"):
    model = providers.load("offline").bind_tools(definitions(TOOLS), tool_choice=choice)
    return model.invoke(list(messages))


def right(wanted, got):
    """Whether an argument says what was expected of it: a text may say more, other values are the same."""
    if isinstance(wanted, str) and isinstance(got, str):
        return wanted == got if not wanted else wanted.casefold() in got.casefold()
    return wanted == got


def failures(sentence):
    """Return what an answer to a sentence should have been and is not."""
    reply = replied(*history(sentence["before"]), HumanMessage(sentence["say"]))
    calls = {call["name"]: call["args"] for call in reply.tool_calls}
    wanted = {call["name"]: call["args"] for call in sentence["calls"]}
    extra = set(calls) - set(wanted)
    return [
        *(f"calls {name}" for name in sorted(extra)),
        *(f"does not call {name}" for name in sorted(set(wanted) - set(calls))),
        *(
            f"{name}: {key} is {calls[name].get(key)!r}, not {value!r}"
            for name, args in wanted.items()
            if name in calls
            for key, value in args.items()
            if not right(value, calls[name].get(key))
        ),
        *([] if sentence.get("says", "") in str(reply.text) else [f"says {reply.text!r}"]),
    ]


@pytest.mark.parametrize("sentence", SENTENCES, ids=[one["id"] for one in SENTENCES])
def test_a_sentence_leads_to_what_it_asks_for(sentence):
    """B1, B29, B56, B57."""
    assert failures(sentence) == []


@pytest.mark.parametrize("sentence", [s for s in SENTENCES if s["calls"]][:6], ids=lambda s: s["id"])
def test_what_a_sentence_leads_to_fits_the_tools_schema(sentence):
    reply = replied(*history(sentence["before"]), HumanMessage(sentence["say"]))
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

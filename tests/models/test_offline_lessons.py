"""The offline model on lessons: its grammar and a first session (B1, B29, X11)."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet import providers
from callsheet.providers.offline.lessons import FORMS
from callsheet.tools import REGISTRY
from callsheet.tools.registry import definitions
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_material import material
from tests.models.offline_document import FILE

TOOLS = REGISTRY.of("lesson")
TEXT = (
    "Plants make food from light. Leaves take in air through tiny pores. Roots bring up water from the soil."
)
STUDENT, FACTS, NARRATION = "saveStudentInfoTool", "extractFactsTool", "generateNarrationTool"
FACTS_RESULT = {
    "message": "Found.",
    "facts": [{"concept": "Chlorophyll", "details": "Chlorophyll is a pigment."}],
}
NARRATION_RESULT = {"message": "Ready.", "narration": {"total_duration": 120}}
EXPECTED_CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "student.age": [(STUDENT, {"child_age": "9", "child_interest": "football"})],
    "student.interest": [(STUDENT, {"child_interest": "chess and horses"})],
    "source.text": [(FACTS, {"content": TEXT})],
    "source.file": [(FACTS, {"content": ""})],
    "source.page": [(FACTS, {"content": "https://example.org/rivers"})],
    "facts.more": [(FACTS, {"content": "", "guidance": "the roots"})],
    "narration.write": [(NARRATION, {"facts": []})],
    "narration.length": [(NARRATION, {"facts": [], "target_duration": 30})],
    "narration.change": [(NARRATION, {"facts": [], "target_duration": 45, "guidance": "shorter"})],
    "narration.student": [(STUDENT, {"child_age": "6"}), (NARRATION, {"facts": []})],
    "narration.part": [(NARRATION, {"facts": [], "segments": ["hook"], "guidance": "shorter"})],
    "help": [],
    "question": [],
}
DECLINED = (
    "make the hook shorter but keep the question",
    "make it a bit shorter",
    "make it 90 bananas",
    "rewrite everything",
    "the first two",
    "My student is 9 and loves football and find a picture",
    "My student is nice",
    "mach es kürzer",
    "Delete all my sessions",
    "Do you speak Spanish?",
    "make the hook shorter. Also funnier.",
    "more about the leaves, but not the roots",
    "I don't like it. The narration is too long for my class. It bores them! Can you make it shorter?",
    "Chlorophyll is a pigment.",
)


def turn(text: str, *results: tuple[str, dict[str, Any]]) -> list[BaseMessage]:
    calls = [{"name": name, "args": {}, "id": f"{text}{n}"} for n, (name, _) in enumerate(results)]
    tool_results = [
        ToolMessage(json.dumps(data), tool_call_id=call["id"])
        for call, (_, data) in zip(calls, results, strict=True)
    ]
    return [HumanMessage(text), *([AIMessage("", tool_calls=calls), *tool_results] if calls else [])]


def reply_to(*messages: BaseMessage, choice: str = "auto") -> AIMessage:
    model = providers.load("offline").bind_tools(definitions(TOOLS), tool_choice=choice)
    return model.invoke([SystemMessage("You help teachers."), *messages])


def calls_for(*messages: BaseMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in reply_to(*messages).tool_calls]


EARLIER_TURN = [*turn("Before.", (FACTS, FACTS_RESULT), (NARRATION, NARRATION_RESULT)), AIMessage("Done.")]


@pytest.mark.parametrize("form", FORMS, ids=lambda one: one.name)
def test_the_example_of_each_form_leads_to_its_calls(form):
    message = f"{form.example}\n\n{TEXT}" if form.name == "source.text" else form.example
    assert calls_for(*EARLIER_TURN, HumanMessage(message)) == EXPECTED_CALLS[form.name]
    for name, args in EXPECTED_CALLS[form.name]:
        TOOLS[name].schema.model_validate(args)


@pytest.mark.parametrize("message", DECLINED)
def test_a_message_that_matches_no_form_changes_nothing(message):
    reply = reply_to(*EARLIER_TURN, HumanMessage(message))
    assert reply.tool_calls == []
    assert "I changed nothing" in reply.text


@pytest.mark.parametrize(
    "name", ["the_moon", "great_fire", "struggle_for_existence", "growing_a_bean", "panda"]
)
@pytest.mark.parametrize(
    "message", ["{}", "My student is 8 and loves chess. Make it two minutes.\n\n{}", "{}\n\nShe is 8."]
)
def test_material_between_requests_reaches_the_tool(name, message):
    """B42, B56, B57: the material itself may mention children, ages and interests."""
    calls = dict(calls_for(HumanMessage(message.format(material(name).text.strip()))))
    assert "".join(calls[FACTS]["content"].split()) in "".join(material(name).text.split())
    assert len(calls[FACTS]["content"]) > 0.9 * len(material(name).text.strip())
    assert (calls[FACTS].get("target_duration"), calls.get(STUDENT, {}).get("child_age")) == (
        (120, "8") if "two minutes" in message else (None, "8" if "8" in message else None)
    )


@pytest.mark.parametrize(
    "lead",
    [
        *("Here is the text:", "Here's my text:", "Please use this article:", "The text:\n"),
        *("Here is the text for tomorrow's lesson:", "Here is the text\n\n", "My text for the class below:"),
    ],
)
def test_words_that_announce_the_material_are_no_part_of_it(lead):
    """B42."""
    [(_, args)] = calls_for(HumanMessage(f"{lead} {TEXT}"))
    assert args == {"content": TEXT}


@pytest.mark.parametrize(
    "message",
    [
        "Make a quiz from this text: {}",
        "{} Write a song for my class too.",
        "Turn this into three slides: {}",
    ],
)
def test_a_refusal_names_a_request_around_the_material_that_no_form_has(message):
    reply = reply_to(HumanMessage(message.format(TEXT)))
    assert reply.tool_calls == []
    assert message.format("").split(":")[0].strip() in reply.text


@pytest.mark.parametrize("verb", ["loves", "likes", "enjoys"])
async def test_a_remark_about_the_student_before_material_is_noted_and_is_no_fact(opened, verb):
    """B3: "Student" had become the topic of the lesson."""
    chat = LessonChat(opened)
    remark = f"My student is 9 and {verb} dinosaurs. "
    question = pending_question(await chat.send(remark + material("great_fire").text))
    assert not any("student" in fact["concept"].casefold() for fact in question["facts"])
    noted = await chat.newest_data("student")
    assert "dinosaurs" in str(noted)
    assert "9" in str(noted)


@pytest.mark.parametrize(
    "remark",
    ["My student Ben is 9, he likes boats.", "I teach ten year olds.", "Our class has no time for poems."],
)
@pytest.mark.parametrize("place", ["{remark} {text}", "{text} {remark}", "Hello. {remark} {text}"])
async def test_a_remark_around_material_that_is_not_understood_is_declined(opened, remark, place):
    chat = LessonChat(opened)
    state = await chat.send(place.format(remark=remark, text=material("great_fire").text))
    assert "did not understand" in state["messages"][-1].text
    assert await chat.version_count("facts") == 0


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("more facts about the roots", (FACTS, {"content": "", "guidance": "the roots"})),
        ("Give me other facts", (FACTS, {"content": "", "guidance": "other facts"})),
        (
            "Rewrite the conclusion",
            (NARRATION, {"facts": [], "segments": ["conclusion"], "guidance": "in other words"}),
        ),
    ],
)
def test_a_form_matches_several_wordings(message, call):
    assert calls_for(*EARLIER_TURN, HumanMessage(message)) == [call]


def test_several_requests_in_a_message_lead_to_several_calls():
    calls = calls_for(*EARLIER_TURN, HumanMessage("She is 12. Make it 2 minutes, and rewrite the hook!"))
    assert [name for name, _ in calls] == [STUDENT, NARRATION, NARRATION]


def test_a_length_sent_with_an_uploaded_file_is_passed_to_the_fact_search():
    calls = calls_for(HumanMessage("She is 13. Make it 2 minutes\n\nFind the facts in the file I uploaded."))
    assert calls == [(STUDENT, {"child_age": "13"}), (FACTS, {"content": "", "target_duration": 120})]


def test_a_question_is_answered_only_from_the_facts():
    """B54."""
    assert (
        reply_to(*EARLIER_TURN, HumanMessage("What does chlorophyll do?")).text
        == "I only quote the facts. Chlorophyll: Chlorophyll is a pigment."
    )
    assert "none that I see" in reply_to(*EARLIER_TURN, HumanMessage("Why is the sky blue?")).text
    assert "Paste lesson material" in reply_to(HumanMessage("Why is the sky blue?")).text


def test_the_reply_reports_results_warnings_and_errors_of_calls():
    """B69."""
    noted, failed = (
        {"message": "Noted.", "warnings": ["a guess"]},
        {"error": "scanned", "suggestion": "paste it"},
    )
    reply = reply_to(*turn("She is 7. Find the facts.", (STUDENT, noted), (FACTS, failed)))
    assert (reply.text, reply.tool_calls) == (
        "Noted. Note: a guess.\n\nThat did not work: scanned. Paste it",
        [],
    )


def test_a_relative_length_is_computed_from_the_state_block():
    message = "make it longer\n\n<state>\nNarration v2: 40 s, english, reading level 4.5\n</state>"
    assert calls_for(HumanMessage(message)) == [
        (NARRATION, {"facts": [], "target_duration": 60, "guidance": "longer"})
    ]


def test_no_lesson_tool_is_called_with_tool_choice_none():
    reply = reply_to(HumanMessage("My student is 7"), choice="none")
    assert (reply.tool_calls, "I changed nothing" in reply.text) == ([], True)


async def test_the_session_of_the_documentation_ends_with_a_narration(opened):
    """B47, B52: the session of docs/lessons.md, with the file pasted."""
    chat = LessonChat(opened)
    question = pending_question(
        await chat.send("My student is 9 and loves football\n\n" + material("great_fire").text)
    )
    assert [fact["concept"] for fact in question["facts"][:2]] == ["Thomas Farriner", "Firebreak"]
    await chat.answer("1, 2 and 3")
    narration = await chat.narration()
    text = " ".join(part.narration for part in narration.segments)
    assert "A firebreak is a gap made by pulling down buildings" in text
    assert ("football" in text, narration.reading_level, narration.warnings) == (True, "4.5", ())


@pytest.mark.parametrize("words", ["1-3", "only 2", "the first two", "one and three"])
async def test_an_unclear_choice_is_declined_with_an_explanation(opened, words):
    """B53: nothing is chosen, and the question stays."""
    chat = LessonChat(opened)
    question = pending_question(await chat.send(material("great_fire").text))
    assert "choose by number" not in reply_to(HumanMessage(words)).text, "no choice is pending"
    state = await chat.answer(words)
    assert "choose by number, such as “1 and 3”, or say “all”" in state["messages"][-1].text
    assert pending_question(state)["facts"] == question["facts"]


@pytest.mark.parametrize(
    ("words", "count"), [("2", 1), ("1 and 3", 2), ("1, 2, 3", 3), ("#1 #2", 2), ("all", 0), ("Yes!", 0)]
)
async def test_each_documented_form_of_a_choice_is_understood(opened, words, count):
    """B53: docs/offline.md lists them."""
    assert f"`{words}`" in FILE.read_text(encoding="utf-8")
    chat = LessonChat(opened)
    question = pending_question(await chat.send(material("great_fire").text))
    await chat.answer(words)
    chosen = (await chat.newest_data("confirmed"))["facts"]
    assert len(chosen) == (count or len(question["facts"]))

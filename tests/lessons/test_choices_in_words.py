"""Choices of facts in a person's own words: the model reads them, code checks them (B52-B54, B57).

`choices_in_words.jsonl` was written before the code: what people write, the tool call of a good model, and
the facts that the lesson must tell. The scripted model makes these calls; the rest is the product.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from callsheet.state.lessons.facts import fact_id
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import NewVersion
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model

__all__ = ["lesson_model"]

_LINES: Final = [
    json.loads(line)
    for line in (Path(__file__).parent / "choices_in_words.jsonl").read_text("utf-8").splitlines()
]
SETS: Final = {line["set"]: line["known"] for line in _LINES if "set" in line}
CHOICES: Final = [line for line in _LINES if "narrated" in line]
NO_CHOICES: Final = [line for line in _LINES if "reply" in line]


def case_param(case: dict[str, Any]) -> Any:
    """A test case under its own id."""
    return pytest.param(case, id=case["id"])


async def lesson_with_question(
    opened: Storage, model: LessonModel, set_name: str
) -> tuple[LessonChat, list[str]]:
    """Return a lesson whose facts wait for a choice, and their ids."""
    chat = LessonChat(opened, OPENAI)
    facts = [
        {**fact, "id": fact_id(fact["concept"], ""), "confidence": 0.9, "source": None}
        for fact in SETS[set_name]
    ]
    data = {"topic": set_name, "learningObjective": "Know it", "facts": facts, "language": "english"}
    await chat.artefact.open(owner="local", thread="lesson-chat", facts={})
    await chat.artefact.create_version(NewVersion("facts", data, "llm", "run"))
    state = await chat.pose_question("Which facts shall the lesson tell?", choice="v1")
    assert [fact["id"] for fact in pending_question(state)["facts"]] == [fact["id"] for fact in facts]
    return chat, [fact["id"] for fact in facts]


def choice_call(case: dict[str, Any], ids: list[str]) -> dict[str, Any]:
    """Return the arguments of the model's call; every second case names facts by id instead of number."""
    args = dict(case["call"])
    if int(case["id"][-1]) % 2:
        args["fact_ids"] = [
            ids[number - 1] if isinstance(number, int) else number for number in args["fact_ids"]
        ]
    args["fact_ids"] = [str(number) for number in args["fact_ids"]]
    if edits := args.get("edits"):
        args["edits"] = [{**edit, "id": str(edit["id"])} for edit in edits]
    return args


@pytest.mark.parametrize("case", [*map(case_param, CHOICES)])
async def test_a_choice_in_words_is_narrated(
    opened: Storage, lesson_model: LessonModel, case: dict[str, Any]
) -> None:
    """B22, B52, B64: exactly the chosen facts, with edits, additions, wishes, length and level.

    The model ends the turn, since the message may have held more than the choice.
    """
    chat, ids = await lesson_with_question(opened, lesson_model, case["facts"])
    lesson_model.script_choice(**choice_call(case, ids))
    lesson_model.script(Say("It is told."))
    # A message and a resume of the interrupt have the same effect.
    send = chat.send if int(case["id"][-1]) % 3 else chat.answer
    state = await send(case["text"])
    assert "__interrupt__" not in state, state["messages"][-1].text
    assert state["messages"][-1].text == "It is told."
    call = case["call"]
    added_ids = [fact_id(addition["concept"], addition["details"]) for addition in call.get("additions", ())]
    confirmed = (await chat.newest_data("confirmed"))["facts"]
    expected = [ids[number - 1] for number in case["narrated"]]
    assert [fact["id"] for fact in confirmed][: len(expected)] == expected
    assert len(confirmed) == len(expected) + len(added_ids)
    narration = await chat.narration()
    assert narration.facts == {fact["id"] for fact in confirmed}
    for edit in call.get("edits", ()):
        assert confirmed[int(edit["id"]) - 1]["details"] == edit["details"]
    assert lesson_model.narration_requests[-1]["guidance"] == call.get("wish", "")
    assert narration.total_duration == call.get("target_duration", 60)
    assert float(narration.reading_level) == 6.5 + call.get("level_shift", 0)
    names = ", ".join(fact["concept"] for fact in confirmed)
    assert f"The lesson tells: {names}." in [message.text for message in state["messages"]], (
        "the choice is echoed"
    )
    assert (await chat.version_count("confirmed"), await chat.version_count("narration")) == (1, 1)


@pytest.mark.parametrize("case", [*map(case_param, NO_CHOICES)])
async def test_a_message_that_chooses_no_facts_keeps_the_question_pending(
    opened: Storage, lesson_model: LessonModel, case: dict[str, Any]
) -> None:
    """B53, B54: it is answered, and no fact is confirmed; a wrong call is refused with the reason."""
    chat, ids = await lesson_with_question(opened, lesson_model, case["facts"])
    if "call" in case:
        lesson_model.script_choice(**choice_call(case, ids))
    # A failed call is asked about once more.
    lesson_model.script(*[Say(case["reply"])] * (2 if "error" in case else 1))
    state = await chat.send(case["text"])
    assert [fact["id"] for fact in pending_question(state)["facts"]] == ids
    assert state["messages"][-1].text.startswith(case["reply"])
    assert not await chat.newest_data("confirmed")
    if "error" in case:
        tool_message = next(message for message in reversed(state["messages"]) if message.type == "tool")
        assert case["error"] in json.loads(tool_message.text)["error"]


async def test_a_choice_by_the_model_before_the_persons_answer_is_refused(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B22, B50: without facts, and in the turn that proposes them."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script_choice(fact_ids=["1"])
    lesson_model.script(*[Say("Which material?")] * 2)
    state = await chat.send("Take all of it")
    assert "no facts are proposed" in state["messages"][-2].text
    calls = [
        (
            "c1",
            "extractFactsTool",
            json.dumps({"content": " ".join(one["details"] for one in SETS["water"])}),
        ),
        ("c2", "chooseFactsTool", json.dumps({"fact_ids": ["1"]})),
    ]
    lesson_model.script(Say(calls=calls), Say("I wait."))
    state = await chat.send("Here it is")
    assert pending_question(state)["facts"]
    assert not await chat.newest_data("confirmed")


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("1, 3", (1, 3)),
        ("1 and 3", (1, 3)),
        ("#2", (2,)),
        ("2", (2,)),
        ("all", (1, 2, 3, 4, 5, 6)),
        ("ok", (1, 2, 3, 4, 5, 6)),
    ],
)
async def test_a_choice_by_numbers_or_all_is_read_without_a_model(
    opened: Storage, lesson_model: LessonModel, answer: str, numbers: tuple[int, ...]
) -> None:
    """B52: so are ids and buttons (test_lesson_answers)."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    request_count = len(lesson_model.requests)
    await chat.send(answer)
    assert [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]] == [
        ids[number - 1] for number in numbers
    ]
    assert len(lesson_model.requests) == request_count + 1, "only the narration"


async def test_a_confirmed_fact_is_left_out_at_a_later_message(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B44, B52: only the segments that told the fact are written again."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    await chat.answer("all")
    before = await chat.narration()
    removed_id = ids[3]
    lesson_model.script_choice(fact_ids=[each for each in ids if each != removed_id])
    lesson_model.script(Say("It is out."))
    state = await chat.send("drop the rain after all")
    after = await chat.narration()
    assert after.facts == before.facts - {removed_id}
    expected_segments = before.says(removed_id)
    assert 0 < len(expected_segments) < 4
    changed_segments = [
        new.id for old, new in zip(before.segments, after.segments, strict=True) if new != old
    ]
    assert sorted(changed_segments) == sorted(expected_segments)
    assert state["drafts"] == {"confirmed": "v2", "narration": "v2"}


async def test_a_message_that_only_adds_a_fact_repeats_the_question_with_that_fact(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B54."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=[], additions=[{"concept": "Fog", "details": "Fog is a low cloud."}])
    question = pending_question(await chat.send("You could also tell that fog is a low cloud"))
    assert [fact["id"] for fact in question["facts"][:-1]] == ids
    assert question["facts"][-1]["details"] == "Fog is a low cloud."
    assert not await chat.newest_data("confirmed")
    await chat.send("7")
    assert (await chat.newest_data("confirmed"))["facts"][0]["concept"] == "Fog"
    assert not lesson_model.unused, "the number answers our question"


@pytest.mark.parametrize(("question", "answer"), [("How old is she?", "6"), ("Easier ones?", "Yes please")])
async def test_an_answer_to_the_models_own_question_is_no_choice_of_facts(
    opened: Storage, lesson_model: LessonModel, question: str, answer: str
) -> None:
    """B53, B54: the model reads it, and can record a choice."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script(Say(question), Say("I see."))
    await chat.send("Are these right for her?")
    state = await chat.send(answer)
    assert state["messages"][-1].text == "I see."
    assert [fact["id"] for fact in pending_question(state)["facts"]] == ids
    assert not await chat.newest_data("confirmed")
    lesson_model.script_choice(fact_ids=["1", "3"])
    lesson_model.script(Say("Done."))
    await chat.send("1 and 3")
    assert [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]] == [ids[0], ids[2]]


async def test_a_number_after_the_models_own_question_goes_to_the_model(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B53: "how old is she?" with the tool call, then the question about the facts."""
    chat = LessonChat(opened, OPENAI)
    text = json.dumps({"content": " ".join(one["details"] for one in SETS["water"])})
    lesson_model.script(Say("How old is she?", calls=[("c1", "extractFactsTool", text)]), Say("Six, then."))
    await chat.send("Here is the text")
    state = await chat.send("6")
    assert state["messages"][-1].text == "Six, then."
    facts = pending_question(state)["facts"]
    await chat.send(facts[0]["id"])
    assert (await chat.newest_data("confirmed"))["facts"][0]["id"] == facts[0]["id"], (
        "an id answers only one question"
    )


async def test_a_number_after_a_refused_answer_is_read_without_the_model(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B52."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    assert "there is no fact 9" in pending_question(await chat.send("9"))["problem"]
    await chat.send("2")
    assert [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]] == [ids[1]]


async def test_a_question_sent_with_a_choice_is_answered_after_the_narration(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B52, B54: the model has seen the narration's result."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=["1", "3"])
    lesson_model.script(Say("It takes a minute, and you can change it."))
    state = await chat.send("1 and 3 please. How long will it be, and can I change it later?")
    assert state["messages"][-1].text == "It takes a minute, and you can change it."
    assert (await chat.narration()).facts == {ids[0], ids[2]}
    assert "The narration is ready" in lesson_model.requests[-1].messages[-1]["content"]

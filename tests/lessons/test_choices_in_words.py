"""Choices of facts in a person's own words: the model reads them, code checks them (B52-B54, B57).

`choices_in_words.jsonl` was written before the code: what people write, what a good model calls, and what
the lesson tells. The scripted model answers so; the rest is the product.
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
OPEN: Final = [line for line in _LINES if "reply" in line]


def named(item: dict[str, Any]) -> Any:
    return pytest.param(item, id=item["id"])


async def waiting(opened: Storage, model: LessonModel, name: str) -> tuple[LessonChat, list[str]]:
    """Return a lesson whose facts wait for a choice, and their ids."""
    chat = LessonChat(opened, OPENAI)
    facts = [
        {**one, "id": fact_id(one["concept"], ""), "confidence": 0.9, "source": None} for one in SETS[name]
    ]
    data = {"topic": name, "learningObjective": "Know it", "facts": facts, "language": "english"}
    await chat.artefact.open(owner="local", thread="lesson-chat", facts={})
    await chat.artefact.create_version(NewVersion("facts", data, "llm", "run"))
    state = await chat.pose_question("Which facts shall the lesson tell?", choice="v1")
    assert [fact["id"] for fact in pending_question(state)["facts"]] == [fact["id"] for fact in facts]
    return chat, [fact["id"] for fact in facts]


def call_of(case: dict[str, Any], ids: list[str]) -> dict[str, Any]:
    """Return the model's call; numbers of facts are their ids in every second case."""
    given = dict(case["call"])
    if int(case["id"][-1]) % 2:
        given["fact_ids"] = [ids[one - 1] if isinstance(one, int) else one for one in given["fact_ids"]]
    given["fact_ids"] = [str(one) for one in given["fact_ids"]]
    if edits := given.get("edits"):
        given["edits"] = [{**edit, "id": str(edit["id"])} for edit in edits]
    return given


@pytest.mark.parametrize("case", [*map(named, CHOICES)])
async def test_what_was_meant_is_narrated(
    opened: Storage, lesson_model: LessonModel, case: dict[str, Any]
) -> None:
    """B22, B52, B64: these facts and no others, with edits, additions, wishes, length and level.

    The model ends the turn, since the message may have held more than the choice.
    """
    chat, ids = await waiting(opened, lesson_model, case["facts"])
    lesson_model.script_choice(**call_of(case, ids))
    lesson_model.script(Say("It is told."))
    # A message and the resumption of the interrupt are the same to people.
    says = chat.send if int(case["id"][-1]) % 3 else chat.answer
    state = await says(case["text"])
    assert "__interrupt__" not in state, state["messages"][-1].text
    assert state["messages"][-1].text == "It is told."
    call = case["call"]
    added = [fact_id(addition["concept"], addition["details"]) for addition in call.get("additions", ())]
    confirmed = (await chat.newest_data("confirmed"))["facts"]
    wanted = [ids[number - 1] for number in case["narrated"]]
    assert [one["id"] for one in confirmed][: len(wanted)] == wanted
    assert len(confirmed) == len(wanted) + len(added)
    narration = await chat.narration()
    assert narration.facts == {one["id"] for one in confirmed}
    for edit in call.get("edits", ()):
        assert confirmed[int(edit["id"]) - 1]["details"] == edit["details"]
    assert lesson_model.narration_requests[-1]["guidance"] == call.get("wish", "")
    assert narration.total_duration == call.get("target_duration", 60)
    assert float(narration.reading_level) == 6.5 + call.get("level_shift", 0)
    names = ", ".join(one["concept"] for one in confirmed)
    assert f"The lesson tells: {names}." in [message.text for message in state["messages"]], (
        "the choice is echoed"
    )
    assert (await chat.version_count("confirmed"), await chat.version_count("narration")) == (1, 1)


@pytest.mark.parametrize("case", [*map(named, OPEN)])
async def test_what_chooses_nothing_leaves_the_question_open(
    opened: Storage, lesson_model: LessonModel, case: dict[str, Any]
) -> None:
    """B53, B54: it is answered, and nothing is confirmed; a model's wrong call is refused with the reason."""
    chat, ids = await waiting(opened, lesson_model, case["facts"])
    if "call" in case:
        lesson_model.script_choice(**call_of(case, ids))
    lesson_model.script(Say(case["reply"]))
    state = await chat.send(case["text"])
    assert [fact["id"] for fact in pending_question(state)["facts"]] == ids
    assert state["messages"][-1].text == case["reply"]
    assert not await chat.newest_data("confirmed")
    if "error" in case:
        result = next(message for message in reversed(state["messages"]) if message.type == "tool")
        assert case["error"] in json.loads(result.text)["error"]


async def test_a_model_cannot_choose_before_the_person_has_written(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B22, B50: neither in the turn that proposes the facts, nor without facts."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script_choice(fact_ids=["1"])
    lesson_model.script(Say("Which material?"))
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
async def test_numbers_and_all_work_without_a_model(
    opened: Storage, lesson_model: LessonModel, answer: str, numbers: tuple[int, ...]
) -> None:
    """B52: and so do ids and buttons (test_lesson_answers)."""
    chat, ids = await waiting(opened, lesson_model, "water")
    before = len(lesson_model.requests)
    await chat.send(answer)
    assert [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]] == [
        ids[one - 1] for one in numbers
    ]
    assert len(lesson_model.requests) == before + 1, "only the narration"


async def test_a_confirmed_choice_is_changed_in_words(opened: Storage, lesson_model: LessonModel) -> None:
    """B44, B52: only the segments that told the fact are written again."""
    chat, ids = await waiting(opened, lesson_model, "water")
    await chat.answer("all")
    before = await chat.narration()
    gone = ids[3]
    lesson_model.script_choice(fact_ids=[one for one in ids if one != gone])
    lesson_model.script(Say("It is out."))
    state = await chat.send("drop the rain after all")
    after = await chat.narration()
    assert after.facts == before.facts - {gone}
    fed = before.says(gone)
    assert 0 < len(fed) < 4
    changed = [new.id for old, new in zip(before.segments, after.segments, strict=True) if new != old]
    assert sorted(changed) == sorted(fed)
    assert state["drafts"] == {"confirmed": "v2", "narration": "v2"}


async def test_facts_that_are_only_added_are_offered_with_the_others(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B54: the question is asked again, with one more."""
    chat, ids = await waiting(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=[], additions=[{"concept": "Fog", "details": "Fog is a low cloud."}])
    question = pending_question(await chat.send("You could also tell that fog is a low cloud"))
    assert [fact["id"] for fact in question["facts"][:-1]] == ids
    assert question["facts"][-1]["details"] == "Fog is a low cloud."
    assert not await chat.newest_data("confirmed")
    await chat.send("7")
    assert (await chat.newest_data("confirmed"))["facts"][0]["concept"] == "Fog"
    assert not lesson_model.unused, "the number answers our question"


@pytest.mark.parametrize(("question", "answer"), [("How old is she?", "6"), ("Easier ones?", "Yes please")])
async def test_a_plain_answer_to_the_models_question_is_no_choice(
    opened: Storage, lesson_model: LessonModel, question: str, answer: str
) -> None:
    """B53, B54: the model reads it, which can record a choice."""
    chat, ids = await waiting(opened, lesson_model, "water")
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


async def test_a_number_after_a_question_beside_the_facts_is_for_the_model(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B53: "how old is she?" beside the call, and then the facts with their question."""
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


async def test_a_number_after_a_refusal_is_read_by_code(opened: Storage, lesson_model: LessonModel) -> None:
    """B52."""
    chat, ids = await waiting(opened, lesson_model, "water")
    assert "there is no fact 9" in pending_question(await chat.send("9"))["problem"]
    await chat.send("2")
    assert [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]] == [ids[1]]


async def test_a_question_beside_a_choice_is_answered(opened: Storage, lesson_model: LessonModel) -> None:
    """B52, B54: after the narration, whose result the model has seen."""
    chat, ids = await waiting(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=["1", "3"])
    lesson_model.script(Say("It takes a minute, and you can change it."))
    state = await chat.send("1 and 3 please. How long will it be, and can I change it later?")
    assert state["messages"][-1].text == "It takes a minute, and you can change it."
    assert (await chat.narration()).facts == {ids[0], ids[2]}
    assert "The narration is ready" in lesson_model.requests[-1].messages[-1]["content"]

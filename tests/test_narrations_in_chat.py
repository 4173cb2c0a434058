"""Narrations in a conversation: what is said of them, and their language (B9-B22, B52, B64, B69)."""

import json
from typing import Any

from callsheet.storage import Storage
from tests.chat_double import Say
from tests.lesson_model import LessonModel, lesson_model
from tests.test_choices_in_words import waiting

__all__ = ["lesson_model"]


def sentences(ids: list[str], **changes: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Return a narration of the first two facts about water."""
    given: dict[str, Any] = {
        "hook": [("Where do puddles go?", [])],
        "concept_introduction": [("Sunshine lifts water into the air as vapour.", [ids[0]])],
        "process_explanation": [("The vapour cools and turns into tiny drops.", [ids[1]])],
        "conclusion": [("So look up at the sky!", [])],
    }
    return {**given, **changes}


def last_result(model: LessonModel) -> dict[str, Any]:
    """Return the newest result as the model was sent it."""
    result = next(one for one in reversed(model.requests[-1].messages) if one["role"] == "tool")
    found: dict[str, Any] = json.loads(result["content"].partition("\n\n<state>")[0])
    return found


async def test_what_was_left_out_is_said_to_the_person(opened: Storage, lesson_model: LessonModel) -> None:
    """B22, B69: where no model ends the turn."""
    chat, ids = await waiting(opened, lesson_model, "water")
    hook = [("Where do puddles go?", []), ("In 1712 a lake was lost.", [ids[0]])]
    lesson_model.narrate(**sentences(ids, hook=hook))
    state = await chat.says("1, 2")
    assert "The narration is ready" in state["messages"][-1].text
    assert "1712" in state["messages"][-1].text


async def test_what_was_left_out_is_shown_to_the_model(opened: Storage, lesson_model: LessonModel) -> None:
    """B22: in the result, and afterwards in the state of the lesson."""
    chat, ids = await waiting(opened, lesson_model, "water")
    lesson_model.choose(fact_ids=ids[:2])
    hook = [("Where do puddles go?", []), ("In 1712 a lake was lost.", [ids[0]])]
    lesson_model.narrate(**sentences(ids, hook=hook))
    lesson_model.script(Say("A sentence about 1712 is left out."), Say("Gladly."))
    await chat.says("The first two")
    assert any("1712" in warning for warning in last_result(lesson_model)["warnings"])
    await chat.says("Thanks")
    state = lesson_model.requests[-1].messages[-1]["content"].partition("<state>")[2]
    assert "Warning: " in state
    assert "1712" in state


async def test_a_narration_with_an_empty_segment_is_asked_for_again(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B12, B22."""
    chat, ids = await waiting(opened, lesson_model, "water")
    lesson_model.narrate(**sentences(ids, hook=[(" ", [])]))
    lesson_model.narrate(**sentences(ids))
    await chat.says("1, 2")
    assert (await chat.narration()).segment("hook").narration == "Where do puddles go?"
    assert "hook says nothing" in lesson_model.scripts[-1]["problems"]


async def test_a_narration_with_an_empty_segment_is_a_failure(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B12, B22: nothing is stored, and the person is told."""
    chat, ids = await waiting(opened, lesson_model, "water")
    for _ in range(2):
        lesson_model.narrate(**sentences(ids, hook=[("…", [])]))
    state = await chat.says("1, 2")
    assert "no sentence left for: hook" in state["messages"][-1].text
    assert not await chat.data("narration")
    assert await chat.data("confirmed"), "the choice stays"

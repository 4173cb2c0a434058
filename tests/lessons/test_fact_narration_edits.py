"""What is said after a narration was made changes what it says of, and nothing else."""

from typing import Any

import pytest

from callsheet.storage import Storage
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_material import material
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model

__all__ = ["lesson_model"]


@pytest.fixture
def chat(opened: Storage) -> LessonChat:
    return LessonChat(opened)


@pytest.fixture
async def waiting(chat: LessonChat) -> dict[str, Any]:
    return pending_question(await chat.send(material("photosynthesis").text))


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("rewrite the hook", ["hook"]),
        ("make the hook shorter", ["hook"]),
        ("make the explanation easier", ["process_explanation"]),
        ("rewrite the conclusion", ["conclusion"]),
    ],
)
async def test_after_the_narration_only_what_is_asked_for_changes(
    chat: LessonChat, waiting: dict[str, Any], words: str, changed: list[str]
) -> None:
    """B44, B49: the other segments are the same to the byte, and the asked ones are not."""
    await chat.answer([1, 2, 3, 4])
    before = await chat.narration()
    state = await chat.send(words)
    after = await chat.narration()
    assert state["drafts"] == {"narration": "v2"}
    assert [new.id for old, new in zip(before.segments, after.segments, strict=True) if new != old] == changed
    assert after.facts == before.facts
    if "shorter" in words:
        assert len(after.segments[0].narration) < len(before.segments[0].narration)


async def test_a_narration_is_made_for_another_student_and_another_length(
    chat: LessonChat, waiting: dict[str, Any]
) -> None:
    """B14, B15, B-R8, B-R11: what was not said stays as it was."""
    await chat.send("My student loves soccer")
    await chat.answer([1, 2, 3])
    await chat.send("make it 90 seconds long")
    state = await chat.send("make it for a 6-year-old")
    made = await chat.narration()
    assert (made.total_duration, made.reading_level) == (90, "3.5")
    assert "soccer" in made.model_dump_json()
    assert state["drafts"] == {"student": "v2", "narration": "v3"}
    await chat.send("make it shorter")
    assert (await chat.narration()).total_duration == 68


@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.parametrize("chosen", [(1, 2), (4, 6)])
async def test_of_two_facts_either_can_be_left_out(
    opened: Storage, lesson_model: LessonModel, waiting: dict[str, Any], gone: int, chosen: tuple[int, int]
) -> None:
    """B22: a segment that is left without a fact of its own comes back to what is told elsewhere."""
    del waiting
    chat = LessonChat(opened, OPENAI)
    await chat.answer([*chosen])
    before = await chat.narration()
    kept = [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]][1 - gone]
    lesson_model.script_choice(fact_ids=[kept])
    lesson_model.script(Say("It is out."))
    state = await chat.send("leave the other one out")
    after = await chat.narration()
    assert after.facts == {kept}, state["messages"][-1].text
    assert after.segments != before.segments
    assert all(segment.narration for segment in after.segments)

"""Messages after a narration change the parts that they name, and nothing else."""

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
async def question(chat: LessonChat) -> dict[str, Any]:
    """The question of a lesson whose facts wait for a choice."""
    return pending_question(await chat.send(material("photosynthesis").text))


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("rewrite the hook", ["hook"]),
        ("make the hook shorter", ["hook"]),
        ("make the hook longer", ["hook"]),
        ("make the conclusion longer", ["conclusion"]),
        ("make the explanation easier", ["process_explanation"]),
        ("rewrite the conclusion", ["conclusion"]),
    ],
)
async def test_a_wish_about_one_segment_changes_only_that_segment(
    chat: LessonChat, question: dict[str, Any], words: str, changed: list[str]
) -> None:
    """B44, B49: the other segments do not change by a byte."""
    await chat.answer([1, 2, 3, 4])
    before = await chat.narration()
    state = await chat.send(words)
    after = await chat.narration()
    assert state["drafts"] == {"narration": "v2"}
    assert [new.id for old, new in zip(before.segments, after.segments, strict=True) if new != old] == changed
    assert after.facts == before.facts
    sizes = [sum(len(part.narration.split()) for part in one.segments) for one in (before, after)]
    if "shorter" in words or "longer" in words:
        assert (sizes[1] > sizes[0]) == ("longer" in words)


@pytest.mark.parametrize("words", ["make it longer", "make it shorter"])
async def test_a_longer_narration_has_more_words_and_a_shorter_one_fewer(
    chat: LessonChat, question: dict[str, Any], words: str
) -> None:
    """B44: with all facts told, the length of the phrases around them is what changes."""
    await chat.answer([1, 2, 3])
    before = await chat.narration()
    state = await chat.send(words)
    assert state["drafts"] == {"narration": "v2"}, state["receipt"]["text"]
    after = await chat.narration()
    sizes = [sum(len(part.narration.split()) for part in one.segments) for one in (before, after)]
    assert (sizes[1] > sizes[0]) == ("longer" in words)
    assert after.facts == before.facts


async def test_a_new_age_makes_a_new_narration_and_the_same_words_make_none(
    chat: LessonChat, question: dict[str, Any]
) -> None:
    """B14, B15, B-R8, B-R11."""
    await chat.send("My student loves soccer")
    await chat.answer([1, 2, 3])
    state = await chat.send("make it 90 seconds long")
    assert "the narration is not longer: the model wrote the same words again" in state["receipt"]["text"]
    assert (await chat.narration()).total_duration == 60
    state = await chat.send("make it harder")
    assert "the narration is not harder: the model wrote the same words again" in state["receipt"]["text"]
    state = await chat.send("make it for a 6-year-old")
    narration = await chat.narration()
    assert (narration.total_duration, narration.reading_level) == (60, "3.5")
    assert "soccer" in narration.model_dump_json()
    assert state["drafts"] == {"student": "v2", "narration": "v2"}
    assert sum(one.speech_duration for one in narration.segments) < narration.total_duration


@pytest.mark.parametrize("removed", [0, 1])
@pytest.mark.parametrize("chosen", [(1, 2), (4, 6)])
async def test_either_of_two_facts_can_be_removed_from_a_narration(
    opened: Storage,
    lesson_model: LessonModel,
    question: dict[str, Any],
    removed: int,
    chosen: tuple[int, int],
) -> None:
    """B22: a segment without a fact of its own repeats one that is told elsewhere."""
    del question
    chat = LessonChat(opened, OPENAI)
    await chat.answer([*chosen])
    before = await chat.narration()
    kept_id = [fact["id"] for fact in (await chat.newest_data("confirmed"))["facts"]][1 - removed]
    lesson_model.script_choice(fact_ids=[kept_id])
    lesson_model.script(Say("It is out."))
    state = await chat.send("leave the other one out")
    after = await chat.narration()
    assert after.facts == {kept_id}, state["messages"][-1].text
    assert after.segments != before.segments
    assert all(segment.narration for segment in after.segments)

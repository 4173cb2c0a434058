"""What is said after a narration was made changes what it says of, and nothing else."""

import json
from typing import Any

import pytest

from callsheet.storage import Storage
from tests.lesson_chat import Chat, asked, ids
from tests.lesson_material import material


@pytest.fixture
def chat(opened: Storage) -> Chat:
    return Chat(opened)


@pytest.fixture
async def waiting(chat: Chat) -> dict[str, Any]:
    return asked(await chat.says(material("photosynthesis").text))


async def test_a_fact_taken_out_rewrites_only_the_segments_it_fed(
    chat: Chat, waiting: dict[str, Any]
) -> None:
    """The segments are named, and the others are the same to the byte."""
    await chat.answers("all")
    before = await chat.narration()
    gone = ids(waiting, 3)[0]
    fed = before.says(gone)
    state = await chat.says("Leave out the one about chlorophyll")
    after = await chat.narration()
    assert 0 < len(fed) < 4
    result = json.loads(state["messages"][-2].text)
    assert sorted(result["changedSegments"]) == sorted(fed)
    assert all(
        (new == old) == (old.id not in fed) for old, new in zip(before.segments, after.segments, strict=True)
    )
    assert after.facts == before.facts - {gone}
    assert state["drafts"] == {"confirmed": "v2", "narration": "v2"}


async def test_the_choice_can_be_made_once_more(chat: Chat, waiting: dict[str, Any]) -> None:
    """A fact in other words is told in them, where it was told before."""
    await chat.answers("the first three")
    before = await chat.narration()
    question = asked(await chat.says("Let me choose the facts again"))
    assert question["facts"] == waiting["facts"]
    edited = {**waiting["facts"][1], "details": "Stomata are tiny doors."}
    await chat.answers([ids(waiting, 1)[0], edited, ids(waiting, 3)[0]])
    after = await chat.narration()
    told = before.says(edited["id"])
    assert "Stomata are tiny doors." in json.dumps(after.model_dump())
    assert all(
        (new == old) == (old.id not in told) for old, new in zip(before.segments, after.segments, strict=True)
    )
    state = await chat.says("delete everything")
    assert "at least one" in state["messages"][-1].text
    assert "__interrupt__" not in state


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
    chat: Chat, waiting: dict[str, Any], words: str, changed: list[str]
) -> None:
    """B44, B49: the other segments are the same to the byte, and the asked ones are not."""
    await chat.answers("the first four")
    before = await chat.narration()
    state = await chat.says(words)
    after = await chat.narration()
    assert state["drafts"] == {"narration": "v2"}
    assert [new.id for old, new in zip(before.segments, after.segments, strict=True) if new != old] == changed
    assert after.facts == before.facts
    if "shorter" in words:
        assert len(after.segments[0].narration) < len(before.segments[0].narration)


async def test_a_narration_is_made_for_another_student_and_another_length(
    chat: Chat, waiting: dict[str, Any]
) -> None:
    """B14, B15, B-R8, B-R11: what was not said stays as it was."""
    await chat.says("My student loves soccer")
    await chat.answers("the first three")
    await chat.says("make it 90 seconds long")
    state = await chat.says("make it for a 6-year-old")
    made = await chat.narration()
    assert (made.total_duration, made.reading_level) == (90, "3.5")
    assert "soccer" in made.model_dump_json()
    assert state["drafts"] == {"student": "v2", "narration": "v3"}
    await chat.says("make it shorter")
    assert (await chat.narration()).total_duration == 68


@pytest.mark.parametrize("gone", ["first", "second"])
@pytest.mark.parametrize("first", [False, True])
async def test_of_two_facts_either_can_be_left_out(
    chat: Chat, waiting: dict[str, Any], gone: str, *, first: bool
) -> None:
    """B22: a segment that is left without a fact of its own comes back to what is told elsewhere."""
    del waiting
    await chat.answers([1, 2] if first else [4, 6])
    before = await chat.narration()
    kept = [one["id"] for one in (await chat.data("confirmed"))["facts"]][gone == "first"]
    state = await chat.says(f"leave out the {gone} fact")
    after = await chat.narration()
    assert after.facts == {kept}, state["messages"][-1].text
    assert after.segments != before.segments
    assert all(segment.narration for segment in after.segments)

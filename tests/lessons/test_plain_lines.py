"""The simplest lines of a teacher are understood, and a text is not lost where one is not."""

import pytest

from callsheet.graphs import fact_narration
from tests.lessons.lesson_client import TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text


async def test_students_in_the_plural_come_with_a_chapter(lesson_client: LessonClient) -> None:
    """B56."""
    reply = await lesson_client.send(f"My students are 12 years old.\n\n{TEXT}")
    assert (reply["childAge"], reply["waitsFor"]) == ("12", "select_facts")


async def test_a_refused_line_above_a_text_says_that_the_text_is_kept(lesson_client: LessonClient) -> None:
    """And the next step that it names finds the facts."""
    refused = await lesson_client.send(f"Please make a song for my grandmother.\n\n{TEXT}")
    assert (refused["facts"], refused["outcome"]) == ([], "refused")
    assert "your text is kept, so you can say “find the facts in the text”" in refused["message"]
    reply = await lesson_client.send("find the facts in the text")
    assert reply["waitsFor"] == "select_facts"


@pytest.mark.parametrize(
    ("wish", "seconds", "level_moved"),
    [("two minutes, please", 120, 0), ("90 seconds, and easier", 90, -2), ("1 min", 60, 0)],
)
async def test_a_wish_for_a_length_or_level_is_followed(
    lesson_client: LessonClient, wish: str, seconds: int, level_moved: int
) -> None:
    await lesson_client.send(f"My student is 12.\n\n{TEXT}")
    reply = ok(await lesson_client.post(TOOLS, messages=user(wish), selectedFacts=[1, 2, 3]))
    assert reply["narration"]["total_duration"] == seconds
    assert float(reply["narration"]["reading_level"]) == 6.5 + level_moved
    assert not [one for one in reply["warnings"] if "offline" in one]

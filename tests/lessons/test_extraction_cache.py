"""What was found in a material is remembered for a day, each owner's apart (B63)."""

from callsheet.storage.artefacts import extraction_cache
from callsheet.storage.redis.connection import Storage
from tests.lessons.lesson_material import material
from tests.lessons.lesson_tools import LessonTools


async def test_nobody_is_given_what_was_found_for_another(storage: Storage):
    await extraction_cache.put(storage, "ana", "q", {"topic": "Bees"})
    assert await extraction_cache.get(storage, "ana", "q") == {"topic": "Bees"}
    assert await extraction_cache.get(storage, "ben", "q") is None
    assert await extraction_cache.get(storage, "ana", "other") is None


async def test_the_same_words_are_read_once_and_another_wish_anew(opened: Storage):
    """B63: from any lesson; the facts are the same, and cost nothing."""
    text = material("photosynthesis").text
    first = await LessonTools(opened, "lesson-1").call("extractFactsTool", content=text)
    again = await LessonTools(opened, "lesson-2").call("extractFactsTool", content=f"  {text}\n")
    assert (first["cached"], again["cached"]) == (False, True)
    assert again["facts"] == first["facts"]
    assert (again["topic"], again["cost"]) == (first["topic"], 0)
    other = await LessonTools(opened, "lesson-3").call(
        "extractFactsTool", content=text, guidance="the water, please"
    )
    assert not other["cached"]

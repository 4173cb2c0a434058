"""The facts of a material are cached for a day, separately for each owner (B63)."""

from callsheet.storage.artefacts import extraction_cache
from callsheet.storage.redis.connection import Storage
from tests.lessons.lesson_material import material
from tests.lessons.lesson_tools import LessonTools


async def test_cached_facts_are_returned_to_their_owner_only(storage: Storage):
    await extraction_cache.put(storage, "ana", "q", {"topic": "Bees"})
    assert await extraction_cache.get(storage, "ana", "q") == {"topic": "Bees"}
    assert await extraction_cache.get(storage, "ben", "q") is None
    assert await extraction_cache.get(storage, "ana", "other") is None


async def test_a_text_is_extracted_once_for_all_lessons_and_again_with_another_guidance(opened: Storage):
    """B63: the cached facts are the same, and cost nothing."""
    text = material("photosynthesis").text
    first = await LessonTools(opened, "lesson-1").call("extractFactsTool", content=text)
    cached = await LessonTools(opened, "lesson-2").call("extractFactsTool", content=f"  {text}\n")
    assert (first["cached"], cached["cached"]) == (False, True)
    assert cached["facts"] == first["facts"]
    assert (cached["topic"], cached["cost"]) == (first["topic"], 0)
    with_guidance = await LessonTools(opened, "lesson-3").call(
        "extractFactsTool", content=text, guidance="the water, please"
    )
    assert not with_guidance["cached"]

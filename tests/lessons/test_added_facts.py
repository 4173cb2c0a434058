"""Facts that are chosen later get room in the narration; what a person wrote stays."""

from callsheet.graphs import fact_narration
from tests.lessons.lesson_client import NARRATION, LessonClient, ok
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
HOOK = "Why are leaves green?"


async def test_facts_that_are_chosen_later_get_room_as_those_of_the_first_choice_do(
    lesson_client: LessonClient,
) -> None:
    """B22: the segments with room for them are written again, the hook of the person stays."""
    proposed = await lesson_client.send(material("photosynthesis").text)
    first = await lesson_client.choose_facts(*proposed["facts"][:3])
    ok(
        await lesson_client.request(
            "PATCH", NARRATION, json={"segments": [{"id": "hook", "narration": HOOK}]}
        )
    )
    reply = await lesson_client.choose_facts(*proposed["facts"][:5])
    narration = reply["narration"]
    assert narration["warnings"] == []
    words = [one["narration"] for one in narration["segments"]]
    assert words[0] == HOOK
    for fact in proposed["facts"][:5]:
        assert any(fact["details"].split(".")[0] in text for text in words), fact["concept"]
    before = {one["id"]: one["narration"] for one in first["narration"]["segments"]}
    rewritten = [one["type"] for one in narration["segments"][1:] if one["narration"] != before[one["id"]]]
    shown = ", ".join(one.replace("_", " ") for one in rewritten)
    assert f"Rewritten: {shown}; the rest is unchanged." in reply["message"]


async def test_all_but_the_persons_own_words_is_written_for_facts_that_fit_into_no_segment(
    lesson_client: LessonClient,
) -> None:
    proposed = await lesson_client.send(material("rust").text)
    first = await lesson_client.choose_facts(*proposed["facts"][:2])
    edit = {"segments": [{"id": "hook", "narration": "Why does iron rust?"}]}
    ok(await lesson_client.request("PATCH", NARRATION, json=edit))
    reply = await lesson_client.choose_facts(*proposed["facts"])
    segments = reply["narration"]["segments"]
    assert segments[0]["narration"] == "Why does iron rust?"
    assert [one["narration"] for one in segments[1:]] != [
        one["narration"] for one in first["narration"]["segments"][1:]
    ]
    assert reply["warnings"].count("there was only room to name Antoine Lavoisier") <= 1


async def test_a_persons_hook_is_not_kept_for_facts_about_another_topic(lesson_client: LessonClient) -> None:
    await lesson_client.create_narration()
    ok(
        await lesson_client.request(
            "PATCH", NARRATION, json={"segments": [{"id": "hook", "narration": HOOK}]}
        )
    )
    proposed = await lesson_client.send("Here is another text:\n\n" + material("the_moon").text)
    reply = await lesson_client.choose_facts(*proposed["facts"][:3])
    assert reply["narration"]["segments"][0]["narration"] != HOOK
    assert "written again although you had changed it: hook; v2 has your words" in reply["warnings"]

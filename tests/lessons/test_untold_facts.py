"""A narration with room that leaves chosen facts untold says so, with a remedy that works."""

from callsheet.graphs import fact_narration
from tests.lessons.lesson_client import NARRATION, LessonClient, ok
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
SHORTER = "the narration is much shorter than planned, and it does not tell "


def warnings_of(view: dict[str, list[str]]) -> list[str]:
    return [one for one in view["warnings"] if one.startswith(SHORTER)]


async def test_facts_that_an_edit_took_out_are_named_and_return_after_the_same_choice(
    lesson_client: LessonClient,
) -> None:
    facts = (await lesson_client.send(material("photosynthesis").text))["facts"]
    chosen = await lesson_client.choose_facts(*facts)
    assert warnings_of(chosen) == []
    edits = [
        {"id": name, "narration": words}
        for name, words in (("process_explanation", "Plants are clever."), ("conclusion", "Look at a leaf!"))
    ]
    ok(await lesson_client.request("PATCH", NARRATION, json={"segments": edits}))
    session = await lesson_client.get_session()
    [warning] = warnings_of(session)
    stated = {
        one for each in session["narration"]["segments"] for s in each["sentences"] for one in s["factIds"]
    }
    untold = [one["concept"] for one in facts if one["id"] not in stated]
    assert untold
    assert all(one in warning for one in untold[:3])
    await lesson_client.send("Choose the facts again")
    again = await lesson_client.send("all")
    assert warnings_of(again) == []

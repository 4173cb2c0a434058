"""Words that a person writes stay, and what the chosen facts do not prove in them is named beside them."""

from typing import Any

import pytest

from callsheet.graphs import fact_narration
from callsheet.server.cli.rendering import lesson_parts
from tests.lessons.lesson_client import NARRATION, LessonClient, ok
from tests.lessons.test_other_facts import shown

GRAPHS = {"fact_narration": fact_narration.graph}
COMET = (
    "Halley's Comet\n\nHalley's Comet comes back about every 76 years. Its tail is millions of kilometres "
    "long. The comet was seen in the year 1986. Its core is made of ice and dust. "
    "Edmond Halley computed its path in 1705. The comet moves around the Sun in a long ellipse."
)


async def edit(client: LessonClient, segment: str, words: str) -> dict[str, Any]:
    body = {"segments": [{"id": segment, "narration": words}]}
    return ok(await client.request("PATCH", NARRATION, json=body))


async def test_a_figure_that_a_person_changed_is_not_proven_any_more(lesson_client: LessonClient) -> None:
    """The words are saved as they are, and the note goes with the right figure."""
    await lesson_client.send(COMET)
    narrated = await lesson_client.send("all")
    assert narrated["segmentNotes"] == {}
    segment = next(one for one in narrated["narration"]["segments"] if "76 years" in one["narration"])
    words = segment["narration"].replace("76 years", "67 years")
    saved = await edit(lesson_client, segment["id"], words)
    [note] = saved["segmentNotes"][segment["id"]]
    assert note.startswith("check: “")
    assert note.endswith("says 67, which its facts do not say")
    session = await lesson_client.get_session()
    assert session["segmentNotes"] == saved["segmentNotes"]
    assert words in [one["narration"] for one in session["narration"]["segments"]]
    assert " ".join(note.split()) in " ".join(shown(lesson_parts(session)).split())
    assert (await edit(lesson_client, segment["id"], segment["narration"]))["segmentNotes"] == {}


async def test_versions_are_compared_in_the_words_of_their_segments(lesson_client: LessonClient) -> None:
    """Ids of facts, marks of a person's segments and times are not named."""
    await lesson_client.send(COMET)
    narrated = await lesson_client.send("all")
    before = next(one["narration"] for one in narrated["narration"]["segments"] if one["id"] == "hook")
    await edit(lesson_client, "hook", "Look up into the sky!")
    diff = ok(await lesson_client.request("GET", f"{NARRATION}/versions/v1/diff/v2"))
    [change] = diff["changes"]
    assert (change["path"], change["before"], change["after"]) == (
        "segments.hook.narration",
        before,
        "Look up into the sky!",
    )
    assert diff["text"].startswith("hook: ")


@pytest.mark.parametrize(
    ("words", "claims"), [("900 people died of it in 1999.", "900, 1999"), ("Look up into the sky!", "")]
)
async def test_a_new_sentence_with_figures_names_no_fact(
    lesson_client: LessonClient, words: str, claims: str
) -> None:
    """A greeting claims nothing, and has no note."""
    await lesson_client.send(COMET)
    await lesson_client.send("all")
    notes = (await edit(lesson_client, "hook", words))["segmentNotes"]
    expected = {"hook": [f"check: “{words}” says {claims}, and names no fact that says so"]} if claims else {}
    assert notes == expected

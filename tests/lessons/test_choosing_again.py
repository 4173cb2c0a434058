"""Facts are chosen again after a narration: by a question that is asked once more, and by number."""

import re

import pytest

from callsheet.graphs import fact_narration
from tests.lessons.lesson_client import LessonClient, ok
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text


async def narrate(client: LessonClient) -> None:
    """Make a narration of three facts that has no more words in 90 seconds."""
    await client.send(TEXT)
    await client.choose_facts(1, 2, 5)


async def test_a_length_that_the_facts_do_not_fill_names_the_words_by_which_they_are_chosen_again(
    lesson_client: LessonClient,
) -> None:
    """B44, B56: the reason is given once, and the way that it names works."""
    await narrate(lesson_client)
    refused = await lesson_client.send("Make it 90 seconds")
    assert refused["message"].startswith(
        "Failed: the narration is not longer: the model wrote the same words"
    )
    assert refused["message"].count("the same words again") == 1
    assert "Say “choose the facts again” and choose more" in refused["message"]
    reopened = await lesson_client.send("Choose the facts again")
    assert (reopened["waitsFor"], reopened["interrupt"]["value"]["type"]) == ("select_facts", "select_facts")
    assert reopened["message"] == "You can choose the facts again; the narration stays until you do."
    assert reopened["narration"]["total_duration"] == 60
    chosen = await lesson_client.send("1, 2, 3, 4 and 5")
    assert (len(chosen["confirmedFacts"]), chosen["waitsFor"]) == (5, None)
    longer = await lesson_client.send("Make it 90 seconds")
    assert longer["narration"]["total_duration"] == 90


@pytest.mark.parametrize("facts", [(1,), (1, 2, 3, 4, 5, 6, 7)])
async def test_a_length_that_is_offered_can_be_made_of_few_facts_and_of_many(
    lesson_client: LessonClient, facts: tuple[int, ...]
) -> None:
    """B44: 90 seconds had been offered, which three facts do not fill."""
    await lesson_client.send(TEXT)
    await lesson_client.choose_facts(*facts)
    offers = [(await lesson_client.send(words))["message"] for words in ("Sing it to me", "What can you do?")]
    [[length], [other]] = [re.findall(r"[Mm]ake it \d+ seconds", offer) for offer in offers]
    assert length.casefold() == other.casefold()
    reply = await lesson_client.send(length)
    assert f"planned for {length.split()[2]} s" in reply["message"]


@pytest.mark.parametrize(
    ("words", "count"), [("all", 7), ("choose all facts", 7), ("Choose 1, 2 and 3", 3), ("1 and 4", 2)]
)
async def test_facts_are_chosen_by_number_when_no_question_is_open(
    lesson_client: LessonClient, words: str, count: int
) -> None:
    await narrate(lesson_client)
    reply = await lesson_client.send(words)
    assert len(reply["confirmedFacts"]) == count
    assert reply["narration"]["segments"]


async def test_an_unknown_number_is_refused_and_changes_nothing(lesson_client: LessonClient) -> None:
    await narrate(lesson_client)
    reply = await lesson_client.send("choose 9")
    assert "there is no fact 9" in reply["message"].casefold()
    assert (len(reply["confirmedFacts"]), reply["waitsFor"]) == (3, None)


async def test_the_words_that_choose_without_a_question_choose_while_it_is_open(
    lesson_client: LessonClient,
) -> None:
    """They were not understood then."""
    await narrate(lesson_client)
    await lesson_client.send("Choose the facts again")
    refused = await lesson_client.send("choose 1 and 9")
    assert "there is no fact 9" in refused["message"].casefold()
    assert refused["waitsFor"] == "select_facts"
    chosen = await lesson_client.send("Choose 1, 2 and 4")
    assert (len(chosen["confirmedFacts"]), chosen["waitsFor"]) == (3, None)
    await lesson_client.send("Choose the facts again")
    assert len((await lesson_client.send("choose all"))["confirmedFacts"]) == 7


async def test_versions_of_chosen_facts_are_compared_in_words(lesson_client: LessonClient) -> None:
    """X16: by concept and details; ids, passages and confidences say nothing to a person."""
    first = await lesson_client.send(TEXT)
    facts = first["facts"]
    chosen = await lesson_client.choose_facts(1, 2)
    assert chosen["receipt"]["text"].startswith("Changed: chosen facts v1")
    await lesson_client.send("Choose the facts again")
    edited = {"id": facts[0]["id"], "concept": facts[0]["concept"], "details": "Plants make sugar."}
    await lesson_client.choose_facts(edited, facts[2]["id"])
    path = f"/api/artefacts/lesson/{lesson_client.session_id}/confirmed/v1/diff/v2"
    diff = ok(await lesson_client.request("GET", path))
    shown = [(one["kind"], one["path"], one.get("before"), one.get("after")) for one in diff["changes"]]
    assert shown == [
        ("removed", f"facts.{facts[1]['concept']}", facts[1]["details"], None),
        ("changed", f"facts.{facts[0]['concept']}", facts[0]["details"], "Plants make sugar."),
        ("added", f"facts.{facts[2]['concept']}", None, facts[2]["details"]),
    ]
    assert diff["changes"][0]["text"].startswith(f'{facts[1]["concept"]} removed: "')

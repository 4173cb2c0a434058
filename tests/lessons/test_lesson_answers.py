"""Every kind of answer to what a lesson asks, by every door: graph, LangGraph's client, REST (B47-B54)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from callsheet.graphs import fact_narration
from tests.lessons.lesson_chat import fact_ids
from tests.lessons.lesson_drivers import LessonDriver, Question, decision, edit_decision, inbox_answer
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text
GRAPHS = {"fact_narration": fact_narration.graph}


EVERY = (1, 2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class Choice:
    """An answer that chooses, and the numbers of the facts it chooses."""

    name: str
    answer: Callable[[Question], Any]
    numbers: tuple[int, ...]


CHOICES = (
    Choice("approve", lambda _: decision("approve"), EVERY),
    Choice("edit", lambda q: edit_decision("select_facts", facts=q["facts"][1:3]), (2, 3)),
    Choice("edit with ids", lambda q: edit_decision("select_facts", facts=fact_ids(q, 6)), (6,)),
    Choice("respond", lambda _: decision("respond", message="1, 2 and 7"), (1, 2, 7)),
    Choice("ids", lambda q: fact_ids(q, 1, 3), (1, 3)),
    Choice("one id", lambda q: fact_ids(q, 5)[0], (5,)),
    Choice("ids by name", lambda q: {"facts": fact_ids(q, 2)}, (2,)),
    Choice("indices", lambda _: [1, 3, 5], (1, 3, 5)),
    Choice("one index", lambda _: 4, (4,)),
    Choice("facts as they were", lambda q: q["facts"][:2], (1, 2)),
    Choice("facts by name", lambda q: {"selectedFacts": q["facts"][3:5]}, (4, 5)),
    Choice(
        "facts not selected", lambda q: [{**fact, "selected": False} for fact in q["facts"][:6]] + [7], (7,)
    ),
    Choice("all", lambda _: "all", EVERY),
    Choice("true", lambda _: True, EVERY),
    Choice("numbers", lambda _: "1, 2 and 6", (1, 2, 6)),
    Choice("a plain yes", lambda _: "Yes, please!", EVERY),
    Choice("JSON as text", lambda q: json.dumps({"facts": fact_ids(q, 2, 4)}), (2, 4)),
    Choice("inbox accept", lambda _: inbox_answer("accept"), EVERY),
    Choice("inbox accept as text", lambda _: json.dumps(inbox_answer("accept")), EVERY),
    Choice("inbox response", lambda _: inbox_answer("response", "2 and 4"), (2, 4)),
    Choice(
        "inbox edit with texts",
        lambda q: inbox_answer(
            "edit", {"action": "select_facts", "args": {"facts": json.dumps(q["facts"][:1])}}
        ),
        (1,),
    ),
)


@pytest.mark.parametrize("case", CHOICES, ids=[one.name for one in CHOICES])
async def test_a_choice_is_narrated_and_nothing_else(lesson_driver: LessonDriver, case: Choice) -> None:
    """B10, B22, B41, B48, B50, B52: every fact chosen is told, and no other."""
    asked = await lesson_driver.question_after(TEXT)
    assert asked["action_requests"][0]["name"] == "select_facts"
    assert await lesson_driver.answer(case.answer(asked)) is None, lesson_driver.last_message
    wanted = fact_ids(asked, *case.numbers)
    assert await lesson_driver.confirmed_ids() == wanted
    assert (await lesson_driver.narration()).facts == set(wanted)
    assert (
        await lesson_driver.version_count("confirmed"),
        await lesson_driver.version_count("narration"),
    ) == (1, 1)


OWN = {"concept": "Moss", "details": "Moss has no roots."}
WORDED: tuple[tuple[str, Callable[[Question], Any]], ...] = (
    ("a list", lambda q: [{**q["facts"][0], "details": "Leaves cook their food with light."}, OWN]),
    (
        "an edit",
        lambda q: edit_decision(
            "select_facts", facts=[{**q["facts"][0], "details": "Leaves cook their food with light."}, OWN]
        ),
    ),
    (
        "an inbox's edit",
        lambda q: inbox_answer(
            "edit",
            {
                "action": "select_facts",
                "args": {
                    "facts": [{"id": fact_ids(q, 1)[0], "details": "Leaves cook their food with light."}, OWN]
                },
            },
        ),
    ),
)


@pytest.mark.parametrize("answer", [one[1] for one in WORDED], ids=[one[0] for one in WORDED])
async def test_edited_and_added_facts_are_told_in_the_persons_words(
    lesson_driver: LessonDriver, answer: Callable[[Question], Any]
) -> None:
    """B48, B52: an edited fact keeps its id and its passage."""
    asked = await lesson_driver.question_after(TEXT)
    assert await lesson_driver.answer(answer(asked)) is None, lesson_driver.last_message
    first, new = (await lesson_driver.newest_data("confirmed"))["facts"]
    assert (first["id"], first["source"]["quote"]) == (
        asked["facts"][0]["id"],
        asked["facts"][0]["source"]["quote"],
    )
    assert new["source"] is None
    said = " ".join(segment.narration for segment in (await lesson_driver.narration()).segments)
    assert "Leaves cook their food with light." in said
    assert "Moss has no roots." in said


async def test_a_wish_sent_along_with_the_choice_is_heard(lesson_driver: LessonDriver) -> None:
    """B33, B48: the narration is of those facts and as is wished; what was said is in the conversation."""
    asked = await lesson_driver.question_after(TEXT)
    wish = "Begin with a question."
    numbers = {"target_duration": 90, "level_shift": -1}
    assert await lesson_driver.answer({"facts": [1, 2], "message": wish, **numbers}) is None, (
        lesson_driver.last_message
    )
    told = await lesson_driver.narration()
    assert told.facts == set(fact_ids(asked, 1, 2))
    assert (told.total_duration, told.reading_level) == (90, "5.5")
    again = await lesson_driver.question_after(TEXT + " Roots drink.")
    assert await lesson_driver.answer({"facts": [3], "message": "shorter, please"}) is None
    after = await lesson_driver.narration()
    assert after.facts == set(fact_ids(again, 3))
    assert after.total_duration == 90


REFUSED: tuple[tuple[Any, str], ...] = (
    ("", "empty"),
    ([], "at least one"),
    ({"facts": []}, "at least one"),
    ("none", "at least one"),
    (inbox_answer("response", "none"), "at least one"),
    ([9], "no fact 9"),
    ("9", "no fact 9"),
    (["fact-nope"], "fact-nope"),
    ({"facts": [{"id": "fact-0000000000"}]}, "fact-0000000000"),
    ({"facts": 3.5}, "3.5"),
    ({"answer": 5}, "answer"),
    (decision("shrug"), "shrug"),
    (decision("edit", edited_action={"name": "send_mail", "args": {}}), "send_mail"),
    (edit_decision("select_facts", facts=[]), "at least one"),
    (inbox_answer("shrug"), "shrug"),
    ([{"concept": "", "details": "x"}], "concept"),
    ('{"facts": ["fact-nope"]}', "fact-nope"),
)


async def test_what_chooses_nothing_is_refused_and_the_question_goes_on_waiting(
    lesson_driver: LessonDriver,
) -> None:
    """B53: with the reason in the next question and in what is said; no fact is lost or confirmed."""
    asked = await lesson_driver.question_after(TEXT)
    for answer, words in REFUSED:
        again = await lesson_driver.answer(answer)
        assert again, answer
        assert words in again["problem"], answer
        assert again["problem"].casefold().rstrip(".") in lesson_driver.last_message.casefold(), answer
        assert again["facts"] == asked["facts"]
    assert not await lesson_driver.confirmed_ids()
    assert await lesson_driver.answer("1") is None
    assert await lesson_driver.confirmed_ids() == fact_ids(asked, 1)


@pytest.mark.parametrize(
    "answer",
    [
        decision("reject", message="more about the roots"),
        inbox_answer("ignore"),
        "more facts about roots",
    ],
    ids=["reject", "inbox ignore", "words"],
)
async def test_a_rejection_has_other_facts_looked_for(lesson_driver: LessonDriver, answer: Any) -> None:
    """B54: the earlier ones can still be chosen, by id."""
    asked = await lesson_driver.question_after(TEXT)
    again = await lesson_driver.answer(answer)
    assert again
    assert not again["problem"]
    known = {one["id"] for one in (*again["facts"], *again["earlierFacts"])}
    assert set(fact_ids(asked, *EVERY)) <= known
    assert await lesson_driver.answer(fact_ids(asked, 2)) is None
    assert await lesson_driver.confirmed_ids() == fact_ids(asked, 2)


HOOK = [{"id": "hook", "narration": "What do leaves eat?"}]
APPROVALS: tuple[tuple[str, Any, bool], ...] = (
    ("approve", decision("approve"), False),
    ("yes", "yes", False),
    ("true", True, False),
    ("inbox accept", inbox_answer("accept"), False),
    ("edit", edit_decision("review_narration", segments=HOOK), True),
    ("segments", {"segments": HOOK}, True),
    (
        "inbox edit",
        inbox_answer("edit", {"action": "review_narration", "args": {"segments": json.dumps(HOOK)}}),
        True,
    ),
    ("JSON as text", json.dumps({"segments": HOOK}), True),
)


async def reviewed(lesson_driver: LessonDriver) -> Question:
    """The question whether a narration is right."""
    await lesson_driver.question_after(TEXT, review=True)
    asked = await lesson_driver.answer([1, 2, 3])
    assert asked
    assert asked["action_requests"][0]["name"] == "review_narration"
    return asked


@pytest.mark.parametrize(
    ("answer", "changes"), [one[1:] for one in APPROVALS], ids=[one[0] for one in APPROVALS]
)
async def test_an_approval_ends_the_script(
    lesson_driver: LessonDriver, answer: Any, *, changes: bool
) -> None:
    """B44, B49, B-R16: as it is, or in a person's words, with the other segments the same to the byte."""
    before = (await reviewed(lesson_driver))["narration"]["segments"]
    assert await lesson_driver.answer(answer) is None, lesson_driver.last_message
    assert await lesson_driver.stored_status() == "narration_verified"
    after = (await lesson_driver.newest_data("narration"))["segments"]
    assert after[1:] == before[1:]
    assert (after[0]["narration"] == "What do leaves eat?") is changes
    assert (after[0] == before[0]) is not changes


@pytest.mark.parametrize(
    "answer",
    [
        decision("reject", message="make the hook shorter"),
        decision("respond", message="make the hook shorter"),
        inbox_answer("response", "make the hook shorter"),
        "make the hook shorter",
    ],
    ids=["reject", "respond", "inbox response", "words"],
)
async def test_a_wish_is_carried_out_and_asked_about_again(lesson_driver: LessonDriver, answer: Any) -> None:
    """B49, B-R16."""
    before = (await reviewed(lesson_driver))["narration"]["segments"]
    again = await lesson_driver.answer(answer)
    assert again
    after = again["narration"]["segments"]
    assert (len(after[0]["narration"]) < len(before[0]["narration"]), after[1:]) == (True, before[1:])
    assert await lesson_driver.stored_status() == ""
    assert await lesson_driver.answer("yes") is None


UNHEARD: tuple[tuple[Any, str], ...] = (
    ("", "the answer is empty"),
    (decision("reject"), "the answer is empty"),
    (inbox_answer("ignore"), "the answer is empty"),
    (7, "is not an answer about the narration"),
    ({"segments": []}, "is not an answer about the narration"),
    ({"segments": [{"narration": "x"}]}, "segments.0.id"),
    ({"segments": [{"id": "coda", "narration": "x"}]}, "coda"),
    ({"segments": [{"id": "hook", "narration": "word " * 60}]}, "allow 22"),
    (decision("shrug"), "shrug"),
    (edit_decision("select_facts", facts=[1]), "select_facts"),
)


async def test_what_is_no_answer_is_refused_and_the_review_goes_on_waiting(
    lesson_driver: LessonDriver,
) -> None:
    """B-R16."""
    asked = await reviewed(lesson_driver)
    for answer, words in UNHEARD:
        again = await lesson_driver.answer(answer)
        assert again, answer
        assert words in again["problem"], answer
        assert again["narration"] == asked["narration"]
    assert await lesson_driver.version_count("narration") == 1
    assert await lesson_driver.answer("ok") is None
    assert await lesson_driver.stored_status() == "narration_verified"

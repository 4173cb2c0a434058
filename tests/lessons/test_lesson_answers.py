"""Every form of an answer to a lesson's questions, by graph, LangGraph's client and REST (B47-B54)."""

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


ALL_NUMBERS = (1, 2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class Choice:
    """An answer that chooses, and the numbers of the facts it chooses."""

    name: str
    answer: Callable[[Question], Any]
    numbers: tuple[int, ...]


CHOICES = (
    Choice("approve", lambda _: decision("approve"), ALL_NUMBERS),
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
    Choice("all", lambda _: "all", ALL_NUMBERS),
    Choice("true", lambda _: True, ALL_NUMBERS),
    Choice("numbers", lambda _: "1, 2 and 6", (1, 2, 6)),
    Choice("a plain yes", lambda _: "Yes, please!", ALL_NUMBERS),
    Choice("JSON as text", lambda q: json.dumps({"facts": fact_ids(q, 2, 4)}), (2, 4)),
    Choice("inbox accept", lambda _: inbox_answer("accept"), ALL_NUMBERS),
    Choice("inbox accept as text", lambda _: json.dumps(inbox_answer("accept")), ALL_NUMBERS),
    Choice("inbox response", lambda _: inbox_answer("response", "2 and 4"), (2, 4)),
    Choice(
        "inbox edit with texts",
        lambda q: inbox_answer(
            "edit", {"action": "select_facts", "args": {"facts": json.dumps(q["facts"][:1])}}
        ),
        (1,),
    ),
)


@pytest.mark.parametrize("case", CHOICES, ids=[case.name for case in CHOICES])
async def test_every_form_of_a_choice_narrates_exactly_the_chosen_facts(
    lesson_driver: LessonDriver, case: Choice
) -> None:
    """B10, B22, B41, B48, B50, B52."""
    question = await lesson_driver.question_after(TEXT)
    assert question["action_requests"][0]["name"] == "select_facts"
    assert await lesson_driver.answer(case.answer(question)) is None, lesson_driver.last_message
    expected_ids = fact_ids(question, *case.numbers)
    assert await lesson_driver.confirmed_ids() == expected_ids
    assert (await lesson_driver.narration()).facts == set(expected_ids)
    assert (
        await lesson_driver.version_count("confirmed"),
        await lesson_driver.version_count("narration"),
    ) == (1, 1)


OWN_FACT = {"concept": "Moss", "details": "Moss has no roots."}
OWN_WORDS: tuple[tuple[str, Callable[[Question], Any]], ...] = (
    ("a list", lambda q: [{**q["facts"][0], "details": "Leaves cook their food with light."}, OWN_FACT]),
    (
        "an edit",
        lambda q: edit_decision(
            "select_facts",
            facts=[{**q["facts"][0], "details": "Leaves cook their food with light."}, OWN_FACT],
        ),
    ),
    (
        "an inbox's edit",
        lambda q: inbox_answer(
            "edit",
            {
                "action": "select_facts",
                "args": {
                    "facts": [
                        {"id": fact_ids(q, 1)[0], "details": "Leaves cook their food with light."},
                        OWN_FACT,
                    ]
                },
            },
        ),
    ),
)


@pytest.mark.parametrize("answer", [case[1] for case in OWN_WORDS], ids=[case[0] for case in OWN_WORDS])
async def test_edited_and_added_facts_are_narrated_in_the_persons_words(
    lesson_driver: LessonDriver, answer: Callable[[Question], Any]
) -> None:
    """B48, B52: an edited fact keeps its id and its quote."""
    question = await lesson_driver.question_after(TEXT)
    assert await lesson_driver.answer(answer(question)) is None, lesson_driver.last_message
    first, added = (await lesson_driver.newest_data("confirmed"))["facts"]
    assert (first["id"], first["source"]["quote"]) == (
        question["facts"][0]["id"],
        question["facts"][0]["source"]["quote"],
    )
    assert added["source"] is None
    text = " ".join(segment.narration for segment in (await lesson_driver.narration()).segments)
    assert "Leaves cook their food with light." in text
    assert "Moss has no roots." in text


async def test_a_wish_and_a_length_sent_with_a_choice_apply_to_the_narration(
    lesson_driver: LessonDriver,
) -> None:
    """B33, B48: and the length to the next one as well."""
    question = await lesson_driver.question_after(TEXT)
    wish = "Begin with a question."
    numbers = {"target_duration": 90, "level_shift": -1}
    assert await lesson_driver.answer({"facts": [1, 2], "message": wish, **numbers}) is None, (
        lesson_driver.last_message
    )
    narration = await lesson_driver.narration()
    assert narration.facts == set(fact_ids(question, 1, 2))
    assert (narration.total_duration, narration.reading_level) == (90, "5.5")
    next_question = await lesson_driver.question_after(TEXT + " Roots drink.")
    assert await lesson_driver.answer({"facts": [3], "message": "shorter, please"}) is None
    next_narration = await lesson_driver.narration()
    assert next_narration.facts == set(fact_ids(next_question, 3))
    assert next_narration.total_duration == 90


REFUSED_CHOICES: tuple[tuple[Any, str], ...] = (
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


async def test_an_answer_that_chooses_no_known_fact_is_refused_and_the_question_stays(
    lesson_driver: LessonDriver,
) -> None:
    """B53: the reason is in the next question and in the message; no fact is lost or confirmed."""
    question = await lesson_driver.question_after(TEXT)
    for answer, words in REFUSED_CHOICES:
        next_question = await lesson_driver.answer(answer)
        assert next_question, answer
        assert words in next_question["problem"], answer
        assert next_question["problem"].casefold().rstrip(".") in lesson_driver.last_message.casefold(), (
            answer
        )
        assert next_question["facts"] == question["facts"]
    assert not await lesson_driver.confirmed_ids()
    assert await lesson_driver.answer("1") is None
    assert await lesson_driver.confirmed_ids() == fact_ids(question, 1)


@pytest.mark.parametrize(
    "answer",
    [
        decision("reject", message="more about the roots"),
        inbox_answer("ignore"),
        "more facts about roots",
    ],
    ids=["reject", "inbox ignore", "words"],
)
async def test_a_rejection_proposes_other_facts_and_keeps_the_earlier_ids(
    lesson_driver: LessonDriver, answer: Any
) -> None:
    """B54: the earlier facts can still be chosen by id."""
    question = await lesson_driver.question_after(TEXT)
    next_question = await lesson_driver.answer(answer)
    assert next_question
    assert not next_question["problem"] or "has no other facts" in next_question["problem"]
    known_ids = {fact["id"] for fact in (*next_question["facts"], *next_question["earlierFacts"])}
    assert set(fact_ids(question, *ALL_NUMBERS)) <= known_ids
    assert await lesson_driver.answer(fact_ids(question, 2)) is None
    assert await lesson_driver.confirmed_ids() == fact_ids(question, 2)


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


async def review_question(lesson_driver: LessonDriver) -> Question:
    """Return the question whether a narration is right."""
    await lesson_driver.question_after(TEXT, review=True)
    question = await lesson_driver.answer([1, 2, 3])
    assert question
    assert question["action_requests"][0]["name"] == "review_narration"
    return question


@pytest.mark.parametrize(
    ("answer", "changes"), [case[1:] for case in APPROVALS], ids=[case[0] for case in APPROVALS]
)
async def test_every_form_of_an_approval_completes_the_narration(
    lesson_driver: LessonDriver, answer: Any, *, changes: bool
) -> None:
    """B44, B49, B-R16: unchanged, or with the person's edit and every byte of the other segments."""
    before = (await review_question(lesson_driver))["narration"]["segments"]
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
async def test_a_wish_about_the_narration_changes_it_and_asks_for_approval_again(
    lesson_driver: LessonDriver, answer: Any
) -> None:
    """B49, B-R16."""
    before = (await review_question(lesson_driver))["narration"]["segments"]
    next_question = await lesson_driver.answer(answer)
    assert next_question
    after = next_question["narration"]["segments"]
    assert (len(after[0]["narration"]) < len(before[0]["narration"]), after[1:]) == (True, before[1:])
    assert await lesson_driver.stored_status() == ""
    assert await lesson_driver.answer("yes") is None


REFUSED_REVIEWS: tuple[tuple[Any, str], ...] = (
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


async def test_an_invalid_answer_to_the_review_is_refused_and_the_question_stays(
    lesson_driver: LessonDriver,
) -> None:
    """B-R16."""
    question = await review_question(lesson_driver)
    for answer, words in REFUSED_REVIEWS:
        next_question = await lesson_driver.answer(answer)
        assert next_question, answer
        assert words in next_question["problem"], answer
        assert next_question["narration"] == question["narration"]
    assert await lesson_driver.version_count("narration") == 1
    assert await lesson_driver.answer("ok") is None
    assert await lesson_driver.stored_status() == "narration_verified"

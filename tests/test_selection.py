"""What a person's answer chooses among facts (B48, B52, B53); the sentences were written before the rules."""

from typing import Any

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.facts import new_fact
from callsheet.state.lessons.selection import MAX_CHOSEN, Chosen, NotAChoice, OtherFacts, read
from callsheet.state.lessons.selection_words import asks_to_choose_again, fact_from_sentence, revise_selection
from tests.fact_choices import Case, known, load, told

CASES = load()
LEAF, TEA = known("leaf"), known("tea")


@pytest.mark.parametrize("case", CASES, ids=[one.id for one in CASES])
def test_a_sentence_chooses_what_it_says(case: Case) -> None:
    """B52, B54."""
    assert case.failures() == []


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        (True, [1, 2, 3, 4, 5, 6]),
        ({"facts": True}, [1, 2, 3, 4, 5, 6]),
        (2, [2]),
        ("leaf", None),
        ('{"facts": [1, "2"]}', [1, 2]),
        ("[3, 1]", [3, 1]),
        ("[not json", None),
        ({"ids": ["tea-2", "tea-2"]}, [2]),
        ({"numbers": [6]}, [6]),
        ({"message": "the last"}, [6]),
        ({"facts": "all but 1"}, [2, 3, 4, 5, 6]),
        (["Caffeine", 4], [2, 4]),
        (["coffee"], [5]),
        ([{"id": "tea-1", "selected": False}, {"id": "tea-3", "selected": True}], [3]),
        ([{"id": "tea-3"}], [3]),
        ([{"concept": "Caffeine", "details": "Caffeine keeps people awake."}], [2]),
        ({"type": "accept"}, [1, 2, 3, 4, 5, 6]),
        ({"decisions": [{"type": "respond", "message": "1"}]}, [1]),
        ({"decisions": [{"type": "edit", "edited_action": {"args": {"facts": [2]}}}]}, [2]),
    ],
)
def test_an_answer_of_a_program_chooses_the_same(answer: Any, numbers: list[int] | None) -> None:
    """B52."""
    assert told(read(answer, TEA), TEA) == ({"chosen": numbers} if numbers else {"talk": True})


def test_ids_may_stand_among_words() -> None:
    teas = [new_fact(fact.concept, fact.details) for fact in TEA]
    answer = read(f"{teas[1].id} and the last", teas)
    assert answer == Chosen((teas[1], teas[5]))
    assert read("the " + "very " * 500 + "last", teas) == NotAChoice("the " + "very " * 500 + "last")


@pytest.mark.parametrize("text", ["all" + " but 1" * 25, "1, " * 120 + "2"], ids=["exceptions", "parts"])
def test_a_choice_of_very_many_parts_goes_to_the_model(text: str) -> None:
    """X7: the time to read a choice is bounded."""
    assert read(text, TEA) == NotAChoice(text)


def test_what_is_said_beside_a_choice_is_a_wish() -> None:
    """B33."""
    assert read({"facts": [1], "message": " shorter "}, TEA) == Chosen((TEA[0],), wish="shorter")
    assert read({"facts": "why?", "message": "shorter"}, TEA) == NotAChoice("why?")


@pytest.mark.parametrize("answer", ["please", "take, please", "only"])
def test_an_answer_that_names_no_fact_chooses_none(answer: str) -> None:
    """B52."""
    assert read(answer, TEA) == NotAChoice(answer)


def test_a_fact_proposed_earlier_is_known_by_its_id() -> None:
    """B54."""
    assert read("leaf-2", TEA, LEAF) == Chosen((LEAF[1],))
    assert read(["leaf-2", 1], TEA, LEAF) == Chosen((LEAF[1], TEA[0]))


@pytest.mark.parametrize(
    ("answer", "guidance"),
    [
        (False, ""),
        ({"decisions": [{"type": "reject", "message": "the sun"}]}, "the sun"),
        ([{"type": "ignore", "args": None}], ""),
    ],
)
def test_a_rejection_wants_others(answer: Any, guidance: str) -> None:
    assert read(answer, LEAF) == OtherFacts(guidance)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "at least one"),
        ([{"id": "tea-1", "selected": False}], "at least one"),
        (["nope", 1], "'nope'"),
        ([{"id": "nope"}], "'nope'"),
        ([7], "no fact 7"),
        ([True], "True"),
        ([None], "None"),
        (None, "None"),
        ({}, "{}"),
        ({"facts": 1.5}, "1.5"),
        ({"decisions": []}, "decisions"),
        ({"decisions": [{"type": "edit"}]}, "edit"),
        ({"decisions": [{"type": "edit", "edited_action": {"name": "mail", "args": {}}}]}, "mail"),
        ([{"concept": "A"}], "details"),
        ([{"id": "tea-1", "details": ""}], "details"),
        ([{"concept": f"c{n}", "details": "d"} for n in range(MAX_CHOSEN + 1)], "over 40"),
    ],
)
def test_what_chooses_nothing_is_refused_with_a_reason(answer: Any, words: str) -> None:
    """B53."""
    with pytest.raises(Invalid, match=words) as refused:
        read(answer, TEA)
    assert refused.value.remedy


def test_a_changed_fact_keeps_its_id_and_a_stated_one_gets_one() -> None:
    """B48."""
    answer = read(
        [{"id": "tea-2", "details": "It wakes you up."}, {"concept": "Mint", "details": "Green."}], TEA
    )
    assert isinstance(answer, Chosen)
    edited, new = answer.facts
    assert (edited.id, edited.concept, edited.details) == ("tea-2", "Caffeine", "It wakes you up.")
    assert new.id.startswith("fact-")
    stale = read([{"id": "gone", "concept": "Mint", "details": "Green."}], TEA)
    assert stale == Chosen((new,))


@pytest.mark.parametrize(
    ("text", "concept"),
    [
        ("tea bags were invented in 1901", "Tea bags"),
        ("The moon is far away.", "Moon"),
        ("Tea", "Tea"),
        ("is it so", "Is it so"),
    ],
)
def test_a_stated_fact_is_about_its_first_words(text: str, concept: str) -> None:
    fact = fact_from_sentence(text)
    assert (fact.concept, fact.details[-1]) == (concept, ".")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Remove the one about coffee", [1, 2, 3, 4, 6]),
        ("drop 1 and 2", [3, 4, 5, 6]),
        ("the first two", None),
        ("Leave out the hook", None),
        ("drop " + "x" * 3000, None),
        ("thanks", None),
    ],
)
def test_a_choice_that_was_made_is_changed_by_what_to_leave_out(text: str, numbers: list[int] | None) -> None:
    got = revise_selection(text, TEA)
    assert got == (None if numbers is None else tuple(TEA[n - 1] for n in numbers))


def test_a_choice_that_was_made_is_added_to() -> None:
    got = revise_selection("Add a fact: Tea bags are from 1901", TEA[:1])
    assert got
    assert [fact.concept for fact in got] == ["The tea plant", "Tea bags"]
    with pytest.raises(Invalid, match="at least one"):
        revise_selection("remove all of them", TEA)


@pytest.mark.parametrize(
    "text", ["Choose the facts again", "let me change my selection, please", "Show me the facts"]
)
def test_a_choice_can_be_asked_for_again(text: str) -> None:
    assert asks_to_choose_again(text)
    assert not asks_to_choose_again("show me the plan")


def test_a_subject_of_small_words_is_none() -> None:
    with pytest.raises(Invalid, match="no fact is about 'the'"):
        read("the one about the", TEA)

"""Labels of the questions over the sample library: expected filters select the expected campaigns (E31)."""

from collections import Counter
from datetime import date
from typing import Any, Final

import pytest

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import Filters, Values
from callsheet.state.campaigns.reading import LooseFilters, resolve_filters
from callsheet.state.campaigns.sample import sample_campaigns
from evals.campaigns import labelled_questions
from tests.doubles.invented_campaigns import LAST_DAY, generate

QUESTIONS: Final = labelled_questions()
LABELLED: Final = [question for question in QUESTIONS if "ids" in question]
COLUMNS: Final = {
    "channel": "channel",
    "product": "primary_product",
    "sentiment": "imagery_sentiment",
    "visual_style": "imagery_visual_style",
}


def resolve(loose: dict[str, Any]) -> Filters:
    return resolve_filters(LooseFilters.model_validate(loose), LAST_DAY, date(2026, 11, 1)).filters


def values_of(one: Campaign, dimension: str) -> set[str]:
    match dimension:
        case "company":
            return {one.company.casefold(), one.brand.casefold()}
        case "value_prop":
            return {*one.key_value_props}
    return {getattr(one, COLUMNS[dimension])}


def has_any(one: Campaign, dimension: str, values: tuple[str, ...]) -> bool:
    accepted = {value.casefold() for value in values} if dimension == "company" else {*values}
    return bool(accepted & values_of(one, dimension))


def selects(filters: Filters, one: Campaign) -> bool:
    """Return whether a campaign meets all conditions, one by one and without an index."""
    dates = filters.date_range
    return (
        all(
            has_any(one, name, wanted_values)
            for name in Values.model_fields
            if (wanted_values := getattr(filters, name))
        )
        and not any(has_any(one, name, getattr(filters.exclude, name)) for name in Values.model_fields)
        and (filters.has_offer is None or bool(one.offer) == filters.has_offer)
        and (not dates or (dates.start or date.min) <= one.capture_date <= (dates.end or date.max))
    )


def test_every_kind_of_question_has_at_least_three_examples():
    kinds = Counter(question["kind"] for question in QUESTIONS)
    assert len(QUESTIONS) >= 80
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert len(kinds) >= 10
    assert min(kinds.values()) >= 3, kinds
    tools = {"meaning", "filter", "words", "offers"}
    assert {question["tool"] for question in QUESTIONS} == tools


@pytest.mark.parametrize("question", LABELLED, ids=lambda one: one["id"])
def test_expected_filters_and_attributes_select_exactly_the_expected_campaigns(question: dict[str, Any]):
    """`meaning` has filters for the meaning of the searched text; `words` are words of the copy."""
    filters, meaning = resolve(question["filters"]), resolve(question.get("meaning", {}))
    library = sample_campaigns()
    selected = {one.id: one for one in library if selects(filters, one) and selects(meaning, one)}
    expected = question["ids"]
    assert expected, "a question without an answer measures nothing"
    assert len({*expected}) == len(expected)
    assert {*expected} <= selected.keys()
    if question["tool"] in {"filter", "meaning"}:
        assert {*expected} == selected.keys()
    for word in question.get("words", []):
        assert all(word.casefold() in selected[name].model_dump_json().casefold() for name in expected)


def test_a_question_of_meaning_does_not_contain_the_name_of_its_value():
    """Otherwise a search that only compares words would pass."""
    for question in QUESTIONS:
        for prop in question.get("meaning", {}).get("value_prop", []):
            assert prop.casefold() not in question["question"].casefold()


def test_questions_without_expected_ids_have_a_date_range():
    """The results of "recent" and "last 6 months" depend on the day of the question."""
    for question in QUESTIONS:
        if "ids" not in question:
            assert resolve(question["filters"]).date_range


def test_generated_libraries_are_deterministic_and_share_their_beginning():
    """So measurements of two machines are about the same campaigns."""
    small, large = [*generate(50, 7)], [*generate(1_000, 7)]
    assert large[:50] == small
    assert len({one.id for one in large}) == 1_000
    assert [*generate(50, 8)] != small


def test_every_value_occurs_at_least_three_times_in_the_sample_library():
    library = sample_campaigns()
    for dimension in ("channel", "company", "product", "value_prop", "sentiment", "visual_style"):
        counts = Counter(value for one in library for value in values_of(one, dimension))
        assert min(counts.values()) >= 3, (dimension, counts)
    without_offer = sum(not one.offer for one in library)
    assert len(library) / 10 < without_offer < len(library) / 2
    assert len({one.capture_date.strftime("%Y-%m") for one in library}) >= 18

"""Numbers, days and trends in statements about campaigns (E-R9)."""

import time
from datetime import date
from typing import Any

import pytest

from callsheet.state.campaigns.answers import Statement, is_supported_question, problems
from callsheet.state.campaigns.days import days_in
from callsheet.state.campaigns.evidence import evidence_of
from callsheet.state.campaigns.mentions import unknown_gifts
from callsheet.state.campaigns.quantities import quantities
from callsheet.state.number_words import numbers_in_words
from tests.doubles.campaigns import campaign


def _table(by: str, **counts: int) -> Any:
    rows = [
        {"value": name, "count": count, "spend": 10.0 * count, "volume": 1} for name, count in counts.items()
    ]
    total = sum(counts.values())
    aggregation = {"groupBy": by, "groups": rows}
    return {
        "by": "filter",
        "count": total,
        "campaigns": (),
        "detectedFilters": {},
        "aggregation": aggregation,
    }


MONTHS = evidence_of(
    [_table("month", **{"2026-01": 9, "2026-02": 4, "2026-03": 6, "2026-04": 6, "2026-05": 11})]
)
CHANNELS = evidence_of([_table("channel", email=30, facebook=15, twitter=15)])


@pytest.mark.parametrize(
    ("text", "code", "numbers"),
    [
        ("Es gibt vierhundert Kampagnen", "", [400]),
        ("zwölf und drei", "de", [12, 3]),
        ("quatre-vingt-dix-sept et vingt et une", "fr", [97, 21]),
        ("cuatrocientas setenta y una", "es", [471]),
        ("czterdzieści dwa", "pl", [42]),
        ("once, seize and elf of 5 cents", "", []),
        ("four hundred", "en", []),
    ],
)
def test_numbers_are_read_in_the_words_of_other_languages(text: str, code: str, numbers: list[float]) -> None:
    assert numbers_in_words(text, code) == numbers


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("It ran on 10 April 2026.", date(2026, 4, 10)),
        ("It ran on April 10th, 2026.", date(2026, 4, 10)),
        ("Sie lief am 10. April 2026.", date(2026, 4, 10)),
        ("Se vio el 10 de abril de 2026.", date(2026, 4, 10)),
        ("It ran on 27/09/2025.", date(2025, 9, 27)),
        ("It ran on 27.09.2025.", date(2025, 9, 27)),
    ],
)
def test_a_day_is_read_in_the_forms_that_people_write(text: str, day: date) -> None:
    [(days, start, end)] = days_in(text)
    assert days == {day}
    assert str(day.year) in text[start:end]


def test_a_slashed_day_may_be_two_and_other_numbers_are_no_day() -> None:
    [(days, _, _)] = days_in("It ran on 03/04/2026.")
    assert days == {date(2026, 3, 4), date(2026, 4, 3)}
    assert days_in("In 12 campaigns 2026 was named, and 99/99/2026.") == []


@pytest.mark.parametrize(
    ("text", "exact", "other"),
    [
        ("$19.4 million", 19_399_500, 19_600_000),
        ("226k", 226_263, 227_000),
        ("19,4 Millionen", 19_399_500, 18_000_000),
        ("more than 20 campaigns", 21, 19),
        ("fewer than 20 campaigns", 19, 21),
        ("about 20 campaigns", 20.5, 25),
        ("nearly 20 campaigns", 19, 20.5),
        ("mehr als 1.200 Kampagnen sind für die Firma und das ist nicht viel", 1_300, 1_100),
        ("fourth", 4, 5),
        ("20.6 %", 20.56, 20.7),
    ],
)
def test_a_quantity_is_exact_to_its_last_digit_or_as_its_words_say(
    text: str, exact: float, other: float
) -> None:
    [one] = quantities(text)
    assert one.fits(exact)
    assert not one.fits(other)


@pytest.mark.parametrize(
    "text",
    [
        "Campaigns have been rising since February.",
        "Campaigns fell from January 2026 to February 2026, month after month.",
        "Spend has grown from February 2026 to May 2026.",
        "The months range from 4 to 11 campaigns.",
    ],
)
def test_a_trend_that_the_table_of_months_shows_is_proven(text: str) -> None:
    assert problems(Statement(text=text), MONTHS) == []


@pytest.mark.parametrize(
    "text",
    [
        "Campaigns have been rising since January.",
        "Spend is falling steadily.",
        "Die Ausgaben sind seit Januar gestiegen.",
        "Les dépenses augmentent depuis mars, moins vite en avril, et baissent.",
        "The campaigns dropped over the year.",
    ],
)
def test_a_trend_that_the_table_of_months_lacks_is_a_problem(text: str) -> None:
    assert problems(Statement(text=text), MONTHS)


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("Email has twice as many campaigns as Facebook.", True),
        ("Email has three times as many campaigns as Facebook.", False),
        ("Facebook has twice as many campaigns as email.", False),
        ("Twice as many as before.", False),
        ("Facebook and Twitter have the same number of campaigns.", True),
        ("Email and Twitter have the same number of campaigns.", False),
        ("They have the same number.", False),
        ("More than half of the campaigns went out by email.", False),
        ("Email has 30 campaigns, ahead of Facebook.", True),
        ("Facebook has 30 campaigns, behind email.", False),
        ("Email is the first of three channels.", True),
        ("Each of the three channels has 20 campaigns on average.", False),
        ("On average, the three channels have 20 campaigns.", True),
        ("More than 20 % of the campaigns are on Facebook.", True),
        ("More than 30 % of the campaigns are on Facebook.", False),
        ("Fewer than 20 campaigns are on Facebook.", True),
        ("Fewer than 20 campaigns are by email.", False),
        ("Email has $300 in spend.", True),
        ("Emails have $150 in spend, Facebook $300.", False),
        ("Over 500 campaigns ran on TikTok.", False),
        ("Email is the second in March 2026.", False),
    ],
)
def test_comparisons_and_bounds_are_recomputed_from_counts(text: str, is_true: bool) -> None:  # noqa: FBT001
    assert (not problems(Statement(text=text), CHANNELS)) == is_true, problems(Statement(text=text), CHANNELS)


def test_a_share_of_spend_is_recomputed() -> None:
    spends = {"c-001": ("email", 300), "c-002": ("email", 100), "c-003": ("facebook", 100)}
    every = [
        campaign(name, channel=channel, spend=spend).model_dump(mode="json")
        for name, (channel, spend) in spends.items()
    ]
    outputs = [
        {"by": "filter", "count": 3, "campaigns": every, "detectedFilters": {}},
        {"by": "filter", "count": 2, "campaigns": every[:2], "detectedFilters": {"channel": ["email"]}},
    ]
    evidence = evidence_of(outputs)
    assert problems(Statement(text="Email has 80 % of the spend."), evidence) == []
    assert problems(Statement(text="Email has 70 % of the spend."), evidence)
    assert problems(Statement(text="The three campaigns are on 2 channels."), evidence) == []


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("c-0001 had a spend of more than $150.", True),
        ("c-0001 had a spend of over $40,000.", False),
        ("c-0001 had a volume of less than 60,000.", True),
        ("c-0001 had a volume of less than 40,000.", False),
        ("c-0001 promises more than 20 shops.", True),
        ("c-0001 gives more than $500 for a bike.", True),
        ("c-0001 promises more than 3,000 shops.", False),
    ],
)
def test_more_or_less_than_a_figure_needs_the_amount_itself(text: str, is_true: bool) -> None:  # noqa: FBT001
    one = campaign("c-0001", spend=200.0, volume=50_000, offer="Now in 21 shops: $600 for a bike").model_dump(
        mode="json"
    )
    result = {"by": "filter", "count": 1, "campaigns": (one,), "detectedFilters": {}}
    reasons = problems(Statement(text=text, campaigns=["c-0001"]), evidence_of([result]))
    assert (reasons == []) is is_true


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f"])
def test_thousands_may_be_parted_by_a_blank_that_does_not_break(blank: str) -> None:
    result = {"by": "filter", "count": 1_234, "campaigns": (), "detectedFilters": {}}
    assert problems(Statement(text=f"1{blank}234 campaigns match."), evidence_of([result])) == []


def test_a_text_of_figures_alone_is_read_in_linear_time() -> None:
    start = time.perf_counter()
    assert len([*quantities("1 " * 2_000)]) == 2_000
    assert time.perf_counter() - start < 5


def test_miles_of_a_card_are_no_thousands_in_spanish() -> None:
    assert [*quantities("They promise bonus miles and more miles.")] == []
    [one] = quantities("Hay miles de campañas.")
    assert one.fits(3_000)


def test_words_for_more_are_no_gift() -> None:
    assert unknown_gifts("It offers more than 60,000 miles.", frozenset({"miles"})) == []


def test_a_question_about_offers_names_none() -> None:
    assert unknown_gifts("Which offers do you mean?", frozenset()) == []


def test_no_words_are_no_question() -> None:
    assert not is_supported_question(" ", CHANNELS)
    assert is_supported_question("Which of the 30 are by email?", CHANNELS)

"""Filters as models write them are read and merged: words, lists in strings, dates (E-R1 to E-R3, E26)."""

import contextlib
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from callsheet.graphs import campaign_search
from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES
from callsheet.state.campaigns.filters import DateRange, Filters, Values
from callsheet.state.campaigns.reading import (
    LooseFilters,
    active_filters,
    match_value,
    merge_filters,
    resolve_filters,
)
from callsheet.state.errors import Invalid
from callsheet.tools.registry import definitions

TODAY = date(2026, 10, 31)


def resolve(**loose: Any) -> Filters:
    return resolve_filters(LooseFilters.model_validate(loose), TODAY, TODAY).filters


def date_range_of(text: Any) -> tuple[str, str]:
    dates = resolve(date_range=text).date_range
    assert dates is not None
    return str(dates.start), str(dates.end)


@pytest.mark.parametrize(
    ("dimension", "word", "value"),
    [
        ("value_prop", "cash back", "Cash Back / Rewards"),
        ("value_prop", "CASHBACK", "Cash Back / Rewards"),
        ("value_prop", "no annual fee", "No Fee / No Minimum"),
        ("value_prop", "travel-benefits", "Travel Benefits"),
        ("value_prop", "fraud protection", "Security / Fraud Protection"),
        ("sentiment", "trust building", "Trust-Building"),
        ("sentiment", "aspirational", "Aspirational"),
        ("visual_style", "photography", "Lifestyle Photography"),
        ("visual_style", "abstract", "Abstract / Conceptual"),
        ("channel", "Direct Mail", "direct_mail"),
        ("channel", "e-mail", "email"),
        ("channel", "IG", "instagram"),
    ],
)
def test_a_loose_word_is_matched_to_an_exact_value(dimension: str, word: str, value: str):
    """E-R1."""
    assert getattr(resolve(**{dimension: word}), dimension) == (value,)


@pytest.mark.parametrize("word", ["", "!!", "building credit and trust", "something", "no building"])
def test_an_empty_or_ambiguous_word_matches_no_value(word: str):
    assert match_value("value_prop", word) is None


def test_every_exact_value_is_matched_to_itself():
    """E29."""
    for name, values in (
        ("channel", CHANNELS),
        ("value_prop", VALUE_PROPS),
        ("sentiment", SENTIMENTS),
        ("visual_style", VISUAL_STYLES),
    ):
        for value in values:
            assert getattr(resolve(**{name: [value]}), name) == (value,)


def test_premium_among_value_props_is_read_as_a_sentiment():
    """E-R1: "Cash Back, Premium campaigns"."""
    for loose in (["Cash Back", "Premium"], "Cash Back, Premium", "cash back and premium"):
        assert resolve(value_prop=loose) == Filters(
            value_prop=("Cash Back / Rewards",), sentiment=("Premium",)
        )


@pytest.mark.parametrize(
    "loose",
    ['["email", "insta"]', "email|instagram", "email; instagram", ["email", None, "ig", " ", "email"]],
)
def test_lists_are_read_from_strings_without_empty_or_repeated_values(loose: Any):
    """E26."""
    assert resolve(channel=loose).channel == ("email", "instagram")


@pytest.mark.parametrize("word", [None, "", "null", "None", "any", "all"])
def test_a_word_for_no_value_sets_no_filter(word: Any):
    assert resolve(channel=word, company=word) == Filters()
    assert resolve(date_range=word, has_offer=word, exclude=word) == Filters()


@pytest.mark.parametrize("values", [[], [None], "[]"])
def test_an_empty_list_sets_no_filter(values: Any):
    assert resolve(channel=values, company=values) == Filters()


def test_a_company_name_with_a_comma_or_and_is_not_split():
    names = ("Harrow and Pine, Inc.", "7")
    assert resolve(company=[f" {names[0]} ", 7], product=2).company == names


def test_exclusions_are_read_like_other_filters():
    filters = resolve(channel="email", exclude='{"sentiment": "fun, urgent"}', has_offer="yes")
    assert filters == Filters(
        channel=("email",), has_offer=True, exclude=Values(sentiment=("Playful", "Urgent"))
    )


@pytest.mark.parametrize("loose", ["tiktok", "email, tiktok", 5, ["email", "radio"], "[tiktok"])
def test_an_unknown_value_is_refused_with_the_valid_ones(loose: Any):
    with pytest.raises(Invalid, match=r"there is no channel") as caught:
        resolve(channel=loose)
    for channel in CHANNELS:
        assert channel in str(caught.value.remedy)


@pytest.mark.parametrize(
    "loose",
    [
        {"channel": {"a": 1}},
        {"channel": True},
        {"exclude": "email"},
        {"unknown": 1},
        {"channel": ["x" * 201]},
    ],
)
def test_an_invalid_filter_is_refused_by_the_schema(loose: dict[str, Any]):
    with pytest.raises(ValidationError):
        LooseFilters.model_validate(loose)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("recent", "2026-08-02", "2026-10-31"),
        ("last 3 months", "2026-08-02", "2026-10-31"),
        ("the past 2 weeks", "2026-10-17", "2026-10-31"),
        ("last quarter", "2026-08-01", "2026-10-31"),
        ("previous year", "2025-10-31", "2026-10-31"),
        ("2026", "2026-01-01", "2026-12-31"),
        (2025, "2025-01-01", "2025-12-31"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2026-12", "2026-12-01", "2026-12-31"),
        ("2026-03-05", "2026-03-05", "2026-03-05"),
        ("March 2026", "2026-03-01", "2026-03-31"),
        ("this year", "2026-01-01", "2026-12-31"),
        ("this month", "2026-10-01", "2026-10-31"),
        ("2026-01-15 to 2026-03", "2026-01-15", "2026-03-31"),
        ("from March 2026 to May 2026", "2026-03-01", "2026-05-31"),
        ("2026-01-01/2026-01-31", "2026-01-01", "2026-01-31"),
        ({"start": "2026-01-01", "end": ""}, "2026-01-01", "None"),
        ({"from": "2026-01-01", "to": "2026-02-01"}, "2026-01-01", "2026-02-01"),
        ('{"end": "2026-02-01"}', "None", "2026-02-01"),
    ],
)
def test_date_ranges_are_read_in_common_forms(text: Any, start: str, end: str):
    """E-R2."""
    assert date_range_of(text) == (start, end)


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "2026-13",
        "2026-02-30",
        "2026-1-2-3",
        "0000",
        "9999-12",
        "2026-99999999999999999999",
        "2026-" + "9" * 9_000,
        "2026-05 to 2026-01",
        "2026-05 to soon",
        "March",
        {"start": "2026-05-01", "end": "2026-01-01"},
    ],
)
def test_an_invalid_date_range_is_refused_with_a_remedy(text: Any):
    with pytest.raises(Invalid) as caught:
        date_range_of(text)
    assert caught.value.remedy
    assert len(str(caught.value)) < 400


def test_an_empty_date_range_sets_no_filter():
    assert resolve(date_range={}).date_range is None


@pytest.mark.parametrize(("newest", "start"), [(date(2025, 6, 30), "2025-04-01"), (date.min, "0001-01-01")])
def test_recent_ends_with_the_newest_campaign_of_an_old_library_and_a_note_says_so(newest: date, start: str):
    """E-R2."""
    resolution = resolve_filters(LooseFilters(date_range="recent"), newest, TODAY)
    assert resolution.filters.date_range == DateRange(start=date.fromisoformat(start), end=newest)
    assert str(newest) in resolution.notes[0]


@pytest.mark.parametrize("newest", [None, date(2026, 8, 2)])
def test_recent_ends_today_in_a_current_library_without_a_note(newest: date | None):
    resolution = resolve_filters(LooseFilters(date_range="recent"), newest, TODAY)
    assert resolution.notes == ()
    assert resolution.filters.date_range == DateRange(start=date(2026, 8, 2), end=TODAY)


def test_new_filters_replace_only_the_earlier_filters_of_the_same_dimension():
    """E-R3."""
    earlier = resolve(channel="email", sentiment="urgent", date_range="2026", has_offer=True, company="Alder")
    new = resolve(channel=["instagram"], has_offer=False)
    merged = merge_filters(earlier, new)
    assert merged == earlier.model_copy(update={"channel": ("instagram",), "has_offer": False})
    assert merge_filters(earlier, Filters()) == earlier
    assert merge_filters(Filters(), new) == new


def test_merged_filters_and_exclusions_do_not_contradict_each_other():
    """E-R3: otherwise no campaign could match."""
    earlier = Filters(
        channel=("email", "facebook"), exclude=Values(sentiment=("Urgent",), company=("Alder",))
    )
    new = Filters(sentiment=("Urgent",), exclude=Values(channel=("email",), company=("Kestrel",)))
    assert merge_filters(earlier, new) == Filters(
        channel=("facebook",),
        sentiment=("Urgent",),
        exclude=Values(channel=("email",), company=("Alder", "Kestrel")),
    )


def test_active_filters_can_be_read_as_loose_filters():
    """E8: a client can send the filters of a reply back."""
    filters = resolve(channel="email", date_range="2026-03", has_offer=False, exclude={"company": "Alder"})
    assert active_filters(filters) == {
        "channel": ["email"],
        "date_range": {"start": "2026-03-01", "end": "2026-03-31"},
        "has_offer": False,
        "exclude": {"company": ["Alder"]},
    }
    assert resolve(**active_filters(filters)) == filters
    assert active_filters(Filters()) == {}


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([*LooseFilters.model_fields]), _ANYTHING)
def test_any_value_is_resolved_or_refused(name: str, value: Any):
    """X13: no other exception is raised."""
    with contextlib.suppress(Invalid, ValidationError):
        assert isinstance(resolve(**{name: value}), Filters)


def test_the_tools_name_every_value_of_every_filter():
    """E21, E25."""
    sent = json.dumps(definitions(campaign_search.WORKFLOW.tools))
    for value in (*CHANNELS, *VALUE_PROPS, *SENTIMENTS, *VISUAL_STYLES):
        assert value in sent


def test_words_of_a_filter_mean_values_of_the_library_before_the_known_ones():
    """E28, E-R1: one value that alone has the words; two are too many."""
    library = {
        "channel": ["out_of_home", "tv", "radio"],
        "value_prop": ["Repair for life", "Made for life", "Safety"],
    }
    loose = LooseFilters(channel=["TV", "out of home"], value_prop=["repair", "safety"])
    filters = resolve_filters(loose, None, date(2026, 3, 1), library).filters
    assert filters.channel == ("tv", "out_of_home")
    assert filters.value_prop == ("Repair for life", "Safety")
    with pytest.raises(Invalid, match="there is no value_prop 'life'") as refused:
        resolve_filters(LooseFilters(value_prop=["life"]), None, date(2026, 3, 1), library)
    assert "Made for life" in refused.value.remedy

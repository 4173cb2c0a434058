"""Loose filters, imported files, checked statements, and the sample library (E20-E31)."""

import json
from collections.abc import Mapping
from datetime import date, timedelta
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.state.campaigns.answers import Statement, problems
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.evidence import evidence_of
from callsheet.state.campaigns.filters import DateRange, Filters, Values
from callsheet.state.campaigns.importing import RefusedRow, to_csv
from callsheet.state.campaigns.reading import (
    LooseFilters,
    active_filters,
    match_value,
    merge_filters,
    resolve_filters,
)
from callsheet.state.campaigns.sample import FILE, sample_campaigns
from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import MAX_IMPORT
from callsheet.tools.campaigns.tables import MAX_ROWS, kind_of
from evals.campaigns import labelled_questions
from tests.campaigns.file_rows import file_rows
from tests.doubles.invented_campaigns import LAST_DAY, sample_lines

TODAY = date(2026, 11, 20)
QUESTIONS = labelled_questions()


def resolve(**loose: Any) -> Filters:
    return resolve_filters(LooseFilters(**loose), LAST_DAY, TODAY).filters


def test_loose_filter_words_become_exact_values():
    """E-R1: "Cash Back, Premium" is a value prop and a sentiment."""
    assert resolve(value_prop=["Cash Back", "Premium"]) == Filters(
        value_prop=("Cash Back / Rewards",), sentiment=("Premium",)
    )
    assert resolve(
        channel="Insta", company=["Own & Co", " "], visual_style="minimalist", product=["card"]
    ) == Filters(
        channel=("instagram",), company=("Own & Co",), visual_style=("Minimalist Graphic",), product=("card",)
    )
    assert resolve(channel=None) == Filters()
    assert resolve(exclude={"channel": "e-mail"}).exclude == Values(channel=("email",))
    assert match_value("value_prop", "rewards") == "Cash Back / Rewards"
    assert match_value("value_prop", "building security") is None
    assert match_value("visual_style", "graphic") == "Minimalist Graphic"
    assert match_value("sentiment", "!") is None
    with pytest.raises(Invalid, match="there is no sentiment 'angry'") as refused:
        resolve(sentiment=["angry"])
    assert "Trust-Building" in refused.value.remedy
    with pytest.raises(ValidationError):
        LooseFilters.model_validate({"colour": "red"})


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("last 3 months", TODAY - timedelta(days=90), TODAY),
        ("the past 2 weeks", TODAY - timedelta(days=14), TODAY),
        ("2026", date(2026, 1, 1), date(2026, 12, 31)),
        ("2026-02", date(2026, 2, 1), date(2026, 2, 28)),
        ("2026-12", date(2026, 12, 1), date(2026, 12, 31)),
        ("2026-03-05", date(2026, 3, 5), date(2026, 3, 5)),
        ({"start": "2026-01-01"}, date(2026, 1, 1), None),
    ],
)
def test_date_ranges_are_resolved_to_days(text: Any, start: date, end: date | None):
    assert resolve(date_range=text).date_range == DateRange(start=start, end=end)


def test_recent_means_ninety_days_before_today_or_the_newest_campaign():
    """E-R2."""
    recent = resolve_filters(LooseFilters(date_range="recent"), LAST_DAY, TODAY)
    assert recent.filters == Filters(date_range=DateRange(start=TODAY - timedelta(days=90), end=TODAY))
    assert recent.notes == ()
    old = date(2025, 1, 31)
    late = resolve_filters(LooseFilters(date_range="Recent"), old, TODAY)
    assert late.filters.date_range == DateRange(start=old - timedelta(days=90), end=old)
    assert late.notes == ("nothing is newer than 2025-01-31, so recent means the 90 days before it",)
    assert resolve(date_range="").date_range is None
    assert resolve(date_range={}).date_range is None
    for wrong in ("soon", "2026-13", "2026-1-1-1", "20-26"):
        with pytest.raises(Invalid, match="no range of days"):
            resolve(date_range=wrong)
    with pytest.raises(Invalid, match="starts 2026-02-01 and ends 2026-01-01"):
        resolve(date_range={"start": "2026-02-01", "end": "2026-01-01"})


def test_a_tools_filter_replaces_the_pages_filter_of_the_same_dimension():
    """E-R3."""
    page = resolve(
        channel="email", sentiment="playful", has_offer=True, exclude={"company": "A"}, date_range="2026"
    )
    own = resolve(channel="facebook", exclude={"company": "B"})
    merged = merge_filters(page, own)
    assert active_filters(merged) == {
        "channel": ["facebook"],
        "sentiment": ["Playful"],
        "date_range": {"start": "2026-01-01", "end": "2026-12-31"},
        "has_offer": True,
        "exclude": {"company": ["A", "B"]},
    }
    assert merge_filters(page, resolve(has_offer=False)).has_offer is False
    assert active_filters(Filters()) == {}


def read_rows(text: str | bytes, kind: Any = "csv") -> list[Campaign | RefusedRow]:
    return file_rows(text, kind)


def test_csv_json_and_json_lines_files_are_read():
    head = "Id,COMPANY,channel,Key Value Props,incentives,date,spend,Style\n"
    [row] = read_rows(
        "\ufeff"
        + head
        + '1,Own,Direct Mail,"No fee; Travel","[""a"", ""b""]",09/30/2026,"$1,200.50",abstract\n\n'
    )
    assert isinstance(row, Campaign)
    assert (row.channel, row.spend, row.capture_date) == ("direct_mail", 1200.5, date(2026, 9, 30))
    assert (row.key_value_props, row.incentives) == (["No Fee / No Minimum", "Travel Benefits"], ["a", "b"])
    data = row.model_dump(mode="json")
    assert read_rows(json.dumps([data]), "json") == [row]
    assert read_rows(json.dumps({"campaigns": [data]}), "json") == [row]
    assert read_rows(json.dumps(data) + "\n\n", "jsonl") == [row]
    assert read_rows(to_csv([row])) == [row]
    formula = row.model_copy(update={"offer": "=1+1"})
    assert "'=1+1" in to_csv([formula])


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("id,company,channel,date\n1,Own,,2026-01-01", "csv", "channel is missing"),
        ("id,company,channel,date\n1,Own,email,someday", "csv", "capture_date is 'someday'"),
        ("id,company,channel,date\n1,,email,2026-01-01", "csv", "company"),
        ("{oops", "jsonl", "the line is no JSON"),
        ("[1]", "json", "the row is no object"),
        ('[{"id": "1", "key_value_props": "[oops"}]', "json", "company"),
        ('[{"id": 1, "company": "O", "channel": 7, "capture_date": "2026-01-01"}]', "json", "channel is 7"),
    ],
)
def test_a_refused_row_has_a_reason(text: str, kind: str, reason: str):
    [row] = read_rows(text, kind)
    assert isinstance(row, RefusedRow)
    assert reason in row.reason


def test_an_unreadable_file_is_refused():
    for content, kind, words in (
        (b"[1", "json", "is no JSON"),
        (b"{}", "json", "no list of campaigns"),
        (b"x" * (MAX_IMPORT + 1), "csv", f"more than {MAX_IMPORT} bytes"),
        (b"[" + b"1," * MAX_ROWS + b"1]", "json", f"more than {MAX_ROWS} rows"),
    ):
        with pytest.raises((Invalid, TooLarge), match=words):
            read_rows(content, kind)


def test_the_kind_of_a_file_follows_from_its_name():
    assert [kind_of(name) for name in ("A.CSV", "b.ndjson", "c.json", "d.jsonl")] == [
        "csv",
        "jsonl",
        "json",
        "jsonl",
    ]
    with pytest.raises(Invalid, match="no CSV, JSON"):
        kind_of("x.pdf")


CAMPAIGN = {
    **json.loads(sample_campaigns()[0].model_dump_json()),
    "brand": "",
    "offer": "Earn $40 in 5 days",
    "volume": None,
}
EVIDENCE = evidence_of(
    [
        {
            "count": 12,
            "campaigns": [CAMPAIGN],
            "detectedFilters": {"date_range": {"start": "2026-03-01", "end": None}},
        },
        {
            "count": 3,
            "aggregation": {
                "groupBy": "company",
                "groups": [{"value": "Own Bank", "count": 7, "spend": 2.5, "volume": 9}],
            },
        },
        {"count": 1, "detectedFilters": {"company": ["Their Bank"], "has_offer": True}},
        {"count": 0, "libraryCompanies": ["Acme & Sons", "Their Bank", "Bank"]},
    ]
)


@pytest.mark.parametrize(
    "claim",
    [
        {"text": "7 of them by Own Bank", "companies": ["Own Bank"], "figures": [7, 2.5]},
        {"text": "There are 12.", "companies": []},
        {"text": "It is there", "companies": [CAMPAIGN["company"], "own bank", "Their Bank"]},
        {
            "text": "Earn $40",
            "offers": ["earn $40 in 5 days."],
            "campaigns": [CAMPAIGN["id"]],
            "figures": [40],
        },
        {"text": "then", "dates": [CAMPAIGN["capture_date"], CAMPAIGN["capture_date"][:7], "2026-03-01"]},
        {
            "text": f"${CAMPAIGN['spend']:,.2f}",
            "figures": [CAMPAIGN["spend"]],
            "campaigns": [CAMPAIGN["id"]],
        },
        {"text": "Their Bank leads", "companies": ["Their Bank"]},
    ],
)
def test_a_statement_supported_by_the_evidence_has_no_problem(claim: Mapping[str, Any]):
    assert problems(Statement.model_validate(claim), EVIDENCE) == []


@pytest.mark.parametrize(
    "claim",
    [
        {"text": "x", "offers": ["a car"]},
        {"text": "x", "offers": [""]},
        {"text": "x", "figures": [99]},
        {"text": "x", "companies": ["Acme"]},
        {"text": "x", "dates": ["1999"]},
        {"text": "x", "dates": [""]},
        {"text": "x", "campaigns": ["none"]},
        {"text": "There are 99 of them"},
        {"text": "Acme & Sons leads."},
        {"text": "version 1.2.3"},
    ],
)
def test_a_statement_without_evidence_has_a_problem(claim: Mapping[str, Any]):
    assert problems(Statement.model_validate(claim), EVIDENCE)


@pytest.mark.parametrize(
    "text",
    [
        "Get 7% back",
        "Get $7 back",
        "It gives 9 free nights",
        "{other} runs this",
        "It began on 2019-03-09",
        "It spent $1",
    ],
)
def test_unsupported_figures_companies_and_dates_in_a_text_are_problems(text: str):
    """E27: they are compared with the cited campaign, also if no field of the statement names them."""
    cited, other = (one.model_dump(mode="json") for one in sample_campaigns()[:2])
    evidence = evidence_of([{"count": 2, "campaigns": [cited, other]}])
    claim = Statement(text=text.format(other=other["company"]), campaigns=[cited["id"]])
    assert problems(claim, evidence)
    true = (
        f"{cited['company']} ({cited['id']}): {cited['offer']}, {cited['capture_date']}, ${cited['spend']:,}"
    )
    assert problems(Statement(text=true, campaigns=[cited["id"]]), evidence) == []


def test_the_sample_library_equals_the_output_of_its_generator():
    """E31."""
    assert files("callsheet.state.campaigns").joinpath(FILE).read_text(encoding="utf-8") == sample_lines()
    library = sample_campaigns()
    assert len(library) >= 300
    assert {one.id for one in library} == {f"c-{n:04d}" for n in range(1, len(library) + 1)}
    assert (LAST_DAY - min(one.capture_date for one in library)).days > 500


def test_the_expected_campaigns_of_every_question_match_its_filters():
    by_id = {one.id: one for one in sample_campaigns()}
    assert len(QUESTIONS) >= 80
    for question in QUESTIONS:
        filters = resolve(**question["filters"])
        expected = question.get("ids", [])
        assert set(expected) <= by_id.keys(), question["id"]
        for name in expected:
            one = by_id[name]
            assert not filters.channel or one.channel in filters.channel, question["id"]
            assert not filters.sentiment or one.imagery_sentiment in filters.sentiment, question["id"]
            assert not filters.exclude.channel or one.channel not in filters.exclude.channel, question["id"]
            assert filters.has_offer is None or bool(one.offer) is filters.has_offer, question["id"]

"""Filters read generously, files imported, statements checked, the sample library (E20-E31)."""

import json
from collections.abc import Mapping
from datetime import date, timedelta
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.state.campaigns import importing
from callsheet.state.campaigns.answers import Statement, evidence_of, problems
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import DateRange, Filters, Values
from callsheet.state.campaigns.generator import FILE, LAST_DAY, sample_lines
from callsheet.state.campaigns.importing import RefusedRow, kind_of, read_campaigns, to_csv
from callsheet.state.campaigns.reading import (
    LooseFilters,
    active_filters,
    match_value,
    merge_filters,
    resolve_filters,
)
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.errors import Invalid
from evals.campaigns import labelled_questions

TODAY = date(2026, 11, 20)
QUESTIONS = labelled_questions()


def resolved(**loose: Any) -> Filters:
    return resolve_filters(LooseFilters(**loose), LAST_DAY, TODAY).filters


def test_loose_words_become_exact_values():
    """E-R1: "Cash Back, Premium" is a value prop and a sentiment."""
    assert resolved(value_prop=["Cash Back", "Premium"]) == Filters(
        value_prop=("Cash Back / Rewards",), sentiment=("Premium",)
    )
    assert resolved(
        channel="Insta", company=["Own & Co", " "], visual_style="minimalist", product=["card"]
    ) == Filters(
        channel=("instagram",), company=("Own & Co",), visual_style=("Minimalist Graphic",), product=("card",)
    )
    assert resolved(channel=None) == Filters()
    assert resolved(exclude={"channel": "e-mail"}).exclude == Values(channel=("email",))
    assert match_value("value_prop", "rewards") == "Cash Back / Rewards"
    assert match_value("value_prop", "building security") is None
    assert match_value("visual_style", "graphic") == "Minimalist Graphic"
    assert match_value("sentiment", "!") is None
    with pytest.raises(Invalid, match="there is no sentiment 'angry'") as refused:
        resolved(sentiment=["angry"])
    assert "Trust-Building" in refused.value.remedy
    with pytest.raises(ValidationError):
        LooseFilters.model_validate({"colour": "red"})


@pytest.mark.parametrize(
    ("given", "start", "end"),
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
def test_dates_are_resolved_to_days(given: Any, start: date, end: date | None):
    assert resolved(date_range=given).date_range == DateRange(start=start, end=end)


def test_recent_is_ninety_days_or_the_librarys_last_ninety():
    """E-R2."""
    recent = resolve_filters(LooseFilters(date_range="recent"), LAST_DAY, TODAY)
    assert recent == (Filters(date_range=DateRange(start=TODAY - timedelta(days=90), end=TODAY)), ())
    old = date(2025, 1, 31)
    late = resolve_filters(LooseFilters(date_range="Recent"), old, TODAY)
    assert late.filters.date_range == DateRange(start=old - timedelta(days=90), end=old)
    assert late.notes == ("nothing is newer than 2025-01-31, so recent means the 90 days before it",)
    assert resolved(date_range="").date_range is None
    assert resolved(date_range={}).date_range is None
    for wrong in ("soon", "2026-13", "2026-1-1-1", "20-26"):
        with pytest.raises(Invalid, match="no range of days"):
            resolved(date_range=wrong)
    with pytest.raises(Invalid, match="starts 2026-02-01 and ends 2026-01-01"):
        resolved(date_range={"start": "2026-02-01", "end": "2026-01-01"})


def test_a_tools_own_value_replaces_the_pages_for_its_dimension():
    """E-R3."""
    page = resolved(
        channel="email", sentiment="playful", has_offer=True, exclude={"company": "A"}, date_range="2026"
    )
    own = resolved(channel="facebook", exclude={"company": "B"})
    merged = merge_filters(page, own)
    assert active_filters(merged) == {
        "channel": ["facebook"],
        "sentiment": ["Playful"],
        "date_range": {"start": "2026-01-01", "end": "2026-12-31"},
        "has_offer": True,
        "exclude": {"company": ["A", "B"]},
    }
    assert merge_filters(page, resolved(has_offer=False)).has_offer is False
    assert active_filters(Filters()) == {}


def rows(text: str | bytes, kind: Any = "csv") -> list[Campaign | RefusedRow]:
    return list(read_campaigns(text if isinstance(text, bytes) else text.encode(), kind))


def test_usual_files_are_read():
    head = "Id,COMPANY,channel,Key Value Props,incentives,date,spend,Style\n"
    [one] = rows(
        "\ufeff"
        + head
        + '1,Own,Direct Mail,"No fee; Travel","[""a"", ""b""]",09/30/2026,"$1,200.50",abstract\n\n'
    )
    assert isinstance(one, Campaign)
    assert (one.channel, one.spend, one.capture_date) == ("direct_mail", 1200.5, date(2026, 9, 30))
    assert (one.key_value_props, one.incentives) == (["No Fee / No Minimum", "Travel Benefits"], ["a", "b"])
    data = one.model_dump(mode="json")
    assert rows(json.dumps([data]), "json") == [one]
    assert rows(json.dumps({"campaigns": [data]}), "json") == [one]
    assert rows(json.dumps(data) + "\n\n", "jsonl") == [one]
    assert rows(to_csv([one])) == [one]
    formula = one.model_copy(update={"offer": "=1+1"})
    assert "'=1+1" in to_csv([formula])


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("id,company,channel,date\n1,Own,radio,2026-01-01", "csv", "channel is 'radio'"),
        ("id,company,channel,date\n1,Own,email,someday", "csv", "capture_date is 'someday'"),
        ("id,company,channel,date\n1,,email,2026-01-01", "csv", "company"),
        ("{oops", "jsonl", "the line is no JSON"),
        ("[1]", "json", "the row is no object"),
        ('[{"id": "1", "key_value_props": "[oops"}]', "json", "company"),
        ('[{"id": 1, "company": "O", "channel": 7, "capture_date": "2026-01-01"}]', "json", "channel is 7"),
    ],
)
def test_a_refused_row_has_its_reason(text: str, kind: str, reason: str):
    [row] = rows(text, kind)
    assert isinstance(row, RefusedRow)
    assert reason in row.reason


def test_a_file_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch):
    for content, kind, words in (
        (b"\xff", "csv", "not UTF-8 at byte 0"),
        (b"[1", "json", "is no JSON"),
        (b"{}", "json", "no list of campaigns"),
        (b"x" * 11, "csv", "more than 10 bytes"),
    ):
        if "bytes" in words:
            monkeypatch.setattr(importing, "MAX_IMPORT", 10)
        with pytest.raises(Invalid, match=words):
            rows(content, kind)
    monkeypatch.undo()
    monkeypatch.setattr(importing, "MAX_ROWS", 1)
    with pytest.raises(Invalid, match="more than 1 rows"):
        rows("[1, 2]", "json")
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
            "aggregation": {"groups": [{"value": "Own Bank", "count": 7, "spend": 2.5, "volume": 9}]},
        },
        {"count": 1, "detectedFilters": {"company": ["Their Bank"], "has_offer": True}},
        {"count": 0, "libraryCompanies": ["Acme & Sons", "Their Bank", "Bank"]},
    ]
)


@pytest.mark.parametrize(
    "claim",
    [
        {"text": "12 campaigns, 7 of them by one", "figures": [12, 7, 2.5]},
        {"text": "It is 2 lines", "companies": [CAMPAIGN["company"], "own bank", "Their Bank"]},
        {
            "text": "Earn $40",
            "offers": ["earn $40 in 5 days."],
            "campaigns": [CAMPAIGN["id"]],
            "figures": [40],
        },
        {"text": "then", "dates": [CAMPAIGN["capture_date"], CAMPAIGN["capture_date"][:7], "2026-03-01"]},
        {"text": f"${CAMPAIGN['spend']:,.2f}", "figures": [CAMPAIGN["spend"]]},
        {"text": "Their Bank leads", "companies": ["Their Bank"]},
    ],
)
def test_a_supported_statement_has_no_problem(claim: Mapping[str, Any]):
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
def test_a_false_statement_is_caught(claim: Mapping[str, Any]):
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
def test_false_words_are_caught_without_a_field_that_names_them(text: str):
    """E27: figures, companies and dates of the text itself are looked up in the cited campaign."""
    cited, other = (one.model_dump(mode="json") for one in sample_campaigns()[:2])
    evidence = evidence_of([{"count": 2, "campaigns": [cited, other]}])
    claim = Statement(text=text.format(other=other["company"]), campaigns=[cited["id"]])
    assert problems(claim, evidence)
    true = (
        f"{cited['company']} ({cited['id']}): {cited['offer']}, {cited['capture_date']}, ${cited['spend']:,}"
    )
    assert problems(Statement(text=true, campaigns=[cited["id"]]), evidence) == []


def test_the_sample_library_is_what_its_generator_makes():
    """E31."""
    assert files("callsheet.state.campaigns").joinpath(FILE).read_text(encoding="utf-8") == sample_lines()
    library = sample_campaigns()
    assert len(library) >= 300
    assert {one.id for one in library} == {f"c-{n:04d}" for n in range(1, len(library) + 1)}
    assert (LAST_DAY - min(one.capture_date for one in library)).days > 500


def test_every_question_is_labelled_with_what_the_library_has():
    known = {one.id: one for one in sample_campaigns()}
    assert len(QUESTIONS) >= 80
    for question in QUESTIONS:
        filters = resolved(**question["filters"])
        expected = question.get("ids", [])
        assert set(expected) <= known.keys(), question["id"]
        for name in expected:
            one = known[name]
            assert not filters.channel or one.channel in filters.channel, question["id"]
            assert not filters.sentiment or one.imagery_sentiment in filters.sentiment, question["id"]
            assert not filters.exclude.channel or one.channel not in filters.exclude.channel, question["id"]
            assert filters.has_offer is None or bool(one.offer) is filters.has_offer, question["id"]

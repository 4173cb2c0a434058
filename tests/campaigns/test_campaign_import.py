"""Import of campaign files: accepted forms, and refused rows with line and reason (E28, E29, X13)."""

import contextlib
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES, Campaign
from callsheet.state.campaigns.importing import ImportedRow, RefusedRow, to_csv
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.errors import Invalid
from callsheet.tools.campaigns.tables import Kind, kind_of
from tests.campaigns.file_rows import file_rows, imported_rows

MINIMAL = {"id": "a", "company": "Alder", "channel": "email", "capture_date": "2026-10-31"}


def read(text: str, kind: Kind = "csv") -> list[Campaign | RefusedRow]:
    return file_rows(text, kind)


def read_one(**fields: Any) -> Campaign | RefusedRow:
    [row] = read(json.dumps(MINIMAL | fields), "jsonl")
    return row


def campaign(**fields: Any) -> Campaign:
    row = read_one(**fields)
    assert isinstance(row, Campaign), row
    return row


def refusal_reason(**fields: Any) -> str:
    row = read_one(**fields)
    assert isinstance(row, RefusedRow), row
    return row.reason


def test_a_csv_export_of_a_spreadsheet_is_read():
    """Byte order mark, semicolons, names with spaces, lists in cells, loose values, blank lines."""
    rows = read(
        "\ufeffID;Company;CHANNEL;Capture Date;Key Value Props;Incentives;Volume;Spend;Sentiment;Notes;\r\n"
        '1;" Alder ";Direct Mail;10/31/2026;cash back|travel;"[""a;b"", ""c""]";12,000;$1,200.50;fun;x;;\r\n'
        ";;;;;;;;;;\r\n"
        '2;Finch;IG;31.10.2026;"no fees, security";;;;;\r\n'
    )
    assert rows == [
        Campaign(
            id="1",
            company="Alder",
            channel="direct_mail",
            capture_date=date(2026, 10, 31),
            key_value_props=["Cash Back / Rewards", "Travel Benefits"],
            incentives=["a;b", "c"],
            volume=12_000,
            spend=1_200.5,
            currency="USD",
            imagery_sentiment="Playful",
        ),
        Campaign(
            id="2",
            company="Finch",
            channel="instagram",
            capture_date=date(2026, 10, 31),
            key_value_props=["No Fee / No Minimum", "Security / Fraud Protection"],
        ),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2026-10-31",
        "2026/10/31",
        "10/31/2026",
        "31/10/2026",
        "31.10.2026",
        "31 October 2026",
        "31 Oct 2026",
        "October 31, 2026",
        "Oct 31, 2026",
        "2026-10-31T08:15:00Z",
        "2026-10-31 08:15",
        "10/31/2026 8:15",
    ],
)
def test_a_date_is_read_in_common_formats(text: str):
    assert campaign(capture_date=text).capture_date == date(2026, 10, 31)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["05/01/2026", "13/01/2026 8:15"], ["2026-01-05", "2026-01-13"]),
        (["05/01/2026", "01/13/2026"], ["2026-05-01", "2026-01-13"]),
        (["05/01/2026", "01.02.2026"], [None, "2026-02-01"]),
        (["05/01/2026", "2026-01-13", "05/05/2026"], [None, "2026-01-13", "2026-05-05"]),
        (["13/01/2026", "01/13/2026", "05/01/2026"], ["2026-01-13", "2026-01-13", None]),
        (["05/01/2026", "31/31/2026", "13/13/2026"], [None, None, None]),
        (["30/02/2026", "05/01/2026"], [None, "2026-01-05"]),
    ],
    ids=["day first", "month first", "dotted", "unknown", "contradictory", "impossible", "no such day"],
)
def test_the_order_of_day_and_month_is_inferred_from_the_file(texts: list[str], days: list[str | None]):
    """E28, E29: a date that stays ambiguous is refused."""
    lines = [json.dumps(MINIMAL | {"id": str(n), "Date": text}) for n, text in enumerate(texts)]
    lines = [line.replace('"capture_date": "2026-10-31", ', "") for line in lines]
    rows = read("\n".join(lines), "jsonl")
    assert [str(row.capture_date) if isinstance(row, Campaign) else None for row in rows] == days


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"channel": ""}, ["channel is missing"]),
        ({"channel": 5}, ["channel is 5"]),
        ({"company": "   "}, ["company is missing"]),
        ({"company": "x" * 201}, ["company is 'xxx", "200"]),
        ({"id": None}, ["id is missing"]),
        ({"id": {"a": 1}}, ["id is {'a': 1}"]),
        ({"id": True}, ["id is True"]),
        ({"capture_date": "05/01/2026"}, ["'05/01/2026'", "2026-01-05 or 2026-05-01", "YYYY-MM-DD"]),
        ({"capture_date": "31/31/2026"}, ["capture_date is '31/31/2026'", "2026-10-31"]),
        ({"capture_date": "2026-10-31 or so"}, ["capture_date is", "2026-10-31"]),
        ({"capture_date": []}, ["capture_date is missing"]),
        ({"capture_date": 86_400}, ["capture_date is 86400", "no date"]),
        ({"capture_date": 1e9}, ["capture_date is 1000000000.0", "no date"]),
        ({"company": "NULL"}, ["company is missing"]),
        (
            {"id": "n/a", "channel": "", "capture_date": "31/31/2026"},
            ["id is missing", "channel is missing", "'31/31/2026'"],
        ),
        ({"spend": "1,250"}, ["spend is '1,250'", "1.25 or 1250", "write it as 1250, or as 1.25"]),
    ],
)
def test_the_reason_of_a_refused_row_names_field_value_and_rule(fields: dict[str, Any], parts: list[str]):
    """E29: all faults of a row at once."""
    reason = refusal_reason(**fields)
    for part in parts:
        assert part in reason
    assert len(reason) < 400


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"volume": "many"}, ["volume is 'many'", "12000"]),
        ({"volume": -1}, ["volume is -1", "greater than or equal to 0"]),
        ({"volume": 10**30}, ["volume is 1000000", "less than or equal"]),
        ({"spend": "inf"}, ["spend is 'inf'"]),
        ({"spend": "9-5"}, ["spend is '9-5'"]),
        ({"spend": float("nan")}, ["spend is nan"]),
        ({"spend": "1" * 61}, ["spend is '111"]),
        ({"currency": "money"}, ["currency is 'MONEY'"]),
        ({"currency": 5}, ["currency is 5"]),
        ({"imagery_sentiment": "angry"}, ["imagery_sentiment is 'angry'", "'Premium'"]),
        ({"key_value_props": [1]}, ["key_value_props is 1"]),
        ({"key_value_props": 1}, ["key_value_props is 1"]),
        ({"incentives": "{'a': 1}"}, ["incentives is \"{'a': 1}\""]),
        ({"incentives": ["a"] * 51}, ["incentives is", "50"]),
        ({"campaign_text": "\ud800"}, ["campaign_text is", "unicode"]),
        ({"campaign_text": "x" * 20_001}, ["campaign_text is", "20000"]),
    ],
)
def test_an_optional_cell_that_cannot_be_read_is_left_out_with_a_warning(
    fields: dict[str, Any], parts: list[str]
):
    """E29: the rest of the row is imported."""
    [row] = imported_rows(json.dumps(MINIMAL | fields).encode(), "jsonl")
    assert isinstance(row, ImportedRow), row
    assert row.campaign == Campaign.model_validate(MINIMAL)
    [warning] = row.warnings
    for part in (*parts, "the cell is left out"):
        assert part in warning
    assert len(warning) < 400


def test_numbers_are_read_from_json_and_text():
    assert campaign(id=7, volume=5, spend="$ 1200").model_dump(include={"id", "volume", "spend"}) == {
        "id": "7",
        "volume": 5,
        "spend": 1200.0,
    }


def test_bad_rows_of_a_csv_file_are_refused_and_the_others_are_read():
    rows = read(
        "id,company,channel,capture_date,offer\n"
        'a,Alder,email,2026-10-31,"two\nlines"\n'
        'b,Al"der,email,2026-10-31,\n'
        'c,"Al"der,email,2026-10-31,\n'
        "d,Alder,email,2026-10-31,5% back, today\n"
        f"e,{'x' * 200_000},email,2026-10-31,\n"
        "a,Alder,email,2026-10-31\n"
        "f,Alder,email,2026-10-31\n"
        'g,"Alder'
    )
    assert [row.id for row in rows if isinstance(row, Campaign)] == ["a", "b", "f"]
    reasons = {row.line: row.reason for row in rows if isinstance(row, RefusedRow)}
    assert [*reasons] == [5, 6, 7, 8, 10]
    assert "no CSV" in reasons[5]
    assert "6 cells, the line of names 5" in reasons[6]
    assert "limit" in reasons[7]
    assert "'a' was in line 2 already" in reasons[8]
    assert "no CSV" in reasons[10]


def test_csv_lines_may_end_with_lf_crlf_or_cr():
    for end in ("\n", "\r\n", "\r"):
        rows = read(end.join(["id,company,channel,capture_date", "a,Alder,email,2026-10-31", ""]))
        assert [row.id for row in rows if isinstance(row, Campaign)] == ["a"]


@pytest.mark.parametrize("text", ["", "\n\n", '"id', "\ufeff"])
def test_a_csv_file_without_columns_is_refused(text: str):
    with pytest.raises(Invalid, match="names of columns"):
        read(text)


def test_bad_lines_of_json_lines_are_refused_and_the_others_are_read():
    """Unusual line ends inside of a string, deep nesting, other values than objects."""
    good = json.dumps(MINIMAL | {"offer": "one\u2028two\x85three"}, ensure_ascii=False)
    rows = read("\n".join(["{", good, "", "[" * 100_000, "[]", "7", "null"]), "jsonl")
    assert [row.line for row in rows if isinstance(row, RefusedRow)] == [1, 4, 5, 6, 7]
    assert [row.offer for row in rows if isinstance(row, Campaign)] == ["one\u2028two\x85three"]


@pytest.mark.parametrize("text", ["{", "7", '{"campaigns": 1}', "[" * 100_000])
def test_a_json_file_without_a_list_is_refused(text: str):
    with pytest.raises(Invalid):
        read(text, "json")


def test_a_json_file_can_be_a_list_or_an_object_with_campaigns():
    for text in (json.dumps([MINIMAL, MINIMAL]), json.dumps({"campaigns": [MINIMAL, MINIMAL]})):
        first, second = read(text, "json")
        assert isinstance(first, Campaign)
        assert isinstance(second, RefusedRow)
        assert second.line == 2


@pytest.mark.parametrize(
    ("name", "media_type", "kind"),
    [
        ("a.csv", "", "csv"),
        ("json_export.CSV", "application/json", "csv"),
        ("a.json", "text/csv", "json"),
        ("a.ndjson", "", "jsonl"),
        ("", "text/csv; charset=utf-8", "csv"),
        ("upload", "application/x-ndjson", "jsonl"),
    ],
)
def test_the_format_of_a_file_comes_from_its_name_or_media_type(name: str, media_type: str, kind: Kind):
    assert kind_of(name, media_type) == kind


@pytest.mark.parametrize(("name", "media_type"), [("a.xls", ""), ("", ""), ("jsonlist", "text/plain")])
def test_a_file_of_an_unknown_format_is_refused(name: str, media_type: str):
    with pytest.raises(Invalid, match=r"no CSV, JSON, JSON Lines or Excel sheet"):
        kind_of(name, media_type)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=30).map(str.strip)
_CAMPAIGNS = st.builds(
    Campaign,
    id=_TEXT.filter(bool),
    company=_TEXT.filter(bool),
    channel=st.sampled_from(CHANNELS),
    offer=_TEXT,
    incentives=st.lists(_TEXT, max_size=3),
    key_value_props=st.lists(st.sampled_from(VALUE_PROPS), max_size=3),
    campaign_text=_TEXT,
    imagery_sentiment=st.none() | st.sampled_from(SENTIMENTS),
    imagery_visual_style=st.none() | st.sampled_from(VISUAL_STYLES),
    volume=st.none() | st.integers(0, 10**15),
    spend=st.none() | st.floats(0, 1e15),
    capture_date=st.dates(),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_CAMPAIGNS, max_size=4, unique_by=lambda one: one.id))
def test_exported_campaigns_can_be_imported_unchanged(campaigns: list[Campaign]):
    """Also with formulas, quotes and line ends in texts."""
    assert read(to_csv(campaigns)) == campaigns


def test_cells_of_an_export_never_start_a_formula():
    for first in ("=", "+", "-", "@", "\t", "\r"):
        row = to_csv([Campaign.model_validate(MINIMAL | {"id": f"{first}cmd()"})]).split("\n")[1]
        assert row.lstrip('"').startswith("'")


def test_the_sample_library_can_be_imported_from_every_format():
    """E31."""
    library = [*sample_campaigns()]
    rows = [one.model_dump(mode="json") for one in library]
    assert read(to_csv(library)) == library
    assert read(json.dumps(rows), "json") == library
    assert read("\n".join(map(json.dumps, rows)), "jsonl") == library


@given(st.binary(max_size=200), st.sampled_from(["csv", "json", "jsonl"]))
def test_arbitrary_bytes_are_read_or_refused(content: bytes, kind: Kind):
    """X13: never another exception."""
    with contextlib.suppress(Invalid):
        for row in file_rows(b"id,company\n" + content, kind):
            assert isinstance(row, Campaign | RefusedRow)

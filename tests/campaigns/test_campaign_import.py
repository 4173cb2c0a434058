"""Import of campaign files: accepted forms, and refused rows with line and reason (E28, E29, X13)."""

import contextlib
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES, Campaign
from callsheet.state.campaigns.importing import (
    ImportedRow,
    ImportOptions,
    RefusedRow,
    read_row,
    survey,
    to_csv,
)
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
        ({"id": "export"}, ["id is 'export'", "no address can name it", "another id"]),
        ({"id": ".."}, ["id is '..'", "another id"]),
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
        ({"volume": "many"}, ["volume is 'many': it is no whole number; write it as 12000"]),
        ({"volume": -1}, ["volume is -1: it is below 0", "write 0 or more"]),
        ({"volume": 10**30}, ["volume is 1000000", "it is above 1000000000000000", "or less"]),
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
        ({"incentives": [1, 2]}, ["incentives is 1"]),
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


def cells_read(*cells: tuple[str, ...], heading: str = "id,company,channel,date,spend,volume") -> list[Any]:
    """Return the rows of a table with these dates, spends and volumes."""
    lines = [
        f'{number},A,tv,"{day}","{spend}","{volume}"' for number, (day, spend, volume) in enumerate(cells)
    ]
    return [
        row.campaign if isinstance(row, ImportedRow) else row
        for row in imported_rows("\n".join([heading, *lines]).encode())
    ]


@pytest.mark.parametrize(
    ("text", "low", "high", "currency"),
    [
        ("12k", 12_000, None, ""),
        ("1.2M", 1_200_000, None, ""),
        ("3 Mio. €", 3_000_000, None, "EUR"),
        ("USD 1,234.50", 1_234.5, None, "USD"),
        ("1 250,50 EUR", 1_250.5, None, "EUR"),
        ("CHF 1'250", 1_250, None, "CHF"),
        ("₹", None, None, ""),
        ("12,34,567.00", 1_234_567, None, ""),
        ("$1,250", 1_250, None, "USD"),
        ("100-499", 100, 499, ""),
        ("$100-$499", 100, 499, "USD"),
        ("1k – 5k", 1_000, 5_000, ""),
        ("1-5k", 1_000, 5_000, ""),
        ("<100", 0, 100, ""),
        ("under 1,000.00", 0, 1_000, ""),
        ("up to 5-9", None, None, ""),
        (">1M", 1_000_000, None, ""),
        ("1M+", 1_000_000, None, ""),
        ("100 bis 500 €", 100, 500, "EUR"),
        ("lower_bound: 100, upper_bound: 199", 100, 199, ""),
        ("lower_bound: 5000", 5_000, None, ""),
        (".50", 0.5, None, ""),
        ("1,2,3", None, None, ""),
        ("0,125.000,5", None, None, ""),
        ("500-100", None, None, ""),
        ("NULL", None, None, ""),
    ],
)
def test_an_amount_is_read_in_the_forms_that_people_write(
    text: str, low: float | None, high: float | None, currency: str
):
    """E28: currencies, thousands as k, and ranges with both bounds."""
    [row] = cells_read(("2026-03-01", text, ""))
    assert (row.spend, row.spend_max, row.currency) == (low, high, currency)


@pytest.mark.parametrize(
    ("spends", "volumes", "read_as"),
    [
        (["1.250", "12,50"], ["", ""], [1250, 12.5]),
        (["1,250", "12.50"], ["", ""], [1250, 12.5]),
        (["1.250", "3"], ["12.500", "7"], [1250, 3]),
        (["1,250", "3"], ["12,500", "7"], [1250, 3]),
        (["1,250", "£1,500"], ["", ""], [1250, 1500]),
        (["1.234", "56.7891"], ["", ""], [1.234, 56.7891]),
        (["1.250", "12,50", "12.50"], ["", "", ""], [None, 12.5, 12.5]),
        (["1.250", "7"], ["12000.0", "8"], [1.25, 7]),
    ],
)
def test_the_decimal_mark_is_inferred_from_the_file(
    spends: list[str], volumes: list[str], read_as: list[float | None]
):
    """E28, E29: what it does not decide is refused with both readings."""
    rows = cells_read(*(("2026-03-01", spend, volume) for spend, volume in zip(spends, volumes, strict=True)))
    assert [row.spend if isinstance(row, Campaign) else None for row in rows] == read_as


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Mar 1 2026", "2026-03-01"),
        ("1. März 2026", "2026-03-01"),
        ("1-Sept-2026", "2026-09-01"),
        ("Mar 1st, 2026, 8:15 PM", "2026-03-01"),
        ("01.03.26", "2026-03-01"),
        ("2026.03.01", "2026-03-01"),
        ("46082", "2026-03-01"),
        ("46082.5", "2026-03-01"),
        ("31-12-2026 23:59:59 UTC", "2026-12-31"),
        ("86400", None),
        ("1 Ma 2026", None),
        ("1 Octopus 2026", None),
        ("31.02.2026", None),
        ("2026-03-01" + " " * 60 + "x", None),
        ("1772323200", None),
        ("2026-03-01 8:15 or so", None),
    ],
)
def test_a_day_is_read_in_the_forms_that_people_write(text: str, day: str | None):
    """E28: months by name, a spreadsheet's day numbers; a number of seconds is no day."""
    [row] = cells_read((text, "", ""))
    assert (str(row.capture_date) if isinstance(row, Campaign) else None) == day


def test_values_that_are_read_otherwise_than_written_are_reported():
    """E28."""
    row = {"id": "1", "company": "A", "channel": ["ig", "Facebook"], "date": 46082, "usp": "points"}
    bounds = {"spend": {"lower_bound": "5", "upper_bound": 9}, "volume": {"lower_bound": 7}}
    lists = {"incentives": "['a;b', 'c']", "images": "('x',)", "currency": "€", "sentiment": 5}
    [read_row] = imported_rows(json.dumps(row | bounds | lists).encode(), "jsonl")
    assert isinstance(read_row, ImportedRow)
    campaign = read_row.campaign
    assert (campaign.channel, campaign.key_value_props) == ("instagram", ["Cash Back / Rewards"])
    assert (campaign.spend, campaign.spend_max, campaign.volume, campaign.volume_max) == (5, 9, 7, None)
    assert (campaign.incentives, campaign.currency) == (["a;b", "c"], "EUR")
    assert read_row.readings == (
        "channel 'ig' is read as 'instagram'",
        "capture_date 46082 is read as the day number of a spreadsheet: 2026-03-01",
        "key_value_props 'points' is read as 'Cash Back / Rewards'",
    )
    assert "a campaign has one, so 'instagram' is kept" in read_row.warnings[0]
    assert "imagery_sentiment is '5'" in read_row.warnings[1]


def test_rows_without_ids_get_ids_that_follow_from_their_cells():
    """E28: an equal row has the same id in the next import."""
    content = "company,channel,date\nA,tv,2026-03-01\nB,tv,2026-03-01\nA,tv,2026-03-01\n"
    first, second, third = read(content)
    assert isinstance(first, Campaign)
    assert isinstance(second, Campaign)
    assert isinstance(third, RefusedRow)
    assert read(content)[0] == first
    assert first.id.startswith("row-")


def test_names_of_columns_may_stand_below_other_lines_and_name_a_currency_or_a_field_twice():
    """E28: one column for each field, that with the field's own name first."""
    content = (
        "Report of 2026\n\nID,Advertiser,company,medium,Seen,Spend (EUR),Cost in usd,Note (x)," + "y" * 201
    )
    [row] = imported_rows(f"{content}\n1,First,Second,tv,2026-03-01,5,6,,\n".encode())
    assert isinstance(row, ImportedRow)
    assert (row.campaign.company, row.campaign.spend, row.campaign.currency) == ("Second", 5, "EUR")


def test_a_file_with_many_broken_quotes_is_read_no_further():
    """E29."""
    content = "id,company,channel,date\n" + 'x,"a"b,tv,2026-03-01\n' * 200
    rows = read(content)
    assert len(rows) == 101
    assert isinstance(rows[-1], RefusedRow)
    assert "read no further" in rows[-1].reason


def test_a_joined_row_does_not_swallow_the_rows_in_it():
    """E29: a quote that is closed rows later."""
    rows = read(
        'id,company,channel,date,offer\na,A,tv,2026-03-01,"x\nb,B,tv,2026-03-01,\nc,C,tv,2026-03-01,y",z\n'
    )
    assert [row.id for row in rows if isinstance(row, Campaign)] == ["b"]


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("cp1252", "Müller & Söhne – Bäder"), ("cp1251", "Реклама магазина одежды"), ("utf-16-le", "Müller"),
     ("utf-16-be", "Müller"), ("utf-8-sig", "Müller")],
)  # fmt: skip
def test_a_file_in_another_encoding_than_utf_8_is_read(encoding: str, words: str):
    """E28."""
    content = f"id,company,channel,date\n1,{words},tv,2026-03-01\n".encode(encoding)
    [row] = file_rows(content)
    assert isinstance(row, Campaign)
    assert row.company == words
    [chosen] = imported_rows(content, encoding=encoding)
    assert isinstance(chosen, ImportedRow)
    with pytest.raises(Invalid, match="not ascii"):
        imported_rows(content, encoding="ascii")
    with pytest.raises(Invalid, match="not nonsense"):
        imported_rows(content, encoding="nonsense")


def test_cells_win_over_defaults_and_lists_may_be_texts_in_brackets():
    """E28."""
    content = b"id,company,channel,date,incentives\n1,A,tv,2026-03-01,[a;b]\n2,B,,2026-03-01,\n"
    rows = imported_rows(content, options=ImportOptions({}, {"channel": "radio"}))
    campaigns = [row.campaign for row in rows if isinstance(row, ImportedRow)]
    assert [one.channel for one in campaigns] == ["tv", "radio"]
    assert campaigns[0].incentives == ["[a", "b]"]
    assert to_csv(campaigns, heading=False).splitlines()[0].startswith("1,A,")


def test_a_german_spreadsheet_shows_itself_by_semicolons_and_dotted_days():
    """E28, E29: only both together; else both readings are named."""
    content = "id;company;channel;date;spend\na;Miel;email;{0};1.234\nb;Miel;email;{0};12.500\n"
    rows = read(content.format("01.03.2026"))
    assert [row.spend for row in rows if isinstance(row, Campaign)] == [1_234, 12_500]
    for row in read(content.format("2026-03-01")):
        assert isinstance(row, RefusedRow)
        assert "other numbers of the file do not decide" in row.reason


def test_an_unclosed_quote_is_named_with_its_line_and_swallows_no_rows():
    """E29."""
    texts = ('5" screen', '"open', "ok")
    lines = [f"{number},A,tv,2026-03-01,{text}" for number, text in enumerate(texts)]
    rows = read("\n".join(["id,company,channel,date,text", *lines]))
    assert [row.id for row in rows if isinstance(row, Campaign)] == ["0", "2"]
    [refused] = [row for row in rows if isinstance(row, RefusedRow)]
    assert (refused.line, "in line 3 is never closed" in refused.reason) == (3, True)


def test_a_cell_without_a_readable_value_is_left_out_or_refuses_its_row():
    """E29: such as a formula without a result."""
    reason = Invalid("it is a formula", remedy="save it again")
    cells = {"id": "1", "company": "A", "channel": "tv", "date": "2026-03-01", "offer": reason}
    decided = survey([*cells], [(1, cells)], ImportOptions())
    left_out = read_row(1, cells, decided)
    assert isinstance(left_out, ImportedRow)
    assert left_out.warnings == (
        "offer cannot be read: it is a formula; save it again; the cell is left out",
    )
    refused = read_row(1, cells | {"company": reason}, decided)
    assert refused == RefusedRow(1, "company cannot be read: it is a formula; save it again")


def test_a_channel_without_a_letter_is_refused():
    """E29."""
    assert "channel is ''" in refusal_reason(channel="!!!")

"""Parts of a file of campaigns that are not imported are named in the report (E29)."""

import io
import re
import zipfile
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

import httpx
import pytest

from callsheet.state.errors import Invalid
from callsheet.tools.campaigns.workbooks import SheetTable
from tests.campaigns.test_import_of_libraries import import_file, library_of

HEAD = "id,company,channel,date"
ROW = "1,A,tv,2026-03-01"
OBJECT = '"id":"1","company":"A","channel":"tv","date":"2026-03-01"'


def workbook(*sheets: list[list[Any]], formats: Sequence[str] = ()) -> bytes:
    """Return a workbook of sheets; the formats are those of the fifth column from row 2."""
    book: Any = import_module("openpyxl").Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, 1):
        sheet = book.create_sheet(f"Sheet {number}")
        for row in rows:
            sheet.append(row)
    for number, number_format in enumerate(formats, 2):
        book.worksheets[0].cell(number, 5).number_format = number_format
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


SHEET = [HEAD.split(","), ROW.split(",")]
FORM = [[*SHEET[0], "brand", "offer"]]
NOTES = [["Read me"], ["Exported by finance, date and channel as booked"], ["Company names are invented"]]


LOSSES: list[tuple[str, str | bytes, str, str]] = [
        ("a.csv", f"{HEAD},offer,offer\n{ROW},x,y\n", "ignoredColumns", "offer (column 6)"),
        ("a.csv", f"{HEAD},,offer\n{ROW},lost,y\n", "notes", "column 5 has cells and no name"),
        ("a.csv", f"{HEAD},,\n{ROW},,lost\n", "notes", "column 6 has cells and no name"),
        ("a.csv", f"Report\n{ROW}\n{HEAD}\n{ROW}\n", "notes", "names of the columns are in line 3"),
        ("a.csv", f"{HEAD},spend,currency\n{ROW},€5,USD\n", "warnings", "'USD' in its column and 'EUR'"),
        ("a.csv", f"currency,{HEAD},spend\nUSD,{ROW},€5\n", "warnings", "'USD' in its column and 'EUR'"),
        ("a.csv", f"{HEAD},Cost (EUR)\n{ROW},£5\n", "warnings", "'EUR' in the name of a column and 'GBP'"),
        ("a.csv", f"{HEAD},spend,spend_max\n{ROW},100-499,900\n", "warnings", "spend_max is 499 and 900"),
        ("a.csv", f"{HEAD}\n1,A,C++ Weekly!,2026-03-01\n", "notes", "'C++ Weekly!' is read as 'c_weekly'"),
        ("a.json", f'[{{{OBJECT},"offer":"a","offer":"b"}}]', "refused", "'offer' twice"),
        ("a.jsonl", f'{{{OBJECT},"offer":"a","offer":"b"}}', "refused", "'offer' twice"),
        ("a.json", f'{{"campaigns":[{{{OBJECT}}}],"next":"/2"}}', "notes", "'next' beside the list"),
        ("a.json", f'{{"next":"/2","campaigns":[{{{OBJECT}}}]}}', "notes", "'next' beside the list"),
]  # fmt: skip
"""Files with the part of the report that names a loss, and words of it."""
WORKBOOKS: list[tuple[str, str | bytes, str, str]] = [
        ("a.xlsx", workbook(SHEET, SHEET), "notes", "'Sheet 2' is not read, only 'Sheet 1'"),
        ("a.xlsx", workbook([], SHEET, SHEET), "notes", "'Sheet 3' is not read, only 'Sheet 2'"),
        ("a.xlsx", workbook(NOTES, SHEET), "notes", "'Sheet 1' is not read, only 'Sheet 2'"),
        ("a.xlsx", workbook(SHEET, FORM), "notes", "'Sheet 2' is not read, only 'Sheet 1'"),
        ("a.xlsx", workbook([[*SHEET[0], None], [*SHEET[1], "lost"]]), "notes", "column 5 has cells"),
        ("a.xlsx", workbook([["2026"], *SHEET]), "notes", "names of the columns are in line 2"),
        ("a.xlsx", workbook([[*SHEET[0], "offer"], [*SHEET[1], "=1+1"]]), "warnings", "a formula"),
        ("a.xlsx", workbook([["id", "date", "company"], ["1", "2026-03-01", "=A1"]]), "refused", "a formula"),
]  # fmt: skip


async def test_a_part_of_a_text_that_is_not_imported_is_named(api: httpx.AsyncClient):
    """E29."""
    await check_losses(api, LOSSES)


@pytest.mark.slow
async def test_a_part_of_a_workbook_that_is_not_imported_is_named(api: httpx.AsyncClient):
    """E29."""
    await check_losses(api, WORKBOOKS)


async def check_losses(api: httpx.AsyncClient, losses: list[tuple[str, str | bytes, str, str]]) -> None:
    for name, content, where, words in losses:
        report = await import_file(api, name, content if isinstance(content, bytes) else content.encode())
        entries = [one["reason"] if isinstance(one, dict) else one for one in report[where]]
        assert any(words in one for one in entries), (content, report)
        counts = (report["imported"], report["refusedCount"])
        assert counts == ((0, 1) if where == "refused" else (1, 0)), (content, report)


UNREADABLE: list[tuple[str, str | bytes, str]] = [
        ("a.json", f"[{{{OBJECT}}}] [{{{OBJECT}}}]", "goes on after the end of its list"),
        ("a.json", f'{{"campaigns":[{{{OBJECT}}}],"campaigns":[]}}', "'campaigns' twice"),
        ("a.json", f'{{"x":1,"campaigns":[{{{OBJECT}}}],"campaigns":[]}}', "'campaigns' twice"),
        ("a.json", f'{{"campaigns":[{{{OBJECT}}}]', "no JSON"),
        ("a.csv", ",".join(f"k{n}" for n in range(500)) + f",{HEAD}\n" + "x," * 500 + ROW, "500 columns"),
        ("a.jsonl", "{" + "".join(f'"k{n}":1,' for n in range(500)) + OBJECT + "}", "500 columns"),
        ("a.xlsx", workbook([[f"k{n}" for n in range(500)] + SHEET[0]]), "500 columns"),
]  # fmt: skip


async def test_a_file_of_which_a_part_would_be_lost_is_refused(api: httpx.AsyncClient):
    """E29."""
    for name, content, words in UNREADABLE:
        body = content if isinstance(content, bytes) else content.encode()
        reply = await api.post("/api/campaigns/import", params={"fileName": name}, content=body)
        assert (reply.status_code, words in reply.json()["error"]) == (422, True), (content, reply.text)
    assert "1" not in await library_of(api)


FORMATS = [
    ('"$"#,##0.00', "USD"),
    ("[$$-409]#,##0.00", "USD"),
    ("_($* #,##0.00_)", "USD"),
    ("[$€-407] #,##0.00", "EUR"),
    ('#,##0.00 "€"', "EUR"),
    ("[$CHF] 0", "CHF"),
    ("¥#,##0", "JPY"),
    ("[$-409]0.00", ""),
    ('0.00 "net"', ""),
]


async def test_the_currency_of_a_cells_format_is_read(api: httpx.AsyncClient):
    """E28."""
    rows = [[str(number), "A", "tv", "2026-03-01", 1250.5] for number in range(len(FORMATS))]
    formats = [number_format for number_format, _ in FORMATS]
    await import_file(api, "a.xlsx", workbook([[*SHEET[0], "spend"], *rows], formats=formats))
    library = await library_of(api)
    for number, (number_format, currency) in enumerate(FORMATS):
        campaign = library[str(number)]
        assert (campaign["spend"], campaign["currency"]) == (1250.5, currency), number_format


async def test_a_dollar_sign_leaves_the_country_to_the_column_of_currencies(api: httpx.AsyncClient):
    """E28."""
    for content in (f"{HEAD},spend,currency\n{ROW},$5,CAD\n", f"currency,{HEAD},spend\nCAD,{ROW},$5\n"):
        report = await import_file(api, "a.csv", content.encode())
        [campaign] = (await library_of(api)).values()
        assert (campaign["spend"], campaign["currency"], report["warnings"]) == (5, "CAD", [])


VALUE_PROPS = [
    ('"[""Fast, easy""]"', ["Fast, easy"]),
    ("\"['Fast, easy', 'Light']\"", ["Fast, easy", "Light"]),
    ('"Fast, easy"', ["Fast", "easy"]),
    ('"Fast, , easy,"', ["Fast", "easy"]),
]


async def test_commas_separate_value_propositions_only_outside_of_a_list(api: httpx.AsyncClient):
    """E28: an export writes them as a list."""
    for cell, value_props in VALUE_PROPS:
        report = await import_file(api, "a.csv", f"{HEAD},usp\n{ROW},{cell}\n".encode())
        [campaign] = (await library_of(api)).values()
        assert (campaign["key_value_props"], report["warnings"]) == (value_props, []), cell


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_file_is_read_to_its_end_however_it_arrives(api: httpx.AsyncClient):
    """E29: the last bytes of a large table come alone, and a workbook may be smaller than a write buffer."""
    rows = "".join(f"t{number},A,tv,2026-03-01,{'x' * 10_000}\n" for number in range(100))
    pieces = in_pieces(f"{HEAD},note\n{rows}".encode(), b"last,A,tv,2026-03-01,\n")
    for name, content, count in (("a.csv", pieces, 101), ("a.xlsx", small_workbook(), 1)):
        reply = await api.post("/api/campaigns/import", params={"fileName": name}, content=content)
        assert (reply.status_code, reply.json().get("imported")) == (200, count), reply.text


def small_workbook() -> bytes:
    """Return the workbook as its smallest parts."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(workbook(SHEET))) as book,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for name in book.namelist():
            if not name.startswith(("docProps/", "xl/theme/")):
                small.writestr(name, book.read(name))
    assert len(target.getvalue()) < io.DEFAULT_BUFFER_SIZE / 2
    return target.getvalue()


def test_a_formula_without_a_result_may_have_a_prefix() -> None:
    source = zipfile.ZipFile(io.BytesIO(workbook([[*SHEET[0], "spend"], [*SHEET[1], "=1+1"]])))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as book:
        for name in source.namelist():
            part = source.read(name)
            if "/worksheets/" in name:
                part = re.sub(rb"<(/?)(\w)", rb"<\1x:\2", part).replace(b"xmlns=", b"xmlns:x=")
            book.writestr(name, part)
    [(_, row)] = SheetTable(target.getvalue()).rows()
    assert not isinstance(row, Invalid)
    assert isinstance(row["spend"], Invalid)

"""Random files of campaigns, each with the campaigns that they mean and the rows that nobody can read."""

import csv
import io
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib import import_module
from typing import Any, Final

LETTERS: Final = "abcXYZ 0159 .:!?()&/%#@+*_-'~^\\<>[]{}=,;|\t\"éßÅ漢字กข🎉\u0301\u200d\u2028\x85\xa0אبİ"
HEADINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "Ad ID", "campaign_id", "Nr"),
    "company": ("company", "Advertiser", "Page Name", "Firma"),
    "channel": ("channel", "Platform", "Kanal", "MEDIUM"),
    "capture_date": ("capture_date", "Date", "First shown", "Datum"),
    "brand": ("brand", "Marke"),
    "offer": ("offer", "Promotion", "Angebot"),
    "campaign_text": ("campaign_text", "Headline", "Ad copy", "Werbetext"),
    "full_campaign_text": ("full_campaign_text", "transcript"),
    "incentives": ("incentives", "Anreize"),
    "key_value_props": ("key_value_props", "USPs", "Benefits"),
    "spend": ("spend", "Amount spent", "Kosten"),
    "volume": ("volume", "Impressions", "Auflage"),
}
CHANNELS: Final = {
    "email": "email",
    "TikTok": "tiktok",
    "Out of home": "out_of_home",
    "tv": "tv",
    "Plakat": "out_of_home",
    "Kino": "kino",
    "City Lights": "city_lights",
    "IG": "instagram",
    "In-App": "in_app",
}
DAYS: Final[tuple[Callable[[date], str], ...]] = (
    date.isoformat,
    lambda day: f"{day:%d.%m.%Y}",
    lambda day: f"{day.day} {day:%B} {day.year}",
    lambda day: f"{day:%b} {day.day}, {day.year} 08:15",
    lambda day: f"{day:%Y/%m/%d}",
)
AMOUNTS: Final[tuple[tuple[str, Callable[[float], str]], ...]] = (
    ("", lambda value: f"{value:.2f}"),
    ("USD", lambda value: f"${value:,.2f}"),
    ("EUR", lambda value: f"{value:,.2f} €"),
    ("GBP", lambda value: f"GBP {value:.2f}"),
)
LIMITS: Final = {"brand": 200, "offer": 1_000, "campaign_text": 20_000}
"""Characters of texts."""


@dataclass
class RandomFile:
    """A file with what it means."""

    name: str
    content: bytes = b""
    params: dict[str, str] = field(default_factory=dict)
    campaigns: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id; a field that is too long has the value None, and is left out with a warning."""
    lines: dict[str, int] = field(default_factory=dict)
    """Lines by id."""
    refused: set[int] = field(default_factory=set)
    """Lines that no campaign can come from."""
    ignored: list[str] = field(default_factory=list)
    """Columns that are no field."""
    notes: list[str] = field(default_factory=list)
    """Words of remarks that the report must have."""


@dataclass
class _Row:
    cells: dict[str, Any]
    campaign: dict[str, Any] | None
    """None for a row that is refused."""
    raw: str = ""
    """Text of a line that is no row."""


def random_file(seed: int, kinds: tuple[str, ...]) -> RandomFile:
    """Return a file; the same one for the same seed."""
    chances = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    fields = ["id", "company", "channel", "capture_date"]
    fields += chances.sample([*HEADINGS][4:], chances.randint(0, 8))
    chances.shuffle(fields)
    file = RandomFile(f"file-{seed}.{kind}")
    rows = [_row(chances, number, fields, kind) for number in range(chances.randint(1, 25))]
    if chances.random() < 0.4:
        double = chances.choice(rows)
        rows.append(_Row({**double.cells, "company": "Twice"}, None))
        if not double.campaign:
            rows.pop()
    headings = {name: chances.choice(HEADINGS[name]) for name in fields}
    if chances.random() < 0.4:
        headings["extra"] = "Clicks 7d"
        file.ignored.append("Clicks 7d")
        for row in rows:
            row.cells["extra"] = "17"
    _WRITERS[kind](file, chances, headings, rows)
    return file


def _text(chances: random.Random, most: int, kind: str, *, least: int = 0) -> str:
    letters = LETTERS + ("" if kind == "xlsx" else "\n\r")
    text = "".join(chances.choice(letters) for _ in range(chances.randint(least, most)))
    # An apostrophe protects a formula in an export, and a workbook takes a text with = for a formula.
    return "T" + text if text.strip()[:1] in {"'", "="} else text


def _row(chances: random.Random, number: int, fields: list[str], kind: str) -> _Row:
    if kind in {"csv", "tsv", "jsonl"} and chances.random() < 0.05:
        raw = {"jsonl": ("{", "[]", "7", "null", '{"a":1,"a":2}')}.get(
            kind, ('x,"a"b,c,d', 'x;"a"b', 'x\t"a"b')
        )
        return _Row({}, None, chances.choice(raw))
    day = date(2026, 1, 1) + timedelta(chances.randrange(300))
    company = _text(chances, 40, kind) + "Ltd"
    channel = chances.choice([*CHANNELS])
    one_id = f"{chances.choice(('', '00', 'é-', 'a/b ', '漢'))}{number}"
    cells: dict[str, Any] = {
        "id": one_id, "company": company, "channel": channel, "capture_date": chances.choice(DAYS)(day)
    }  # fmt: skip
    campaign: dict[str, Any] = {
        "id": one_id, "company": company.strip(), "channel": CHANNELS[channel],
        "capture_date": day.isoformat(),
    }  # fmt: skip
    for name in fields:
        _add_optional(chances, name, cells, campaign, kind)
    if chances.random() < 0.1:
        name, value = chances.choice((("company", " "), ("channel", ""), ("capture_date", "31.02.2026")))
        return _Row({**cells, name: value}, None)
    return _Row(cells, campaign)


def _add_optional(
    chances: random.Random, name: str, cells: dict[str, Any], campaign: dict[str, Any], kind: str
) -> None:
    if chances.random() < 0.2:
        if name not in cells:
            cells[name] = ""
    elif name in {"brand", "offer", "campaign_text", "full_campaign_text"}:
        limit = LIMITS.get(name, 100_000)
        most = limit * 2 if limit < 500 and chances.random() < 0.2 else 60
        cells[name] = _text(chances, most, kind)
        text = cells[name].strip()
        campaign[name] = None if len(text) > limit else "" if text in {"-", "--"} else text
    elif name in {"incentives", "key_value_props"}:
        parts = [f"Zq{chances.randrange(99)} {chances.choice('äb漢')}" for _ in range(chances.randint(1, 4))]
        is_list = kind in {"json", "jsonl"} and chances.random() < 0.5
        cells[name] = parts if is_list else chances.choice((" | ".join(parts), json.dumps(parts), str(parts)))
        campaign[name] = parts
    elif name == "spend":
        currency, write = chances.choice(AMOUNTS)
        campaign[name] = round(chances.uniform(0, 10**6), 2)
        campaign["currency"] = currency
        cells[name] = write(campaign[name])
    elif name == "volume":
        campaign[name] = chances.randrange(10**7)
        cells[name] = chances.choice((str(campaign[name]), f"{campaign[name]:,}"))


def _note(file: RandomFile, row: _Row, line: int) -> None:
    if row.campaign is None:
        file.refused.add(line)
    else:
        file.campaigns[row.campaign["id"]] = row.campaign
        file.lines[row.campaign["id"]] = line


def _write_csv(
    file: RandomFile, chances: random.Random, headings: Mapping[str, str], rows: list[_Row]
) -> None:
    delimiter = "\t" if file.name.endswith("tsv") else chances.choice(",;|")
    end = chances.choice(("\n", "\r\n"))
    names = [*headings.values()]
    nameless = chances.random() < 0.3
    if nameless:
        names.insert(2, "")
        file.notes.append("column 3 has cells and no name")
    target = io.StringIO(newline="")
    # The writer leaves a carriage return without quotes where it ends no line.
    quoting: Any = csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL
    writer = csv.writer(target, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if chances.random() < 0.3:
        target.write(f"A report{end}{end}")
        file.notes.append("names of the columns are in line 3")
    writer.writerow(names)
    for row in rows:
        line = len(target.getvalue().replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        if row.raw:
            target.write(row.raw.replace(",", delimiter) if delimiter != "," else row.raw)
            target.write(end)
        else:
            cells = [row.cells.get(name, "") for name in headings]
            writer.writerow([*cells[:2], *(["lost"] if nameless else []), *cells[2:]])
        _note(file, row, line)
    if nameless and all(row.raw for row in rows):
        file.notes.remove("column 3 has cells and no name")
    encoding = chances.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16"))
    file.content = target.getvalue().encode(encoding)


def _write_json(
    file: RandomFile, chances: random.Random, headings: Mapping[str, str], rows: list[_Row]
) -> None:
    rows = [row for row in rows if not row.raw]
    objects = [{heading: row.cells.get(name) for name, heading in headings.items()} for row in rows]
    for number, row in enumerate(rows, 1):
        _note(file, row, number)
    data: Any = objects
    if chances.random() < 0.5:
        data = (
            {"campaigns": objects, "total": 5}
            if chances.random() < 0.5
            else {"total": 5, "campaigns": objects}
        )
        file.notes.append("'total' beside the list")
    file.content = json.dumps(
        data, ensure_ascii=chances.random() < 0.5, indent=chances.choice((None, 1))
    ).encode()
    if not rows:
        file.ignored.clear()


def _write_json_lines(
    file: RandomFile, chances: random.Random, headings: Mapping[str, str], rows: list[_Row]
) -> None:
    lines = []
    for row in rows:
        if chances.random() < 0.1:
            lines.append("")
        fields = {heading: row.cells.get(name) for name, heading in headings.items()}
        lines.append(row.raw or json.dumps(fields, ensure_ascii=False))
        _note(file, row, len(lines))
    if all(row.raw for row in rows):
        file.ignored.clear()
    file.content = "\n".join(lines).encode()


def _write_workbook(
    file: RandomFile, chances: random.Random, headings: Mapping[str, str], rows: list[_Row]
) -> None:
    book: Any = import_module("openpyxl").Workbook()
    sheet = book.active
    if chances.random() < 0.5:
        sheet.append(["A report"])
        file.notes.append("names of the columns are in line 2")
    sheet.append([*headings.values()])
    for row in rows:
        sheet.append([row.cells.get(name) for name in headings])
        _note(file, row, sheet.max_row)
    if chances.random() < 0.5:
        book.create_sheet("More").append(["x"])
        file.notes.append("the sheet 'More' is not read")
    target = io.BytesIO()
    book.save(target)
    file.content = target.getvalue()


_WRITERS: Final = {
    "csv": _write_csv,
    "tsv": _write_csv,
    "json": _write_json,
    "jsonl": _write_json_lines,
    "xlsx": _write_workbook,
}

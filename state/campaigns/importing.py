"""Campaigns from a person's file: CSV, JSON or JSON Lines, row by row, each refused row with its reason.

Column names are read without regard to case, blanks and underscores; enum values as in filters; lists may be
JSON, or separated by `;` or `|`; empty is absent. One bad row never spoils the others. Whether `05/01/2026`
has the day first, the whole file decides; `31.10.2026` always has the day first, and `2026/10/31` the year.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.reading import match_value
from callsheet.state.errors import Invalid
from callsheet.state.uploads import MAX_IMPORT

Order = Literal["day first", "month first"]
_FORMS: Final = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y")
_SLASHED: Final[dict[Order, str]] = {"day first": "%d/%m/%Y", "month first": "%m/%d/%Y"}
_SLASHES: Final = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/[0-9]{4}")
_MONTHS: Final = 12


def _day_order(texts: Iterable[str]) -> Order | None:
    """Return the order of day and month in the slashed dates of a file.

    A number above 12 is a day. None if no date has one, or if the dates contradict each other.
    """
    orders = {order for text in texts if (order := _own_order(_without_time(text)))}
    return orders.pop() if len(orders) == 1 else None


def _read_day(text: str, order: Order | None) -> date | None:
    """Return the day that a text in one of the usual forms means, without a time after it; None for none.

    Raises `Invalid` for a slashed date that has two readings where the file has no `order`.
    """
    text = _without_time(text)
    if _SLASHES.fullmatch(text):
        return _slashed_day(text, order)
    return next((day for form in _FORMS if (day := _parse(text, form))), None)


def _slashed_day(text: str, order: Order | None) -> date | None:
    if order := order or _own_order(text):
        return _parse(text, _SLASHED[order])
    readings = sorted({day for form in _SLASHED.values() if (day := _parse(text, form))})
    if len(readings) > 1:
        first, second = readings
        raise Invalid(
            f"it may be {first} or {second}, and the other dates of the file do not decide",
            remedy="write it as YYYY-MM-DD",
        )
    return next(iter(readings), None)


def _own_order(text: str) -> Order | None:
    """Return the order that a date shows by itself."""
    slashed = _SLASHES.fullmatch(text)
    first, second = (int(slashed[1]), int(slashed[2])) if slashed else (0, 0)
    if first > _MONTHS >= second:
        return "day first"
    return "month first" if second > _MONTHS >= first else None


def _without_time(text: str) -> str:
    text = text.strip()
    day, _, time = text.replace("T", " ", 1 if text[:1].isdigit() else 0).rpartition(" ")
    return day if ":" in time else text


def _parse(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()  # noqa: DTZ007 -- a day has no zone
    except ValueError:
        return None


Kind = Literal["csv", "json", "jsonl"]
MAX_ROWS: Final = 200_000
_DAY: Final = "capture_date"
_LISTS: Final = frozenset({"incentives", "key_value_props", "imagery_demographics", "image_s3_urls"})
_NUMBERS: Final = frozenset({"volume", "spend"})
_ENUMS: Final = {
    "channel": "channel",
    "imagery_sentiment": "sentiment",
    "imagery_visual_style": "visual_style",
}
_ALIASES: Final = {
    "product": "primary_product",
    "text": "campaign_text",
    "fulltext": "full_campaign_text",
    "valueprops": "key_value_props",
    "sentiment": "imagery_sentiment",
    "visualstyle": "imagery_visual_style",
    "style": "imagery_visual_style",
    "date": "capture_date",
    "images": "image_s3_urls",
}
_FIELDS: Final = {name.replace("_", ""): name for name in Campaign.model_fields} | _ALIASES
_SEPARATOR: Final = re.compile(r"[;|]")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_REMEDIES: Final = {
    _DAY: "write it as 2026-10-31",
    "volume": "write it as 12000",
    "spend": "write it as 12000.50",
}
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""
_PLAIN: Final = re.compile(r"[^a-z0-9]+")


class RefusedRow(NamedTuple):
    """A row that is not imported."""

    line: int
    """From 1; of JSON the number of the object."""
    reason: str


def read_campaigns(content: bytes, kind: Kind) -> Iterator[Campaign | RefusedRow]:
    """Yield each row as a campaign, or as refused with the reason.

    Raises `Invalid` for a file that cannot be read at all.
    """
    text = _decode(content)
    rows = list(islice(_rows(text, kind), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise Invalid(f"the file has more than {MAX_ROWS} rows", remedy="divide it")
    order = _day_order(_days(row for _, row in rows))
    seen: dict[str, int] = {}
    for line, row in rows:
        campaign = _campaign(line, row, order)
        if isinstance(campaign, Campaign) and campaign.id in seen:
            yield RefusedRow(
                line, f"id {campaign.id!r} was in line {seen[campaign.id]} already; ids are unique"
            )
            continue
        if isinstance(campaign, Campaign):
            seen[campaign.id] = line
        yield campaign


def kind_of(name: str, content_type: str = "") -> Kind:
    """Return a file's kind from its name or media type; raise `Invalid` for another kind."""
    kinds: dict[str, Kind] = {"csv": "csv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl"}
    media_type = content_type.partition(";")[0].strip().casefold()
    subtype = media_type.rpartition("/")[2].removeprefix("x-")
    for ending in (name.casefold().rpartition(".")[2], subtype):
        if kind := kinds.get(ending):
            return kind
    raise Invalid(
        f"{name or content_type!r} is no CSV, JSON or JSON Lines",
        remedy="name the file x.csv, x.json or x.jsonl",
    )


def _decode(content: bytes) -> str:
    if len(content) > MAX_IMPORT:
        raise Invalid(f"the file has more than {MAX_IMPORT} bytes", remedy="divide it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"the file is not UTF-8 at byte {error.start}", remedy="save it as UTF-8") from error


def _rows(text: str, kind: Kind) -> Iterator[tuple[int, Any]]:
    if kind == "csv":
        return _csv_rows(text)
    return _jsonl_rows(text) if kind == "jsonl" else _json_rows(text)


def _csv_rows(text: str) -> Iterator[tuple[int, Any]]:
    delimiter = max(",;\t", key=text.lstrip().splitlines()[0].count) if text.strip() else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = _cells(reader)
    if not names or isinstance(names, Invalid):
        raise Invalid("the file begins with no names of columns", remedy="put id, company, … in line 1")
    while True:
        line = reader.line_num + 1
        cells = _cells(reader)
        if cells is None:
            return
        if isinstance(cells, Invalid):
            yield line, cells
        elif any(cells[len(names) :]):
            yield line, Invalid(f"the row has {len(cells)} cells, the first line {len(names)}")
        elif any(cell.strip() for cell in cells):
            yield line, dict(zip(names, map(_without_apostrophe, cells), strict=False))


def _cells(reader: Iterator[list[str]]) -> list[str] | Invalid | None:
    """Return the next row's cells, an error for a row that is no CSV, None at the end."""
    try:
        return next(reader, None)
    except csv.Error as error:
        return Invalid(f"the row is no CSV: {error}", remedy="put cells in quotes, and double quotes inside")


def _jsonl_rows(text: str) -> Iterator[tuple[int, Any]]:
    # Not splitlines(): JSON strings may hold other line ends, such as U+2028.
    for line, row in enumerate(io.StringIO(text), 1):
        if row.strip():
            try:
                yield line, json.loads(row)
            except (ValueError, RecursionError) as error:
                yield line, Invalid(f"the line is no JSON: {error}")


def _json_rows(text: str) -> Iterator[tuple[int, Any]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the file is no JSON: {error}", remedy="correct it, or send JSON Lines") from error
    rows = data.get("campaigns") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise Invalid("the file holds no list of campaigns", remedy='send [{…}] or {"campaigns": [{…}]}')
    return iter(enumerate(rows, 1))


def _days(rows: Iterable[Any]) -> Iterator[str]:
    """Yield the texts in the column of days."""
    for row in rows:
        for column, value in row.items() if isinstance(row, Mapping) else ():
            if isinstance(value, str) and _field(column) == _DAY:
                yield value


def _campaign(line: int, row: Any, order: Order | None) -> Campaign | RefusedRow:
    if isinstance(row, Invalid):
        return RefusedRow(line, row.message)
    if not isinstance(row, Mapping):
        return RefusedRow(line, "the row is no object with fields")
    try:
        return Campaign.model_validate(_fields(row, order))
    except Invalid as error:
        return RefusedRow(line, f"{error.message}; {error.remedy}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            return RefusedRow(line, f"{name} is missing; every campaign has one")
        remedy = f"; {_REMEDIES[name]}" if name in _REMEDIES else ""
        return RefusedRow(line, f"{name} is {first['input']!r:.80}: {first['msg']}{remedy}")


def _fields(row: Mapping[str, Any], order: Order | None) -> dict[str, Any]:
    """Return the row by field names, without empty values; unknown columns are left out."""
    fields: dict[str, Any] = {}
    for column, value in row.items():
        name = _field(column)
        stripped = value.strip() if isinstance(value, str) else value
        if name and stripped not in (None, "", []):
            is_day = name == _DAY and isinstance(stripped, str)
            fields[name] = _day(stripped, order) if is_day else _value(name, stripped)
    return fields


@lru_cache(maxsize=1_000)
def _field(column: str) -> str | None:
    """Return the field that a column means; None for none."""
    return _FIELDS.get(_PLAIN.sub("", column.casefold()))


def _value(name: str, value: Any) -> Any:
    if name == "key_value_props":
        return _value_props(_list(value))
    if name in _LISTS:
        return _list(value)
    if name in _ENUMS:
        return _enum(_ENUMS[name], value)
    if name in _NUMBERS and isinstance(value, str):
        return _number(value)
    return str(value) if name == "id" and type(value) is int else value


def _day(text: str, order: Order | None) -> Any:
    """Return the day of a text; a text that is no day is left to validation."""
    try:
        return _read_day(text, order) or text
    except Invalid as error:
        raise Invalid(f"{_DAY} is {text!r:.80}: {error.message}", remedy=error.remedy) from error


def _list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return [part.strip() for part in _SEPARATOR.split(value) if part.strip()]


def _value_props(values: Any) -> Any:
    """Return the value propositions of a list whose items may hold several, separated by commas."""
    if not isinstance(values, list):
        return values
    parts = [part for item in values for part in (item.split(",") if isinstance(item, str) else [item])]
    return [_enum("value_prop", part) for part in parts if part != ""]


def _enum(dimension: str, value: Any) -> Any:
    return match_value(dimension, value) or value if isinstance(value, str) else value


def _number(text: str) -> str:
    """Return a number without its currency and its thousands' commas; a decimal comma stays."""
    plain = text.removeprefix("$").strip()
    return plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain


def to_csv(campaigns: Iterable[Campaign], *, heading: bool = True) -> str:
    """Return campaigns as CSV with the fields as columns; `read_campaigns` reads it back."""
    target = io.StringIO()
    names = [*Campaign.model_fields]
    writer = csv.writer(target)
    if heading:
        writer.writerow(names)
    for campaign in campaigns:
        data = campaign.model_dump(mode="json")
        writer.writerow([_cell(data[name]) for name in names])
    return target.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    text = "" if value is None else str(value)
    # A spreadsheet would run a cell that begins like a formula.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _without_apostrophe(cell: str) -> str:
    """Return a cell without the apostrophe that `to_csv` puts before a formula."""
    return cell[1:] if cell.startswith(tuple(f"'{first}" for first in _FORMULA)) else cell

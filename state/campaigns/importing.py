"""Campaigns from a person's file: CSV, JSON or JSON Lines, row by row, each refused row with its reason.

Column names are read without regard to case, blanks and underscores; enum values as in filters; lists may be
JSON, or separated by `;` or `|`; empty is absent.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.reading import match_value
from callsheet.state.errors import Invalid
from callsheet.state.uploads import MAX_IMPORT

Kind = Literal["csv", "json", "jsonl"]
MAX_ROWS: Final = 200_000
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
_SEPARATOR: Final = re.compile(r"[;|]")
_DATE_FORMS: Final = ("%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d")
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
    seen: dict[str, int] = {}
    for count, (line, row) in enumerate(_rows(text, kind), 1):
        if count > MAX_ROWS:
            raise Invalid(f"the file has more than {MAX_ROWS} rows", remedy="divide it")
        campaign = _campaign(line, row)
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
    lowered = f"{name} {content_type}".casefold()
    for ending, kind in (("jsonl", "jsonl"), ("ndjson", "jsonl"), ("json", "json"), ("csv", "csv")):
        if ending in lowered:
            return kind  # type: ignore[return-value]
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
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        names = next(reader, [])
        for values in reader:
            if any(value.strip() for value in values):
                yield reader.line_num, dict(zip(names, values, strict=False))
    except csv.Error as error:
        raise Invalid(f"line {reader.line_num} is no CSV: {error}", remedy="correct its quotes") from error


def _jsonl_rows(text: str) -> Iterator[tuple[int, Any]]:
    for line, row in enumerate(text.splitlines(), 1):
        if row.strip():
            try:
                yield line, json.loads(row)
            except ValueError as error:
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


def _campaign(line: int, row: Any) -> Campaign | RefusedRow:
    if isinstance(row, Invalid):
        return RefusedRow(line, row.message)
    if not isinstance(row, Mapping):
        return RefusedRow(line, "the row is no object with fields")
    try:
        return Campaign.model_validate(_fields(row))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "row"
        return RefusedRow(line, f"{place} is {first['input']!r:.80}: {first['msg']}")


def _fields(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the row by field names, without empty values; unknown columns are left out."""
    known = {_PLAIN.sub("", name): name for name in Campaign.model_fields} | _ALIASES
    fields: dict[str, Any] = {}
    for column, value in row.items():
        name = known.get(_PLAIN.sub("", str(column).casefold()))
        if name and value not in (None, "", []):
            fields[name] = _value(name, value)
    return fields


def _value(name: str, value: Any) -> Any:
    if name in _LISTS:
        items = _list(value)
        return [_enum("value_prop", item) for item in items] if name == "key_value_props" else items
    if name in _ENUMS:
        return _enum(_ENUMS[name], value)
    if name in _NUMBERS and isinstance(value, str):
        return value.replace(",", "").replace("$", "").strip()
    if name == "capture_date" and isinstance(value, str):
        return _date(value.strip())
    return str(value).strip() if name == "id" else value


def _list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return [part.strip() for part in _SEPARATOR.split(value) if part.strip()]


def _enum(dimension: str, value: Any) -> Any:
    return match_value(dimension, value) or value if isinstance(value, str) else value


def _date(text: str) -> Any:
    for form in _DATE_FORMS:
        try:
            return datetime.strptime(text[:10], form).date()  # noqa: DTZ007 -- a day has no zone
        except ValueError:
            continue
    return text


def to_csv(campaigns: Iterable[Campaign]) -> str:
    """Return campaigns as CSV with the fields as columns; `read_campaigns` reads it back."""
    target = io.StringIO()
    names = [*Campaign.model_fields]
    writer = csv.writer(target, lineterminator="\n")
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
    return f"'{text}" if text[:1] in {"=", "+", "@"} else text

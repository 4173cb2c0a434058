"""Rows of a file of campaigns: CSV, JSON, JSON Lines or an Excel sheet, in the encodings that people have.

A table is read several times, row by row, so that memory holds the file but never all of its values.
"""

import codecs
import csv
import io
import json
import re
from collections.abc import Generator, Iterator, Mapping
from importlib import import_module
from itertools import count, islice
from typing import Any, Final, Literal, NamedTuple, Protocol

from callsheet.state.campaigns.importing import Row
from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import MAX_IMPORT
from callsheet.tools.campaigns.column_names import LEADING, MAX_NAMED, ColumnNames, rank_names, require_few
from callsheet.tools.campaigns.workbooks import SheetTable

Kind = Literal["csv", "json", "jsonl", "xlsx"]
MAX_ROWS: Final = 200_000
_KINDS: Final[dict[str, Kind]] = {
    "csv": "csv",
    "tsv": "csv",
    "tab-separated-values": "csv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "xlsx": "xlsx",
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_DELIMITERS: Final = (",", ";", "\t", "|")
_MAX_RESUMES: Final = 100
"""Rows with quotes that do not match after which a file is read no further."""
_SAMPLE: Final = 200_000
_NULS: Final = 0.3
"""Share of bytes that are zero above which a text is UTF-16."""
_ENCODINGS: Final = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "iso8859_15", "mac_roman"),
    *("shift_jis", "gb18030", "big5", "euc_kr"),
]
_SEPARATOR_LINE: Final = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_LIST_START: Final = re.compile(r'(?<!\s)\s*+(?:\{\s*+"campaigns"\s*+:\s*+)?+\[')
_GAP: Final = re.compile(r"[\s,]*")


class Table(Protocol):
    """A file as rows."""

    semicolons: bool
    """True if semicolons separate cells."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks about how the file is read, and what of it is not; complete after all rows."""

    def headings(self) -> list[str]:
        """Return the names of the columns."""

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield each row with its line, from the first."""


def kind_of(name: str, content_type: str = "") -> Kind:
    """Return a file's kind from its name or media type; raise `Invalid` for another kind."""
    media_type = content_type.partition(";")[0].strip().casefold()
    subtype = media_type.rpartition("/")[2].removeprefix("x-")
    for ending in (name.casefold().rpartition(".")[2], subtype):
        if kind := _KINDS.get(ending):
            return kind
    raise Invalid(
        f"{name or content_type!r} is no CSV, JSON, JSON Lines or Excel sheet",
        remedy="name the file x.csv, x.tsv, x.json, x.jsonl or x.xlsx",
    )


def open_table(content: bytes, kind: Kind, encoding: str = "") -> Table:
    """Return a file as a table; raise `Invalid` for one that cannot be read at all."""
    if len(content) > MAX_IMPORT:
        raise TooLarge(f"the file has more than {MAX_IMPORT} bytes", remedy="divide it")
    if kind == "xlsx":
        return SheetTable(content)
    _refuse_other_formats(content, kind)
    text = _Text(content, *_encoding(content, encoding))
    return _CsvTable(text) if kind == "csv" else _JsonTable(text, lines=kind == "jsonl")


def _refuse_other_formats(content: bytes, kind: str) -> None:
    start = content[:2_000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if content.startswith(b"PK\x03\x04"):
        raise Invalid(
            f"the file is an Excel workbook or another archive, not {kind}", remedy="name it x.xlsx"
        )
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise Invalid(f"the file is an old Excel workbook, not {kind}", remedy="save it as .xlsx or CSV")
    if start.startswith((b"<!doctype", b"<html", b"<table", b"<?xml", b"<head", b"<body", b"<meta")):
        raise Invalid(
            f"the file is a web page or XML, not {kind}",
            remedy="export the table again; a page that asks you to sign in may have been saved instead",
        )
    if content.startswith((b"%PDF-", b"\x1f\x8b")):
        raise Invalid(f"the file is a PDF or compressed, not {kind}", remedy="send the table itself")


class _Text(NamedTuple):
    """The bytes of a text with their encoding."""

    content: bytes
    encoding: str
    notes: tuple[str, ...] = ()
    """A remark if the encoding is guessed."""

    def lines(self, start: int = 0) -> Iterator[str]:
        """Yield the lines from an index, with their ends, without holding them all."""
        yield from islice(io.TextIOWrapper(io.BytesIO(self.content), self.encoding, newline=""), start, None)


def _encoding(content: bytes, encoding: str) -> tuple[str, tuple[str, ...]]:
    """Return a file's encoding, and a note if it is guessed; raise `Invalid` if the file is not in it."""
    if encoding:
        return _require_encoding(content, encoding), ()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _require_encoding(content, "utf-16"), ()
    start = content[:1_000]
    if start.count(0) > len(start) * _NULS:
        return _require_encoding(content, "utf-16-be" if content[:1] == b"\0" else "utf-16-le"), ()
    try:
        return _require_encoding(content, "utf-8-sig"), ()
    except Invalid:
        guess = _guess(content)
    note = f"the file is not UTF-8; it is read as {guess}: check words with accents, or save it as UTF-8"
    return _require_encoding(content, guess), (note,)


def _require_encoding(content: bytes, encoding: str) -> str:
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        for start in range(0, len(content), _SAMPLE):
            decoder.decode(content[start : start + _SAMPLE])
        decoder.decode(b"", final=True)
    except (UnicodeError, LookupError, TypeError) as error:
        raise Invalid(f"the file is not {encoding[:40]}: {error}", remedy="save it as UTF-8") from error
    return encoding


def _guess(content: bytes) -> str:
    """Return the likely encoding of the lines that are no ASCII."""
    lines = (line for line in content.splitlines() if not line.isascii())
    sample = b"\n".join(islice(lines, 2_000))[:_SAMPLE]
    best: Any = import_module("charset_normalizer").from_bytes(sample, cp_isolation=_ENCODINGS).best()
    if best is None:
        raise Invalid("the file is in an unknown encoding", remedy="save it as UTF-8")
    # What else would do as well is rarer than Windows' own.
    return "cp1252" if "cp1252" in best.could_be_from_charset else str(best.encoding)


class _CsvTable:
    """Cells of a text."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        first = next(text.lines(), "")
        separator = _SEPARATOR_LINE.fullmatch(first)
        start = 1 if separator else 0
        candidates = [
            candidate
            for delimiter in ((separator[1],) if separator else _DELIMITERS)
            for candidate in self._candidates(start, delimiter)
        ]
        if not candidates:
            raise Invalid("the file begins with no names of columns", remedy="put id, company, … in line 1")
        _, self._delimiter, self._first, cells = max(candidates, key=lambda one: one[0])
        self._names = ColumnNames(cells, text.notes)
        if any(one[1] == self._delimiter and one[2] < self._first for one in candidates):
            self._names.note_line(self._first)
        self.semicolons = self._delimiter == ";"

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks about the encoding, lines above the names, and columns without a name."""
        return self._names.notes

    def headings(self) -> list[str]:
        """Return the cells of the line that names the columns."""
        return self._names.headings()

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows below the names; one whose quotes do not match swallows no others."""
        at = self._first
        for _ in range(_MAX_RESUMES):
            following = yield from self._read(at)
            if following is None:
                return
            at = following
        reason = f"{_MAX_RESUMES} rows before have quotes that do not match; the file is read no further"
        yield at + 1, Invalid(reason, remedy="export it again as CSV")

    def _read(self, offset: int) -> Generator[tuple[int, Row], None, int | None]:
        """Yield rows; return the line to go on with after one that is no CSV, None at the end."""
        reader = csv.reader(self._text.lines(offset), delimiter=self._delimiter, strict=True)
        while True:
            start = offset + reader.line_num
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield start + 1, _no_csv(error, start + 1)
                return start + 1
            if cells is None:
                return None
            if any(cells[self._names.count :]):
                reason = f"the row has {len(cells)} cells, the line of names {self._names.count}"
                yield start + 1, Invalid(reason, remedy="put cells that hold the separator in quotes")
                if offset + reader.line_num > start + 1:
                    # A quote that is not closed may have joined lines.
                    return start + 1
            elif any(cell.strip() for cell in cells):
                yield start + 1, self._names.row(cells, "")

    def _candidates(
        self, start: int, delimiter: str
    ) -> Iterator[tuple[tuple[int, ...], str, int, list[str]]]:
        """Yield the first rows with their rank as names of columns and the index of the line below."""
        reader = csv.reader(self._text.lines(start), delimiter=delimiter, strict=True)
        try:
            for number, cells in enumerate(islice(reader, LEADING)):
                if any(cell.strip() for cell in cells):
                    yield rank_names(cells, number), delimiter, start + reader.line_num, cells
        except csv.Error:
            return


def _no_csv(error: csv.Error, line: int) -> Invalid:
    if "unexpected end" in str(error):
        return Invalid(
            f"the row is no CSV: a quote that begins a cell in line {line} is never closed",
            remedy="close it, and double quotes inside of quotes",
        )
    return Invalid(f"the row is no CSV: {error}", remedy="put cells in quotes, and double quotes inside")


class _JsonTable:
    """Objects of a text: one a line, or in a list."""

    semicolons = False

    def __init__(self, text: _Text, *, lines: bool) -> None:
        self._text = text
        self._notes = dict.fromkeys(text.notes)
        self._lines = lines

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks about the encoding and what is beside the list."""
        return tuple(self._notes)

    def headings(self) -> list[str]:
        """Return the names of the fields of all objects."""
        names: dict[str, None] = {}
        for _, row in self.rows():
            if not isinstance(row, Invalid):
                names.update(dict.fromkeys(row))
                require_few(len(names))
        return [*names]

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the objects."""
        return self._read_lines() if self._lines else self._read_list()

    def _read_lines(self) -> Iterator[tuple[int, Row]]:
        # JSON strings may hold other line ends, such as U+2028, which `lines` does not divide at.
        for line, text in enumerate(self._text.lines(), 1):
            if text.strip():
                try:
                    yield line, _as_row(json.loads(text, object_pairs_hook=_object))
                except (ValueError, RecursionError) as error:
                    yield line, Invalid(f"the line is no JSON: {error}")

    def _read_list(self) -> Iterator[tuple[int, Row]]:
        """Yield the objects of a list, each before the next is read."""
        text = self._text.content.decode(self._text.encoding)
        start = _LIST_START.match(text)
        if start is None:
            yield from self._read_at_once(text)
            return
        decoder, at = json.JSONDecoder(object_pairs_hook=_object), start.end()
        for number in count(1):
            at = _skip(text, at, comma=number > 1)
            if text[at : at + 1] == "]":
                self._read_end(text[at + 1 :].strip(), in_object="{" in start[0])
                return
            try:
                value, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise _no_json(error) from error
            yield number, _as_row(value)

    def _read_end(self, end: str, *, in_object: bool) -> None:
        """Refuse a file that goes on after its list with another one, and note fields beside the list."""
        if not in_object:
            if end:
                raise _no_json(ValueError("it goes on after the end of its list"))
            return
        others = _load('{"campaigns": null' + end)
        self._note_other_fields(others)

    def _read_at_once(self, text: str) -> Iterator[tuple[int, Row]]:
        data = _load(text)
        if isinstance(data, dict):
            self._note_other_fields(data)
        rows = data.get("campaigns") if isinstance(data, dict) else data
        if not isinstance(rows, list):
            raise Invalid("the file holds no list of campaigns", remedy='send [{…}] or {"campaigns": [{…}]}')
        yield from ((number, _as_row(row)) for number, row in enumerate(rows, 1))

    def _note_other_fields(self, data: Mapping[str, Any]) -> None:
        if names := [repr(name[:80]) for name in data if name != "campaigns"][:MAX_NAMED]:
            self._notes[f"{', '.join(names)} beside the list of campaigns is not read"] = None


class _Twice(dict[str, Any]):
    """An object that has a name twice, of which JSON readers keep the last value."""

    name = ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    twice = _Twice(fields)
    names = [name for name, _ in pairs]
    twice.name = next(name for at, name in enumerate(names) if name in names[:at])
    return twice


def _load(text: str) -> Any:
    """Return a whole text's value."""
    try:
        data = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise _no_json(error) from error
    if isinstance(data, _Twice):
        raise _no_json(ValueError(f"it has {data.name[:80]!r} twice"))
    return data


def _skip(text: str, at: int, *, comma: bool) -> int:
    """Return the place of the next value, or of the end of the list."""
    gap = _GAP.match(text, at)
    end = gap.end() if gap else at
    if text.count(",", at, end) != (comma and text[end : end + 1] != "]"):
        raise _no_json(ValueError(f"a comma is missing or too many at character {at}"))
    return end


def _no_json(error: Exception) -> Invalid:
    return Invalid(f"the file is no JSON: {error}", remedy="correct it, or send JSON Lines")


def _as_row(value: Any) -> Row:
    if isinstance(value, _Twice):
        return Invalid(f"the object has {value.name[:80]!r} twice", remedy="keep one of them")
    return value if isinstance(value, dict) else Invalid("the row is no object with fields")

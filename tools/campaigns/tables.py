"""Rows of a file of campaigns: CSV, JSON, JSON Lines or an Excel sheet, in the encodings that people have.

A table is read several times, row by row, so that memory holds the file but never all of its values.
"""

import codecs
import csv
import io
import json
import re
import zipfile
from collections.abc import Generator, Iterator, Sequence
from datetime import date, datetime
from importlib import import_module
from itertools import count, islice
from typing import Any, Final, Literal, NamedTuple, Protocol

from callsheet.state.campaigns.headings import MAX_HEADINGS, count_fields
from callsheet.state.campaigns.importing import Row
from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import MAX_IMPORT

Kind = Literal["csv", "json", "jsonl", "xlsx"]
MAX_ROWS: Final = 200_000
MAX_SHEET_BYTES: Final = 1_000_000_000
"""Bytes of a workbook when it is unpacked."""
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
_LEADING: Final = 30
"""Lines among which the names of the columns stand."""
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
_FORMAT_CODES: Final = re.compile(r"€|£|US\$|\[\$([A-Z]{3})|\"([A-Z]{3})\"")


class Table(Protocol):
    """A file as rows."""

    semicolons: bool
    """True if semicolons separate cells."""
    notes: tuple[str, ...]
    """Remarks about how the file is read."""

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
        return _SheetTable(content)
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
    note = f"the file is not UTF-8; it is read as {guess}: check words with accents, or send encoding="
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
        self.notes = text.notes
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
        _, self._delimiter, self._first, names = max(candidates, key=lambda one: one[0])
        self._names = [name.strip() for name in names[:MAX_HEADINGS]]
        self.semicolons = self._delimiter == ";"

    def headings(self) -> list[str]:
        """Return the cells of the line that names the columns."""
        return [name for name in dict.fromkeys(self._names) if name]

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
            if any(cells[len(self._names) :]):
                reason = f"the row has {len(cells)} cells, the line of names {len(self._names)}"
                yield start + 1, Invalid(reason, remedy="put cells that hold the separator in quotes")
                if offset + reader.line_num > start + 1:
                    # A quote that is not closed may have joined lines.
                    return start + 1
            elif any(cell.strip() for cell in cells):
                yield start + 1, _by_name(self._names, cells, "")

    def _candidates(
        self, start: int, delimiter: str
    ) -> Iterator[tuple[tuple[int, ...], str, int, list[str]]]:
        """Yield the first rows with their rank as names of columns and the index of the line below."""
        reader = csv.reader(self._text.lines(start), delimiter=delimiter, strict=True)
        try:
            for number, cells in enumerate(islice(reader, _LEADING)):
                if any(cell.strip() for cell in cells):
                    yield _rank(cells, number), delimiter, start + reader.line_num, cells
        except csv.Error:
            return


def _rank(cells: Sequence[Any], number: int) -> tuple[int, ...]:
    """Return the rank of a row as names of columns: by the fields it names, and without any by its cells."""
    count = count_fields(cells)
    return count, 0 if count else len(cells), -number


def _by_name(names: list[str], cells: Sequence[Any], empty: Any) -> dict[str, Any]:
    """Return cells by name; of columns with the same name the first."""
    padded = [*cells[: len(names)], *[empty] * (len(names) - len(cells))]
    return dict(zip(reversed(names), reversed(padded), strict=True))


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
        self.notes = text.notes
        self._lines = lines

    def headings(self) -> list[str]:
        """Return the names of the fields of all objects."""
        names: dict[str, None] = {}
        for _, row in self.rows():
            if not isinstance(row, Invalid) and len(names) < MAX_HEADINGS:
                names.update(dict.fromkeys(row))
        return [*names][:MAX_HEADINGS]

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the objects."""
        return self._read_lines() if self._lines else self._read_list()

    def _read_lines(self) -> Iterator[tuple[int, Row]]:
        # JSON strings may hold other line ends, such as U+2028, which `lines` does not divide at.
        for line, text in enumerate(self._text.lines(), 1):
            if text.strip():
                try:
                    yield line, _as_row(json.loads(text))
                except (ValueError, RecursionError) as error:
                    yield line, Invalid(f"the line is no JSON: {error}")

    def _read_list(self) -> Iterator[tuple[int, Row]]:
        """Yield the objects of a list, each before the next is read."""
        text = self._text.content.decode(self._text.encoding)
        start = _LIST_START.match(text)
        if start is None:
            yield from _read_at_once(text)
            return
        decoder, at = json.JSONDecoder(), start.end()
        for number in count(1):
            at = _skip(text, at, comma=number > 1)
            if text[at : at + 1] == "]":
                return
            try:
                value, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise _no_json(error) from error
            yield number, _as_row(value)


def _skip(text: str, at: int, *, comma: bool) -> int:
    """Return the place of the next value, or of the end of the list."""
    gap = _GAP.match(text, at)
    end = gap.end() if gap else at
    if text.count(",", at, end) != (comma and text[end : end + 1] != "]"):
        raise _no_json(ValueError(f"a comma is missing or too many at character {at}"))
    return end


def _read_at_once(text: str) -> Iterator[tuple[int, Row]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(error) from error
    rows = data.get("campaigns") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise Invalid("the file holds no list of campaigns", remedy='send [{…}] or {"campaigns": [{…}]}')
    yield from ((number, _as_row(row)) for number, row in enumerate(rows, 1))


def _no_json(error: Exception) -> Invalid:
    return Invalid(f"the file is no JSON: {error}", remedy="correct it, or send JSON Lines")


def _as_row(value: Any) -> Row:
    return value if isinstance(value, dict) else Invalid("the row is no object with fields")


class _SheetTable:
    """Cells of the first sheet of a workbook that has any."""

    semicolons = False

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.notes: tuple[str, ...] = ()
        self._check_size()
        candidates = [
            (_rank(cells, number), number, cells)
            for number, cells in islice(enumerate(self._cells(), 1), _LEADING)
            if any(isinstance(cell, str) and cell.strip() for cell in cells)
        ]
        if not candidates:
            raise Invalid(
                "no sheet of the workbook has names of columns", remedy="put id, company, … in row 1"
            )
        _, self._first, names = max(candidates, key=lambda one: one[0])
        self._names = ["" if cell is None else str(cell).strip() for cell in names]

    def headings(self) -> list[str]:
        """Return the cells of the row that names the columns."""
        return [name for name in dict.fromkeys(self._names) if name]

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows below the names."""
        for number, cells in enumerate(self._cells(), 1):
            if number > self._first and any(cell not in {None, ""} for cell in cells):
                yield number, _by_name(self._names, cells, None)

    def _check_size(self) -> None:
        try:
            with zipfile.ZipFile(io.BytesIO(self._content)) as archive:
                size = sum(one.file_size for one in archive.infolist())
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise _no_workbook(error) from error
        if size > MAX_SHEET_BYTES:
            raise TooLarge(
                f"the workbook unpacks to {size} bytes", remedy="save the sheet as CSV, and divide it"
            )

    def _cells(self) -> Iterator[list[Any]]:
        """Yield the cells of each row of the first sheet with any."""
        openpyxl: Any = import_module("openpyxl")
        try:
            book = openpyxl.load_workbook(
                io.BytesIO(self._content), read_only=True, data_only=True, keep_links=False
            )
            for sheet in book.worksheets:
                empty = True
                for row in sheet.iter_rows(max_col=MAX_HEADINGS):
                    cells = [_cell_value(cell) for cell in row]
                    empty = empty and all(cell is None for cell in cells)
                    yield cells
                if not empty:
                    return
        except MemoryError:
            raise
        except Exception as error:
            # The reader raises whatever a damaged file leads to, from KeyError to errors of XML.
            raise _no_workbook(error) from error


def _no_workbook(error: Exception) -> Invalid:
    return Invalid(
        f"the file is no Excel workbook that can be read: {type(error).__name__}",
        remedy="save it as .xlsx or CSV",
    )


def _cell_value(cell: Any) -> Any:
    """Return a cell's value as JSON, with the currency that its format shows."""
    value = cell.value
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        code = _FORMAT_CODES.search(cell.number_format or "")
        # More than three decimals, so that the point is no mark of thousands.
        text = f"{value:.6f}" if isinstance(value, float) else str(value)
        return f"{code[1] or code[2] or code[0]} {text}" if code else value
    return value if value is None else str(value)

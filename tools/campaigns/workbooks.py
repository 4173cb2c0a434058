"""An Excel workbook as a table: the one of its sheets that looks most like a list of campaigns."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from importlib import import_module
from itertools import islice
from typing import Any, Final, NamedTuple

from callsheet.state.campaigns.headings import CURRENCIES, MAX_HEADINGS, SYMBOLS
from callsheet.state.campaigns.importing import Row
from callsheet.state.errors import Invalid, TooLarge
from callsheet.tools.campaigns.column_names import LEADING, MAX_NAMED, ColumnNames, rank_names, require_few

MAX_SHEET_BYTES: Final = 1_000_000_000
"""Bytes of a workbook when it is unpacked."""
_FORMAT_CODES: Final = re.compile(r'\[\$([^\]-]{1,4})[^\]]{0,20}\]|"([^"]{1,4})"|US\$|[€£¥]|\$(?!-)')
_FORMULA: Final = re.compile(rb"<(?:\w{1,20}:)?f[ />]")
"""The beginning of a formula; some programs write a prefix, as in `<x:f>`."""
_FORMULA_BYTES: Final = 24
_PIECE: Final = 200_000
"""Bytes of a part that are searched together."""


class _NameRow(NamedTuple):
    """A row of cells, with its rank as the names of columns."""

    rank: tuple[int, ...]
    number: int
    cells: list[Any]


class _Top(NamedTuple):
    """A sheet by its place, its first row with texts, the one of names, and whether any row follows."""

    sheet: int
    begin: int
    names: _NameRow
    has_rows: bool

    def rank(self) -> tuple[bool, int]:
        """Return the rank of the sheet as a table: an empty form may name more fields than the table."""
        count = self.names.rank[0]
        return self.has_rows and count > 0, count


class SheetTable:
    """Cells of the sheet with rows that names the most fields of a campaign; of equals, the first."""

    semicolons = False

    def __init__(self, content: bytes) -> None:
        self._content = content
        kinds = (True, False) if self._check_parts() else (True,)
        self._books = [self._book(values=one) for one in kinds]
        tops = [top for number in range(len(self._books[0].worksheets)) if (top := self._top(number))]
        if not tops:
            raise Invalid(
                "no sheet of the workbook has names of columns", remedy="put id, company, … in row 1"
            )
        # A sheet of notes may stand before the table: of several, the one that names the most fields.
        best = max(tops, key=_Top.rank)
        self._sheet, self._first = best.sheet, best.names.number
        self._names = ColumnNames(best.names.cells)
        if best.begin < self._first:
            self._names.note_line(self._first)
        for text in self._other_sheets():
            self._names.note(text)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks about rows above the names, columns without a name, and other sheets."""
        return self._names.notes

    def headings(self) -> list[str]:
        """Return the cells of the row that names the columns."""
        return self._names.headings()

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows below the names."""
        for number, cells in enumerate(self._cells(self._sheet), 1):
            if number > self._first and _is_filled(cells):
                yield number, self._names.row(cells, None)

    def _check_parts(self) -> bool:
        """Return whether a sheet has formulas; raise `TooLarge` for a workbook that unpacks to too much."""
        try:
            with zipfile.ZipFile(io.BytesIO(self._content)) as archive:
                parts = archive.infolist()
                size = sum(one.file_size for one in parts)
                if size > MAX_SHEET_BYTES:
                    raise TooLarge(
                        f"the workbook unpacks to {size} bytes", remedy="save the sheet as CSV, and divide it"
                    )
                return any(_has_formulas(archive, one) for one in parts if "/worksheets/" in one.filename)
        except (zipfile.BadZipFile, zlib.error, ValueError, OSError, NotImplementedError) as error:
            raise _no_workbook(error) from error

    def _top(self, sheet: int) -> _Top | None:
        """Return the row of a sheet that names its columns; None for a sheet without texts."""
        lines = [
            _NameRow(rank_names(cells, number), number, cells)
            for number, cells in islice(enumerate(self._cells(sheet), 1), LEADING)
            if any(isinstance(cell, str) and cell.strip() for cell in cells)
        ]
        if not lines:
            return None
        names = max(lines, key=lambda one: one.rank)
        below = islice(self._cells(sheet), names.number, None)
        return _Top(sheet, lines[0].number, names, any(map(_is_filled, below)))

    def _cells(self, sheet: int) -> Iterator[list[Any]]:
        """Yield the cells of each row of a sheet."""
        with _damaged_workbooks():
            yield from _rows([book.worksheets[sheet] for book in self._books])

    def _other_sheets(self) -> list[str]:
        """Return remarks about the other sheets with cells."""
        with _damaged_workbooks():
            sheets = list(self._books[0].worksheets)
            read = sheets.pop(self._sheet).title
            filled = [sheet.title for sheet in sheets if _has_cells(sheet)]
        return [f"the sheet {title!r} is not read, only {read!r} is" for title in filled[: MAX_NAMED - 1]]

    def _book(self, *, values: bool) -> Any:
        """Open the workbook, with the values of its formulas or with their texts."""
        openpyxl: Any = import_module("openpyxl")
        with _damaged_workbooks():
            return openpyxl.load_workbook(
                io.BytesIO(self._content), read_only=True, data_only=values, keep_links=False
            )


def _is_filled(cells: Iterable[Any]) -> bool:
    return any(cell not in {None, ""} for cell in cells)


def _rows(sheets: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the cells of each row of a sheet, which may come a second time with its formulas."""
    rows = (sheet.iter_rows(max_col=MAX_HEADINGS + 1) for sheet in sheets)
    for values, *formulas in zip(*rows, strict=True):
        cells = [_cell_value(cell) for cell in values]
        for row in formulas:
            cells = [*map(_without_result, cells, row)]
        if cells[MAX_HEADINGS] is not None:
            require_few(len(cells))
        yield cells


@contextmanager
def _damaged_workbooks() -> Iterator[None]:
    """Translate errors of the library that reads workbooks."""
    try:
        yield
    except (MemoryError, Invalid):
        raise
    except Exception as error:
        # The reader raises whatever a damaged file leads to, from KeyError to errors of XML.
        raise _no_workbook(error) from error


def _has_formulas(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    before = b""
    with archive.open(part) as file:
        while piece := file.read(_PIECE):
            if _FORMULA.search(before + piece):
                return True
            before = piece[-_FORMULA_BYTES:]
    return False


def _has_cells(sheet: Any) -> bool:
    return any(cell.value is not None for row in sheet.iter_rows() for cell in row)


def _without_result(value: Any, cell: Any) -> Any:
    """Return a cell's value, or that it is a formula whose result is not in the file."""
    if value is None and cell.data_type == "f":
        return Invalid(
            "it is a formula, and the file has no result of it",
            remedy="open the workbook in a spreadsheet and save it again, or save it as CSV",
        )
    return value


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
        code = _format_currency(cell.number_format or "")
        # More than three decimals, so that the point is no mark of thousands.
        text = f"{value:.6f}" if isinstance(value, float) else str(value)
        return f"{code} {text}" if code else value
    return value if value is None else str(value)


def _format_currency(number_format: str) -> str:
    """Return the currency that the format of a number shows; empty for none."""
    for shown in _FORMAT_CODES.finditer(number_format):
        text = (shown[1] or shown[2] or shown[0]).strip()
        if text.casefold() in SYMBOLS or text in CURRENCIES:
            return text
    return ""

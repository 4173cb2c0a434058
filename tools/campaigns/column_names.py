"""Names of the columns of a table: the row that has them, and remarks about what it leaves without one."""

from collections.abc import Sequence
from typing import Any, Final

from callsheet.state.campaigns.headings import MAX_HEADINGS, count_fields
from callsheet.state.errors import Invalid

LEADING: Final = 30
"""Lines among which the names of the columns stand."""
MAX_NAMED: Final = 20
"""Most names in a remark."""


def rank_names(cells: Sequence[Any], number: int) -> tuple[int, ...]:
    """Return the rank of a row as names of columns: by the fields it names, and without any by its cells."""
    count = count_fields(cells)
    return count, 0 if count else len(cells), -number


class ColumnNames:
    """The names of a table's columns, with remarks about what is not read."""

    def __init__(self, cells: Sequence[Any], notes: tuple[str, ...] = ()) -> None:
        self._names = [_unique(name, at, cells) for at, name in enumerate(cells)]
        self._named = [(name, at) for at, name in enumerate(self._names) if name]
        self._end = max((at + 1 for _, at in self._named), default=0)
        self._notes = dict.fromkeys(notes)
        self.count = len(cells)
        require_few(len(self._named))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the remarks."""
        return tuple(self._notes)

    def headings(self) -> list[str]:
        """Return the names from left to right; one that stands before has the number of its column."""
        return [name for name, _ in self._named]

    def note(self, text: str) -> None:
        """Add a remark once."""
        self._notes[text] = None

    def note_line(self, line: int) -> None:
        """Note that lines above that of the names have cells."""
        self.note(f"the names of the columns are in line {line}; the lines above it are not read")

    def row(self, cells: Sequence[Any], empty: Any) -> dict[str, Any]:
        """Return cells by name, and note one in a column without a name."""
        # Most sheets are padded with hundreds of empty cells.
        if self._end < self.count and not {*cells[self._end :]} <= {None, ""}:
            self._note_nameless(cells, self._end)
        if len(self._named) < self._end:
            self._note_nameless(cells[: self._end], 0)
        count = len(cells)
        return {name: cells[at] if at < count else empty for name, at in self._named}

    def _note_nameless(self, cells: Sequence[Any], start: int) -> None:
        for at in range(start, len(cells)):
            if not self._names[at] and cells[at] is not None and str(cells[at]).strip():
                self.note(f"column {at + 1} has cells and no name, so it is not read")


def _unique(name: Any, at: int, cells: Sequence[Any]) -> str:
    """Return the name of a column, with its number if another one before it has that name."""
    text = _heading(name)
    return f"{text} (column {at + 1})" if text and text in map(_heading, cells[:at]) else text


def _heading(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def require_few(count: int) -> None:
    """Refuse a file with more columns than are read."""
    if count > MAX_HEADINGS:
        raise Invalid(
            f"the file has more than {MAX_HEADINGS} columns",
            remedy="leave out columns that are no field of a campaign",
        )

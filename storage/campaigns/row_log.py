"""The rows of one library in SQLite, and how far its index has come: what the index's other files follow.

Processes that share a data folder write in turns; a transaction that a crash cut short leaves nothing.
"""

import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from callsheet.state.errors import Unavailable
from callsheet.storage.campaigns.rows import Row

_WAIT_S: Final = 60.0
"""Longest wait for another process that writes."""
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, id TEXT NOT NULL, channel INTEGER,
    company, brand, product, value_props INTEGER, sentiment INTEGER, visual_style INTEGER, has_offer INTEGER,
    day INTEGER, spend REAL, volume INTEGER)""",
)
_INSERT: Final = "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETION: Final = (None,) * 11
"""Values of a row that says its campaign was deleted."""


class Progress(NamedTuple):
    """Extent of an index."""

    seq: int = 0
    """Number of the last change of the library that is indexed."""
    mark: int = 0
    """Random mark of that change in the library."""
    rows: int = 0
    """Rows, dead ones included."""
    vector_rows: int = 0
    """Rows that have vectors; all below this number."""
    dimensions: int = 0
    """Length of a vector; 0 before the first."""


class RowLog:
    """An append-only list of rows. Without a file it is in memory."""

    def __init__(self, file: Path | None = None, *, wait_s: float = _WAIT_S) -> None:
        # One thread at a time uses it: the index holds a lock.
        connection = sqlite3.connect(
            file or ":memory:", timeout=wait_s, isolation_level=None, check_same_thread=False
        )
        self._connection = connection
        self._wait_s = wait_s
        weakref.finalize(self, connection.close)
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in _SCHEMA:
            connection.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[Progress]:
        """Write alone: yield the progress so far, and commit at the end."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            rule = f"another process has written the index of campaigns for {self._wait_s:g} s: {error}"
            raise Unavailable(rule, remedy="Try again; end a process that hangs.") from error
        try:
            yield self.progress()
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def progress(self) -> Progress:
        """Return how much is stored."""
        return Progress(**dict(self._connection.execute("SELECT name, value FROM state").fetchall()))

    def set_progress(self, progress: Progress) -> None:
        """Store the progress, inside a transaction."""
        self._connection.executemany(
            "INSERT INTO state VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            list(progress._asdict().items()),
        )

    def append(self, first: int, rows: Sequence[Row], deleted: Sequence[str]) -> None:
        """Append rows, and then a row for each deletion, inside a transaction."""
        values: list[tuple[object, ...]] = [(first + i, *row) for i, row in enumerate(rows)]
        values += [(first + len(rows) + i, each, *_DELETION) for i, each in enumerate(deleted)]
        self._connection.executemany(_INSERT, values)

    def read(self, first: int, end: int) -> list[tuple[str, Row | None]]:
        """Return id and row of each number from `first` to before `end`; None for a deletion."""
        query = "SELECT * FROM rows WHERE number >= ? AND number < ? ORDER BY number"
        return [
            (values[1], None if values[2] is None else Row(*values[1:]))
            for values in self._connection.execute(query, (first, end))
        ]

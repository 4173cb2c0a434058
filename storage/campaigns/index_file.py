"""The index of one library in one SQLite file: words, conditions and vectors, which change together.

Processes that share a data folder share the file: they write in turns, a search reads what was committed, and
a transaction that a crash cut short leaves nothing. Every method blocks; call it in a thread.
"""

import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField
from callsheet.state.campaigns.filters import Filters, Values
from callsheet.state.errors import Invalid
from callsheet.storage.campaigns.index import Group, GroupBy, SortBy, TextField, sort_groups
from callsheet.storage.campaigns.index_place import (
    claim_file,
    clear,
    connect,
    is_damage,
    transaction,
    unavailable,
)
from callsheet.storage.campaigns.records import Changes
from callsheet.storage.campaigns.vectors import (
    CANDIDATES,
    FIELDS,
    PRODUCT_WEIGHT,
    RELEVANT_SHARE,
    TYPE,
    Aim,
    Matrix,
    feedback,
    group_scores,
)
from callsheet.storage.campaigns.words import Query, copy_text, normalize, product_names

_log = logging.getLogger(__name__)

_WAIT_S: Final = 60.0
"""Longest wait for another process that writes."""
RANKED: Final = 10_000
"""Matches of a full-text search that are ranked, those indexed last; the total counts all."""
_GATHER: Final = 8
"""A selection of less than one row in so many is copied out; a larger one costs more than all products."""
_MARK: Final = "\n"
"""Stands around each value of a list in a column."""
_READ_AT_ONCE: Final = 4_096
_INSERT: Final = f"INSERT INTO campaigns VALUES (?{', ?' * 14})"
_ORDER: Final[Mapping[SortBy, str]] = {
    "newest": "day DESC, id",
    "oldest": "day, id",
    "company": "company_key, id",
    "spend": "spend DESC NULLS LAST, id",
    "volume": "volume DESC NULLS LAST, id",
}


class Damaged(Exception):
    """The file cannot be read; it is left, and built again under another name."""


class Outdated(Exception):
    """The index was closed, or has another generation of the library by now."""


class Progress(NamedTuple):
    """Extent of an index."""

    generation: str = ""
    """Generation of the library."""
    seq: int = 0
    """Number of the last change of the library that is indexed."""
    mark: int = 0
    """Random mark of that change in the library."""


class Ranked(NamedTuple):
    """Campaigns of a result, best first."""

    ids: list[str]
    scores: list[float]
    total: int


class Unembedded(NamedTuple):
    """Campaigns that have no vectors, by number: all of them have numbers after `after`."""

    generation: str
    after: int
    ids: Mapping[int, str]


class IndexFile:
    """An index in a file in `folder`; without one, in memory.

    The file is in use until the index is closed. Files in the folder that nobody uses are removed: they are
    damaged, or of other releases.
    """

    def __init__(self, folder: Path | None = None, *, wait_s: float = _WAIT_S) -> None:
        self.folder: Final = folder
        self.progress = Progress()
        self._wait_s = wait_s
        self._is_open = True
        self._matrices: dict[EmbeddingField, _Matrix] = {}
        self._file = claim_file(folder, wait_s) if folder else None
        self._writer = connect(self._file.path if self._file else ":memory:", wait_s)
        self._writing = Lock()
        # A search goes on beside an import, if they have a connection each.
        self._reader = connect(self._file.path, wait_s) if self._file else self._writer
        self._reading = Lock() if self._file else self._writing
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file, after the search that still reads it. Safe to call twice."""
        with self._writing:
            self._is_open = False
            self._writer.close()
        with self._reading:
            self._reader.close()
            self._matrices.clear()
        if self._file:
            self._file.release()

    def refresh(self) -> None:
        """Read how far other processes have come."""
        with self._read(any_generation=True) as connection:
            self.progress = _progress(connection)

    def apply(self, after: Progress, changes: Changes) -> None:
        """Index the changes after `after`, unless another process has done it."""
        with self._write() as connection:
            if _progress(connection) == after:
                if after.generation != changes.head.generation:
                    clear(connection)
                _write(connection, changes)
        self.refresh()

    def without_vectors(self, model: str, most: int) -> Unembedded:
        """Return the next campaigns without vectors of the model."""
        with self._read() as connection:
            state = _state(connection)
            after = state.get("vectored", 0) if state.get("model") == model else 0
            query = "SELECT number, id FROM campaigns WHERE number > ? ORDER BY number LIMIT ?"
            ids = dict(connection.execute(query, (after, most)).fetchall())
            return Unembedded(self.progress.generation, after, ids)

    def add_vectors(self, model: str, batch: Unembedded, vectors: Mapping[str, Matrix]) -> None:
        """Add the vectors of a batch, unless another process has done it; those of other models go.

        Each campaign has a matrix with a vector for each embedding field.
        """
        with self._write() as connection:
            state = _state(connection)
            if state.get("model") != model:
                connection.execute("DELETE FROM vectors")
                state = {"model": model, "vectored": 0, "dimensions": 0}
            if (_progress(connection).generation, state["vectored"]) == (batch.generation, batch.after):
                _write_vectors(connection, state, batch, vectors)

    def filter(self, filters: Filters, sort: SortBy, offset: int, limit: int) -> Ranked:
        """Return the campaigns that meet all conditions."""
        where, values = _conditions(filters)
        with self._read() as connection:
            total = connection.execute(f"SELECT count(*) FROM campaigns WHERE {where}", values).fetchone()[0]
            page = f"SELECT id FROM campaigns WHERE {where} ORDER BY {_ORDER[sort]} LIMIT ? OFFSET ?"
            ids = [each for (each,) in connection.execute(page, (*values, limit, offset))]
        return Ranked(ids, [0.0] * len(ids), total)

    def full_text(self, query: Query, field: TextField, filters: Filters, limit: int) -> Ranked:
        """Return the campaigns whose copy or offer has all phrases."""
        if not query.phrases or not limit:
            return Ranked([], [], 0)
        where, values = _conditions(filters)
        # With a plus, since it would look up the words of each number otherwise.
        chosen = f" AND +words.rowid IN (SELECT number FROM campaigns WHERE {where})" if values else ""
        matching = f"FROM words WHERE words MATCH ?{chosen}"
        best = (
            f"SELECT words.rowid AS row, -bm25(words) AS score {matching} ORDER BY words.rowid DESC LIMIT ?"
        )
        page = "SELECT id, score FROM best JOIN campaigns ON number = row ORDER BY score DESC, id LIMIT ?"
        query_values = (_match(query, field), *values)
        with self._read() as connection:
            ranked = f"WITH best AS MATERIALIZED ({best}) SELECT *, (SELECT count(*) FROM best) FROM ({page})"
            most = max(limit, RANKED)
            rows = connection.execute(ranked, (*query_values, most, limit)).fetchall()
            total = rows[0][2] if rows else 0
            if total == most:
                total = connection.execute(f"SELECT count(*) {matching}", query_values).fetchone()[0]
        return Ranked([row[0] for row in rows], [row[1] for row in rows], total)

    def nearest(
        self, model: str, query: Matrix, filters: Filters, field: EmbeddingField, limit: int, aim: Aim
    ) -> Ranked | None:
        """Return the campaigns with the highest cosines, as far as these say anything.

        None if the vectors are of another model.
        """
        with self._read() as connection:
            state = _state(connection)
            if state.get("model") != model:
                return None
            if not state["dimensions"]:
                return Ranked([], [], 0)
            _check_dimensions(len(query), state["dimensions"])
            matrix = self._matrices.setdefault(field, _Matrix(field))
            matrix.follow(connection, state)
            rows = matrix.rows(connection, filters)
            scores = matrix.scores(query, rows)
            if max(scores.max(initial=0), aim.floor and (matrix.vectors @ query).max(initial=0)) < aim.floor:
                return Ranked([], [], 0)
            raised = scores + matrix.raises(connection, rows, aim, query)
            relevant = (scores > 0) & (raised >= RELEVANT_SHARE * raised.max(initial=0))
            rows, scores, raised = rows[relevant], scores[relevant], raised[relevant]
            if (most := max(limit, CANDIDATES)) < len(rows):
                best = np.argpartition(-raised, most)[:most]
                rows, scores, raised = rows[best], scores[best], raised[best]
            weighed = feedback(scores, matrix.vectors[rows]) + raised - scores
            weighed = (weighed / np.float32(1 + PRODUCT_WEIGHT * aim.margin)).tolist()
            ids = _ids(connection, matrix.numbers[rows].tolist())
        ranked = sorted(zip([-score for score in weighed], ids, strict=True))[:limit]
        return Ranked([each for _, each in ranked], [-score for score, _ in ranked], len(ranked))

    def group(self, filters: Filters, by: GroupBy) -> tuple[Group, ...]:
        """Return counts by value."""
        where, values = _conditions(filters)
        column = {"value_prop": "value_props", "month": "day"}.get(by, by)
        sums = "count(*), coalesce(sum(spend), 0), coalesce(sum(volume), 0)"
        with self._read() as connection:
            # With a plus, since the order of an index costs more than sorting.
            grouped = column if by == "company" and not values else f"+{column}"
            query = f"SELECT {column}, {sums} FROM campaigns WHERE {where} GROUP BY {grouped}"
            rows = connection.execute(query, values).fetchall()
        return sort_groups(_groups_of(rows, by), by)

    def newest(self) -> date | None:
        """Return the newest capture date."""
        with self._read() as connection:
            day = connection.execute("SELECT max(day) FROM campaigns").fetchone()[0]
        return date.fromordinal(day) if day else None

    def changed_at(self) -> datetime | None:
        """Return when the last change was written here."""
        with self._read() as connection:
            seconds = _state(connection).get("changed_at")
        return datetime.fromtimestamp(seconds, UTC) if seconds else None

    def count(self) -> int:
        """Return the number of campaigns."""
        with self._read() as connection:
            return int(connection.execute("SELECT count(*) FROM campaigns").fetchone()[0])

    @contextmanager
    def _read(self, *, any_generation: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state of the file.

        Raises `Outdated` if that is of another generation than this index has followed.
        """
        with self._reading, self._usable(), transaction(self._reader, "BEGIN"):
            generation = _progress(self._reader).generation
            if generation != self.progress.generation:
                self._matrices.clear()
                if not any_generation:
                    raise Outdated
            yield self._reader

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that writes alone, and commit at the end."""
        with self._writing, self._usable(), transaction(self._writer, "BEGIN IMMEDIATE"):
            yield self._writer

    @contextmanager
    def _usable(self) -> Iterator[None]:
        if not self._is_open:
            raise Outdated
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            raise self._error_for(error) from error

    def _error_for(self, error: sqlite3.Error) -> Exception:
        """Return the error to raise; a damaged file is not opened again."""
        if not self._file or not is_damage(error):
            return unavailable(error, self._wait_s)
        self._file.mark_damaged()
        return Damaged(f"{str(self._file.path)!r} cannot be read: {error}")


class _Matrix:
    """The vectors of one field in memory, in the order of their campaigns' numbers."""

    def __init__(self, field: EmbeddingField) -> None:
        self._field = field
        self._state: Mapping[str, Any] = {}
        self.numbers: NDArray[np.int64] = np.empty(0, "int64")
        self.vectors: Matrix = np.empty((0, 0), "float32")

    def follow(self, connection: sqlite3.Connection, state: Mapping[str, Any]) -> None:
        """Add the vectors that are new in the file, and leave out those of deleted campaigns."""
        if state == self._state:
            return
        if state["model"] != self._state.get("model") or not len(self.numbers):
            self.numbers = np.empty(0, "int64")
            self.vectors = np.empty((0, state["dimensions"]), "float32")
        last = int(self.numbers[-1]) if len(self.numbers) else 0
        present = np.isin(self.numbers, _numbers(connection, "number <= ?", (last,)))
        rows = connection.execute(
            "SELECT number, vector FROM vectors WHERE field = ? AND number > ? ORDER BY number",
            (self._field, last),
        )
        numbers, vectors = [self.numbers[present]], [self.vectors[present]]
        while portion := rows.fetchmany(_READ_AT_ONCE):
            numbers.append(np.array([number for number, _ in portion], "int64"))
            packed = np.frombuffer(b"".join(vector for _, vector in portion), TYPE)
            vectors.append(packed.reshape(len(portion), -1).astype("float32"))
        self.numbers, self.vectors = np.concatenate(numbers), np.concatenate(vectors)
        self._state = state

    def rows(self, connection: sqlite3.Connection, filters: Filters) -> NDArray[Any]:
        """Return the rows whose campaigns meet all conditions."""
        where, values = _conditions(filters)
        if not values:
            return np.arange(len(self.numbers))
        return np.flatnonzero(np.isin(self.numbers, _numbers(connection, where, values)))

    def raises(self, connection: sqlite3.Connection, rows: NDArray[Any], aim: Aim, query: Matrix) -> Matrix:
        """Return what is added to the scores of `rows`: more for the product and the value that are meant."""
        raises = np.zeros(len(rows), "float32")
        if aim.product:
            of_product = _numbers(connection, "product_key = ?", (_storable(aim.product.casefold()),))
            raises += np.isin(self.numbers[rows], of_product) * np.float32(PRODUCT_WEIGHT * aim.margin)
        if aim.floor:
            raises += group_scores(self._value_groups(connection), self.vectors, query)[rows]
        return raises

    def _value_groups(self, connection: sqlite3.Connection) -> list[NDArray[Any]]:
        """Return the rows of each value proposition."""
        groups: dict[str, list[int]] = {}
        for number, props in connection.execute("SELECT number, value_props FROM campaigns ORDER BY number"):
            for prop in filter(None, props.split(_MARK)):
                groups.setdefault(prop, []).append(number)
        return [np.flatnonzero(np.isin(self.numbers, numbers)) for numbers in groups.values()]

    def scores(self, query: Matrix, rows: NDArray[Any]) -> Matrix:
        """Return the cosine of `query` with each of `rows`."""
        if len(rows) * _GATHER < len(self.numbers):
            chosen: Matrix = self.vectors[rows] @ query
            return chosen
        scores: Matrix = (self.vectors @ query)[rows]
        return scores


def _state(connection: sqlite3.Connection) -> dict[str, Any]:
    return dict(connection.execute("SELECT name, value FROM state").fetchall())


def _set_state(connection: sqlite3.Connection, state: Mapping[str, Any]) -> None:
    query = "INSERT INTO state VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    connection.executemany(query, list(state.items()))


def _progress(connection: sqlite3.Connection) -> Progress:
    state = _state(connection)
    return Progress(**{name: state[name] for name in Progress._fields if name in state})


def _write(connection: sqlite3.Connection, changes: Changes) -> None:
    """Put changed campaigns in the place of their former rows, and delete those of deleted ones."""
    head, campaigns, deleted = changes
    for each in (*(campaign.id for campaign in campaigns), *deleted):
        _delete(connection, each)
    used = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'campaigns'").fetchone()
    numbered = list(enumerate(campaigns, used[0] + 1 if used else 1))
    connection.executemany(_INSERT, [(number, *_row(campaign)) for number, campaign in numbered])
    connection.executemany(
        "INSERT INTO words (rowid, copy, offer) VALUES (?, ?, ?)",
        [(number, normalize(copy_text(each)), normalize(each.offer)) for number, each in numbered],
    )
    progress = Progress(head.generation, head.seq, head.mark)._asdict()
    _set_state(connection, {**progress, "changed_at": datetime.now(UTC).timestamp()})


def _delete(connection: sqlite3.Connection, campaign_id: str) -> None:
    row = connection.execute("SELECT number FROM campaigns WHERE id = ?", (campaign_id,)).fetchone()
    if row:
        connection.execute("DELETE FROM words WHERE rowid = ?", row)
        for field in FIELDS:
            connection.execute("DELETE FROM vectors WHERE field = ? AND number = ?", (field, *row))
        connection.execute("DELETE FROM campaigns WHERE number = ?", row)


def _row(campaign: Campaign) -> tuple[object, ...]:
    """Return the values of a campaign after its number."""
    props = "".join(f"{_MARK}{each}{_MARK}" for each in campaign.key_value_props)
    return (
        campaign.id,
        campaign.channel,
        campaign.company,
        campaign.company.casefold(),
        campaign.brand.casefold(),
        campaign.primary_product,
        campaign.primary_product.casefold(),
        props,
        campaign.imagery_sentiment or "",
        campaign.imagery_visual_style or "",
        bool(campaign.offer.strip()),
        campaign.capture_date.toordinal(),
        campaign.spend,
        campaign.volume,
    )


def _write_vectors(
    connection: sqlite3.Connection,
    state: Mapping[str, Any],
    batch: Unembedded,
    vectors: Mapping[str, Matrix],
) -> None:
    last = max(batch.ids)
    # Campaigns deleted meanwhile have no row any more.
    numbers = _numbers(connection, "number > ? AND number <= ?", (batch.after, last)).tolist()
    rows = [
        (field, number, vector.astype(TYPE).tobytes())
        for number in numbers
        if (matrix := vectors.get(batch.ids.get(number, ""))) is not None
        for field, vector in zip(FIELDS, matrix, strict=True)
    ]
    dimensions = max((matrix.shape[1] for matrix in vectors.values()), default=state["dimensions"])
    _check_dimensions(dimensions, state["dimensions"])
    connection.executemany("INSERT INTO vectors VALUES (?, ?, ?)", rows)
    _set_state(connection, {"model": state["model"], "vectored": last, "dimensions": dimensions})


def _check_dimensions(given: int, stored: int) -> None:
    if stored and given != stored:
        rule = f"the embeddings have {given} numbers, and those in the index have {stored}"
        raise Invalid(rule, remedy="Give a changed model another name in CALLSHEET_EMBEDDINGS_MODEL.")


def _conditions(filters: Filters) -> tuple[str, tuple[object, ...]]:
    """Return the condition of all filters in SQL, and its values; none for no filter."""
    parts = [*_matching(filters), *((f"NOT {text}", values) for text, values in _matching(filters.exclude))]
    if filters.has_offer is not None:
        parts.append(("has_offer = ?", [filters.has_offer]))
    days = filters.date_range
    # Not by the index, which costs more than reading all rows where the days are many: hence the plus.
    if days and days.start:
        parts.append(("+day >= ?", [days.start.toordinal()]))
    if days and days.end:
        parts.append(("+day <= ?", [days.end.toordinal()]))
    condition = " AND ".join(text for text, _ in parts) or "1"
    return condition, tuple(_storable(value) for _, values in parts for value in values)


def _matching(chosen: Values) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield, for each dimension that has values, the condition that a campaign has any of them."""
    for column in ("channel", "sentiment", "visual_style"):
        if values := getattr(chosen, column):
            yield f"({_any_of(column, values)})", values
    if chosen.value_prop:
        marked = [f"{_MARK}{each}{_MARK}" for each in chosen.value_prop]
        yield f"({' OR '.join(['instr(value_props, ?)'] * len(marked))})", marked
    if chosen.company:
        names = _names(chosen.company)
        yield f"({_any_of('company_key', names)} OR {_any_of('brand_key', names)})", [*names, *names]
    if chosen.product:
        names = _names(product_names(chosen.product))
        yield f"({_any_of('product_key', names)})", names


def _any_of(column: str, values: Sequence[object]) -> str:
    return f"{column} IN ({', '.join('?' * len(values))})"


def _names(names: Sequence[str]) -> list[str]:
    """Return names as they are compared; a name of spaces is not the name of what has none."""
    return [name.strip().casefold() for name in names if name.strip()] or [_MARK]


def _storable(value: object) -> object:
    """Return text without half characters, which are not stored."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _match(query: Query, field: TextField) -> str:
    """Return a query of FTS5; its words have letters and digits only."""
    phrases = " AND ".join(f'"{" ".join(phrase)}"' for phrase in query.phrases)
    return f"{field} : ({phrases})"


def _numbers(connection: sqlite3.Connection, where: str, values: Sequence[object]) -> NDArray[np.int64]:
    rows = connection.execute(f"SELECT number FROM campaigns WHERE {where} ORDER BY number", values)
    return np.array([number for (number,) in rows.fetchall()], "int64")


def _ids(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[str]:
    marks = ", ".join("?" * len(numbers))
    rows = connection.execute(f"SELECT number, id FROM campaigns WHERE number IN ({marks})", numbers)
    by_number = dict(rows.fetchall())
    return [by_number[number] for number in numbers]


def _groups_of(rows: Sequence[tuple[Any, int, float, int]], by: GroupBy) -> list[Group]:
    """Return a group for each value of a dimension, of rows that may have several values or a part of one."""
    sums: dict[str, tuple[int, float, int]] = {}
    for stored, campaigns, spend, volume in rows:
        for value in _group_values(stored, by):
            before = sums.get(value, (0, 0.0, 0))
            sums[value] = (before[0] + campaigns, before[1] + spend, before[2] + volume)
    return [Group(value, number, round(spend, 2), volume) for value, (number, spend, volume) in sums.items()]


def _group_values(stored: Any, by: GroupBy) -> list[str]:
    if by == "month":
        return [date.fromordinal(stored).isoformat()[:7]]
    return (
        [value for value in stored.split(_MARK) if value] if by == "value_prop" else [stored] * bool(stored)
    )

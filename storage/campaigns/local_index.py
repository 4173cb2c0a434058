"""The index of one library on this machine: columns, words and vectors that change together.

Every method blocks; call it in a thread. Searches and changes of one index take turns.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from callsheet.state.campaigns.campaign import EmbeddingField
from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import Invalid
from callsheet.storage.campaigns.columns import Columns
from callsheet.storage.campaigns.index import Group, GroupBy, SortBy
from callsheet.storage.campaigns.records import Changes
from callsheet.storage.campaigns.row_log import Progress, RowLog
from callsheet.storage.campaigns.rows import row_of
from callsheet.storage.campaigns.text_index import TextIndex
from callsheet.storage.campaigns.vectors import CANDIDATES, RELEVANT_SHARE, Matrix, Vectors, feedback
from callsheet.storage.campaigns.words import Query


class Damaged(Exception):
    """The files of an index cannot be read; delete them and build the index again."""


class Ranked(NamedTuple):
    """Campaigns of a result, best first."""

    ids: list[str]
    scores: list[float]
    total: int


class LocalIndex:
    """An index in `folder`, which other processes may use and change, too; without one, in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = Lock()
        self._vectors: Vectors | None = None
        self._columns = Columns()
        self.progress = Progress()
        try:
            self._log = RowLog(folder / "rows.sqlite" if folder else None)
            self._text = TextIndex(folder / "words" if folder else None)
            self._load()
        # tantivy raises ValueError for files it cannot read.
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            raise Damaged(f"the index in {str(folder)!r} cannot be read: {error}") from error

    def apply(self, after: int, changes: Changes) -> None:
        """Index the changes after number `after`, unless another process has done it."""
        with self._lock, self._log.transaction() as progress:
            if progress.seq == after:
                self._load()
                self._write(progress, changes)
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes wrote."""
        with self._lock:
            self._load()

    def rows_without_vectors(self, most: int) -> tuple[int, list[str | None]]:
        """Return the first row without vectors, and the ids of `most` rows from there; None if dead."""
        with self._lock:
            first = self.progress.vector_rows
            rows = range(first, min(first + most, self.progress.rows))
            alive = self._columns["alive"]
            return first, [self._columns.ids[row] if alive[row] else None for row in rows]

    def add_vectors(self, first: int, ids: Sequence[str | None], vectors: Mapping[str, Matrix]) -> None:
        """Add the vectors of the rows from `first` on, by id, unless another process has done it.

        Each campaign has a matrix with a vector for each embedding field; a row without one is dead.
        """
        with self._lock, self._log.transaction() as progress:
            if progress.vector_rows == first:
                rows = progress.vector_rows + len(ids)
                dimensions = self._write_vectors(progress, ids, vectors)
                self._log.set_progress(progress._replace(vector_rows=rows, dimensions=dimensions))
        self.refresh()

    def filter(self, filters: Filters, sort: SortBy, offset: int, limit: int) -> Ranked:
        """Return the campaigns that meet all conditions."""
        with self._lock:
            mask = self._columns.mask(filters)
            ids = [self._columns.ids[row] for row in self._columns.page(mask, sort, offset, limit)]
            return Ranked(ids, [0.0] * len(ids), int(mask.sum()))

    def full_text(self, query: Query, filters: Filters, limit: int) -> Ranked:
        """Return the campaigns whose copy has all phrases."""
        with self._lock:
            hits, total = self._text.search(query, filters, limit)
            alive, rows = self._columns["alive"], self.progress.rows
            # Another process may have committed words whose rows are not loaded.
            best = sorted(
                (-hit.score, self._columns.ids[hit.row]) for hit in hits if hit.row < rows and alive[hit.row]
            )
            missing = len(hits) - len(best)
            return Ranked([each for _, each in best], [-score for score, _ in best], total - missing)

    def snippets(self, query: Query, texts: Sequence[str]) -> list[str]:
        """Return the words around the first match in each text."""
        with self._lock:
            return self._text.snippets(query, texts)

    def nearest(self, query: Matrix, filters: Filters, field: EmbeddingField, limit: int) -> Ranked:
        """Return the campaigns with the highest cosines, as far as these say anything."""
        with self._lock:
            if not self._vectors:
                return Ranked([], [], 0)
            _check_dimensions(len(query), self.progress.dimensions)
            size = self.progress.vector_rows
            rows = np.flatnonzero(self._columns.mask(filters)[:size])
            scores = self._vectors.scores(field, query, rows, size)
            relevant = (scores > 0) & (scores >= RELEVANT_SHARE * scores.max(initial=0))
            rows, scores = rows[relevant], scores[relevant]
            most, total = max(limit, CANDIDATES), len(rows)
            if most < total:
                best = np.argpartition(-scores, most)[:most]
                rows, scores = rows[best], scores[best]
            weighed = feedback(scores, self._vectors.take(field, rows, size)).tolist()
            ids = [self._columns.ids[row] for row in rows]
            ranked = sorted(zip([-score for score in weighed], ids, strict=True))[:limit]
            return Ranked([each for _, each in ranked], [-score for score, _ in ranked], total)

    def group(self, filters: Filters, by: GroupBy) -> tuple[Group, ...]:
        """Return counts by value."""
        with self._lock:
            return self._columns.group(self._columns.mask(filters), by)

    def newest(self) -> date | None:
        """Return the newest capture date."""
        with self._lock:
            return self._columns.newest()

    def count(self) -> int:
        """Return the number of campaigns."""
        with self._lock:
            return self._columns.count

    def _write(self, progress: Progress, changes: Changes) -> None:
        head, campaigns, deleted = changes
        ids = [*(campaign.id for campaign in campaigns), *deleted]
        dead = [row for each in ids if (row := self._columns.row(each)) is not None]
        # Words first: rows that were not committed are written again, under the same numbers.
        self._text.write(dict(enumerate(campaigns, progress.rows)), dead)
        self._log.append(progress.rows, [row_of(campaign) for campaign in campaigns], deleted)
        rows = progress.rows + len(ids)
        self._log.set_progress(progress._replace(seq=head.seq, mark=head.mark, rows=rows))

    def _write_vectors(
        self, progress: Progress, ids: Sequence[str | None], vectors: Mapping[str, Matrix]
    ) -> int:
        """Write vectors and return their length."""
        sample = next(iter(vectors.values()), None)
        dimensions = progress.dimensions if sample is None else sample.shape[1]
        _check_dimensions(dimensions, progress.dimensions)
        if dimensions:
            stored = self._vectors or Vectors(dimensions, self._folder)
            stored.write(progress.vector_rows, [vectors.get(each or "") for each in ids])
            self._vectors = stored
        return dimensions

    def _load(self) -> None:
        """Bring memory up to what is committed."""
        progress = self._log.progress()
        if progress == self.progress:
            return
        self._text.reload()
        self._columns.append(self._log.read(self.progress.rows, progress.rows))
        if progress.dimensions and not self._vectors:
            self._vectors = Vectors(progress.dimensions, self._folder)
            self._vectors.check(progress.vector_rows)
        self.progress = progress


def _check_dimensions(given: int, stored: int) -> None:
    if stored and given != stored:
        rule = f"the embeddings have {given} numbers, and those in the index have {stored}"
        raise Invalid(rule, remedy="Give a changed model another name in CALLSHEET_EMBEDDINGS_MODEL.")

"""Campaign search in this process: records elsewhere, an index here that follows them."""

import asyncio
import hashlib
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from pathlib import Path
from typing import Final

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField
from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import Unavailable
from callsheet.storage.campaigns.embeddings import Embeddings
from callsheet.storage.campaigns.folders import IndexFolder, remove_unused
from callsheet.storage.campaigns.index import CampaignMatch, Group, GroupBy, Matches, SortBy
from callsheet.storage.campaigns.local_index import Damaged, LocalIndex, Ranked
from callsheet.storage.campaigns.questions import distinctive_text
from callsheet.storage.campaigns.records import Head, Records
from callsheet.storage.campaigns.row_log import Progress
from callsheet.storage.campaigns.vector_cache import pack, unpack
from callsheet.storage.campaigns.vectors import FIELDS, Matrix, unit_vectors
from callsheet.storage.campaigns.words import copy_text, embedding_texts, parse

_EMBEDDED_AT_ONCE: Final = 500
"""Rows whose texts are embedded together."""
_EXPORTED_AT_ONCE: Final = 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Opened:
    """An index of one generation, with the embeddings of its vectors."""

    generation: str
    embeddings: Embeddings
    index: LocalIndex


class EmbeddedIndex:
    """A `CampaignIndex` whose records are `records`; the index is in `folder`, or in memory without one."""

    def __init__(
        self, records: Records, embeddings: Embeddings, folder: Path | None = None, *, most: int = 0
    ) -> None:
        self._records = records
        self._embeddings = embeddings
        self._folder = folder
        self._most = most
        self._opened: _Opened | None = None
        self._place: IndexFolder | None = None
        self._changing = asyncio.Lock()

    async def put(self, campaigns: Sequence[Campaign]) -> int:
        """Add or replace campaigns by id; return how many were new."""
        new = await self._records.put(campaigns, self._most)
        opened = await self._current()
        try:
            await self._add_vectors(opened)
        except Unavailable as error:
            _log.warning("Campaigns are stored without embeddings, which a search will add: %s", error)
        return new

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete campaigns; return how many there were."""
        return await self._records.delete(ids)

    async def delete_all(self) -> None:
        """Delete all campaigns and the index. Twice is safe."""
        async with self._changing:
            await self._records.delete_all()
            self.close()
            if self._folder:
                await asyncio.to_thread(remove_unused, self._folder)

    def close(self) -> None:
        """Close the files, unless a search still uses them, and leave the folder. Safe to call twice."""
        if self._place:
            self._place.close()
        self._opened = self._place = None

    async def has_campaigns(self) -> bool:
        """Return whether there is any campaign, without reading the index."""
        return await self._records.count() > 0

    async def get(self, ids: Sequence[str]) -> list[Campaign]:
        """Return the campaigns with these ids, in this order; unknown ids are left out."""
        return [campaign for campaign in await self._records.get(ids) if campaign]

    async def filter(
        self, filters: Filters, *, sort: SortBy = "newest", offset: int = 0, limit: int = 50
    ) -> Matches:
        """Return the campaigns that meet all conditions."""
        index = (await self._current()).index
        ranked = await asyncio.to_thread(index.filter, filters, sort, offset, limit)
        return await self._matches(ranked)

    async def export(self, filters: Filters) -> AsyncIterator[list[Campaign]]:
        """Yield all campaigns that meet all conditions, newest first, some at a time."""
        index = (await self._current()).index
        ids = (await asyncio.to_thread(index.filter, filters, "newest", 0, sys.maxsize)).ids
        for start in range(0, len(ids), _EXPORTED_AT_ONCE):
            yield await self.get(ids[start : start + _EXPORTED_AT_ONCE])

    async def full_text(self, query: str, filters: Filters, *, limit: int = 50) -> Matches:
        """Return campaigns whose copy has the words; quoted words are a phrase."""
        parsed = parse(query)
        index = (await self._current()).index
        ranked = await asyncio.to_thread(index.full_text, parsed, filters, limit)
        matches, total = await self._matches(ranked)
        texts = [copy_text(match.campaign) for match in matches]
        snippets = await asyncio.to_thread(index.snippets, parsed, texts)
        cited = (match._replace(snippet=snippet) for match, snippet in zip(matches, snippets, strict=True))
        return Matches(tuple(cited), total)

    async def similar(
        self, query: str, filters: Filters, *, field: EmbeddingField = "value_prop", limit: int = 20
    ) -> Matches:
        """Return the campaigns nearest in meaning."""
        opened = await self._current()
        index = opened.index
        if not query.strip() or not index.count():
            return Matches((), 0)
        await self._add_vectors(opened)
        vector = (await unit_vectors(opened.embeddings, [distinctive_text(query, filters)]))[0]
        ranked = await asyncio.to_thread(index.nearest, vector, filters, field, limit)
        return await self._matches(ranked)

    async def group(self, filters: Filters, by: GroupBy) -> tuple[Group, ...]:
        """Return counts by value, largest first; months in order."""
        index = (await self._current()).index
        return await asyncio.to_thread(index.group, filters, by)

    async def newest(self) -> date | None:
        """Return the newest `capture_date`; None for an empty library."""
        return (await self._current()).index.newest()

    async def count(self) -> int:
        """Return the number of campaigns."""
        return (await self._current()).index.count()

    async def _matches(self, ranked: Ranked) -> Matches:
        """Return the records of a result; a campaign deleted meanwhile is left out."""
        campaigns = await self._records.get(ranked.ids)
        pairs = zip(campaigns, ranked.scores, strict=True)
        return Matches(
            tuple(CampaignMatch(campaign, score) for campaign, score in pairs if campaign), ranked.total
        )

    async def _current(self) -> _Opened:
        """Return the index with every change that was stored before this call."""
        # Read before the library is, which then is at least as far, if its history is the same.
        progress = self._opened.index.progress if self._opened else Progress()
        head = await self._records.head(progress.seq)
        if (opened := self._reusable(head)) and (head.seq, head.mark) == (progress.seq, progress.mark):
            return opened
        async with self._changing:
            return await self._follow(head)

    async def _follow(self, head: Head) -> _Opened:
        """Apply changes until the index has those of `head`, in a new index for a new generation."""
        while True:
            opened = self._reusable(head)
            if not opened:
                opened = await asyncio.to_thread(self._open, head)
                self._opened = opened
            await asyncio.to_thread(opened.index.refresh)
            progress = opened.index.progress
            changes = await self._records.changes(progress.seq, progress.mark)
            if changes.head.generation != head.generation:
                head = await self._records.head()
            elif changes.head.seq < progress.seq:
                _log.warning("Campaigns are indexed again: Redis has another history than the index")
                await self._records.begin_generation(head.generation)
                head = await self._records.head()
            elif changes.head.seq == progress.seq:
                return opened
            else:
                await asyncio.to_thread(opened.index.apply, progress.seq, changes)
                if opened.index.progress.seq >= head.seq:
                    return opened

    def _reusable(self, head: Head) -> _Opened | None:
        """Return the opened index if it is of this generation, and its model suits the size."""
        opened, suited = self._opened, self._embeddings.suited_to(head.campaigns)
        if opened and opened.generation == head.generation and opened.embeddings is suited:
            return opened
        return None

    def _open(self, head: Head) -> _Opened:
        embeddings = self._embeddings.suited_to(head.campaigns)
        return _Opened(head.generation, embeddings, self._open_files(head.generation, embeddings.model))

    def _open_files(self, generation: str, model: str) -> LocalIndex:
        if not self._folder or not generation:
            return LocalIndex()
        name = hashlib.sha256(f"{generation} {model}".encode()).hexdigest()[:32]
        for attempt in count():
            # Another process may go on with a damaged index, so the new one has another name.
            place = IndexFolder(self._folder, f"{name}-{attempt}")
            try:
                index = LocalIndex(place.path)
            except Damaged as error:
                _log.warning("An index of campaigns is built again: %s", error)
                # Lets the next one remove it, unless another process uses it.
                place.close()
            else:
                self._place = place
                return index
        raise AssertionError("count() does not end")

    async def _add_vectors(self, opened: _Opened) -> None:
        """Add the vectors of all rows that have none."""
        index = opened.index
        async with self._changing:
            while True:
                first, ids = index.rows_without_vectors(_EMBEDDED_AT_ONCE)
                if not ids:
                    return
                known = await self._records.get([each for each in ids if each])
                vectors = await self._vectors(opened.embeddings, [campaign for campaign in known if campaign])
                await asyncio.to_thread(index.add_vectors, first, ids, vectors)

    async def _vectors(self, embeddings: Embeddings, campaigns: Sequence[Campaign]) -> dict[str, Matrix]:
        """Return a vector for each field of each campaign; costly ones are kept in storage."""
        model = embeddings.model
        texts = {campaign.id: list(embedding_texts(campaign).values()) for campaign in campaigns}
        stored: dict[str, Matrix] = {}
        if embeddings.is_costly and texts:
            kept = zip(texts, await self._records.vectors(list(texts)), strict=True)
            stored = unpack(model, texts, dict(kept))
        missing = {each: parts for each, parts in texts.items() if each not in stored}
        if not missing:
            return stored
        matrix = await unit_vectors(embeddings, [part for parts in missing.values() for part in parts])
        vectors = dict(zip(missing, matrix.reshape(-1, len(FIELDS), matrix.shape[1]), strict=True))
        if embeddings.is_costly:
            await self._records.put_vectors(pack(model, missing, vectors))
        return stored | vectors

"""Campaign search in this process: records elsewhere, an index here that follows them."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField
from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import Unavailable
from callsheet.storage.campaigns.embeddings import Embeddings
from callsheet.storage.campaigns.index import CampaignMatch, Group, GroupBy, Matches, SortBy, TextField
from callsheet.storage.campaigns.index_file import (
    Damaged,
    IndexFile,
    Outdated,
    Progress,
    Ranked,
    Unembedded,
)
from callsheet.storage.campaigns.index_place import remove_unused
from callsheet.storage.campaigns.records import Head, Records
from callsheet.storage.campaigns.vectors import FIELDS, Aim, Matrix, pack, product_aim, unit_vectors, unpack
from callsheet.storage.campaigns.words import copy_text, distinctive_text, embedding_texts, parse, snippets

T = TypeVar("T")
_ATTEMPTS: Final = 4
"""Attempts of a search, since another process may replace the index."""
_MAX_PRODUCTS: Final = 100
"""Products, the most frequent first, that a query is compared with."""
_EMBEDDED_AT_ONCE: Final = 500
"""Campaigns whose texts are embedded together."""
_EXPORTED_AT_ONCE: Final = 500
_log = logging.getLogger(__name__)


class EmbeddedIndex:
    """A `CampaignIndex` whose records are `records`, with an index in `folder`; in memory without one."""

    def __init__(
        self, records: Records, embeddings: Embeddings, folder: Path | None = None, *, most: int = 0
    ) -> None:
        self._records = records
        self._embeddings = embeddings
        self._folder = folder
        self._most = most
        self._index: IndexFile | None = None
        self._products: tuple[object, Any] = (), ()
        """Embeddings' model and names of products, and the vectors of these names."""
        self._changing = asyncio.Lock()
        self._embedding, self._searching, self._writing = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()

    async def put(self, campaigns: Sequence[Campaign], *, more: bool = False) -> int:
        """Add or replace campaigns by id; return how many were new."""
        new = await self._records.put(campaigns, self._most)
        await self.count()
        if more:
            return new
        try:
            await self._add_vectors()
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
            await self.aclose()
            if self._folder:
                await asyncio.to_thread(remove_unused, self._folder)

    async def aclose(self) -> None:
        """Close the file, which the next search opens again. Safe to call twice."""
        index, self._index = self._index, None
        if index:
            await asyncio.to_thread(index.close)

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
        return await self._matches(await self._ask(lambda index: index.filter(filters, sort, offset, limit)))

    async def export(self, filters: Filters) -> AsyncIterator[list[Campaign]]:
        """Yield all campaigns that meet all conditions, newest first, some at a time."""
        ids = (await self._ask(lambda index: index.filter(filters, "newest", 0, sys.maxsize))).ids
        for start in range(0, len(ids), _EXPORTED_AT_ONCE):
            yield await self.get(ids[start : start + _EXPORTED_AT_ONCE])

    async def full_text(
        self, query: str, filters: Filters, *, field: TextField = "copy", limit: int = 50
    ) -> Matches:
        """Return campaigns whose copy or offer has the words; quoted words are a phrase."""
        parsed = parse(query)
        matches, total = await self._matches(
            await self._ask(lambda index: index.full_text(parsed, field, filters, limit))
        )
        texts = [copy_text(each.campaign) if field == "copy" else each.campaign.offer for each in matches]
        parts = await asyncio.to_thread(snippets, parsed, texts)
        cited = (match._replace(snippet=part) for match, part in zip(matches, parts, strict=True))
        return Matches(tuple(cited), total)

    async def similar(
        self, query: str, filters: Filters, *, field: EmbeddingField = "value_prop", limit: int = 20
    ) -> Matches:
        """Return the campaigns nearest in meaning."""
        text = await asyncio.to_thread(distinctive_text, query, filters)
        for _ in range(_ATTEMPTS):
            if not query.strip() or not await self.count():
                return Matches((), 0)
            embeddings = await self._add_vectors()
            vector = (await unit_vectors(embeddings, [text]))[0]
            aim = await self._aim(embeddings, vector, field)
            nearest = partial(
                IndexFile.nearest,
                model=embeddings.model,
                query=vector,
                filters=filters,
                field=field,
                limit=limit,
                aim=aim,
            )
            ranked = await self._ask(nearest)
            if ranked:
                return await self._matches(ranked)
        raise _replacement_error()

    async def _aim(self, embeddings: Embeddings, query: Matrix, field: EmbeddingField) -> Aim:
        """Return the score that a query must reach, and its product, of a model that is measured."""
        floor = embeddings.floors.get(field)
        if floor is None:
            return Aim()
        groups = await self.group(Filters(), "product")
        names = tuple(group.value for group in groups[:_MAX_PRODUCTS])
        if self._products[0] != (embeddings.model, names):
            vectors = await unit_vectors(embeddings, names)
            self._products = (embeddings.model, names), vectors
        return product_aim(floor, names, self._products[1] @ query)

    async def group(self, filters: Filters, by: GroupBy) -> tuple[Group, ...]:
        """Return counts by value, largest first; months in order."""
        return await self._ask(lambda index: index.group(filters, by))

    async def newest(self) -> date | None:
        """Return the newest `capture_date`; None for an empty library."""
        return await self._ask(lambda index: index.newest())

    async def indexed_at(self) -> datetime | None:
        """Return when the index here took in its last change; None for an empty library."""
        return await self._ask(lambda index: index.changed_at())

    async def count(self) -> int:
        """Return the number of campaigns."""
        return await self._ask(lambda index: index.count())

    async def _matches(self, ranked: Ranked) -> Matches:
        """Return the records of a result; a campaign deleted meanwhile is left out."""
        campaigns = await self._records.get(ranked.ids)
        pairs = zip(campaigns, ranked.scores, strict=True)
        return Matches(
            tuple(CampaignMatch(campaign, score) for campaign, score in pairs if campaign), ranked.total
        )

    async def _ask(self, question: Callable[[IndexFile], T], turns: asyncio.Lock | None = None) -> T:
        """Return what the index answers with every change that was stored before this call."""
        for _ in range(_ATTEMPTS):
            try:
                index = await self._current()
                # More threads than one would wait in it.
                async with turns or self._searching:
                    return await asyncio.to_thread(question, index)
            except Outdated:
                continue
            except Damaged as error:
                _log.warning("An index of campaigns is built again: %s", error)
                await self.aclose()
        raise _replacement_error()

    async def _current(self) -> IndexFile:
        """Return the index with every change that was stored before this call."""
        # Read before the library is, which then is at least as far, if its history is the same.
        index, progress = self._index, self._index.progress if self._index else Progress()
        head = await self._records.head(progress.seq)
        if index and self._fits(index, head) and progress == (head.generation, head.seq, head.mark):
            return index
        async with self._changing:
            return await self._follow(head)

    async def _follow(self, head: Head) -> IndexFile:
        """Apply changes until the index has those of `head`."""
        while True:
            index = await self._open(head)
            await asyncio.to_thread(index.refresh)
            progress = index.progress
            known = progress if progress.generation == head.generation else Progress(head.generation)
            changes = await self._records.changes(known.seq, known.mark)
            if changes.head.generation != head.generation:
                head = await self._records.head()
            elif changes.head.seq < known.seq:
                _log.warning("Campaigns are indexed again: Redis has another history than the index")
                await self._records.begin_generation(head.generation)
                head = await self._records.head()
            elif changes.head.seq == known.seq:
                return index
            else:
                await asyncio.to_thread(index.apply, progress, changes)
                if index.progress.generation == head.generation and index.progress.seq >= head.seq:
                    return index

    def _fits(self, index: IndexFile, head: Head) -> bool:
        """Return whether an index is where the library's belongs: in memory if that has no campaign yet."""
        if not head.generation:
            return index.folder is None and not index.progress.generation
        return index.folder == self._folder

    async def _open(self, head: Head) -> IndexFile:
        index = self._index
        if not index or not self._fits(index, head):
            await self.aclose()
            index = await asyncio.to_thread(IndexFile, self._folder if head.generation else None)
            self._index = index
        return index

    async def _add_vectors(self) -> Embeddings:
        """Add the vectors of all campaigns that have none of the model, and return its embeddings."""
        embeddings = self._embeddings.suited_to(await self.count())
        async with self._embedding:
            while (batch := await self._without_vectors(embeddings.model)).ids:
                known = await self._records.get(list(batch.ids.values()))
                vectors = await self._vectors(embeddings, [campaign for campaign in known if campaign])
                add = partial(IndexFile.add_vectors, model=embeddings.model, batch=batch, vectors=vectors)
                await self._ask(add, self._writing)
        return embeddings

    async def _without_vectors(self, model: str) -> Unembedded:
        return await self._ask(lambda index: index.without_vectors(model, _EMBEDDED_AT_ONCE))

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


def _replacement_error() -> Unavailable:
    return Unavailable(
        "the index of campaigns was built again during the search",
        remedy="Try again; give all processes of a data folder the same embeddings.",
    )

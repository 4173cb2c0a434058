"""Campaign search in PostgreSQL: tsvector for words, pgvector for meaning, one table for all owners."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import numpy as np

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField
from callsheet.state.campaigns.filters import Filters, Values
from callsheet.state.errors import StorageDown, Unavailable
from callsheet.storage.campaigns import postgres_sql as sql
from callsheet.storage.campaigns.embeddings import Embeddings
from callsheet.storage.campaigns.index import (
    URL_VARIABLE,
    CampaignMatch,
    Group,
    GroupBy,
    Matches,
    SortBy,
    TextField,
    require_postgres_url,
    sort_groups,
)
from callsheet.storage.campaigns.records import too_many
from callsheet.storage.campaigns.vectors import CANDIDATES, FIELDS, RELEVANT_SHARE, feedback, unit_vectors
from callsheet.storage.campaigns.words import (
    Query,
    copy_text,
    distinctive_text,
    embedding_texts,
    normalize,
    parse,
    product_names,
    snippets,
)

_MAX_CONNECTIONS: Final = 10
_CONNECT_S: Final = 3.0
"""Seconds for a connection to open, or to become free."""
_TIMEOUT_S: Final = 10.0
"""Seconds for the answer to one statement."""
_IMPORT_S: Final = 60.0
"""Seconds that an import waits for another one of the same owner."""
_REST_S: Final = 1.0
"""Seconds after a failed connection during which no other one is tried."""
_EMBEDDED_AT_ONCE: Final = 200
_PUT_AT_ONCE: Final = 1_000
_EXPORTED_AT_ONCE: Final = 500
_log = logging.getLogger(__name__)


class PostgresPool:
    """Connections to one database, opened and given its tables on first use."""

    def __init__(self, url: str) -> None:
        require_postgres_url(url)
        server = urlsplit(url)
        self._url = url
        self._origin = f"PostgreSQL at {server.hostname or 'this machine'!r}"
        self._opening = asyncio.Lock()
        self._pool: Any = None
        self._failed_s = -_REST_S
        """Time by the loop's clock at which a connection failed last."""
        self._failure: Exception = TimeoutError()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Yield a connection in a transaction; raises `StorageDown` if the database cannot be used."""
        try:
            pool = await self._open_once()
            async with (
                pool.acquire(timeout=_CONNECT_S) as connection,
                _closed_if_silent(connection),
                connection.transaction(),
                _closed_if_silent(connection),
            ):
                yield connection
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise self._outage(error) from error

    async def check(self) -> None:
        """Raise `StorageDown` if the database does not answer."""
        async with self.connection() as connection:
            await connection.fetchval("SELECT 1", timeout=_CONNECT_S)

    async def _open_once(self) -> Any:
        """Return the pool, opened on first use; those who waited for it to fail share the failure."""
        loop = asyncio.get_running_loop()
        async with self._opening:
            if self._pool is None:
                if loop.time() < self._failed_s + _REST_S:
                    raise self._failure
                try:
                    self._pool = await self._open()
                except Exception as error:
                    self._failed_s, self._failure = loop.time(), error
                    raise
            return self._pool

    def _outage(self, error: Exception) -> StorageDown:
        is_silent = isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)
        reason = "it gives no answer" if is_silent else str(error) or type(error).__name__
        remedy = f"Start the server, or correct {URL_VARIABLE}."
        return StorageDown(f"{self._origin} cannot be used: {reason}", remedy=remedy)

    async def aclose(self) -> None:
        """Close all connections. Safe to call twice."""
        if self._pool:
            self._pool.terminate()

    async def _open(self) -> Any:
        # Generic plans would read whole tables: each condition may be absent.
        options = {"plan_cache_mode": "force_custom_plan", "application_name": "callsheet"}
        pool = await asyncpg.create_pool(
            self._url,
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            timeout=_CONNECT_S,
            command_timeout=_TIMEOUT_S,
            server_settings=options,
        )
        async with pool.acquire() as connection, connection.transaction():
            # Two processes that create the same table at once would fail.
            await connection.execute(sql.LOCK_SCHEMA)
            await connection.execute(sql.SCHEMA)
        return pool


@asynccontextmanager
async def _closed_if_silent(connection: Any) -> AsyncIterator[None]:
    """Close a connection whose answer nobody waits for, so that its rollback waits for none either."""
    try:
        yield
    except (TimeoutError, asyncio.CancelledError):
        connection.terminate()
        raise


class PostgresIndex:
    """The `CampaignIndex` of one owner."""

    def __init__(self, pool: PostgresPool, owner: str, embeddings: Embeddings, *, most: int = 0) -> None:
        self._pool = pool
        self._owner = _storable(owner)
        self._embeddings = embeddings
        self._most = most
        self._embedding = asyncio.Lock()

    async def put(self, campaigns: Sequence[Campaign], *, more: bool = False) -> int:
        """Add or replace campaigns by id, all or none; return how many were new."""
        rows = await asyncio.to_thread(_rows, campaigns)
        new = 0
        async with self._pool.connection() as connection:
            await connection.execute(sql.LOCK, self._owner, timeout=_IMPORT_S)
            for start in range(0, len(rows), _PUT_AT_ONCE):
                text = json.dumps(rows[start : start + _PUT_AT_ONCE])
                new += sum(row["is_new"] for row in await connection.fetch(sql.PUT, self._owner, text))
            if self._most and new and await connection.fetchval(sql.SIZE, self._owner) > self._most:
                raise too_many(self._most)
        if more:
            return new
        try:
            await self._add_vectors()
        except StorageDown:
            raise
        except Unavailable as error:
            _log.warning("Campaigns are stored without embeddings, which a search will add: %s", error)
        return new

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete campaigns; return how many there were."""
        return len(await self._fetch(sql.DELETE, list(map(_storable, ids))))

    async def delete_all(self) -> None:
        """Delete all campaigns. Twice is safe."""
        await self._fetch(sql.DELETE_ALL)

    async def aclose(self) -> None:
        """Close nothing: the pool is shared."""

    async def has_campaigns(self) -> bool:
        """Return whether there is any campaign."""
        return bool((await self._fetch(sql.EXISTS))[0][0])

    async def get(self, ids: Sequence[str]) -> list[Campaign]:
        """Return the campaigns with these ids, in this order; unknown ids are left out."""
        campaigns = map(_campaign, await self._fetch(sql.GET, list(map(_storable, ids))))
        by_id = {campaign.id: campaign for campaign in campaigns}
        return [by_id[each] for each in ids if each in by_id]

    async def filter(
        self, filters: Filters, *, sort: SortBy = "newest", offset: int = 0, limit: int = 50
    ) -> Matches:
        """Return the campaigns that meet all conditions."""
        conditions = _conditions(filters)
        async with self._pool.connection() as connection:
            total = await connection.fetchval(sql.COUNT, self._owner, *conditions)
            rows = await connection.fetch(sql.FILTER[sort], self._owner, *conditions, offset, limit)
        return Matches(tuple(CampaignMatch(_campaign(row)) for row in rows), total)

    async def export(self, filters: Filters) -> AsyncIterator[list[Campaign]]:
        """Yield all campaigns that meet all conditions, newest first, some at a time."""
        # One query for each portion, since a slow reader must not hold a connection.
        conditions, last = _conditions(filters), (None, "")
        while rows := await self._fetch(sql.EXPORT, *conditions, *last, _EXPORTED_AT_ONCE):
            last = (rows[-1]["captured"], rows[-1]["id"])
            yield [_campaign(row) for row in rows]

    async def full_text(
        self, query: str, filters: Filters, *, field: TextField = "copy", limit: int = 50
    ) -> Matches:
        """Return campaigns whose copy or offer has the words; quoted words are a phrase."""
        parsed = parse(query)
        text = _tsquery(parsed)
        if not text or not limit:
            return Matches((), 0)
        await self._add_words()
        conditions = _conditions(filters)
        async with self._pool.connection() as connection:
            total = await connection.fetchval(sql.COUNT_WORDS[field], self._owner, *conditions, text)
            rows = await connection.fetch(sql.FULL_TEXT[field], self._owner, *conditions, text, limit)
        campaigns = [_campaign(row) for row in rows]
        texts = [copy_text(each) if field == "copy" else each.offer for each in campaigns]
        parts = zip(campaigns, rows, await asyncio.to_thread(snippets, parsed, texts), strict=True)
        return Matches(tuple(CampaignMatch(each, row["score"], part) for each, row, part in parts), total)

    async def similar(
        self, query: str, filters: Filters, *, field: EmbeddingField = "value_prop", limit: int = 20
    ) -> Matches:
        """Return the campaigns nearest in meaning."""
        if not query.strip() or not await self.has_campaigns():
            return Matches((), 0)
        embeddings = await self._add_vectors()
        text = await asyncio.to_thread(distinctive_text, query, filters)
        vector = (await unit_vectors(embeddings, [text]))[0].tolist()
        given = (vector, field, embeddings.model, filters == Filters(), RELEVANT_SHARE)
        rows = await self._fetch(sql.SIMILAR, *_conditions(filters), *given, max(limit, CANDIDATES))
        if not rows:
            return Matches((), 0)
        scores = np.array([row["score"] for row in rows], "float32")
        if scores.max() < embeddings.floors.get(field, 0.0):
            return Matches((), 0)
        weighed = feedback(scores, np.array([row["vector"] for row in rows], "float32"))
        ranked = sorted(zip((-weighed).tolist(), [row["id"] for row in rows], strict=True))[:limit]
        by_id = {each.id: each for each in await self.get([each for _, each in ranked])}
        matches = (CampaignMatch(by_id[each], -score) for score, each in ranked if each in by_id)
        nearest = tuple(matches)
        return Matches(nearest, len(nearest))

    async def group(self, filters: Filters, by: GroupBy) -> tuple[Group, ...]:
        """Return counts by value, largest first; months in order."""
        rows = await self._fetch(sql.GROUP[by], *_conditions(filters))
        groups = (Group(value, count, round(spend, 2), volume) for value, count, spend, volume in rows)
        return sort_groups(groups, by)

    async def newest(self) -> date | None:
        """Return the newest `capture_date`; None for an empty library."""
        newest: date | None = (await self._fetch(sql.NEWEST))[0][0]
        return newest

    async def indexed_at(self) -> None:
        """Return None: the words are stored with the campaigns."""

    async def count(self) -> int:
        """Return the number of campaigns."""
        return int((await self._fetch(sql.SIZE))[0][0])

    async def _fetch(self, query: str, *parameters: object) -> list[Any]:
        async with self._pool.connection() as connection:
            return list(await connection.fetch(query, self._owner, *parameters))

    async def _add_words(self) -> None:
        """Add the words of campaigns that an earlier release stored."""
        while rows := await self._fetch(sql.WITHOUT_WORDS, _PUT_AT_ONCE):
            campaigns = await asyncio.to_thread(_rows, [_campaign(row) for row in rows])
            await self._fetch(sql.PUT, json.dumps(campaigns))

    async def _add_vectors(self) -> Embeddings:
        """Add the vectors of all campaigns that have none of the model, and return its embeddings."""
        embeddings = self._embeddings.suited_to(await self.count())
        model = embeddings.model
        async with self._embedding:
            while rows := await self._fetch(sql.WITHOUT_VECTORS, model, _EMBEDDED_AT_ONCE):
                records = [row["record"] for row in rows]
                campaigns = [_campaign(row) for row in rows]
                texts = [text for each in campaigns for text in embedding_texts(each).values()]
                vectors = await unit_vectors(embeddings, texts)
                matrices = vectors.reshape(len(campaigns), len(FIELDS), -1).tolist()
                values = [
                    (self._owner, _storable(campaign.id), record, model, *matrix)
                    for campaign, record, matrix in zip(campaigns, records, matrices, strict=True)
                ]
                async with self._pool.connection() as connection:
                    await connection.executemany(sql.PUT_VECTORS, values)
        return embeddings


def _rows(campaigns: Sequence[Campaign]) -> list[dict[str, Any]]:
    """Return the rows to store, the last one of each id."""
    return list({each["id"]: each for each in map(_row, campaigns)}.values())


def _row(campaign: Campaign) -> dict[str, Any]:
    texts = {
        "id": campaign.id,
        "record": campaign.model_dump_json(),
        "channel": campaign.channel,
        "company": campaign.company.casefold(),
        "brand": campaign.brand.casefold(),
        "product": campaign.primary_product.casefold(),
        "company_name": campaign.company,
        "product_name": campaign.primary_product,
        "sentiment": campaign.imagery_sentiment or "",
        "visual_style": campaign.imagery_visual_style or "",
        "captured": campaign.capture_date.isoformat(),
        "words": _lexemes(normalize(copy_text(campaign))),
        "offer_words": _lexemes(normalize(campaign.offer)),
    }
    return {
        **{name: _storable(text) for name, text in texts.items()},
        "value_props": list(campaign.key_value_props),
        "has_offer": bool(campaign.offer.strip()),
        "spend": campaign.spend,
        "volume": campaign.volume,
    }


def _campaign(row: Any) -> Campaign:
    return Campaign.model_validate_json(row["record"])


def _conditions(filters: Filters) -> list[object]:
    """Return the parameters $2 to $16 of every query with conditions."""
    days = filters.date_range
    return [
        *_lists(filters),
        *_lists(filters.exclude),
        filters.has_offer,
        days and days.start,
        days and days.end,
    ]


def _lists(values: Values) -> list[list[str] | None]:
    # Nothing has a name of spaces, and what has no name must not match it.
    company, product = (
        [_storable(name.strip().casefold()) for name in each if name.strip()] if each else None
        for each in (values.company, product_names(values.product) or values.product)
    )
    channel, *enums = (
        [str(value) for value in each] or None
        for each in (values.channel, values.value_prop, values.sentiment, values.visual_style)
    )
    return [channel, company, product, *enums]


def _tsquery(query: Query) -> str:
    """Return a query of to_tsquery; its words have letters and digits only."""
    phrases = (
        " <-> ".join(f"'{word}'" for word in _lexemes(" ".join(phrase)).split()) for phrase in query.phrases
    )
    return " & ".join(f"({phrase})" for phrase in phrases)


def _lexemes(words: str) -> str:
    """Return words with their code for a vowel sign that stands alone, which PostgreSQL takes for a blank."""
    if words.isascii():
        return words
    return " ".join(each if each[0].isalnum() else f"u{ord(each[0]):x}" for each in words.split())


def _storable(text: str) -> str:
    """Return the text without what PostgreSQL's text cannot hold."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()

"""Campaign search at 1,000 and 100,000 campaigns: import, size, and the time of each kind of search.

`python -m bench.campaign_scale --million` adds 1,000,000, with synthetic vectors, in about ten minutes. Full
text is compared with SQLite's FTS5 on the same copy, meaning with the bare product of matrix and vector, and
filters with SQLite's own. Each row's ratio is that of the medians over questions in turn.
"""

import asyncio
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import size
from bench._campaigns import SyntheticEmbeddings, campaigns, word, words
from callsheet import storage
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import DateRange, Filters
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.storage.campaigns.library import MAX_CAMPAIGNS_VARIABLE, own_library

SIZES: Final = (1_000, 100_000)
MILLION: Final = 1_000_000
QUESTIONS: Final = size(200, short=3)
_BATCH: Final = 5_000
_NARROW: Final = Filters(
    channel=("facebook",),
    value_prop=("Travel Benefits",),
    date_range=DateRange(start=date(2025, 6, 1), end=date(2025, 12, 31)),
)
_ALL: Final = Filters()


class SearchKind(NamedTuple):
    """One kind of search, and the peer that it is compared with."""

    name: str
    ours: Callable[[str], Awaitable[Any]]
    peer: Callable[[str], Any] | None = None


def main() -> int:
    """Print a table for each size."""
    # No limit of campaigns.
    os.environ[MAX_CAMPAIGNS_VARIABLE] = "0"
    sizes = (*SIZES, MILLION) if "--million" in sys.argv else SIZES
    for count in sizes:
        with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
            asyncio.run(_measure(count, Path(folder)))
    return 0


async def _measure(size: int, folder: Path) -> None:
    embeddings = SyntheticEmbeddings() if size == MILLION else None
    peer = SqlitePeer(folder)
    async with storage.connect(data_dir=folder) as opened:
        index = await own_library(opened, "bench", embeddings)
        took_s = await _fill(index, peer, size)
        megabytes = sum(file.stat().st_blocks * 512 for file in (folder / "campaigns").rglob("*")) / 1e6
        print(f"{size:,} campaigns: {size / took_s:,.0f} a second, index {megabytes:,.0f} MB on disk")
        print(f"{'':<34}{'p50':>9}{'p99':>9}{'peer p50':>11}{'ratio':>8}")
        for kind in _kinds(index, peer):
            await _print_row(kind)


async def _fill(index: CampaignIndex, peer: "SqlitePeer", size: int) -> float:
    """Import the campaigns; return the seconds without those of the peer."""
    took_s, batch = 0.0, list[Campaign]()
    # The first import loads libraries and weights.
    await index.put(list(campaigns(1)))
    for number, campaign in enumerate(campaigns(size), 1):
        batch.append(campaign)
        if len(batch) == _BATCH or number == size:
            start_s = time.perf_counter()
            await index.put(batch)
            took_s += time.perf_counter() - start_s
            peer.add(batch)
            batch = []
    peer.commit()
    assert await index.count() == size
    return took_s


def _kinds(index: CampaignIndex, peer: "SqlitePeer") -> Sequence[SearchKind]:
    return (
        SearchKind("filter: 50 newest of all", lambda _: index.filter(_ALL)),
        SearchKind("filter: three conditions", lambda _: index.filter(_NARROW), peer.filter),
        SearchKind("filter: 50 by spend", lambda _: index.filter(_NARROW, sort="spend")),
        SearchKind("group: companies of all", lambda _: index.group(_ALL, "company")),
        SearchKind("group: months, three conditions", lambda _: index.group(_NARROW, "month"), peer.group),
        SearchKind("full text: two words", lambda text: index.full_text(text, _ALL), peer.words),
        SearchKind("full text: a phrase", lambda text: index.full_text(f'"{text}"', _ALL), peer.phrase),
        SearchKind("full text: a frequent word", lambda _: index.full_text(words()[0], _ALL), peer.frequent),
        SearchKind("full text: offers", lambda _: index.full_text("5%", _ALL, field="offer")),
        SearchKind("full text: three conditions", lambda text: index.full_text(text, _NARROW)),
        SearchKind("meaning: all", lambda text: index.similar(text, _ALL), peer.product),
        SearchKind("meaning: three conditions", lambda text: index.similar(text, _NARROW)),
    )


async def _print_row(kind: SearchKind) -> None:
    random_ = random.Random(7)  # noqa: S311 -- repeatable, not secret
    ours, peers = [], []
    for number in range(QUESTIONS + 5):
        text = f"{word(random_)} {word(random_)}"
        start_s = time.perf_counter()
        await kind.ours(text)
        end_s = time.perf_counter()
        if kind.peer and number < 50:
            kind.peer(text)
            peers.append((time.perf_counter() - end_s) * 1000)
        # The first ones read files.
        if number >= 5:
            ours.append((end_s - start_s) * 1000)
    p50, p99 = statistics.median(ours), statistics.quantiles(ours, n=100)[98]
    row = f"{kind.name:<34}{p50:>6.1f} ms{p99:>6.1f} ms"
    if peers:
        peer_ms = statistics.median(peers)
        row += f"{peer_ms:>8.1f} ms{peer_ms / p50:>7.1f}x"
    print(row, flush=True)


class SqlitePeer:
    """SQLite with the same campaigns, and a matrix of as many vectors."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "peer.sqlite")
        self._connection.execute("CREATE VIRTUAL TABLE copy USING fts5(text, tokenize = 'porter unicode61')")
        self._connection.execute("CREATE TABLE campaigns (id, channel, day, travel, spend, record)")
        self._connection.execute("CREATE INDEX by_day ON campaigns (channel, day)")
        self._size = 0
        self._matrix: Any = None

    def add(self, batch: Sequence[Campaign]) -> None:
        """Add campaigns."""
        self._size += len(batch)
        insert = self._connection.executemany
        insert("INSERT INTO copy VALUES (?)", [(each.full_campaign_text,) for each in batch])
        rows = [
            (
                each.id,
                each.channel,
                str(each.capture_date),
                "Travel Benefits" in each.key_value_props,
                each.spend,
                each.model_dump_json(),
            )
            for each in batch
        ]
        insert("INSERT INTO campaigns VALUES (?, ?, ?, ?, ?, ?)", rows)

    def commit(self) -> None:
        """Generate the vectors and commit."""
        import numpy as np

        self._connection.commit()
        self._matrix = np.random.default_rng(1).standard_normal((self._size, 256), "float32")

    def words(self, text: str) -> object:
        """Return the campaigns that have all words."""
        return self._match(" AND ".join(f'"{each}"' for each in text.split()))

    def phrase(self, text: str) -> object:
        """Return the campaigns that have the phrase."""
        return self._match(f'"{text}"')

    def frequent(self, text: str) -> object:
        """Return the campaigns that have a frequent word."""
        del text
        return self._match(words()[0])

    def filter(self, text: str) -> object:
        """Return the records of the newest campaigns under three conditions."""
        del text
        where = "channel = 'facebook' AND travel AND day BETWEEN '2025-06-01' AND '2025-12-31'"
        query = f"SELECT record FROM campaigns WHERE {where} ORDER BY day DESC LIMIT 50"  # noqa: S608
        rows = self._connection.execute(query).fetchall()
        return [Campaign.model_validate_json(record) for (record,) in rows]

    def group(self, text: str) -> object:
        """Return months under three conditions."""
        del text
        where = "channel = 'facebook' AND travel AND day BETWEEN '2025-06-01' AND '2025-12-31'"
        query = (
            f"SELECT substr(day, 1, 7) AS month, count(*), sum(spend) FROM campaigns WHERE {where} GROUP BY 1"  # noqa: S608
        )
        return self._connection.execute(query).fetchall()

    def product(self, text: str) -> object:
        """Return the products of a matrix and a vector, and the largest twenty."""
        del text
        import numpy as np

        products = self._matrix @ self._matrix[0]
        return np.argpartition(products, -20)[-20:]

    def _match(self, query: str) -> object:
        sql = "SELECT rowid FROM copy WHERE copy MATCH ? ORDER BY bm25(copy) LIMIT 50"
        return self._connection.execute(sql, (query,)).fetchall()


if __name__ == "__main__":
    sys.exit(main())

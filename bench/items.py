"""Cost of a search in the store to itself and to others, as the items below its prefix grow.

*alone* is the search; *others* is the longest wait of a request that has nothing to do with the store, while
searches run one after the other, less the longest wait without them.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import httpx

from bench import size
from bench._servers import PATIENCE_S, ReadinessProbe, free_port, running, serve_command
from callsheet import storage
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.embedded import server as embedded
from callsheet.storage.redis import keys

FEW: Final = size(1_000, short=20)
TIMES: Final = (1, 10, 100)
_BATCH: Final = 2_000
"""Commands in one round trip."""
_SECONDS: Final = size(50, short=2) / 10
_SEARCHES: Final[dict[str, dict[str, Any]]] = {
    "all": {},
    "filter": {"filter": {"colour": "red"}},
    "words": {"query": "a small red bicycle"},
}


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        lease = embedded.ensure_running(folder / "data")
        environment = {"CALLSHEET_LOG_LEVEL": "error", "REDIS_URL": lease.url}
        try:
            with running(serve_command(port), port, folder, environment) as server:
                server.ready_s(ReadinessProbe("/assistants/search", "POST"))
                asyncio.run(_measure(server.url, lease.url))
        finally:
            lease.close()
    return 0


async def _measure(url: str, redis_url: str) -> None:
    print(f"{'items':<10}{'search':<10}{'alone':>10}{'others':>10}")
    async with (
        storage.connect(redis_url) as opened,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http,
    ):
        before = 0
        for times in TIMES:
            await _add_items(opened, before, FEW * times)
            before = FEW * times
            for name, body in _SEARCHES.items():
                alone_ms, others_ms = await _waits_ms(http, {"namespace_prefix": ["bikes"], **body})
                print(f"{before:<10,}{name:<10}{alone_ms:>7.0f} ms{others_ms:>7.0f} ms", flush=True)


async def _add_items(opened: Storage, start: int, end: int) -> None:
    pipeline = opened.redis.pipeline(transaction=False)
    for number in range(start, end):
        member, us = f"bikes.\0{number}", 1_700_000_000_000_000 + number
        value = {"colour": "red" if number % 100 == 0 else "blue", "text": f"bicycle number {number} " * 5}
        pipeline.set(keys.store_item(LOCAL, member), f"{us} {us} 0 {json.dumps(value)}")
        pipeline.zadd(keys.store_index(LOCAL), {member: 0})
        if len(pipeline) >= _BATCH:
            await pipeline.execute()
    await pipeline.execute()


async def _waits_ms(http: httpx.AsyncClient, body: dict[str, Any]) -> tuple[float, float]:
    """Return the least time of a search, and how much longer others wait at most while searches run."""
    idle_ms = await _longest_wait_ms(http)
    watching = asyncio.create_task(_longest_wait_ms(http))
    searches = [await _time_ms(http, body)]
    while not watching.done():
        searches.append(await _time_ms(http, body))
    return min(searches), max(0, await watching - idle_ms)


async def _time_ms(http: httpx.AsyncClient, body: dict[str, Any]) -> float:
    start_s = time.perf_counter()
    (await http.post("/store/items/search", json=body)).raise_for_status()
    return (time.perf_counter() - start_s) * 1000


async def _longest_wait_ms(http: httpx.AsyncClient) -> float:
    longest_ms, until_s = 0.0, time.monotonic() + _SECONDS
    while time.monotonic() < until_s:
        start_s = time.perf_counter()
        (await http.post("/threads/count", json={})).raise_for_status()
        longest_ms = max(longest_ms, (time.perf_counter() - start_s) * 1000)
        await asyncio.sleep(0.01)
    return longest_ms


if __name__ == "__main__":
    sys.exit(main())

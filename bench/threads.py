"""Cost of a search for threads as the threads of an owner grow: n, ten times n, and a hundred times n.

Each row is one request of LangGraph's API: processor time of the server and of Redis, and commands of Redis,
those inside scripts included. Every third thread has the sought colour, and one in a hundred the sought rare
value. A ratio of 1 is a search that the others cost nothing.
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
from bench._servers import PATIENCE_S, ReadinessProbe, cpu_of_folder_s, free_port, running, serve_command
from callsheet import storage
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage, thread_search
from callsheet.storage.embedded import server as embedded
from callsheet.storage.redis import keys

FEW: Final = size(1_000, short=20)
TIMES: Final = (1, 10, 100)
ROUNDS: Final = size(50, short=2)
_BATCH: Final = 2_000
"""Commands in one round trip."""
_PAGE: Final = {"limit": 10, "select": ["thread_id"]}
_SEARCHES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "newest": ("search", {}),
    "status": ("search", {"status": "error"}),
    "metadata": ("search", {"metadata": {"colour": "red"}}),
    "rare metadata": ("search", {"metadata": {"rare": True}}),
    "status and metadata": ("search", {"status": "error", "metadata": {"colour": "red"}}),
    "oldest created": ("search", {"sort_by": "created_at", "sort_order": "asc"}),
    "metadata, by creation": ("search", {"sort_by": "created_at", "metadata": {"colour": "red"}}),
    "by id": ("search", {"sort_by": "thread_id"}),
    "by status": ("search", {"sort_by": "status"}),
    "deep offset": ("search", {"offset": FEW * 9 // 10}),
    "deep offset, metadata": ("search", {"offset": FEW // 4, "metadata": {"colour": "red"}}),
    "count": ("count", {}),
    "count status": ("count", {"status": "error"}),
    "count metadata": ("count", {"metadata": {"colour": "red"}}),
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
                asyncio.run(_measure(server.url, lease.url, folder))
        finally:
            lease.close()
    return 0


async def _measure(url: str, redis_url: str, folder: Path) -> None:
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in _SEARCHES}
    async with (
        storage.connect(redis_url) as opened,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http,
    ):
        before = 0
        for times in TIMES:
            seconds = await _add_threads(opened, before, FEW * times)
            print(f"{FEW * times - before:,} threads of an earlier version are entered in {seconds:.1f} s")
            before = FEW * times
            for name, (path, body) in _SEARCHES.items():
                costs[name].append(await _cost(opened, http, folder, path, body))
    _print(costs)


async def _add_threads(opened: Storage, start: int, end: int) -> float:
    """Add threads as an earlier version did; return the time that entering them in the index takes."""
    names = [f"thread-{number:07}" for number in range(start, end)]
    pipeline = opened.redis.pipeline(transaction=False)
    for number, name in enumerate(names, start):
        ms = 1_700_000_000_000 + number * 1_000
        metadata = {"colour": "red" if number % 3 == 0 else "blue", "rare": number % 100 == 0}
        record = {"owner": LOCAL, "metadata": json.dumps(metadata), "createdMs": ms, "updatedMs": ms}
        record |= {"status": "error" if number % 10 == 0 else "idle"}
        pipeline.hset(keys.thread_meta(name), mapping=record)
        pipeline.zadd(keys.owned_threads(LOCAL), {name: ms})
        if len(pipeline) >= _BATCH:
            await pipeline.execute()
    await pipeline.execute()
    begin_s = time.monotonic()
    await thread_search.enter(opened.redis, LOCAL, names)
    return time.monotonic() - begin_s


async def _cost(
    opened: Storage, http: httpx.AsyncClient, folder: Path, path: str, body: dict[str, Any]
) -> tuple[float, float]:
    """Return the processor time of a request in milliseconds, and its commands of Redis."""
    content = body if path == "count" else _PAGE | body

    async def request() -> None:
        (await http.post(f"/threads/{path}", json=content)).raise_for_status()

    await request()
    commands, cpu_s = await _command_count(opened), cpu_of_folder_s(folder)
    for _ in range(ROUNDS):
        await request()
    spent_s = cpu_of_folder_s(folder) - cpu_s
    return spent_s * 1000 / ROUNDS, (await _command_count(opened) - commands) / ROUNDS


def _print(costs: dict[str, list[tuple[float, float]]]) -> None:
    sizes = "".join(f"{FEW * times:>10,}" for times in TIMES)
    print(f"{'processor ms, commands':<24}{sizes}{'ratio':>8}{sizes}{'ratio':>8}")
    for name, rows in costs.items():
        print(f"{name:<24}", end="")
        for column in (0, 1):
            values = [row[column] for row in rows]
            print("".join(f"{value:>10.1f}" for value in values), end="")
            print(f"{values[-1] / (values[0] or 1):>7.1f}x", end="")
        print()


async def _command_count(opened: Storage) -> float:
    stats: Any = await opened.redis.info("commandstats")
    return float(sum(entry["calls"] for entry in stats.values()))


if __name__ == "__main__":
    sys.exit(main())

"""One message about an ad over REST, compared with the same turn of the bare graph on the same Valkey.

Each round creates an ad for every row and measures one message about it; the offline model answers at once.
The difference between the message and the bare graph of the same round is the server's share: HTTP, the run,
its events, the reply. `CALLSHEET_BENCH_OTHER=<checkout>` measures the server of another checkout, with its
own `.venv`, in the same rounds; its turns must be the same.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from langchain_core.messages import HumanMessage

from bench import size
from bench._servers import ReadinessProbe, free_port, running, serve_command
from callsheet import storage
from callsheet.graphs import ad_creation
from callsheet.server.engine import process
from callsheet.state.ads import brief
from callsheet.storage.checkpoints import RedisSaver

ROUNDS: Final = size(100, short=2)
_WARM: Final = size(3, short=1)
_OURS: Final = "callsheet"
_OTHER: Final = "other checkout"
_FLOOR: Final = "bare graph"
_BRIEF: Final = "30 seconds for Miel, a bakery in Lyon that bakes sourdough bread at four every morning"
_MESSAGE: Final = "make the music calmer"
_READY: Final = ReadinessProbe("/assistants/search", "POST")
_QUIET: Final = {"CALLSHEET_LOG_LEVEL": "error", "REDIS_URL": ""}


def main() -> int:
    """Print the table."""
    with (
        tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        folder_path = Path(folder)
        urls = {_OURS: _serve(folder_path / "ours", None, stack)}
        if other := os.environ.get("CALLSHEET_BENCH_OTHER"):
            urls[_OTHER] = _serve(folder_path / "other", Path(other), stack)
        seconds_by_row = process.run_event_loop(_measure(urls, folder_path / "ours" / "data"))
    print(f"{'':<16}{'p50':>10}{'p90':>10}{'added p50':>12}")
    for name, seconds in seconds_by_row.items():
        cuts = [cut * 1000 for cut in statistics.quantiles(seconds, n=10)]
        pairs = zip(seconds, seconds_by_row[_FLOOR], strict=True)
        added = statistics.median(served - bare for served, bare in pairs) * 1000
        print(f"{name:<16}{cuts[4]:>7.1f} ms{cuts[8]:>7.1f} ms{added:>9.1f} ms")
    print(f"{ROUNDS} rounds, in turn; each message is the second turn of an ad of its own")
    return 0


def _serve(folder: Path, checkout: Path | None, stack: ExitStack) -> str:
    """Start a server for the length of `stack` and return its URL."""
    folder.mkdir()
    port, command = free_port(), serve_command(0)
    environment = {**_QUIET, "CALLSHEET_DATA_DIR": str(folder / "data")}
    if checkout:
        command[0] = str(checkout / ".venv" / "bin" / "python")
        environment["PYTHONPATH"] = str(checkout)
    server = stack.enter_context(running([*command[:-1], str(port)], port, folder, environment))
    server.ready_s(_READY)
    return server.url


async def _measure(urls: Mapping[str, str], data: Path) -> dict[str, list[float]]:
    """Return the seconds of each message, by row."""
    async with storage.connect(data_dir=data) as opened:
        storage.use(opened)
        graph = ad_creation.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        process.tune_garbage_collection()
        async with AsyncExitStack() as stack:
            rows: dict[str, Callable[[int], Awaitable[float]]] = {_FLOOR: partial(_invoke_s, graph)}
            for name, url in urls.items():
                client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60))
                rows[name] = partial(_chat_s, client)
            seconds_by_row = await _take_turns(rows)
        storage.use(None)
    return seconds_by_row


async def _take_turns(rows: Mapping[str, Callable[[int], Awaitable[float]]]) -> dict[str, list[float]]:
    seconds_by_row: dict[str, list[float]] = {name: [] for name in rows}
    for number in range(_WARM + ROUNDS):
        # The order changes, because each row leaves work for the next one.
        first = number % len(rows)
        for name in [*rows][first:] + [*rows][:first]:
            seconds_by_row[name].append(await rows[name](number))
    return {name: times[_WARM:] for name, times in seconds_by_row.items()}


async def _chat_s(client: httpx.AsyncClient, number: int) -> float:
    body = {"adId": f"ad-{number}", "brief": _BRIEF, "provider": "offline"}
    (await client.post("/api/ai/generate", json=body)).raise_for_status()
    start_s = time.perf_counter()
    reply = await client.post(f"/api/ads/ad-{number}/chat", json={"message": _MESSAGE, "provider": "offline"})
    seconds = time.perf_counter() - start_s
    assert [*reply.raise_for_status().json()["drafts"]] == ["music"], reply.text
    return seconds


async def _invoke_s(graph: Any, number: int) -> float:
    thread = {"configurable": {"thread_id": f"bare-{number}"}}
    parsed = brief.parse(_BRIEF)
    first = {"ad_id": f"bare-{number}", "brief": parsed, "language": "english", "market": "US"}
    options: dict[str, Any] = {"durability": "sync", "context": {"model": "offline"}}
    await graph.ainvoke({**first, "messages": [HumanMessage(brief.message(parsed))]}, thread, **options)
    start_s = time.perf_counter()
    values = await graph.ainvoke({"messages": [HumanMessage(_MESSAGE)]}, thread, **options)
    seconds = time.perf_counter() - start_s
    assert [*values["drafts"]] == ["music"], values["drafts"]
    return seconds


if __name__ == "__main__":
    sys.exit(main())

"""The cost of waiting: 10,000 interrupted threads, and 1,000 silent streams.

*search* and *resume* (the answer to a thread's question, to the end of its run) are timed on the same server
when it has 100 threads and no stream, and again with all of them. The threads are copies of one that a run
has interrupted, created over REST as a client does.
"""

import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx

from bench import size
from bench._servers import (
    PATIENCE_S,
    ROOT,
    MeasuredServer,
    ReadinessProbe,
    free_port,
    rss_of_folder_mib,
    running,
    serve_command,
)

FEW: Final = size(100, short=12)
THREADS: Final = size(10_000, short=20)
STREAMS: Final = size(1_000, short=4)
SAMPLES: Final = size(100, short=3)
_AT_ONCE: Final = 16
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {"agent": f"{ROOT / 'tests' / 'doubles' / 'wire_graphs.py'}:agent"},
}
_INPUT: Final = {"messages": [{"role": "user", "content": "hello"}]}
_ANSWER: Final = {"resume": {"decisions": [{"type": "approve"}]}}


def main() -> int:
    """Print the table."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        (folder / "langgraph.json").write_text(json.dumps(_CONFIG))
        environment = {
            "CALLSHEET_CONFIG": "langgraph.json",
            "CALLSHEET_DATA_DIR": str(folder / "data"),
            "CALLSHEET_LOG_LEVEL": "error",
            "REDIS_URL": "",
        }
        with running(serve_command(port), port, folder, environment) as server:
            server.ready_s(ReadinessProbe("/assistants/search", "POST"))
            asyncio.run(_measure(server, folder))
    return 0


async def _measure(server: MeasuredServer, folder: Path) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S, limits=limits) as http:
        first = await _interrupted_thread(http)
        threads = await _copy(http, first, FEW + SAMPLES)
        few = await _time(http, threads[-SAMPLES:])
        before_mib, used_bytes = server.rss_mib(), await _redis_bytes(http)
        threads = await _copy(http, first, THREADS)
        bytes_per_thread = (await _redis_bytes(http) - used_bytes) / THREADS
        with_threads = server.rss_mib()
        streams = [await _open_stream(server.url, thread) for thread in threads[:STREAMS]]
        with_streams = server.rss_mib()
        many = await _time(http, threads[-SAMPLES:])
        print(f"{'a thread':<24}{bytes_per_thread / 1000:>9.1f} kB of Redis")
        print(f"{'the server, at first':<24}{before_mib:>9.1f} MiB, its Redis apart")
        print(f"{f'with {THREADS:,} threads':<24}{with_threads:>9.1f} MiB")
        print(f"{f'with {STREAMS:,} streams':<24}{with_streams:>9.1f} MiB")
        print(f"{'and Redis':<24}{rss_of_folder_mib(folder) - with_streams:>9.1f} MiB")
        print(f"{'':<12}{'among them':>22}{f'with {FEW} threads':>22}{'ratio':>8}")
        for row, ours, floor in zip(("search", "resume"), many, few, strict=True):
            _print(row, ours, floor)
        print(
            f"p50 and p99 of {SAMPLES}, one after the other; the ratio is of the medians, and 1 would be free"
        )
        for writer in streams:
            writer.close()


def _print(row: str, ours: list[float], floor: list[float]) -> None:
    columns = "".join(f"{statistics.median(one):>11.1f} {_p99(one):>7.1f} ms" for one in (ours, floor))
    print(f"{row:<12}{columns}{statistics.median(ours) / statistics.median(floor):>7.2f}x")


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * len(values)) - 1]


async def _interrupted_thread(http: httpx.AsyncClient) -> str:
    """Create a thread whose run is interrupted; return its id."""
    thread_id = str((await http.post("/threads", json={})).json()["thread_id"])
    body = {"assistant_id": "agent", "input": _INPUT}
    reply = (await http.post(f"/threads/{thread_id}/runs/wait", json=body)).json()
    assert reply["__interrupt__"], reply
    return thread_id


async def _copy(http: httpx.AsyncClient, thread: str, count: int) -> list[str]:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def copy_one() -> str:
        async with turns:
            return str((await http.post(f"/threads/{thread}/copy")).json()["thread_id"])

    return list(await asyncio.gather(*(copy_one() for _ in range(count))))


async def _time(http: httpx.AsyncClient, threads: list[str]) -> tuple[list[float], list[float]]:
    """The milliseconds of each search, and of each answer to a thread's question."""

    async def search(_: str) -> None:
        body = {"status": "interrupted", "limit": 10}
        assert len((await http.post("/threads/search", json=body)).json()) == 10

    async def resume(thread: str) -> None:
        body = {"assistant_id": "agent", "command": _ANSWER}
        reply: Any = (await http.post(f"/threads/{thread}/runs/wait", json=body)).json()
        assert reply["steps"][-1] == "finish", reply

    return await _durations_ms(search, threads), await _durations_ms(resume, threads)


async def _durations_ms(request: Callable[[str], Awaitable[None]], threads: list[str]) -> list[float]:
    durations_ms = []
    for thread in threads:
        start_s = time.perf_counter()
        await request(thread)
        durations_ms.append((time.perf_counter() - start_s) * 1000)
    return durations_ms


async def _open_stream(url: str, thread: str) -> asyncio.StreamWriter:
    """Open a stream of a thread's events and read the head of its reply."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /threads/{thread}/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return writer


async def _redis_bytes(http: httpx.AsyncClient) -> float:
    text = (await http.get("/metrics")).text
    return next(
        float(line.split()[1])
        for line in text.splitlines()
        if line.startswith("callsheet_storage_memory_bytes ")
    )


if __name__ == "__main__":
    sys.exit(main())

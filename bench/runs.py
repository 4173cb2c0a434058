"""Runs over LangGraph's own client: ours on the embedded Valkey beside `langgraph dev`, on one small graph.

Each round starts one server after the other on the same machine and asks all for the same: *wait* is
`runs.wait` on a new thread, *first event* the first thing a `runs.stream` tells, *at once* 200 runs with 16
under way. Nothing is left out of the time but the making of the thread. The floor is a server that knows the
answers and does nothing: no figure here can be better than that, for the client takes its time, too.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from bench._servers import ROOT, ReadinessCheck, free_port, running, serve_command

ROUNDS: Final = 5
ONE_BY_ONE: Final = 20
AT_ONCE: Final = 200
UNDER_WAY: Final = 16
_GRAPH: Final = "bench"
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {_GRAPH: f"{ROOT / 'tests' / 'doubles' / 'wire_graphs.py'}:bench"},
}
_READY: Final = ReadinessCheck("/assistants/search", "POST")
_QUIET: Final = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGSMITH_TRACING": "false",
    "CALLSHEET_LOG_LEVEL": "error",
}
_ROWS: Final = {"wait": "ms", "first event": "ms", "at once": "runs/s"}
_OURS: Final = "callsheet"
_PEER: Final = "langgraph dev"
_FLOOR: Final = "floor"


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as folder:
        names = (_OURS, _PEER, _FLOOR)
        rounds = [{name: _measure(name, Path(folder)) for name in names} for _ in range(ROUNDS)]
    print(f"{'':<16}{_OURS:>16}{_PEER:>18}{'ratio':>9}   {'worst … best round':<20}{_FLOOR:>8}")
    for row, unit in _ROWS.items():
        _print(row, unit, *([one[name][row] for one in rounds] for name in names))
    print(f"{ROUNDS} rounds, in turn; medians (of a round, then of the rounds); a ratio below 1 is a loss")
    return 0


def _print(
    row: str, unit: str, ours: Sequence[float], theirs: Sequence[float], floor: Sequence[float]
) -> None:
    pairs = zip(ours, theirs, strict=True)
    ratios = sorted(one / other if unit == "runs/s" else other / one for one, other in pairs)
    columns = f"{statistics.median(ours):>9.1f} {unit:<6}{statistics.median(theirs):>11.1f} {unit:<6}"
    spread = f"{ratios[0]:.1f} … {ratios[-1]:.1f}"
    most = f"{statistics.median(floor):.1f} {unit}"
    print(f"{row:<16}{columns}{statistics.median(ratios):>8.1f}x   {spread:<20}{most:>8}")


def _command(name: str, port: int) -> list[str]:
    python = Path(sys.executable)
    return {
        _OURS: serve_command(port),
        _PEER: [str(python.parent / "langgraph"), "dev", "--no-browser", "--no-reload", "--port", str(port)],
        _FLOOR: [str(python), "-m", "bench._floor", str(port)],
    }[name]


def _measure(name: str, folder: Path) -> dict[str, float]:
    place = folder / name.replace(" ", "-")
    place.mkdir(exist_ok=True)
    (place / "langgraph.json").write_text(json.dumps(_CONFIG))
    port = free_port()
    chosen = {
        "CALLSHEET_CONFIG": "langgraph.json",
        "CALLSHEET_DATA_DIR": str(place / "data"),
        "REDIS_URL": "",
    }
    with running(_command(name, port), port, place, _QUIET | chosen) as server:
        server.answers_s(_READY)
        return asyncio.run(_ask(server.url))


async def _ask(url: str) -> dict[str, float]:
    async with get_client(url=url) as client:
        for _ in range(3):
            await _wait_ms(client)
        return {
            "wait": statistics.median([await _wait_ms(client) for _ in range(ONE_BY_ONE)]),
            "first event": statistics.median([await _first_ms(client) for _ in range(ONE_BY_ONE)]),
            "at once": await _per_s(client),
        }


async def _wait_ms(client: LangGraphClient) -> float:
    thread = (await client.threads.create())["thread_id"]
    began = time.perf_counter()
    values: Any = await client.runs.wait(thread, _GRAPH, input={"x": 1})
    assert values["x"] == 4, values
    return (time.perf_counter() - began) * 1000


async def _first_ms(client: LangGraphClient) -> float:
    thread = (await client.threads.create())["thread_id"]
    began, first = time.perf_counter(), 0.0
    async for _ in client.runs.stream(thread, _GRAPH, input={"x": 1}, stream_mode=["values", "updates"]):
        first = first or (time.perf_counter() - began) * 1000
    return first


async def _per_s(client: LangGraphClient) -> float:
    turns = asyncio.Semaphore(UNDER_WAY)

    async def one() -> None:
        async with turns:
            await _wait_ms(client)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    return AT_ONCE / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())

"""Runs over LangGraph's SDK: our server on the embedded Valkey, compared with `langgraph dev`.

Each round starts one server after the other and sends all the same requests for one small graph: *wait* is
`runs.wait` on a new thread, *first event* the first event of a `runs.stream`, *at once* 200 runs with 16
at a time. Only the creation of the thread is not timed. The floor is a server with fixed replies
that executes nothing: no figure can be better, because the client needs time, too.
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

from bench import size
from bench._servers import ROOT, ReadinessProbe, free_port, running, serve_command

ROUNDS: Final = size(5, short=1)
ONE_BY_ONE: Final = size(20, short=2)
AT_ONCE: Final = size(200, short=4)
CONCURRENT_RUNS: Final = 16
_GRAPH: Final = "bench"
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {_GRAPH: f"{ROOT / 'tests' / 'doubles' / 'wire_graphs.py'}:bench"},
}
_READY: Final = ReadinessProbe("/assistants/search", "POST")
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
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
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
    floor_text = f"{statistics.median(floor):.1f} {unit}"
    print(f"{row:<16}{columns}{statistics.median(ratios):>8.1f}x   {spread:<20}{floor_text:>8}")


def _command(name: str, port: int) -> list[str]:
    python = Path(sys.executable)
    return {
        _OURS: serve_command(port),
        _PEER: [str(python.parent / "langgraph"), "dev", "--no-browser", "--no-reload", "--port", str(port)],
        _FLOOR: [str(python), "-m", "bench._floor", str(port)],
    }[name]


def _measure(name: str, folder: Path) -> dict[str, float]:
    own_folder = folder / name.replace(" ", "-")
    own_folder.mkdir(exist_ok=True)
    (own_folder / "langgraph.json").write_text(json.dumps(_CONFIG))
    port = free_port()
    environment = {
        "CALLSHEET_CONFIG": "langgraph.json",
        "CALLSHEET_DATA_DIR": str(own_folder / "data"),
        "REDIS_URL": "",
    }
    with running(_command(name, port), port, own_folder, _QUIET | environment) as server:
        server.ready_s(_READY)
        return asyncio.run(_measure_requests(server.url))


async def _measure_requests(url: str) -> dict[str, float]:
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
    start_s = time.perf_counter()
    values: Any = await client.runs.wait(thread, _GRAPH, input={"x": 1})
    assert values["x"] == 4, values
    return (time.perf_counter() - start_s) * 1000


async def _first_ms(client: LangGraphClient) -> float:
    thread = (await client.threads.create())["thread_id"]
    start_s, first = time.perf_counter(), 0.0
    async for _ in client.runs.stream(thread, _GRAPH, input={"x": 1}, stream_mode=["values", "updates"]):
        first = first or (time.perf_counter() - start_s) * 1000
    return first


async def _per_s(client: LangGraphClient) -> float:
    turns = asyncio.Semaphore(CONCURRENT_RUNS)

    async def run_one() -> None:
        async with turns:
            await _wait_ms(client)

    start_s = time.perf_counter()
    await asyncio.gather(*(run_one() for _ in range(AT_ONCE)))
    return AT_ONCE / (time.perf_counter() - start_s)


if __name__ == "__main__":
    sys.exit(main())

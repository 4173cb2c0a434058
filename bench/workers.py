"""Two workers on nodes that use 250 ms of processor time, compared with two bare Python processes.

A server accepts the runs, two `callsheet worker` processes execute them, and the time is from the first
request to the last reply. The floor is the same work in two processes without a graph, a server or storage.
Rounds take turns, on warm processes. *processor* is the processor time of a node, with storage and server.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from bench import size
from bench._busy import TARGET_S, turns_for
from bench._servers import (
    PATIENCE_S,
    ROOT,
    MeasuredServer,
    ReadinessProbe,
    cpu_of_folder_s,
    free_port,
    running,
    serve_command,
)

ROUNDS: Final = size(8, short=2)
RUNS: Final = size(24, short=2)
WORKERS: Final = 2
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {"busy": f"{ROOT / 'bench' / '_busy.py'}:busy"},
}


def main() -> int:
    """Print the table."""
    turns = turns_for(TARGET_S)
    with (
        tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name,
        _server_and_workers(Path(name)) as servers,
    ):
        asyncio.run(_warm_up(servers, turns))
        rounds = [(_bare(turns), _serve_round(servers[0].url, Path(name), turns)) for _ in range(ROUNDS)]
    bare, ours = [figures for figures, _ in rounds], [figures for _, figures in rounds]
    print(f"{'':<12}{'two workers':>18}{'bare processes':>18}{'ratio':>8}   worst … best round")
    _print(
        "nodes",
        "/s",
        [RUNS / figures.took_s for figures in ours],
        [RUNS / figures.took_s for figures in bare],
    )
    _print("processor", "ms", [figures.cpu_ms for figures in ours], [figures.cpu_ms for figures in bare])
    print(f"{RUNS} runs of one node of {TARGET_S * 1000:.0f} ms at once; {ROUNDS} rounds, in turn; medians;")
    print("a ratio of 1 is as good as no server at all")
    return 0


def _print(row: str, unit: str, ours: Sequence[float], bare: Sequence[float]) -> None:
    pairs = zip(ours, bare, strict=True)
    ratios = sorted(one / other if unit == "/s" else other / one for one, other in pairs)
    columns = f"{statistics.median(ours):>14.1f} {unit:<3}{statistics.median(bare):>14.1f} {unit:<3}"
    print(f"{row:<12}{columns}{statistics.median(ratios):>8.2f}   {ratios[0]:.2f} … {ratios[-1]:.2f}")


class Round(NamedTuple):
    """Figures of one round."""

    took_s: float
    cpu_ms: float
    """Processor time per node."""


def _serve_round(url: str, folder: Path, turns: int) -> Round:
    before_s = cpu_of_folder_s(folder)
    took_s = asyncio.run(_serve_s(url, turns))
    return Round(took_s, (cpu_of_folder_s(folder) - before_s) / RUNS * 1000)


@contextmanager
def _server_and_workers(folder: Path) -> Iterator[list[MeasuredServer]]:
    """Start a server that executes no runs, and its workers; wait until all are ready."""
    (folder / "langgraph.json").write_text(json.dumps(_CONFIG))
    common = {
        "CALLSHEET_CONFIG": "langgraph.json",
        "CALLSHEET_DATA_DIR": str(folder / "data"),
        "CALLSHEET_CARRY_RUNS": "false",
        "CALLSHEET_LOG_LEVEL": "error",
        "REDIS_URL": "",
    }
    with ExitStack() as stack:
        servers = [_start(stack, folder, common, serve_command(port := free_port()), port)]
        servers[0].ready_s(ReadinessProbe("/assistants/search", "POST"))
        for _ in range(WORKERS):
            port = free_port()
            environment = common | {"CALLSHEET_WORKER_PORT": str(port)}
            servers.append(
                _start(
                    stack,
                    folder,
                    environment,
                    [sys.executable, "-m", "callsheet.server.cli.main", "worker"],
                    port,
                )
            )
            servers[-1].ready_s(ReadinessProbe("/health"))
        yield servers


def _start(
    stack: ExitStack, folder: Path, environment: Mapping[str, str], command: list[str], port: int
) -> MeasuredServer:
    return stack.enter_context(running(command, port, folder, environment))


async def _warm_up(servers: list[MeasuredServer], turns: int) -> None:
    """Return once every worker has executed a run."""
    deadline = time.monotonic() + PATIENCE_S
    async with httpx.AsyncClient() as http:
        while not all([await _has_worked(http, worker.url) for worker in servers[1:]]):
            assert time.monotonic() < deadline, "a worker does nothing"
            await _serve_s(servers[0].url, turns // 10)


async def _has_worked(http: httpx.AsyncClient, url: str) -> bool:
    return (
        'callsheet_runs_ended_total{graph="busy",status="success"}' in (await http.get(f"{url}/metrics")).text
    )


async def _serve_s(url: str, turns: int) -> float:
    async with get_client(url=url, timeout=PATIENCE_S) as client:
        threads = [(await client.threads.create())["thread_id"] for _ in range(RUNS)]
        start_s = time.perf_counter()
        await asyncio.gather(*(_wait(client, thread, turns) for thread in threads))
        return time.perf_counter() - start_s


async def _wait(client: LangGraphClient, thread: str, turns: int) -> None:
    values: Any = await client.runs.wait(thread, "busy", input={"turns": turns, "result": 0})
    assert values["result"], values


def _bare(turns: int) -> Round:
    """Return the figures of two bare processes for the same work, without their start."""
    command = [sys.executable, "-m", "bench._busy", str(turns), str(RUNS // WORKERS)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(WORKERS)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    start_s = time.perf_counter()
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    used_s = sum(float(process.communicate()[0]) for process in processes)
    return Round(time.perf_counter() - start_s, used_s / RUNS * 1000)


if __name__ == "__main__":
    sys.exit(main())

"""A thousand crons that are due at once, compared with the same runs sent by a client.

One server executes the runs, of a graph with one step. *started* is from the due time, or the first request,
to the step; *processor* is the processor time of the server and its Redis for a run. A ratio of 1 is as good
as a client that sends all runs when they are due.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from bench import size
from bench._servers import (
    PATIENCE_S,
    ROOT,
    ReadinessProbe,
    cpu_of_folder_s,
    free_port,
    running,
    serve_command,
)

CRONS: Final = size(1_000, short=10)
_AT_ONCE: Final = 16
"""Requests of the client at once."""
_LEAD_S: Final = 3 + CRONS // 20
"""Seconds in which the crons are created."""
_END_S: Final = 180.0
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {"mark": f"{ROOT / 'bench' / '_marks.py'}:mark"},
}


class Starts(NamedTuple):
    """Figures of a thousand runs."""

    median_s: float
    last_s: float
    cpu_ms: float


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        (folder / "langgraph.json").write_text(json.dumps(_CONFIG))
        environment = {"CALLSHEET_LOG_LEVEL": "error", "CALLSHEET_CRONS_PER_OWNER": str(CRONS)}
        command = [*serve_command(port), "--data-dir", str(folder / "data")]
        with running(command, port, folder, environment) as server:
            server.ready_s(ReadinessProbe("/assistants/search", "POST"))
            sent, due = asyncio.run(_measure(server.url, folder))
    print(f"{'':<12}{'crons':>12}{'client':>12}{'ratio':>8}")
    for row, unit, ours, floor in (
        ("median start", "s", due.median_s, sent.median_s),
        ("last start", "s", due.last_s, sent.last_s),
        ("processor", "ms", due.cpu_ms, sent.cpu_ms),
    ):
        print(f"{row:<12}{ours:>9.2f} {unit:<2}{floor:>9.2f} {unit:<2}{ours / floor:>8.2f}")
    print(f"{CRONS:,} runs; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0


async def _measure(url: str, folder: Path) -> tuple[Starts, Starts]:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
        # The first runs import what the others use.
        await _send_all(http, "/runs", _body(folder / "warm"))
        await _starts(folder / "warm", time.time(), folder, 0.0)
        begin_s, cpu_s = time.time(), cpu_of_folder_s(folder)
        await _send_all(http, "/runs", _body(folder / "sent"))
        sent = await _starts(folder / "sent", begin_s, folder, cpu_s)
        due = (datetime.now(UTC) + timedelta(seconds=_LEAD_S)).replace(microsecond=0)
        schedule = f"{due.minute} {due.hour} {due.day} {due.month} * {due.second}"
        await _send_all(http, "/runs/crons", {**_body(folder / "due"), "schedule": schedule})
        lead_s = due.timestamp() - time.time()
        if lead_s < 0:
            raise RuntimeError(f"the crons were created {-lead_s:.0f} s too late")
        await asyncio.sleep(lead_s)
        return sent, await _starts(folder / "due", due.timestamp(), folder, cpu_of_folder_s(folder))


def _body(file: Path) -> dict[str, object]:
    return {"assistant_id": "mark", "input": {"file": str(file)}}


async def _send_all(http: httpx.AsyncClient, path: str, body: dict[str, object]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def send() -> None:
        async with slots:
            (await http.post(path, json=body)).raise_for_status()

    await asyncio.gather(*(send() for _ in range(CRONS)))


async def _starts(file: Path, begin_s: float, folder: Path, cpu_s: float) -> Starts:
    """Wait until all runs have started; return their figures."""
    end_s = time.monotonic() + _END_S
    while len(marks := _read_marks(file)) < CRONS:
        if time.monotonic() > end_s:
            raise RuntimeError(f"not all of {CRONS} runs have started after {_END_S:g} s")
        await asyncio.sleep(0.05)
    delays = [each - begin_s for each in marks]
    cpu_ms = (cpu_of_folder_s(folder) - cpu_s) * 1000 / CRONS
    return Starts(statistics.median(delays), max(delays), cpu_ms)


def _read_marks(file: Path) -> list[float]:
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())

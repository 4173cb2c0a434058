"""A flood of one owner: fifty times what the slots can do, for two minutes (X13).

Figures are compared with others of the same run, since the load of the machine counts.
"""

import asyncio
import itertools
import json
import re
import signal
import statistics
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from callsheet.storage import Storage
from tests.doubles.auth_cases import bearer, create_key
from tests.doubles.command import ROOT, ForkedCommand
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import free_port
from tests.doubles.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
FLOOD_S = 120.0
SLOTS = 4
WORK_S = 4.0
TIMES = 50
"""Requests of the flood for each that the slots can do."""
PATIENCE_S = 2.0
"""Time after which half of the flood's clients leave."""
WAITING = 20
GRAPHS = {"resting": f"{ROOT}/tests/http/stopping_graphs.py:resting"}


@dataclass
class Reply:
    """An HTTP reply."""

    status: int
    retry_after_s: int
    body: bytes


class FloodOwner:
    """Requests of one owner, each on a plain connection: an HTTP client would be busier than the server."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._headers = bearer(key)
        self._numbers = itertools.count()
        self.statuses = Counter[int]()
        self.accepted: list[str] = []
        """Threads of the runs that were accepted, and that nobody waits for."""
        self.left: list[str] = []
        """Threads of the runs whose clients left."""

    async def wait(self) -> float:
        """Execute a run to its end; return the seconds that it took."""
        start_s = time.monotonic()
        reply = await self._post("one", "/wait")
        assert reply.status == 200, reply.body
        return time.monotonic() - start_s

    async def start(self) -> None:
        """Start a run in the background."""
        thread = f"kept-{next(self._numbers)}"
        reply = await self._post(thread, "")
        self._count(reply)
        if reply.status == 200:
            self.accepted.append(thread)

    async def wait_and_leave(self) -> None:
        """Wait for a run, and leave."""
        thread = f"left-{next(self._numbers)}"
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._count(await self._post(thread, "/wait", on_disconnect="cancel"))
        except TimeoutError:
            self.left.append(thread)

    def _count(self, reply: Reply) -> None:
        self.statuses[reply.status] += 1
        if reply.status == 429:
            assert reply.retry_after_s >= 1

    async def _post(self, thread: str, ending: str, **more: Any) -> Reply:
        body = {"assistant_id": "resting", "input": {"pause_s": WORK_S}, "if_not_exists": "create", **more}
        return await self._request("POST", f"/threads/{thread}/runs{ending}", json.dumps(body))

    async def _request(self, method: str, path: str, body: str = "") -> Reply:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        headers = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": len(body), **self._headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        try:
            writer.write("\r\n".join([*lines, "", body]).encode())
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        retry = re.search(rb"(?i)retry-after: (\d+)", head)
        return Reply(int(head.split()[1]), int(retry[1]) if retry else 0, content)

    async def count_runs(self, threads: list[str]) -> Counter[str]:
        """Return the numbers of these threads' runs by status; `none` for a thread that is not there."""
        counts = Counter[str]()
        for thread in threads:
            reply = await self._request("GET", f"/threads/{thread}/runs")
            is_there = reply.status == 200
            counts.update([run["status"] for run in json.loads(reply.body)] if is_there else ["none"])
        return counts

    async def has_idle_runs_only(self) -> bool:
        """Return whether none of the accepted runs waits or runs."""
        counts = await self.count_runs(self.accepted)
        return not (counts["pending"] or counts["running"])


async def flood(person: FloodOwner) -> None:
    """Send requests at a steady rate; half of the clients leave."""
    pause_s = 1 / (TIMES * SLOTS / WORK_S)
    ways, sent = itertools.cycle((person.start, person.wait_and_leave)), set[asyncio.Task[None]]()
    ends_s = next_s = time.monotonic()
    ends_s += FLOOD_S
    while (now_s := time.monotonic()) < ends_s:
        while next_s <= now_s:
            sent.add(task := asyncio.create_task(next(ways)()))
            task.add_done_callback(sent.discard)
            next_s += pause_s
        await asyncio.sleep(pause_s)
    await asyncio.gather(*sent)


async def is_ready(port: int) -> bool:
    with suppress(OSError):
        return (await FloodOwner(port, "")._request("GET", "/ready")).status == 200
    return False


@dataclass
class Figures:
    """Seconds of the other owner's single runs, memory of the server, and ends of the flood's runs."""

    alone_s: float
    loaded_s: list[float]
    memory_mb: list[float]
    """Resident memory after each single run beside the flood."""
    after_s: float
    """From the end of the flood to the end of the next single run."""
    accepted: Counter[str]
    left: Counter[str]

    def __str__(self) -> str:
        loaded = f"median {statistics.median(self.loaded_s):.2f} s, at most {max(self.loaded_s):.2f} s"
        times = f"alone {self.alone_s:.2f} s; beside the flood {loaded}; after it {self.after_s:.2f} s"
        memory = f"memory {self.memory_mb[0]:.0f} to {self.memory_mb[-1]:.0f} MB"
        return f"{times}; {memory}; accepted {dict(self.accepted)}, left {dict(self.left)}"

    @property
    def memory_growth(self) -> float:
        """The most memory in the second half of the flood, as a multiple of that in the first half."""
        half = len(self.memory_mb) // 2
        return max(self.memory_mb[half:]) / max(self.memory_mb[:half])


async def measure(noisy: FloodOwner, quiet: FloodOwner, server: psutil.Process) -> Figures:
    """Measure single runs before, beside and after the flood, and wait for the end of what it started."""
    alone_s = statistics.median([await quiet.wait() for _ in range(3)])
    flooding = asyncio.create_task(flood(noisy))
    loaded_s, memory_mb = [], []
    while not flooding.done():
        loaded_s.append(await quiet.wait())
        memory_mb.append(server.memory_info().rss / 1e6)
    await flooding
    start_s = time.monotonic()
    await quiet.wait()
    after_s = time.monotonic() - start_s
    await eventually(noisy.has_idle_runs_only, "the end of what was accepted", patience_s=120)
    accepted, left = await noisy.count_runs(noisy.accepted), await noisy.count_runs(noisy.left)
    return Figures(alone_s, loaded_s, memory_mb, after_s, accepted, left)


def late_starts(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the log lines of cancelled runs that had started long after their clients left."""
    cancelled = [line for line in lines if line.get("status") == "interrupted" and "waited_s" in line]
    return [line for line in cancelled if line["waited_s"] > 2 * PATIENCE_S]


async def test_a_flood_of_one_owner_delays_no_other_loses_nothing_and_leaves_the_server_well(
    warm_parent: WarmParent, valkey_url: str, storage: Storage, tmp_path: Path
) -> None:
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": [str(ROOT)], "graphs": GRAPHS}))
    port = free_port()
    env = {
        "REDIS_URL": valkey_url,
        "CALLSHEET_AUTH": "keys",
        "CALLSHEET_RUNS_AT_ONCE": str(SLOTS),
        "CALLSHEET_MAX_WAITING_OF_OWNER": str(WAITING),
    }
    server = ForkedCommand.of(warm_parent, tmp_path, "serve", "--port", str(port), **env)
    try:
        await eventually(partial(is_ready, port), "the server is ready", patience_s=60)
        noisy, quiet = [FloodOwner(port, await create_key(storage, name)) for name in ("noisy", "quiet")]
        figures = await measure(noisy, quiet, psutil.Process(server.pid))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    print(f"flood {dict(noisy.statuses)}; {figures}")  # noqa: T201 -- figures
    lines = [json.loads(line) for line in (tmp_path / "err").read_text().splitlines()]
    assert max(figures.loaded_s) <= 3 * figures.alone_s
    assert {*noisy.statuses} <= {200, 429}
    assert noisy.statuses[429] > noisy.statuses[200]
    assert {*figures.accepted} == {"success"}
    assert not figures.left["success"], "nobody would read it"
    assert late_starts(lines) == []
    assert figures.after_s <= figures.alone_s + 5
    assert figures.memory_growth <= 1.25
    assert not [line for line in lines if line["level"] in {"error", "critical"}]

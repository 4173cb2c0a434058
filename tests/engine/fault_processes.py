"""Servers and workers on one Redis, in processes that a test kills while clients read streams."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk.sse import SSEDecoder, aiter_lines_raw

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import connect
from tests.doubles.killing import WarmParent
from tests.doubles.waiting import eventually
from tests.engine.fault_graphs import STREAM, TICKS

CONFIG = str(Path(__file__).parent / "fault_graphs.json")
_MODES = ["custom", "updates", "values"]


@dataclass
class ServerProcesses:
    """Running servers and workers; a killed one is removed, or replaced by another at the same index."""

    warm_parent: WarmParent
    redis_url: str
    lease_s: float
    executes_runs: bool
    """True if the servers execute runs, too, and not only the workers."""
    http: httpx.AsyncClient
    servers: list[tuple[int, str]] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    killed_ms: list[float] = field(default_factory=list)

    async def add_server(self, index: int) -> None:
        """Start a server and wait until it answers."""
        server = self.warm_parent.start(self.redis_url, self.lease_s, config=CONFIG, carry=self.executes_runs)
        self.servers.insert(index, server)
        await eventually(partial(self._answers, server[1]), f"{server[1]} answers", patience_s=60)

    def add_worker(self, index: int) -> None:
        """Start a worker."""
        self.workers.insert(index, self.warm_parent.work(self.redis_url, self.lease_s, CONFIG))

    async def kill_server(self, index: int, *, restart: bool) -> None:
        """Kill a server, and start another at its index if `restart`."""
        self._kill(self.servers.pop(index)[0])
        if restart:
            await self.add_server(index)

    async def kill_worker(self, index: int, *, restart: bool) -> None:
        """Kill a worker, and start another at its index if `restart`."""
        self._kill(self.workers.pop(index))
        if restart:
            self.add_worker(index)

    def any_url(self) -> str:
        """Return the URL of one of the running servers."""
        return random.choice(self.servers)[1]

    def kill_all(self) -> None:
        """Kill all servers and workers."""
        for pid in (*(pid for pid, _ in self.servers), *self.workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill(self, pid: int) -> None:
        # A process that starts while Redis is down ends by itself.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.killed_ms.append(time.time() * 1000)

    async def _answers(self, url: str) -> bool:
        try:
            return (await self.http.get(f"{url}/info")).status_code == 200
        except httpx.TransportError:
            return False


@asynccontextmanager
async def server_processes(
    warm_parent: WarmParent,
    redis_url: str,
    lease_s: float,
    *,
    executes_runs: bool = False,
    servers: int = 2,
    workers: int = 2,
) -> AsyncIterator[ServerProcesses]:
    """Start servers and workers, and kill them at the end."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx.AsyncClient(limits=limits, timeout=30) as http:
        processes = ServerProcesses(warm_parent, redis_url, lease_s, executes_runs, http)
        try:
            for index in range(workers):
                processes.add_worker(index)
            await asyncio.gather(*(processes.add_server(0) for _ in range(servers)))
            yield processes
        finally:
            processes.kill_all()


@dataclass
class StreamedEvent:
    """One event of a stream, as a client reads it."""

    id: str
    name: str
    data: Any

    @property
    def ms(self) -> int:
        """Time at which it was written, by the clock of Redis."""
        return int(self.id.partition("-")[0])


@dataclass
class StreamFollower:
    """A client that reads one run's stream to its end, and goes on at another server when its own dies."""

    processes: ServerProcesses
    pages: int
    thread: str = ""
    run: str = ""
    events: list[StreamedEvent] = field(default_factory=list)
    disconnects: int = 0
    """Number of times that its server died."""
    modes: list[str] = field(default_factory=lambda: [*_MODES])
    """Stream modes of the run."""

    async def start_run(self, pace_s: float) -> None:
        """Create the run."""
        http, url = self.processes.http, self.processes.any_url()
        created = await http.post(f"{url}/threads", json={})
        created.raise_for_status()
        self.thread = created.json()["thread_id"]
        body = {
            "assistant_id": "clerk",
            "input": {"pages": self.pages, "pace_s": pace_s, "stamped": []},
            "stream_mode": self.modes,
            "stream_resumable": True,
        }
        reply = await http.post(f"{url}/threads/{self.thread}/runs", json=body)
        reply.raise_for_status()
        self.run = reply.json()["run_id"]

    async def read(self) -> None:
        """Read to the end, resuming by Last-Event-ID."""
        while not await self._read_until_disconnect():
            self.disconnects += 1
            await asyncio.sleep(0.05)

    async def _read_until_disconnect(self) -> bool:
        last = self.events[-1].id if self.events else "-1"
        try:
            async for event in run_events(
                self.processes, self.processes.any_url(), self.thread, self.run, last
            ):
                self.events.append(event)
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False
        return True

    async def check(self) -> None:
        """Fail unless the run succeeded, each effect happened once, and every event was read once."""
        url = self.processes.any_url()
        record = (await self.processes.http.get(f"{url}/threads/{self.thread}/runs/{self.run}")).json()
        assert record["status"] == "success", (record, self.events[-3:])
        replayed_ids = [
            event.id async for event in run_events(self.processes, url, self.thread, self.run, "-1")
        ]
        assert [event.id for event in self.events] == replayed_ids, (
            "no event is lost, repeated or out of order"
        )
        versions = [f"v{number + 1}" for number in range(self.pages)]
        state = (await self.processes.http.get(f"{url}/threads/{self.thread}/state")).json()
        assert state["values"]["stamped"] == versions, (
            state["values"],
            await self._versions(),
            self.attempts(),
            self.run,
        )
        assert await self._versions() == versions, "every page is stamped once"
        self._check_events(versions)

    async def _versions(self) -> list[str]:
        async with connect(self.processes.redis_url) as storage:
            entries = await storage.redis.lrange(keys.versions("ad", self.thread, STREAM), 0, -1)
            return [entry.decode() for entry in entries]

    def _check_events(self, versions: list[str]) -> None:
        custom = [event.data for event in self.events if event.name == "custom"]
        ticks = [(event["page"], event["tick"]) for event in custom if "tick" in event]
        expected_ticks = [(page, tick) for page in range(self.pages) for tick in range(TICKS)]
        assert list(dict.fromkeys(ticks)) == expected_ticks
        if self.attempts() == 1:
            assert ticks == expected_ticks, "a run with one attempt sends every event once"
        stamps = [event["stamp"] for event in custom if "stamp" in event]
        assert list(dict.fromkeys(stamps)) == versions
        updates = [event.data["page"]["stamped"] for event in self.events if event.name == "updates"]
        assert [stamp for (stamp,) in dict.fromkeys(map(tuple, updates))] == versions
        assert [event for event in self.events if event.name == "values"][-1].data["stamped"] == versions

    def was_given_up(self) -> bool:
        """Return whether the run was given up because process after process was killed."""
        return (
            bool(self.events) and self.events[-1].name == "error" and "crashed" in str(self.events[-1].data)
        )

    def attempts(self) -> int:
        """Return the number of attempts of the run."""
        return max(int(event.data["attempt"]) for event in self.events if event.name == "metadata")

    def recoveries_s(self) -> list[float]:
        """Return, for every attempt after the first, the seconds since the kill before it."""
        restarts = [event for event in self.events if event.name == "metadata" and event.data["attempt"] > 1]
        kills_before_ms = [[ms for ms in self.processes.killed_ms if ms < event.ms] for event in restarts]
        return [
            (event.ms - kills_ms[-1]) / 1000
            for event, kills_ms in zip(restarts, kills_before_ms, strict=True)
            if kills_ms
        ]


async def run_events(
    processes: ServerProcesses, url: str, thread: str, run: str, after: str
) -> AsyncIterator[StreamedEvent]:
    """The events of a run after an id, from one server; raises `httpx.TransportError` if that dies."""
    headers = {"Last-Event-ID": after}
    async with processes.http.stream(
        "GET", f"{url}/threads/{thread}/runs/{run}/stream", headers=headers
    ) as reply:
        reply.raise_for_status()
        decoder = SSEDecoder()
        async for line in aiter_lines_raw(reply):
            event = decoder.decode(line)  # type: ignore[arg-type]  # it takes what the line reader gives
            if event is not None:
                assert event.id, event
                yield StreamedEvent(event.id, event.event, event.data)


def percentiles(values_s: list[float]) -> str:
    """Return median, 95th percentile and maximum as text."""
    ordered = sorted(values_s)
    if not ordered:
        return "none"
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"p50 {ordered[len(ordered) // 2]:.1f} s, p95 {p95:.1f} s, max {ordered[-1]:.1f} s"

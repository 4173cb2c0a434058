"""Servers and workers in processes of their own on one Redis, to be killed while others read on."""

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
    """Processes by their ids; a killed one is gone, or another has its place."""

    warm_parent: WarmParent
    redis_url: str
    lease_s: float
    carry: bool
    """Whether the servers carry runs out, too."""
    http: httpx.AsyncClient
    servers: list[tuple[int, str]] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    killed_ms: list[float] = field(default_factory=list)

    async def add_server(self, place: int) -> None:
        """Start a server and wait until it answers."""
        made = self.warm_parent.start(self.redis_url, self.lease_s, config=CONFIG, carry=self.carry)
        self.servers.insert(place, made)
        await eventually(partial(self._answers, made[1]), f"{made[1]} answers", patience_s=60)

    def add_worker(self, place: int) -> None:
        """Start a worker."""
        self.workers.insert(place, self.warm_parent.work(self.redis_url, self.lease_s, CONFIG))

    async def kill_server(self, place: int, *, again: bool) -> None:
        """SIGKILL a server, and start another in its place where it is to be there `again`."""
        self._kill(self.servers.pop(place)[0])
        if again:
            await self.add_server(place)

    async def kill_worker(self, place: int, *, again: bool) -> None:
        """SIGKILL a worker, and start another in its place where it is to be there `again`."""
        self._kill(self.workers.pop(place))
        if again:
            self.add_worker(place)

    def any(self) -> str:
        """The URL of a server that is alive."""
        return random.choice(self.servers)[1]

    def end(self) -> None:
        """SIGKILL whoever is left."""
        for pid in (*(pid for pid, _ in self.servers), *self.workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill(self, pid: int) -> None:
        # One that starts while Redis is away ends by itself.
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
    carry: bool = False,
    servers: int = 2,
    workers: int = 2,
) -> AsyncIterator[ServerProcesses]:
    """A house for the length of the `async with`."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx.AsyncClient(limits=limits, timeout=30) as http:
        made = ServerProcesses(warm_parent, redis_url, lease_s, carry, http)
        try:
            for place in range(workers):
                made.add_worker(place)
            await asyncio.gather(*(made.add_server(0) for _ in range(servers)))
            yield made
        finally:
            made.end()


@dataclass
class StreamedEvent:
    """One event as a client read it."""

    id: str
    name: str
    data: Any

    @property
    def ms(self) -> int:
        """When it was written, by the clock of Redis."""
        return int(self.id.partition("-")[0])


@dataclass
class StreamFollower:
    """A client that reads one run's stream to its end, at whichever server is alive."""

    house: ServerProcesses
    pages: int
    thread: str = ""
    run: str = ""
    told: list[StreamedEvent] = field(default_factory=list)
    breaks: int = 0
    """How often its server went away."""
    modes: list[str] = field(default_factory=lambda: [*_MODES])
    """Stream modes of the run."""

    async def begin(self, pace_s: float) -> None:
        """Have the run made."""
        http, url = self.house.http, self.house.any()
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
        while not await self._read_on():
            self.breaks += 1
            await asyncio.sleep(0.05)

    async def _read_on(self) -> bool:
        last = self.told[-1].id if self.told else "-1"
        try:
            async for one in events(self.house, self.house.any(), self.thread, self.run, last):
                self.told.append(one)
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False
        return True

    async def check(self) -> None:
        """Fail unless the run ended well, each effect happened once, and every event was read once."""
        url = self.house.any()
        record = (await self.house.http.get(f"{url}/threads/{self.thread}/runs/{self.run}")).json()
        assert record["status"] == "success", (record, self.told[-3:])
        every = [one.id async for one in events(self.house, url, self.thread, self.run, "-1")]
        assert [one.id for one in self.told] == every, "no event is lost, repeated or out of order"
        wanted = [f"v{number + 1}" for number in range(self.pages)]
        state = (await self.house.http.get(f"{url}/threads/{self.thread}/state")).json()
        assert state["values"]["stamped"] == wanted, (
            state["values"],
            await self._versions(),
            self.attempts(),
            self.run,
        )
        assert await self._versions() == wanted, "every stamp was made once"
        self._heard(wanted)

    async def _versions(self) -> list[str]:
        async with connect(self.house.redis_url) as storage:
            found = await storage.redis.lrange(keys.versions("ad", self.thread, STREAM), 0, -1)
            return [one.decode() for one in found]

    def _heard(self, wanted: list[str]) -> None:
        custom = [one.data for one in self.told if one.name == "custom"]
        ticks = [(one["page"], one["tick"]) for one in custom if "tick" in one]
        every = [(page, tick) for page in range(self.pages) for tick in range(TICKS)]
        assert list(dict.fromkeys(ticks)) == every
        if self.attempts() == 1:
            assert ticks == every, "a run that nobody disturbed tells everything once"
        stamps = [one["stamp"] for one in custom if "stamp" in one]
        assert list(dict.fromkeys(stamps)) == wanted
        updates = [one.data["page"]["stamped"] for one in self.told if one.name == "updates"]
        assert [stamp for (stamp,) in dict.fromkeys(map(tuple, updates))] == wanted
        assert [one for one in self.told if one.name == "values"][-1].data["stamped"] == wanted

    def was_given_up(self) -> bool:
        """Whether it ended because its processes were killed one after the other."""
        return bool(self.told) and self.told[-1].name == "error" and "crashed" in str(self.told[-1].data)

    def attempts(self) -> int:
        """How many attempts the run took."""
        return max(int(one.data["attempt"]) for one in self.told if one.name == "metadata")

    def recoveries_s(self) -> list[float]:
        """For every attempt after the first, the seconds since the kill before it."""
        again = [one for one in self.told if one.name == "metadata" and one.data["attempt"] > 1]
        before = [[ms for ms in self.house.killed_ms if ms < one.ms] for one in again]
        return [(one.ms - found[-1]) / 1000 for one, found in zip(again, before, strict=True) if found]


async def events(
    server_processes: ServerProcesses, url: str, thread: str, run: str, after: str
) -> AsyncIterator[StreamedEvent]:
    """The events of a run after an id, from one server; raises what a lost connection raises."""
    headers = {"Last-Event-ID": after}
    async with server_processes.http.stream(
        "GET", f"{url}/threads/{thread}/runs/{run}/stream", headers=headers
    ) as reply:
        reply.raise_for_status()
        decoder = SSEDecoder()
        async for line in aiter_lines_raw(reply):
            part = decoder.decode(line)  # type: ignore[arg-type]  # it takes what the line reader gives
            if part is not None:
                assert part.id, part
                yield StreamedEvent(part.id, part.event, part.data)


def percentiles(found: list[float]) -> str:
    """Median, 95th percentile and most, for people."""
    ordered = sorted(found)
    if not ordered:
        return "none"
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"p50 {ordered[len(ordered) // 2]:.1f} s, p95 {p95:.1f} s, max {ordered[-1]:.1f} s"

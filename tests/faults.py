"""`make faults`: kills processes under load, compares the outcome with a model, and prints the figures.

Two servers and two workers share one Redis. Runs create versions with receipts; readers follow their streams
in several modes and rejoin elsewhere when their server dies. Ads are edited over REST at the same time, each
request repeated with its `Idempotency-Key` until it has a reply. One server is never killed: its memory is
measured. With `--redis`, Redis is killed too.

The model: every run succeeds, creates each version once and keeps them all; every step's event is delivered
once, and a replay equals what its reader saw.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from redis.asyncio import Redis
from redis.exceptions import RedisError

from callsheet.server.engine.execution import MAX_ATTEMPTS
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis import keys
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import RedisServer, running_redis
from tests.engine.fault_processes import ServerProcesses, StreamFollower, run_events, server_processes

MODES: Final = (["updates"], ["updates", "custom"], ["values"], ["custom", "updates", "values"])
"""Stream modes of the readers, in turn."""
PAGES: Final = 4
EDITS: Final = 20
"""Turns of an ad after its first."""
EDIT_PAUSE_S: Final = 0.3
"""Pause that keeps one owner's edits below the limit of a tool."""
BRIEF: Final = {"clientDescription": "Harbour Bikes rents e-bikes by the hour in Porto", "duration": 20}
REDIS_DOWN_S: Final = 2.0
_TRY_AGAIN: Final = frozenset({409, 429, 503, 504})
_DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")


@dataclass(frozen=True)
class FaultPlan:
    """The load, the kills, and their duration."""

    seconds: float
    lease_s: float
    """Seconds that a silent process keeps its runs."""
    pause_s: float
    """Seconds between kills."""
    parallel_runs: int = 16
    """Runs at once."""
    parallel_ads: int = 3
    """Ads that are edited at once."""
    kills_redis: bool = False
    """True to kill Redis too, after every third kill."""
    pace_s: float = 0.2


@dataclass
class FaultFigures:
    """Counts and measurements of a session."""

    kills: int = 0
    redis_kills: int = 0
    runs: int = 0
    taken_over: int = 0
    given_up: int = 0
    """Runs that were executed by three killed processes in a row without a checkpoint in between."""
    lost: list[str] = field(default_factory=list)
    """Other runs that did not succeed, and turns of ads without their version."""
    doubled: list[str] = field(default_factory=list)
    """Effects that happened more than once."""
    streams: list[str] = field(default_factory=list)
    """Streams that miss or repeat a step, or differ from their replay."""
    resumed: int = 0
    edits: int = 0
    recovery_s: list[float] = field(default_factory=list)
    """Seconds from a kill to the next event of a run that died with it."""
    memory_mib: list[float] = field(default_factory=list)
    """Resident memory of the server that is never killed, once a second."""

    @property
    def memory_ratio(self) -> float:
        """Memory at the end, as a multiple of that after a tenth of the time."""
        tenth = self.memory_mib[len(self.memory_mib) // 10 :]
        return tenth[-1] / tenth[0]

    @property
    def failed(self) -> bool:
        """True if the model was broken."""
        too_many = self.given_up > self.kills // MAX_ATTEMPTS
        return bool(self.lost or self.doubled or self.streams or not self.runs or too_many)

    def table(self) -> str:
        """Return the figures for people."""
        rows = [
            ("kills of processes, of Redis", f"{self.kills}, {self.redis_kills}"),
            ("runs, taken over, lost", f"{self.runs}, {self.taken_over}, {len(self.lost)}"),
            ("runs given up after three kills", f"{self.given_up}"),
            ("edits of ads", f"{self.edits}"),
            ("effects doubled", f"{len(self.doubled)}"),
            ("streams resumed, wrong", f"{self.resumed}, {len(self.streams)}"),
            ("kill to next event", _spread(self.recovery_s)),
            ("memory, end to first tenth", f"{self.memory_mib[-1]:.0f} MiB, {self.memory_ratio:.2f}x"),
        ]
        wrong = [*self.lost[:5], *self.doubled[:5], *self.streams[:5]]
        return "\n".join([*(f"{name:<32}{value}" for name, value in rows), *wrong])


def _spread(values_s: Sequence[float]) -> str:
    if not values_s:
        return "none"
    ordered = sorted(values_s)
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    return f"p50 {p50:.1f} s, p99 {p99:.1f} s, max {ordered[-1]:.1f} s, of {len(ordered)}"


class FaultSession:
    """Load and kills on servers and workers with one Redis."""

    def __init__(self, processes: ServerProcesses, plan: FaultPlan, server: RedisServer) -> None:
        self._processes, self._plan, self._redis = processes, plan, server
        self._figures = FaultFigures()
        self._ends = time.monotonic() + plan.seconds
        self._modes = iter(range(10**9))

    async def run(self) -> FaultFigures:
        """Put load on the servers and kill processes until the time is over; then check the outcome."""
        memory = asyncio.create_task(self._watch_memory(self._processes.servers[0][0]))
        load = [self._read_runs() for _ in range(self._plan.parallel_runs)]
        load += [self._edit_ads() for _ in range(self._plan.parallel_ads)]
        try:
            await asyncio.gather(self._kill_processes(), *load)
        finally:
            memory.cancel()
        return self._figures

    def _over(self) -> bool:
        return time.monotonic() > self._ends

    async def _kill_processes(self) -> None:
        # The first server stays, so that its memory can be compared.
        victims = [
            lambda: self._processes.kill_worker(0, restart=True),
            lambda: self._processes.kill_server(1, restart=True),
            lambda: self._processes.kill_worker(1, restart=True),
        ]
        kills = 0
        while not self._over():
            await asyncio.sleep(self._plan.pause_s)
            await victims[kills % len(victims)]()
            self._figures.kills += 1
            kills += 1
            if self._plan.kills_redis and kills % len(victims) == 0:
                await asyncio.to_thread(self._kill_redis)

    def _kill_redis(self) -> None:
        self._redis.kill()
        time.sleep(REDIS_DOWN_S)
        self._redis.start()
        self._figures.redis_kills += 1

    async def _watch_memory(self, pid: int) -> None:
        process = psutil.Process(pid)
        while True:
            self._figures.memory_mib.append(process.memory_info().rss / 2**20)
            await asyncio.sleep(1)

    async def _read_runs(self) -> None:
        while not self._over():
            reader = StreamFollower(self._processes, PAGES, modes=MODES[next(self._modes) % len(MODES)])
            await _retry(partial(reader.start_run, self._plan.pace_s))
            async with asyncio.timeout(20 * self._plan.lease_s + 60):
                await reader.read()
            self._figures.runs += 1
            self._figures.resumed += reader.disconnects
            await self._check(reader)

    async def _check(self, reader: StreamFollower) -> None:
        name, figures = f"run {reader.run} {reader.modes}", self._figures
        record = await self._get(f"/threads/{reader.thread}/runs/{reader.run}")
        if record["status"] != "success":
            if reader.was_given_up() and reader.attempts() >= MAX_ATTEMPTS:
                figures.given_up += 1
            else:
                figures.lost.append(f"{name} ended as {record['status']}: {reader.events[-1:]}")
            return
        expected = [f"v{number + 1}" for number in range(PAGES)]
        if (versions := await self._versions(reader.thread)) != expected:
            figures.doubled.append(f"{name} has versions {versions}")
        if reader.attempts() > 1:
            figures.taken_over += 1
            figures.recovery_s += _recoveries_s(reader)
        replay = await _retry(lambda: _replay(self._processes, reader))
        if [event.id for event in reader.events] != replay:
            figures.streams.append(f"{name} differs from its replay")
        updates = [event.data["page"]["stamped"][0] for event in reader.events if event.name == "updates"]
        if "updates" in reader.modes and updates != expected:
            figures.streams.append(f"{name} sent the updates {updates}")
        values = [event.data["stamped"] for event in reader.events if event.name == "values"]
        if "values" in reader.modes and [len(event) for event in values] != [*range(PAGES + 1)]:
            figures.streams.append(f"{name} sent the values {values}")

    async def _versions(self, thread: str) -> list[str]:
        async def read() -> list[str]:
            async with Redis.from_url(self._processes.redis_url) as redis:
                entries: Any = redis.lrange(keys.versions("ad", thread, "music"), 0, -1)
                return [entry.decode() for entry in await entries]

        versions: list[str] = await _retry(read)
        return versions

    async def _get(self, path: str) -> Any:
        async def get() -> Any:
            reply = await self._processes.http.get(self._processes.any_url() + path)
            reply.raise_for_status()
            return reply.json()

        return await _retry(get)

    async def _edit_ads(self) -> None:
        while not self._over():
            await self._edit_ad(uuid.uuid4().hex)

    async def _edit_ad(self, ad: str) -> None:
        await self._post("/api/ai/generate", {"adId": ad, "brief": BRIEF, "provider": "offline"})
        for turn in range(2, EDITS + 2):
            tempo = "relaxed" if turn % 2 else "upbeat"
            body = {"message": f"make the music more {tempo}", "provider": "offline"}
            reply = await self._post(f"/api/ads/{ad}/chat", body)
            self._figures.edits += 1
            await asyncio.sleep(EDIT_PAUSE_S)
            stream = await self._get(f"/api/ads/{ad}/music")
            if (count := len(stream["versions"])) != turn:
                problems = self._figures.doubled if count > turn else self._figures.lost
                problems.append(f"ad {ad} has {count} versions after {turn} turns: {reply['message']}")
                return

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        """Repeat a request with its key until it is answered."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}

        async def post() -> Any:
            reply = await self._processes.http.post(
                self._processes.any_url() + path, json=body, headers=headers
            )
            reply.raise_for_status()
            return reply.json()

        return await _retry(post)


def _recoveries_s(reader: StreamFollower) -> list[float]:
    """Return the seconds from each kill of a process that executed the run to the run's next event."""
    waits = []
    for before, after in zip(reader.events, reader.events[1:], strict=False):
        kills_ms = [ms for ms in reader.processes.killed_ms if before.ms <= ms <= after.ms]
        if kills_ms and after.name == "metadata":
            waits.append((after.ms - kills_ms[0]) / 1000)
    return waits


async def _replay(processes: ServerProcesses, reader: StreamFollower) -> list[str]:
    return [
        event.id
        async for event in run_events(processes, processes.any_url(), reader.thread, reader.run, "-1")
    ]


async def _retry(call: Any, patience_s: float = 120) -> Any:
    """Return the result of `call`, repeated while a dead process or a stopped Redis prevents it."""
    ends = time.monotonic() + patience_s
    while True:
        try:
            return await call()
        except httpx.HTTPStatusError as error:
            if time.monotonic() > ends or error.response.status_code not in _TRY_AGAIN:
                raise
        except (httpx.TransportError, RedisError, OSError):
            if time.monotonic() > ends:
                raise
        await asyncio.sleep(0.1 + random.random() * 0.2)


@asynccontextmanager
async def fault_session(
    plan: FaultPlan, warm_parent: WarmParent, folder: Path
) -> AsyncIterator[FaultSession]:
    """A session on a Redis of its own."""
    with running_redis(watchdog.binary(), folder, *_DURABLE) as server:
        async with server_processes(warm_parent, server.url, plan.lease_s, executes_runs=True) as processes:
            yield FaultSession(processes, plan, server)


async def measure(plan: FaultPlan) -> FaultFigures:
    """Return the figures of one session."""
    with WarmParent() as warm_parent, tempfile.TemporaryDirectory(prefix="callsheet-faults-") as folder:
        async with fault_session(plan, warm_parent, Path(folder)) as faults:
            return await faults.run()


def main() -> int:
    """Run a session; 1 if the model was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--lease", type=float, default=10.0, help="seconds")
    parser.add_argument("--redis", action="store_true", help="kill Redis too")
    options = parser.parse_args()
    pause_s = max(3.0, 2 * options.lease)
    figures = asyncio.run(
        measure(FaultPlan(options.minutes * 60, options.lease, pause_s, kills_redis=options.redis))
    )
    sys.stdout.write(figures.table() + "\n")
    return int(figures.failed)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())

"""`make faults`: kills processes under load, compares the outcome with a model, and prints the figures.

Two servers and two workers share one Redis. Runs make versions with receipts; readers follow their streams
in several modes and rejoin elsewhere when their server dies. Ads are edited over REST at the same time, each
request repeated with its `Idempotency-Key` until it is answered. One server is never killed: its memory is
measured. With `--redis`, Redis is killed too.

The model: every run succeeds, makes each version once and keeps them all; every step's event is delivered
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
from tests.doubles.redis_server import RedisServer
from tests.doubles.redis_server import running_redis as redis_running
from tests.engine.fault_house import ServerProcesses, StreamFollower, events
from tests.engine.fault_house import server_processes as house_of

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
class Plan:
    """What is done to the processes, and for how long."""

    seconds: float
    lease_s: float
    """Seconds that a silent process keeps its runs."""
    pause_s: float
    """Seconds between kills."""
    readers: int = 16
    """Runs at once."""
    ads: int = 3
    """Ads that are edited at once."""
    redis: bool = False
    """True to kill Redis too, after every third kill."""
    pace_s: float = 0.2


@dataclass
class Figures:
    """Outcome of a session."""

    kills: int = 0
    redis_kills: int = 0
    runs: int = 0
    taken_over: int = 0
    given_up: int = 0
    """Runs that were executed by three killed processes in a row without a checkpoint in between."""
    lost: list[str] = field(default_factory=list)
    """Other runs that did not succeed, and turns of ads without their version."""
    doubled: list[str] = field(default_factory=list)
    """Effects that happened twice."""
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


def _spread(found: Sequence[float]) -> str:
    if not found:
        return "none"
    ordered = sorted(found)
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    return f"p50 {p50:.1f} s, p99 {p99:.1f} s, max {ordered[-1]:.1f} s, of {len(ordered)}"


class Session:
    """One session of faults on a house."""

    def __init__(self, house: ServerProcesses, plan: Plan, server: RedisServer) -> None:
        self._house, self._plan, self._redis = house, plan, server
        self._figures = Figures()
        self._ends = time.monotonic() + plan.seconds
        self._modes = iter(range(10**9))

    async def run(self) -> Figures:
        """Load the house and kill its processes until the time is over; then check what is left to check."""
        memory = asyncio.create_task(self._watch_memory(self._house.servers[0][0]))
        load = [self._read_runs() for _ in range(self._plan.readers)]
        load += [self._edit_ads() for _ in range(self._plan.ads)]
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
            lambda: self._house.kill_worker(0, again=True),
            lambda: self._house.kill_server(1, again=True),
            lambda: self._house.kill_worker(1, again=True),
        ]
        turn = 0
        while not self._over():
            await asyncio.sleep(self._plan.pause_s)
            await victims[turn % len(victims)]()
            self._figures.kills += 1
            turn += 1
            if self._plan.redis and turn % len(victims) == 0:
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
            reader = StreamFollower(self._house, PAGES, modes=MODES[next(self._modes) % len(MODES)])
            await _repeated(lambda one=reader: one.begin(self._plan.pace_s))
            async with asyncio.timeout(20 * self._plan.lease_s + 60):
                await reader.read()
            self._figures.runs += 1
            self._figures.resumed += reader.breaks
            await self._check(reader)

    async def _check(self, reader: StreamFollower) -> None:
        name, figures = f"run {reader.run} {reader.modes}", self._figures
        record = await self._get(f"/threads/{reader.thread}/runs/{reader.run}")
        if record["status"] != "success":
            if reader.was_given_up() and reader.attempts() >= MAX_ATTEMPTS:
                figures.given_up += 1
            else:
                figures.lost.append(f"{name} ended as {record['status']}: {reader.told[-1:]}")
            return
        wanted = [f"v{number + 1}" for number in range(PAGES)]
        if (made := await self._versions(reader.thread)) != wanted:
            figures.doubled.append(f"{name} made {made}")
        if reader.attempts() > 1:
            figures.taken_over += 1
            figures.recovery_s += _recoveries_s(reader)
        replay = await _repeated(lambda: _replay(self._house, reader))
        if [one.id for one in reader.told] != replay:
            figures.streams.append(f"{name} differs from its replay")
        updates = [one.data["page"]["stamped"][0] for one in reader.told if one.name == "updates"]
        if "updates" in reader.modes and updates != wanted:
            figures.streams.append(f"{name} told the updates {updates}")
        values = [one.data["stamped"] for one in reader.told if one.name == "values"]
        if "values" in reader.modes and [len(one) for one in values] != [*range(PAGES + 1)]:
            figures.streams.append(f"{name} told the values {values}")

    async def _versions(self, thread: str) -> list[str]:
        async def read() -> list[str]:
            async with Redis.from_url(self._house.redis_url) as redis:
                found: Any = redis.lrange(keys.versions("ad", thread, "music"), 0, -1)
                return [one.decode() for one in await found]

        versions: list[str] = await _repeated(read)
        return versions

    async def _get(self, path: str) -> Any:
        async def get() -> Any:
            reply = await self._house.http.get(self._house.any() + path)
            reply.raise_for_status()
            return reply.json()

        return await _repeated(get)

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
            if (found := len(stream["versions"])) != turn:
                wrong = self._figures.doubled if found > turn else self._figures.lost
                wrong.append(f"ad {ad} has {found} versions after {turn} turns: {reply['message']}")
                return

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        """Repeat a request with its key until it is answered."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}

        async def post() -> Any:
            reply = await self._house.http.post(self._house.any() + path, json=body, headers=headers)
            reply.raise_for_status()
            return reply.json()

        return await _repeated(post)


def _recoveries_s(reader: StreamFollower) -> list[float]:
    """Return the seconds from each kill that this run died of to its next event."""
    waits = []
    for before, after in zip(reader.told, reader.told[1:], strict=False):
        fatal = [ms for ms in reader.house.killed_ms if before.ms <= ms <= after.ms]
        if fatal and after.name == "metadata":
            waits.append((after.ms - fatal[0]) / 1000)
    return waits


async def _replay(house: ServerProcesses, reader: StreamFollower) -> list[str]:
    return [one.id async for one in events(house, house.any(), reader.thread, reader.run, "-1")]


async def _repeated(call: Any, patience_s: float = 120) -> Any:
    """Return what `call` returns once neither a dead process nor an absent Redis prevents it."""
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
async def session(plan: Plan, warm_parent: WarmParent, folder: Path) -> AsyncIterator[Session]:
    """A session on a Redis of its own."""
    with redis_running(watchdog.binary(), folder, *_DURABLE) as server:
        async with house_of(warm_parent, server.url, plan.lease_s, carry=True) as house:
            yield Session(house, plan, server)


async def measure(plan: Plan) -> Figures:
    """Return the figures of one session."""
    with WarmParent() as warm_parent, tempfile.TemporaryDirectory(prefix="callsheet-faults-") as folder:
        async with session(plan, warm_parent, Path(folder)) as made:
            return await made.run()


def main() -> int:
    """Run a session; 1 if the model was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--lease", type=float, default=10.0, help="seconds")
    parser.add_argument("--redis", action="store_true", help="kill Redis too")
    chosen = parser.parse_args()
    pause_s = max(3.0, 2 * chosen.lease)
    figures = asyncio.run(measure(Plan(chosen.minutes * 60, chosen.lease, pause_s, redis=chosen.redis)))
    sys.stdout.write(figures.table() + "\n")
    return int(figures.failed)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())

"""Runs asked for from within the test, for workers in processes of their own: no server is needed."""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.storage import Storage, connect
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.runs import events
from callsheet.storage.runs.events import Event
from callsheet.storage.runs.records import Run, RunRequest, request_fields
from tests.doubles.waiting import eventually
from tests.engine.fault_graphs import STREAM


@dataclass(frozen=True)
class RunClient:
    """Where runs are asked for, and looked at."""

    storage: Storage
    worker: Worker
    """Carries nothing out."""

    async def are_at_work(self, many: int) -> None:
        """Wait until so many workers have begun to take deliveries."""

        async def begun() -> bool:
            if not await self.storage.redis.exists("callsheet:stream"):
                return False
            groups = await self.storage.redis.xinfo_groups("callsheet:stream")
            return bool(sum(group["consumers"] for group in groups) >= many)

        await eventually(begun, f"{many} workers at work", patience_s=40)

    async def ask(self, graph: str = "clerk", pages: int = 2, pace_s: float = 0.1) -> "SubmittedRun":
        """Have a run made on a thread of its own."""
        order = SubmittedRun(self, str(uuid.uuid4()), str(uuid.uuid4()), pages)
        asked = request_fields(
            input={"pages": pages, "pace_s": pace_s, "stamped": []}, stream_mode=["custom", "values"]
        )
        await self.worker.submit(RunRequest(order.thread, order.run, graph, "local", asked))
        return order


@dataclass(frozen=True)
class SubmittedRun:
    """One run that was asked for."""

    desk: RunClient
    thread: str
    run: str
    pages: int

    async def record(self) -> Run:
        """How it stands."""
        return await self.desk.worker.runs.get(self.thread, self.run)

    async def told(self) -> list[Event]:
        """All it told."""
        return await events.read_after(self.desk.storage, self.thread, events.START_ID)

    async def custom(self) -> list[dict[str, Any]]:
        """What its graph told by itself."""
        return [orjson.loads(one.data) for one in await self.told() if one.name == "custom"]

    async def attempts(self) -> dict[int, int]:
        """When each attempt began, in milliseconds by the clock of Redis."""
        found = [one for one in await self.told() if one.name == "metadata"]
        return {orjson.loads(one.data)["attempt"]: int(one.id.partition("-")[0]) for one in found}

    async def has_told(self, key: str) -> None:
        """Wait until the graph told something that has `key`."""

        async def found() -> bool:
            return any(key in one for one in await self.custom())

        await eventually(found, f"a {key} of run {self.run}", patience_s=40)

    async def ended(self) -> Run:
        """Wait for its end; how it stands then."""

        async def over() -> bool:
            return (await self.record()).status not in {"pending", "running"}

        await eventually(over, f"the end of run {self.run}", patience_s=40)
        return await self.record()

    async def ended_well(self) -> None:
        """Fail unless it ends, with every stamp made once."""
        record = await self.ended()
        assert record.status == "success", record.error
        artefact = Artefact(self.desk.storage, "ad", self.thread, "local")
        made = [version.id for version in (await artefact.stream(STREAM)).versions]
        assert made == [f"v{number + 1}" for number in range(self.pages)], "every stamp was made once"


@asynccontextmanager
async def run_client(redis_url: str, lease_s: float) -> AsyncIterator[RunClient]:
    """A desk for the length of the `async with`."""
    async with (
        connect(redis_url) as storage,
        running_worker(storage, {}, WorkerOptions(lease_s), executes=False) as worker,
    ):
        yield RunClient(storage, worker)


def is_alive(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def wait_for_exit(pid: int, patience_s: float) -> float:
    """Wait for a process to end; how many seconds that took."""

    async def over() -> bool:
        return not is_alive(pid)

    loop = asyncio.get_running_loop()
    began = loop.time()
    await eventually(over, f"the end of process {pid}", patience_s=patience_s)
    return loop.time() - began


def kill_processes(*pids: int) -> None:
    """SIGKILL whoever of them is left."""
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)

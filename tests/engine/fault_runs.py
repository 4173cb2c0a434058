"""Runs that a test submits without a server, for workers in processes of their own."""

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
    """A client that submits runs straight to the task queue and reads their records."""

    storage: Storage
    worker: Worker
    """Executes nothing itself."""

    async def wait_for_workers(self, count: int) -> None:
        """Wait until `count` workers take deliveries."""

        async def workers_are_ready() -> bool:
            if not await self.storage.redis.exists("callsheet:stream"):
                return False
            groups = await self.storage.redis.xinfo_groups("callsheet:stream")
            return bool(sum(group["consumers"] for group in groups) >= count)

        await eventually(workers_are_ready, f"{count} workers at work", patience_s=40)

    async def submit(self, graph: str = "clerk", pages: int = 2, pace_s: float = 0.1) -> "SubmittedRun":
        """Submit a run on a new thread."""
        submitted = SubmittedRun(self, str(uuid.uuid4()), str(uuid.uuid4()), pages)
        fields = request_fields(
            input={"pages": pages, "pace_s": pace_s, "stamped": []}, stream_mode=["custom", "values"]
        )
        await self.worker.submit(RunRequest(submitted.thread, submitted.run, graph, "local", fields))
        return submitted


@dataclass(frozen=True)
class SubmittedRun:
    """One run of a `RunClient`."""

    client: RunClient
    thread: str
    run: str
    pages: int

    async def record(self) -> Run:
        """Return its record."""
        return await self.client.worker.runs.get(self.thread, self.run)

    async def events(self) -> list[Event]:
        """Return all its events."""
        return await events.read_after(self.client.storage, self.thread, events.START_ID)

    async def custom_events(self) -> list[dict[str, Any]]:
        """Return the data of its custom events."""
        return [orjson.loads(event.data) for event in await self.events() if event.name == "custom"]

    async def attempt_starts_ms(self) -> dict[int, int]:
        """Return attempt numbers to their start in milliseconds by the clock of Redis."""
        started = [event for event in await self.events() if event.name == "metadata"]
        return {orjson.loads(event.data)["attempt"]: int(event.id.partition("-")[0]) for event in started}

    async def wait_for_event(self, key: str) -> None:
        """Wait for a custom event whose data have `key`."""

        async def has_event() -> bool:
            return any(key in event for event in await self.custom_events())

        await eventually(has_event, f"a {key} of run {self.run}", patience_s=40)

    async def wait_for_end(self) -> Run:
        """Wait for its end and return its record."""

        async def has_ended() -> bool:
            return (await self.record()).status not in {"pending", "running"}

        await eventually(has_ended, f"the end of run {self.run}", patience_s=40)
        return await self.record()

    async def check_success(self) -> None:
        """Wait for its end; fail unless it succeeded and stamped every page once."""
        record = await self.wait_for_end()
        assert record.status == "success", record.error
        artefact = Artefact(self.client.storage, "ad", self.thread, "local")
        versions = [version.id for version in (await artefact.stream(STREAM)).versions]
        assert versions == [f"v{number + 1}" for number in range(self.pages)], "every page is stamped once"


@asynccontextmanager
async def run_client(redis_url: str, lease_s: float) -> AsyncIterator[RunClient]:
    """A client of the runs on one Redis."""
    async with (
        connect(redis_url) as storage,
        running_worker(storage, {}, WorkerOptions(lease_s), executes=False) as worker,
    ):
        yield RunClient(storage, worker)


def is_alive(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def wait_for_exit(pid: int, patience_s: float) -> float:
    """Wait for a process to end and return the seconds that it took."""

    async def has_ended() -> bool:
        return not is_alive(pid)

    loop = asyncio.get_running_loop()
    start_s = loop.time()
    await eventually(has_ended, f"the end of process {pid}", patience_s=patience_s)
    return loop.time() - start_s


def kill_processes(*pids: int) -> None:
    """Kill the processes that still exist."""
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)

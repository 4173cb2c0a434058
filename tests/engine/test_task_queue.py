"""The task queue delivers what was submitted, and says why where it cannot."""

import asyncio
from dataclasses import replace

import pytest

from callsheet.server.engine.background import BackgroundTasks
from callsheet.server.engine.task_queue import TaskQueue
from callsheet.state.errors import Broken, StorageDown
from callsheet.storage import Storage
from tests.doubles.waiting import eventually


async def test_runs_submitted_before_the_worker_starts_are_delivered(storage: Storage) -> None:
    delivered: list[tuple[str, str]] = []

    async def execute(thread: str, run: str) -> None:
        delivered.append((thread, run))

    async def all_delivered() -> bool:
        return sorted(delivered) == [("t", "first"), ("t", "second")]

    async with TaskQueue(storage, 10, at_once=1) as queue:
        for run in ("first", "second"):
            await queue.submit("t", run)
        work = asyncio.create_task(queue.work(execute))
        await eventually(all_delivered, "both runs")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_submission_without_redis_is_an_outage(storage: Storage) -> None:
    async with TaskQueue(replace(storage, url="redis://127.0.0.1:1"), 10, at_once=1) as queue:
        with pytest.raises(StorageDown):
            await queue.submit("t", "r")
        assert queue.failure is None, "/health reports the outage itself"


async def test_a_queue_that_cannot_start_is_reported(storage: Storage) -> None:
    async with TaskQueue(replace(storage, url="http://127.0.0.1:1"), 10, at_once=1) as queue:
        with pytest.raises(Broken, match="must begin with one of"):
            await queue.work(_ignore)
        async with asyncio.timeout(20):
            failure = await queue.wait_for_failed_start()
    assert failure is queue.failure
    assert "callsheet doctor" in failure.remedy


async def _ignore(thread: str, run: str) -> None: ...


async def test_a_bug_in_a_background_task_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("a bug")

    async def is_logged() -> bool:
        return "ValueError: a bug" in caplog.text

    background = BackgroundTasks()
    background.start(work())
    await eventually(is_logged, "the trace")
    await background.stop()

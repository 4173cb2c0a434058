"""The task queue is opened in the background, so that no request waits for it (X8)."""

import asyncio
import logging
from dataclasses import replace

import pytest

from callsheet.server.engine.background import BackgroundTasks
from callsheet.server.engine.task_queue import TaskQueue
from callsheet.state.errors import Broken
from callsheet.storage import Storage
from tests.doubles.redis_server import scripted_redis
from tests.doubles.waiting import eventually


async def test_a_submission_does_not_wait_for_a_connection(storage: Storage) -> None:
    """Nothing answers on its connection."""
    async with (
        scripted_redis({}, otherwise=b"") as url,
        asyncio.timeout(8),
        TaskQueue(replace(storage, url=url), 10, at_once=1) as queue,
    ):
        await queue.submit("t", "r")


async def test_runs_submitted_before_the_worker_starts_are_delivered(storage: Storage) -> None:
    executed: list[tuple[str, str]] = []

    async def execute(thread: str, run: str) -> None:
        executed.append((thread, run))

    async def both_executed() -> bool:
        return sorted(executed) == [("t", "first"), ("t", "second")]

    async with TaskQueue(storage, 10, at_once=1) as queue:
        for run in ("first", "second"):
            await queue.submit("t", run)
        work = asyncio.create_task(queue.work(execute))
        await eventually(both_executed, "both")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_submission_that_fails_is_logged(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    async def is_logged() -> bool:
        return "is repeated later" in caplog.text

    with caplog.at_level(logging.WARNING):
        async with TaskQueue(replace(storage, url="redis://127.0.0.1:1"), 10, at_once=1) as queue:
            await queue.submit("t", "r")
            await eventually(is_logged, "the warning")


async def test_a_queue_that_cannot_be_made_is_reported_until_it_can(storage: Storage) -> None:
    async with TaskQueue(replace(storage, url="http://127.0.0.1:1"), 10, at_once=1) as delivery:
        with pytest.raises(Broken, match="must begin with one of"):
            await delivery.work(_ignore)
        async with asyncio.timeout(5):
            failure = await delivery.wait_for_failed_start()
    assert failure is delivery.failure
    assert "callsheet doctor" in failure.remedy


async def _ignore(thread: str, run: str) -> None: ...


async def test_an_exception_in_a_background_task_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("a bug")

    async def is_logged() -> bool:
        return "ValueError: a bug" in caplog.text

    background = BackgroundTasks()
    background.start(work())
    await eventually(is_logged, "the trace")
    await background.stop()

"""The task engine is made beside requests, none of which waits for it (X8)."""

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


async def test_a_submission_does_not_wait_for_the_engine(storage: Storage) -> None:
    """Here it never comes to be: its connection is answered by nobody."""
    async with (
        scripted_redis({}, otherwise=b"") as url,
        asyncio.timeout(8),
        TaskQueue(replace(storage, url=url), 10, at_once=1) as delivery,
    ):
        await delivery.submit("t", "r")


async def test_what_was_submitted_meanwhile_is_delivered(storage: Storage) -> None:
    carried: list[tuple[str, str]] = []

    async def carry(thread: str, run: str) -> None:
        carried.append((thread, run))

    async def all_carried() -> bool:
        return sorted(carried) == [("t", "first"), ("t", "second")]

    async with TaskQueue(storage, 10, at_once=1) as delivery:
        for run in ("first", "second"):
            await delivery.submit("t", run)
        work = asyncio.create_task(delivery.work(carry))
        await eventually(all_carried, "both")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_submission_that_fails_is_told(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    async def told() -> bool:
        return "is repeated later" in caplog.text

    with caplog.at_level(logging.WARNING):
        async with TaskQueue(replace(storage, url="redis://127.0.0.1:1"), 10, at_once=1) as delivery:
            await delivery.submit("t", "r")
            await eventually(told, "the warning")


async def test_a_queue_that_cannot_be_made_is_reported_until_it_can(storage: Storage) -> None:
    async with TaskQueue(replace(storage, url="http://127.0.0.1:1"), 10, at_once=1) as delivery:
        with pytest.raises(Broken, match="must begin with one of"):
            await delivery.work(_ignore)
        async with asyncio.timeout(5):
            failure = await delivery.wait_for_failed_start()
    assert failure is delivery.failure
    assert "callsheet doctor" in failure.remedy


async def _ignore(thread: str, run: str) -> None: ...


async def test_a_bug_in_what_nobody_waits_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("a bug")

    async def told() -> bool:
        return "ValueError: a bug" in caplog.text

    beside = BackgroundTasks()
    beside.start(work())
    await eventually(told, "the trace")
    await beside.stop()

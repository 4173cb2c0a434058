"""A worker that is stopped ends in time, and its runs can be executed elsewhere (X8)."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from callsheet.server.engine.background import cancel_and_wait, run_periodically, start_periodic
from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.state.errors import StorageDown
from callsheet.storage import Storage, connect
from callsheet.storage.embedded import watchdog
from callsheet.storage.runs.records import RunAttempt
from callsheet.storage.runs.runs import Runs
from tests.doubles.redis_server import running_redis
from tests.doubles.waiting import eventually
from tests.engine.test_worker import TwoStepGraph, word_request

LEASE_S = 10.0
OPTIONS = WorkerOptions(LEASE_S, grace_s=0.1)


@pytest.fixture
def two_step_graph() -> TwoStepGraph:
    return TwoStepGraph()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as exit_stack:
        yield exit_stack


async def run_status(runs: Runs, run: str) -> str:
    return (await runs.get("t", run)).status


async def test_a_run_of_a_stopping_worker_is_pending_and_can_be_claimed_at_once(
    storage: Storage, two_step_graph: TwoStepGraph
) -> None:
    two_step_graph.may_continue.clear()
    async with running_worker(storage, {"stage": two_step_graph.graph()}, OPTIONS) as worker:
        run = (await worker.submit(word_request())).run
        await two_step_graph.second_started.wait()
    assert await run_status(worker.runs, run) == "pending"
    assert isinstance(await Runs(storage, LEASE_S).claim("t", run), RunAttempt), "its lease is released"


async def test_a_stopping_worker_does_not_start_a_run_that_waits_for_another_lease(
    storage: Storage, two_step_graph: TwoStepGraph, stack: AsyncExitStack
) -> None:
    other_worker = Runs(storage, LEASE_S)
    worker = await stack.enter_async_context(
        running_worker(storage, {"stage": two_step_graph.graph()}, OPTIONS)
    )
    request = word_request()
    await other_worker.create(request)
    attempt = await other_worker.claim("t", request.id)
    assert isinstance(attempt, RunAttempt)
    execution = asyncio.create_task(worker.execute("t", request.id))
    start_s = time.monotonic()
    await stack.aclose()
    await asyncio.wait([execution])
    assert time.monotonic() - start_s < LEASE_S / 2
    await other_worker.renew(attempt)
    assert two_step_graph.first_calls == 0


@pytest.mark.slow
async def test_a_worker_stops_while_redis_hangs(
    tmp_path: Path, two_step_graph: TwoStepGraph, stack: AsyncExitStack
) -> None:
    """Neither the task queue nor the release of the thread waits for Redis without a limit."""
    two_step_graph.may_continue.clear()
    with running_redis(watchdog.binary(), tmp_path) as server:
        async with connect(server.url) as opened:
            worker = await stack.enter_async_context(
                running_worker(opened, {"stage": two_step_graph.graph()}, OPTIONS)
            )
            await worker.submit(word_request())
            await two_step_graph.second_started.wait()
            server.hang()
            start_s = time.monotonic()
            await stack.aclose()
            assert time.monotonic() - start_s < 8.0
            server.go_on()


async def test_polling_due_checks_returns_every_run_once(storage: Storage) -> None:
    runs = Runs(storage, LEASE_S)
    for number in range(5):
        await runs.schedule_check("t", f"r{number}", 0)
    polls = [await runs.poll_due_checks(60, limit=2) for _ in range(4)]
    assert [len(due) for due in polls] == [2, 2, 1, 0]
    assert {run for due in polls for _, run in due} == {f"r{number}" for number in range(5)}
    assert await Runs(storage, LEASE_S).poll_due_checks(60) == [], "the first poller has them for a while"


async def test_a_task_queue_that_fails_is_started_again(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    class FailingTaskQueue:
        starts = 0

        async def work(self, execute: Any) -> None:
            self.starts += 1
            if self.starts == 1:
                raise ValueError("a bug")
            await asyncio.Event().wait()

    queue = FailingTaskQueue()
    worker = Worker(storage, cast("Any", None), {}, cast("Any", queue), OPTIONS)
    work = asyncio.create_task(worker.work())

    async def is_started_again() -> bool:
        return queue.starts == 2

    with caplog.at_level(logging.ERROR):
        await eventually(is_started_again, "the second start")
    assert "a bug" in caplog.text
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_a_periodic_task_goes_on_after_an_expected_error(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[Exception] = [StorageDown("it is away"), ValueError("a bug")]
    all_errors_raised = asyncio.Event()

    async def step() -> None:
        if errors:
            raise errors.pop(0)
        all_errors_raised.set()

    task = asyncio.create_task(run_periodically(step, 0, "it did not happen", despite=ValueError))
    async with asyncio.timeout(20):
        await all_errors_raised.wait()
    assert await cancel_and_wait(task, within_s=1)
    assert "it did not happen: it is away" in caplog.text
    assert "a bug" in caplog.text


async def test_an_unexpected_error_ends_a_periodic_task_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def step() -> None:
        raise ValueError("a bug")

    async def is_logged() -> bool:
        return "nothing happens until the next start" in caplog.text

    end = start_periodic(step, 0, "nothing happens")
    await eventually(is_logged, "the error is logged")
    assert "a bug" in caplog.text
    assert await end()


async def test_a_task_that_ignores_cancellation_is_cancelled_again_and_then_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = asyncio.Event()

    async def ignore_cancellation(times: int) -> None:
        for _ in range(times):
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    twice, forever = asyncio.create_task(ignore_cancellation(2)), asyncio.create_task(ignore_cancellation(9))
    await asyncio.sleep(0)
    assert await cancel_and_wait(twice, within_s=0.2)
    assert not await cancel_and_wait(forever, within_s=0.1)
    assert "did not end within 0.1 s" in caplog.text
    release.set()
    await forever

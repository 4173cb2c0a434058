"""A worker that is told to stop ends in time, and what it was at goes on elsewhere (X8)."""

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
from tests.doubles.redis_server import running_redis as redis_running
from tests.doubles.waiting import eventually
from tests.engine.test_worker import Stage, job

LEASE_S = 10.0
TERMS = WorkerOptions(LEASE_S, grace_s=0.1)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as one:
        yield one


async def status(runs: Runs, run: str) -> str:
    return (await runs.get("t", run)).status


async def test_what_is_under_way_is_cut_short_and_can_be_taken_up_at_once(
    storage: Storage, stage: Stage
) -> None:
    stage.go.clear()
    async with running_worker(storage, {"stage": stage.graph()}, TERMS) as worker:
        run = (await worker.submit(job())).run
        await stage.entered.wait()
    assert await status(worker.runs, run) == "pending"
    assert isinstance(await Runs(storage, LEASE_S).claim("t", run), RunAttempt), "nobody waits for its lease"


async def test_a_run_that_waits_for_a_dead_workers_lease_is_not_begun_while_stopping(
    storage: Storage, stage: Stage, stack: AsyncExitStack
) -> None:
    dead = Runs(storage, LEASE_S)
    worker = await stack.enter_async_context(running_worker(storage, {"stage": stage.graph()}, TERMS))
    wanted = job()
    await dead.create(wanted)
    attempt = await dead.claim("t", wanted.id)
    assert isinstance(attempt, RunAttempt)
    carrying = asyncio.create_task(worker.execute("t", wanted.id))
    began = time.monotonic()
    await stack.aclose()
    await asyncio.wait([carrying])
    assert time.monotonic() - began < LEASE_S / 2
    await dead.renew(attempt)
    assert stage.firsts == 0


@pytest.mark.slow
async def test_a_worker_stops_while_redis_hangs(tmp_path: Path, stage: Stage, stack: AsyncExitStack) -> None:
    """Neither the task engine nor what lets the thread go waits for an answer without an end."""
    stage.go.clear()
    with redis_running(watchdog.binary(), tmp_path) as server:
        async with connect(server.url) as opened:
            worker = await stack.enter_async_context(running_worker(opened, {"stage": stage.graph()}, TERMS))
            await worker.submit(job())
            await stage.entered.wait()
            server.hang()
            began = time.monotonic()
            await stack.aclose()
            assert time.monotonic() - began < 8.0
            server.go_on()


async def test_no_run_hides_another_from_those_who_look_for_unfinished_ones(storage: Storage) -> None:
    runs = Runs(storage, LEASE_S)
    for number in range(5):
        await runs.schedule_check("t", f"r{number}", 0)
    found = [await runs.poll_due_checks(60, limit=2) for _ in range(4)]
    assert [len(part) for part in found] == [2, 2, 1, 0]
    assert {run for part in found for _, run in part} == {f"r{number}" for number in range(5)}
    assert await Runs(storage, LEASE_S).poll_due_checks(60) == [], "they are the first one's for a while"


async def test_what_brings_runs_here_is_begun_again_when_it_fails(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    class Fragile:
        begun = 0

        async def work(self, carry: Any) -> None:
            self.begun += 1
            if self.begun == 1:
                raise ValueError("a bug")
            await asyncio.Event().wait()

    engine = Fragile()
    worker = Worker(storage, cast("Any", None), {}, cast("Any", engine), TERMS)
    work = asyncio.create_task(worker.work())

    async def again() -> bool:
        return engine.begun == 2

    with caplog.at_level(logging.ERROR):
        await eventually(again, "the second beginning")
    assert "a bug" in caplog.text
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_a_step_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    troubles: list[Exception] = [StorageDown("it is away"), ValueError("a bug")]
    over = asyncio.Event()

    async def step() -> None:
        if troubles:
            raise troubles.pop(0)
        over.set()

    task = asyncio.create_task(run_periodically(step, 0, "it did not happen", despite=ValueError))
    async with asyncio.timeout(5):
        await over.wait()
    assert await cancel_and_wait(task, within_s=1)
    assert "it did not happen: it is away" in caplog.text
    assert "a bug" in caplog.text


async def test_a_bug_ends_what_is_repeated_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def step() -> None:
        raise ValueError("a bug")

    async def told() -> bool:
        return "nothing happens until the next start" in caplog.text

    end = start_periodic(step, 0, "nothing happens")
    await eventually(told, "it is told")
    assert "a bug" in caplog.text
    assert await end()


async def test_a_task_that_clings_on_is_cancelled_again_and_given_up_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = asyncio.Event()

    async def clinging(times: int) -> None:
        for _ in range(times):
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    twice, forever = asyncio.create_task(clinging(2)), asyncio.create_task(clinging(9))
    await asyncio.sleep(0)
    assert await cancel_and_wait(twice, within_s=0.2)
    assert not await cancel_and_wait(forever, within_s=0.1)
    assert "did not end within 0.1 s" in caplog.text
    release.set()
    await forever

"""Workers that are stopped and continued, cut off from Redis, terminated, or killed by their own run."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.storage.embedded import watchdog
from callsheet.storage.runs.events import Event
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import running_redis
from tests.doubles.tcp_proxy import TcpProxy
from tests.engine.fault_processes import CONFIG
from tests.engine.fault_runs import RunClient, SubmittedRun, kill_processes, run_client, wait_for_exit

LEASE_S = 1.0

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(120)]


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[RunClient]:
    async with run_client(valkey_url, LEASE_S) as run_submitter:
        yield run_submitter


async def submit_runs(client: RunClient, count: int, **options: float) -> list[SubmittedRun]:
    return [await client.submit(**options) for _ in range(count)]  # type: ignore[arg-type]  # pages or pace_s


async def check_success(runs: list[SubmittedRun]) -> None:
    await asyncio.gather(*(run.check_success() for run in runs))


async def test_a_worker_stopped_for_longer_than_its_lease_writes_nothing_after_a_takeover(
    client: RunClient, warm_parent: WarmParent, valkey_url: str
) -> None:
    """X8: SIGSTOP, another takes over, SIGCONT: no write or event of the first is accepted."""
    stopped_worker = warm_parent.work(valkey_url, LEASE_S, CONFIG)
    try:
        runs = await submit_runs(client, 4, pace_s=0.2)
        await wait_for_ticks(runs)
        os.kill(stopped_worker, signal.SIGSTOP)
        events_before = await finish_with_successor(warm_parent, valkey_url, runs)
        os.kill(stopped_worker, signal.SIGCONT)
        # It executes this new run, so it has also tried to go on with the runs that it had before.
        await (await client.submit(pages=4, pace_s=0.1)).check_success()
        assert [await run.events() for run in runs] == events_before
        await check_success(runs)
        for run in runs:
            assert set(await run.attempt_starts_ms()) == {1, 2}
    finally:
        kill_processes(stopped_worker)


@pytest.mark.parametrize(
    "half_open", [pytest.param(False, marks=pytest.mark.long), True], ids=["silence", "half open"]
)
async def test_a_worker_cut_off_from_redis_is_replaced_and_works_again_after_reconnecting(
    warm_parent: WarmParent, tmp_path: Path, *, half_open: bool
) -> None:
    """X8: no error shows that the connection is gone; the worker stops its runs before its lease ends."""
    with running_redis(watchdog.binary(), tmp_path) as server:
        async with TcpProxy(server.port) as proxy, run_client(server.url, LEASE_S) as client:
            worker = warm_parent.work(proxy.url, LEASE_S, CONFIG)
            try:
                runs = await submit_runs(client, 4, pace_s=0.2)
                await wait_for_ticks(runs)
                proxy.cut(half=half_open)
                events_before = await finish_with_successor(warm_parent, server.url, runs)
                proxy.heal()
                healed_at_s = time.monotonic()
                await (await client.submit(pages=1, pace_s=0.01)).check_success()
                assert time.monotonic() - healed_at_s < 20.0, "it works again"
                assert [await run.events() for run in runs] == events_before
                await check_success(runs)
            finally:
                proxy.heal()
                kill_processes(worker)


async def wait_for_ticks(runs: list[SubmittedRun]) -> None:
    """Wait until all of the runs have sent a custom event."""
    for run in runs:
        await run.wait_for_event("tick")


async def finish_with_successor(
    warm_parent: WarmParent, redis_url: str, runs: list[SubmittedRun]
) -> list[list[Event]]:
    """Let another worker finish the runs, end that worker, and return the events of the runs."""
    successor = warm_parent.work(redis_url, LEASE_S, CONFIG)
    try:
        await check_success(runs)
    finally:
        kill_processes(successor)
    return [await run.events() for run in runs]


async def test_a_run_that_kills_three_workers_is_given_up_and_other_runs_succeed(
    client: RunClient, warm_parent: WarmParent, valkey_url: str
) -> None:
    """X8: it kills three processes; their other runs are taken over."""
    workers = [warm_parent.work(valkey_url, LEASE_S, CONFIG)]
    try:
        runs = await submit_runs(client, 3, pages=2, pace_s=0.2)
        await wait_for_ticks(runs)
        poison = await client.submit("poison")
        for _ in range(3):
            await wait_for_exit(workers[-1], 30)
            workers.append(warm_parent.work(valkey_url, LEASE_S, CONFIG))
        record = await poison.wait_for_end()
        assert record.status == "error"
        assert "crashed 3 processes" in (record.error or {})["message"]
        await check_success(runs)
    finally:
        kill_processes(*workers)


async def test_a_worker_that_gets_sigterm_under_load_hands_over_its_runs_at_once(
    client: RunClient, warm_parent: WarmParent, valkey_url: str
) -> None:
    """X8: no step is started, those under way end, the process ends, and another takes over at once."""
    first = warm_parent.work(valkey_url, LEASE_S * 10, CONFIG)
    second = 0
    try:
        runs = await submit_runs(client, 10, pages=8, pace_s=0.1)
        await client.wait_for_workers(1)
        second = warm_parent.work(valkey_url, LEASE_S * 10, CONFIG)
        await client.wait_for_workers(2)
        for run in runs:
            await run.wait_for_event("stamp")
        os.kill(first, signal.SIGTERM)
        terminated_ms = time.time() * 1000
        await wait_for_exit(first, 15)
        await check_success(runs)
        second_attempts_ms = [(await run.attempt_starts_ms()).get(2, 0) for run in runs]
        assert any(second_attempts_ms), "some runs were under way"
        assert max(second_attempts_ms) - terminated_ms < 5_000, "no run waits for a lease to expire"
        for run in runs:
            ticks = [(event["page"], event["tick"]) for event in await run.custom_events() if "tick" in event]
            assert len(ticks) == len(set(ticks)), "no step is executed twice"
    finally:
        kill_processes(first, second)


async def test_a_worker_that_gets_sigterm_while_redis_hangs_ends_within_15_s(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    with running_redis(watchdog.binary(), tmp_path) as server:
        worker = warm_parent.work(server.url, LEASE_S, CONFIG)
        try:
            async with run_client(server.url, LEASE_S) as client:
                run = await client.submit(pages=50, pace_s=0.1)
                await run.wait_for_event("stamp")
                server.hang()
                os.kill(worker, signal.SIGTERM)
                await wait_for_exit(worker, 15)
                server.go_on()
        finally:
            server.go_on()
            kill_processes(worker)

"""What workers suffer: stopped and gone on with, cut off from Redis, told to end, killed by their own run."""

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
from tests.doubles.redis_server import running_redis as redis_running
from tests.doubles.tcp_proxy import TcpProxy
from tests.engine.fault_desk import RunClient, SubmittedRun, kill_processes, run_client, wait_for_exit
from tests.engine.fault_house import CONFIG

LEASE_S = 1.0

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(120)]


@pytest.fixture
async def here(valkey_url: str) -> AsyncIterator[RunClient]:
    async with run_client(valkey_url, LEASE_S) as made:
        yield made


async def asked(here: RunClient, many: int, **how: float) -> list[SubmittedRun]:
    return [await here.ask(**how) for _ in range(many)]  # type: ignore[arg-type]  # pages or pace_s


async def end_well(orders: list[SubmittedRun]) -> None:
    await asyncio.gather(*(one.ended_well() for one in orders))


async def test_a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_any_more(
    here: RunClient, warm_parent: WarmParent, valkey_url: str
) -> None:
    """X8: SIGSTOP, another takes over, SIGCONT: no write or event of the first is accepted."""
    zombie = warm_parent.work(valkey_url, LEASE_S, CONFIG)
    try:
        orders = await asked(here, 4, pace_s=0.2)
        await tick(orders)
        os.kill(zombie, signal.SIGSTOP)
        before = await succeeded(warm_parent, valkey_url, orders)
        os.kill(zombie, signal.SIGCONT)
        # It is at work again, and whatever it was at is over: it has tried what it was about to do.
        await (await here.ask(pages=4, pace_s=0.1)).ended_well()
        assert [await one.told() for one in orders] == before
        await end_well(orders)
        for one in orders:
            assert set(await one.attempts()) == {1, 2}
    finally:
        kill_processes(zombie)


@pytest.mark.parametrize(
    "half", [pytest.param(False, marks=pytest.mark.long), True], ids=["silence", "half open"]
)
async def test_a_worker_that_is_cut_off_from_redis_is_succeeded_and_works_again_once_it_is_back(
    warm_parent: WarmParent, tmp_path: Path, *, half: bool
) -> None:
    """X8: nobody is told that the connection is gone; the worker fences itself before its lease ends."""
    with redis_running(watchdog.binary(), tmp_path) as server:
        async with TcpProxy(server.port) as wire, run_client(server.url, LEASE_S) as here:
            cut_off = warm_parent.work(wire.url, LEASE_S, CONFIG)
            try:
                orders = await asked(here, 4, pace_s=0.2)
                await tick(orders)
                wire.cut(half=half)
                before = await succeeded(warm_parent, server.url, orders)
                wire.heal()
                healed = time.monotonic()
                await (await here.ask(pages=1, pace_s=0.01)).ended_well()
                assert time.monotonic() - healed < 10.0, "it works again"
                assert [await one.told() for one in orders] == before
                await end_well(orders)
            finally:
                wire.heal()
                kill_processes(cut_off)


async def tick(orders: list[SubmittedRun]) -> None:
    """All of them are under way."""
    for one in orders:
        await one.has_told("tick")


async def succeeded(warm_parent: WarmParent, redis_url: str, orders: list[SubmittedRun]) -> list[list[Event]]:
    """What the orders have told once another worker, which is gone again, has brought them to their end."""
    successor = warm_parent.work(redis_url, LEASE_S, CONFIG)
    try:
        await end_well(orders)
    finally:
        kill_processes(successor)
    return [await one.told() for one in orders]


async def test_a_run_that_kills_its_workers_is_given_up_and_the_others_are_unharmed(
    here: RunClient, warm_parent: WarmParent, valkey_url: str
) -> None:
    """X8: three processes die of it; what they were at beside it goes on."""
    workers = [warm_parent.work(valkey_url, LEASE_S, CONFIG)]
    try:
        orders = await asked(here, 3, pages=2, pace_s=0.2)
        await tick(orders)
        poison = await here.ask("poison")
        for _ in range(3):
            await wait_for_exit(workers[-1], 30)
            workers.append(warm_parent.work(valkey_url, LEASE_S, CONFIG))
        record = await poison.ended()
        assert record.status == "error"
        assert "crashed 3 processes" in (record.error or {})["message"]
        await end_well(orders)
    finally:
        kill_processes(*workers)


async def test_a_worker_told_to_end_under_load_hands_its_runs_over(
    here: RunClient, warm_parent: WarmParent, valkey_url: str
) -> None:
    """X8: SIGTERM: no step is begun, those under way end, the process too, and another goes on at once."""
    first = warm_parent.work(valkey_url, LEASE_S * 10, CONFIG)
    second = 0
    try:
        orders = await asked(here, 10, pages=8, pace_s=0.1)
        await here.are_at_work(1)
        second = warm_parent.work(valkey_url, LEASE_S * 10, CONFIG)
        await here.are_at_work(2)
        for one in orders:
            await one.has_told("stamp")
        os.kill(first, signal.SIGTERM)
        told_ms = time.time() * 1000
        await wait_for_exit(first, 15)
        await end_well(orders)
        begun_ms = [(await one.attempts()).get(2, 0) for one in orders]
        assert any(begun_ms), "some were under way"
        assert max(begun_ms) - told_ms < 5_000, "nobody waits for a lease to end"
        for one in orders:
            ticks = [(told["page"], told["tick"]) for told in await one.custom() if "tick" in told]
            assert len(ticks) == len(set(ticks)), "no step was broken off"
    finally:
        kill_processes(first, second)


async def test_a_worker_ends_in_time_while_redis_hangs(warm_parent: WarmParent, tmp_path: Path) -> None:
    with redis_running(watchdog.binary(), tmp_path) as server:
        worker = warm_parent.work(server.url, LEASE_S, CONFIG)
        try:
            async with run_client(server.url, LEASE_S) as here:
                order = await here.ask(pages=50, pace_s=0.1)
                await order.has_told("stamp")
                server.hang()
                os.kill(worker, signal.SIGTERM)
                await wait_for_exit(worker, 15)
                server.go_on()
        finally:
            server.go_on()
            kill_processes(worker)

"""A process that stood still for longer than its leases does nothing for runs that others have taken over."""

import asyncio
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from callsheet.storage.runs.records import RunRequest, request_fields
from tests.doubles.killing import WarmParent
from tests.doubles.waiting import eventually
from tests.engine.fault_desk import RunClient, SubmittedRun, kill_processes, run_client
from tests.engine.fault_house import CONFIG

LEASE_S = 2.0
RUNS = 16
STEPS = 4
PACE_S = 0.4

pytestmark = [pytest.mark.fault, pytest.mark.timeout(120)]


class Line(NamedTuple):
    """An effect: who had it when."""

    run: str
    step: int
    pid: int
    at_s: float


@pytest.fixture
async def here(valkey_url: str) -> AsyncIterator[RunClient]:
    async with run_client(valkey_url, LEASE_S) as made:
        yield made


async def asked(here: RunClient, file: Path) -> SubmittedRun:
    """A run that writes a line in each step."""
    order = SubmittedRun(here, str(uuid.uuid4()), str(uuid.uuid4()), 0)
    given = {"file": str(file), "name": order.run, "steps": STEPS, "pace_s": PACE_S, "done": []}
    request = request_fields(input=given, stream_mode=["values"])
    await here.worker.submit(RunRequest(order.thread, order.run, "writer", "local", request))
    return order


def lines(file: Path) -> list[Line]:
    parts = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [Line(run, int(step), int(pid), float(at)) for run, step, pid, at in parts]


async def frozen(
    here: RunClient, orders: list[SubmittedRun], file: Path, pid: int, *, successor: bool
) -> float:
    """Stop a process at work for three leases, or until its runs have ended elsewhere; when it went on."""

    async def begun() -> bool:
        return {line.run for line in lines(file)} == {order.run for order in orders}

    await eventually(begun, "every run has written", patience_s=40)
    os.kill(pid, signal.SIGSTOP)
    if successor:
        await asyncio.gather(*(order.ended() for order in orders))
    else:
        await asyncio.sleep(3 * LEASE_S)
    at_s = time.time()
    os.kill(pid, signal.SIGCONT)
    return at_s


@pytest.mark.slow
async def test_a_process_that_was_stopped_for_longer_than_its_leases_repeats_no_step_of_another(
    here: RunClient, warm_parent: WarmParent, valkey_url: str, tmp_path: Path
) -> None:
    """Effects before the stop are left out: one without its checkpoint has to be repeated."""
    file, first, second = tmp_path / "lines", warm_parent.work(valkey_url, LEASE_S, CONFIG), 0
    try:
        orders = [await asked(here, file) for _ in range(RUNS)]
        await here.are_at_work(1)
        second = warm_parent.work(valkey_url, LEASE_S, CONFIG)
        woken_s = await frozen(here, orders, file, first, successor=True)
        # It is at work again, and whatever it was at is over.
        kill_processes(second)
        last = await asked(here, file)
        assert (await last.ended()).status == "success"
        assert all([(await order.ended()).status == "success" for order in orders])
        stopped = {line for line in lines(file) if line.pid == first and line.at_s < woken_s}
        again = Counter((line.run, line.step) for line in lines(file) if line not in stopped)
        assert len(stopped) < RUNS * STEPS, "some steps were left for the other process"
        assert [step for step, times in again.items() if times > 1] == []
    finally:
        kill_processes(first, second)


@pytest.mark.slow
async def test_a_process_that_stood_still_goes_on_with_the_runs_that_nobody_has_taken_over(
    here: RunClient, warm_parent: WarmParent, valkey_url: str, tmp_path: Path
) -> None:
    file, alone = tmp_path / "lines", warm_parent.work(valkey_url, LEASE_S, CONFIG)
    try:
        orders = [await asked(here, file) for _ in range(RUNS)]
        await frozen(here, orders, file, alone, successor=False)
        assert all([(await order.ended()).status == "success" for order in orders])
        # A busy machine may have let a lease expire before the process stood still.
        kept = {order.run for order in orders if set(await order.attempts()) == {1}}
        assert len(kept) > RUNS // 2
        assert set(Counter((line.run, line.step) for line in lines(file) if line.run in kept).values()) == {1}
    finally:
        kill_processes(alone)

"""A process that was stopped for longer than its leases does nothing for runs that others have taken over."""

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
from tests.engine.fault_processes import CONFIG
from tests.engine.fault_runs import RunClient, SubmittedRun, kill_processes, run_client

LEASE_S = 2.0
RUNS = 16
STEPS = 4
PACE_S = 0.4

pytestmark = [pytest.mark.fault, pytest.mark.timeout(120)]


class WrittenLine(NamedTuple):
    """A line in the file: the effect of one step, with its process and time."""

    run: str
    step: int
    pid: int
    at_s: float


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[RunClient]:
    async with run_client(valkey_url, LEASE_S) as run_submitter:
        yield run_submitter


async def submit_writer(client: RunClient, file: Path) -> SubmittedRun:
    """Submit a run that writes a line in each step."""
    submitted = SubmittedRun(client, str(uuid.uuid4()), str(uuid.uuid4()), 0)
    graph_input = {"file": str(file), "name": submitted.run, "steps": STEPS, "pace_s": PACE_S, "done": []}
    request = request_fields(input=graph_input, stream_mode=["values"])
    await client.worker.submit(RunRequest(submitted.thread, submitted.run, "writer", "local", request))
    return submitted


def lines(file: Path) -> list[WrittenLine]:
    parts = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [WrittenLine(run, int(step), int(pid), float(at)) for run, step, pid, at in parts]


async def freeze(
    client: RunClient, runs: list[SubmittedRun], file: Path, pid: int, *, successor: bool
) -> float:
    """Stop a process for three leases, or until a successor has ended its runs; return when it went on."""

    async def all_have_written() -> bool:
        return {line.run for line in lines(file)} == {run.run for run in runs}

    await eventually(all_have_written, "every run has written", patience_s=40)
    os.kill(pid, signal.SIGSTOP)
    if successor:
        await asyncio.gather(*(run.wait_for_end() for run in runs))
    else:
        await asyncio.sleep(3 * LEASE_S)
    continued_s = time.time()
    os.kill(pid, signal.SIGCONT)
    return continued_s


@pytest.mark.slow
async def test_a_process_stopped_for_longer_than_its_leases_repeats_no_step_of_its_successor(
    client: RunClient, warm_parent: WarmParent, valkey_url: str, tmp_path: Path
) -> None:
    """Effects before the stop are left out: one without its checkpoint must be repeated."""
    file, first, second = tmp_path / "lines", warm_parent.work(valkey_url, LEASE_S, CONFIG), 0
    try:
        runs = [await submit_writer(client, file) for _ in range(RUNS)]
        await client.wait_for_workers(1)
        second = warm_parent.work(valkey_url, LEASE_S, CONFIG)
        continued_s = await freeze(client, runs, file, first, successor=True)
        # It executes this new run, so it has also tried to go on with the runs that it had before.
        kill_processes(second)
        last = await submit_writer(client, file)
        assert (await last.wait_for_end()).status == "success"
        assert all([(await run.wait_for_end()).status == "success" for run in runs])
        lines_before_stop = {line for line in lines(file) if line.pid == first and line.at_s < continued_s}
        counts = Counter((line.run, line.step) for line in lines(file) if line not in lines_before_stop)
        assert len(lines_before_stop) < RUNS * STEPS, "some steps are left for the other process"
        assert [step for step, times in counts.items() if times > 1] == []
    finally:
        kill_processes(first, second)


@pytest.mark.slow
async def test_a_process_stopped_for_longer_than_its_leases_continues_runs_without_a_successor(
    client: RunClient, warm_parent: WarmParent, valkey_url: str, tmp_path: Path
) -> None:
    file, worker = tmp_path / "lines", warm_parent.work(valkey_url, LEASE_S, CONFIG)
    try:
        runs = [await submit_writer(client, file) for _ in range(RUNS)]
        await freeze(client, runs, file, worker, successor=False)
        assert all([(await run.wait_for_end()).status == "success" for run in runs])
        # On a busy machine a lease may have expired before the process was stopped.
        runs_with_one_attempt = {run.run for run in runs if set(await run.attempt_starts_ms()) == {1}}
        assert len(runs_with_one_attempt) > RUNS // 2
        assert set(
            Counter(
                (line.run, line.step) for line in lines(file) if line.run in runs_with_one_attempt
            ).values()
        ) == {1}
    finally:
        kill_processes(worker)

"""Runs that compute are spread over the workers (X13)."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from callsheet.storage.embedded import watchdog
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import running_redis
from tests.doubles.waiting import eventually
from tests.engine.fault_processes import server_processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

RUNS, WORKERS = 24, 2


async def test_each_of_two_workers_takes_a_fifth_of_the_runs_that_compute(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    """A worker that computes polls later than one that waits, and takes little at once."""
    file = tmp_path / "lines"

    def workers() -> Counter[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        return Counter(line.split()[1] for line in lines)

    with running_redis(watchdog.binary(), tmp_path) as redis:
        async with (
            server_processes(
                warm_parent, redis.url, 10.0, executes_runs=False, servers=1, workers=WORKERS
            ) as processes,
            get_client(url=processes.any_url()) as client,
        ):

            async def execute(busy_s: float) -> None:
                thread = (await client.threads.create())["thread_id"]
                computed: Any = {"file": str(file), "busy_s": busy_s}
                ended: Any = await client.runs.wait(thread, "computer", input=computed)
                assert "__error__" not in ended, ended

            async def all_work() -> bool:
                await asyncio.gather(*(execute(0.02) for _ in range(WORKERS)))
                return len(workers()) == WORKERS

            await eventually(all_work, "a run in each worker", patience_s=30)
            before = workers()
            await asyncio.gather(*(execute(0.25) for _ in range(RUNS)))
            taken = workers() - before
    assert sum(taken.values()) == RUNS
    assert min(taken.values()) >= RUNS // 5, taken

"""A short session of `make faults`: kills under load, compared with the model (X5, X8, X9)."""

import sys
from pathlib import Path

import pytest

from tests.doubles.killing import WarmParent
from tests.faults import FaultPlan, fault_session

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(240)]


async def test_killed_processes_lose_no_run_repeat_no_effect_and_send_every_step_once(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    plan = FaultPlan(seconds=14, lease_s=1.0, pause_s=3.0, parallel_runs=8, parallel_ads=2, kills_redis=True)
    async with fault_session(plan, warm_parent, tmp_path) as faults:
        figures = await faults.run()
    sys.stdout.write(figures.table())
    assert not figures.failed, figures.table()
    assert figures.kills >= 3
    assert figures.redis_kills >= 1
    assert figures.taken_over > 0
    assert figures.edits > 0

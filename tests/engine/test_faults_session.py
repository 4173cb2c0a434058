"""A short session of `make faults`: kills under load, compared with the model (X5, X8, X9)."""

import sys
from pathlib import Path

import pytest

from tests.doubles.killing import WarmParent
from tests.faults import Plan, session

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(240)]


async def test_killed_processes_lose_nothing_repeat_nothing_and_tell_every_step_once(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    plan = Plan(seconds=20, lease_s=1.0, pause_s=3.0, readers=8, ads=2, redis=True)
    async with session(plan, warm_parent, tmp_path) as made:
        figures = await made.run()
    sys.stdout.write(figures.table())
    assert not figures.failed, figures.table()
    assert figures.kills >= 3
    assert figures.redis_kills >= 1
    assert figures.taken_over > 0
    assert figures.edits > 0

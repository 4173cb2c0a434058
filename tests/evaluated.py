"""Runs of recorded answers, as they are and with some of them replaced by wrong ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals import recordings
from evals.endpoints import recorded_plan
from evals.running import Score, run, stage
from evals.workflows import KITS


async def scores(url: str, workflow: str, wrong: Mapping[str, Sequence[Any]] | None = None) -> list[Score]:
    """Return the scores of a workflow's recorded tasks, or of those alone whose answers are replaced."""
    known = recordings.load([workflow])
    if wrong is not None:
        known = {f"{workflow}.{name}": [*answers] for name, answers in wrong.items()}
    async with stage(url) as opened:
        with recorded_plan(KITS[workflow].tasks(), known) as plan:
            return await run(plan, opened)


def recorded(workflow: str, task: str) -> list[dict[str, Any]]:
    """Return the recorded answers to a task."""
    return list(recordings.load([workflow])[f"{workflow}.{task}"])


async def failing(url: str, workflow: str, task: str, answers: Sequence[Any]) -> Mapping[str, str]:
    """Return the checks that fail if a task is answered so."""
    [score] = await scores(url, workflow, {task: answers})
    return score.failures

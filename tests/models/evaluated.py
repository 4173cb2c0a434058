"""Evaluation runs with recorded answers, unchanged or with some replaced by wrong ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals import recordings
from evals.endpoints import EvalModel, model_plan, recorded_plan
from evals.running import Score, run, stage
from evals.workflows import KITS

PARTS = 3
"""Parts in which recorded tasks are run, so that none takes long on a busy machine."""


async def recorded_scores(url: str, workflow: str, part: int) -> list[Score]:
    """Return the scores of one part of a workflow's recorded tasks."""
    answers = recordings.load([workflow])
    tasks = [task for task in KITS[workflow].tasks() if task.key in answers]
    async with stage(url) as opened:
        with recorded_plan(tasks[part::PARTS], answers) as plan:
            return await run(plan, opened)


async def offline_scores(url: str, workflow: str) -> list[Score]:
    """Return the scores of the offline model in the tasks of its grammar."""
    async with stage(url) as opened:
        with model_plan(KITS[workflow].tasks(), EvalModel("offline")) as (plan, _):
            return await run(plan, opened)


def failed_tasks(scores: Sequence[Score]) -> dict[str, Mapping[str, str]]:
    """Return the failures by task."""
    return {score.id: score.failures for score in scores if score.failures}


def recorded_answers(workflow: str, task: str) -> list[dict[str, Any]]:
    """Return the recorded answers to a task."""
    return list(recordings.load([workflow])[f"{workflow}.{task}"])


async def failing_checks(url: str, workflow: str, task: str, answers: Sequence[Any]) -> Mapping[str, str]:
    """Return the checks that fail if the model gives these answers to a task."""
    async with stage(url) as opened:
        with recorded_plan(KITS[workflow].tasks(), {f"{workflow}.{task}": [*answers]}) as plan:
            [score] = await run(plan, opened)
    return score.failures

"""The workflows that have tasks: their sessions, fields and checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evals import ads, campaigns, lessons, pages, scenes, tasks
from evals.session import EvalSession
from evals.tasks import Task
from evals.turns import Check, EvalTurn


@dataclass(frozen=True)
class Kit:
    """One workflow's part of the evaluation."""

    session: type[EvalSession[Any]]
    fields: Sequence[str]
    """Fields of a case in addition to the common ones."""
    checks: Mapping[str, Check]
    product: Callable[[EvalTurn[Any]], str]
    """Returns the text that a judge reads; empty if the turn wrote none."""

    @property
    def name(self) -> str:
        """Name of the workflow."""
        return self.session.workflow.name

    def tasks(self) -> list[Task]:
        """Return the workflow's tasks, without questions for benches alone."""
        return [task for task in tasks.load(self.name, self.fields, self.checks) if not task.bench]


KITS: Final[Mapping[str, Kit]] = {
    kit.name: kit
    for kit in (
        Kit(ads.AdSession, ads.FIELDS, ads.CHECKS, ads.product),
        Kit(lessons.LessonSession, lessons.FIELDS, lessons.CHECKS, lessons.product),
        Kit(pages.PageSession, pages.FIELDS, pages.CHECKS, pages.product),
        Kit(scenes.SceneSession, scenes.FIELDS, scenes.CHECKS, scenes.product),
        Kit(campaigns.CampaignSession, campaigns.FIELDS, campaigns.CHECKS, campaigns.product),
    )
}
"""Every workflow by name."""

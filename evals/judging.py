"""A judge: a model that grades the written texts, and its agreement with cases graded by hand."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import BaseModel, Field

from callsheet.providers import OFFLINE
from callsheet.state.errors import CallsheetError, Invalid
from callsheet.tools.models.structured import fill_in, model_for
from evals.running import Score
from evals.tasks import EVALS_FOLDER

PROMPT: Final = EVALS_FOLDER / "judge" / "prompt.md"
GRADED: Final = EVALS_FOLDER / "judge" / "graded.jsonl"


class Verdict(BaseModel):
    """The grade of a product."""

    reason: str = Field(description="What decides, in a sentence or two", max_length=1000)
    points: int = Field(description="1 to 5", ge=1, le=5)


@dataclass(frozen=True)
class Judge:
    """A model that grades."""

    model: str
    at_once: int = 4

    def __post_init__(self) -> None:
        """Refuse the offline model, which cannot judge a text."""
        if self.model == OFFLINE:
            raise Invalid("the offline model cannot judge", remedy="name a real model")

    async def grade(self, workflow: str, request: str, product: str) -> int | None:
        """Return the points of a product; None if the judge gave none."""
        fields = {"workflow": workflow, "request": request, "product": product}
        try:
            filled = await fill_in(
                await model_for(self.model, ""), Verdict, PROMPT.read_text("utf-8"), fields
            )
        except CallsheetError:
            return None
        return filled.form.points

    async def grade_all(self, products: Sequence[tuple[str, str, str]]) -> list[int | None]:
        """Return the points of products, each with its workflow and request; None for an empty one."""
        slots = asyncio.Semaphore(self.at_once)

        async def one(workflow: str, request: str, product: str) -> int | None:
            async with slots:
                return await self.grade(workflow, request, product) if product else None

        return await asyncio.gather(*(one(*each) for each in products))

    async def with_grades(self, scores: Sequence[Score]) -> list[Score]:
        """Return the scores with the judge's points."""
        points = await self.grade_all([(one.workflow, one.request, one.product) for one in scores])
        return [replace(score, quality=each) for score, each in zip(scores, points, strict=True)]

    async def agreement(self) -> str:
        """Return how often the judge agrees with the cases graded by hand."""
        cases = [json.loads(line) for line in GRADED.read_text("utf-8").splitlines()]
        points = await self.grade_all([(one["workflow"], one["request"], one["product"]) for one in cases])
        differences = [
            abs(actual - one["points"])
            for one, actual in zip(cases, points, strict=True)
            if actual is not None
        ]
        if not differences:
            return f"{self.model} graded none of {len(cases)} cases"
        return (
            f"{self.model} gives {differences.count(0)} of {len(cases)} products the grade given "
            f"by hand, and {sum(one <= 1 for one in differences)} at most one point more or less; "
            f"the mean difference is {sum(differences) / len(differences):.2f}"
        )

"""A judge: a model that grades texts, decides rubrics, and prefers one of two products.

Its agreement with grades that are given is measured as Cohen's kappa.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field

from callsheet.providers import OFFLINE
from callsheet.state.errors import CallsheetError, Invalid
from callsheet.tools.models.structured import fill_in, model_for
from evals.running import Score
from evals.statistics import kappa
from evals.tasks import EVALS_FOLDER

PROMPT: Final = EVALS_FOLDER / "judge" / "prompt.md"
RUBRIC_PROMPT: Final = EVALS_FOLDER / "judge" / "rubric.md"
PAIR_PROMPT: Final = EVALS_FOLDER / "judge" / "pair.md"
GRADED: Final = EVALS_FOLDER / "judge" / "graded.jsonl"
WITH_CONTROL: Final = "written with the control"
"""Source of a grade that came with the product itself: no person has given it."""
GRADES: Final = (1, 2, 3, 4, 5)
Form = TypeVar("Form", bound=BaseModel)
Side = Literal["first", "second", "neither"]
_SWAPPED: Final[Mapping[Side, Side]] = {"first": "second", "second": "first", "neither": "neither"}


class Verdict(BaseModel):
    """The grade of a product."""

    reason: str = Field(description="What decides, in a sentence or two", max_length=1000)
    points: int = Field(description="1 to 5", ge=1, le=5)


class Ruling(BaseModel):
    """The decision about a rubric."""

    reason: str = Field(description="What decides, in a sentence", max_length=1000)
    holds: bool = Field(description="True if the statement is true of the turn")


class PairVerdict(BaseModel):
    """The better one of two products."""

    reason: str = Field(description="What decides, in a sentence", max_length=1000)
    better: Side = Field(description="The better product, or neither")


@dataclass(frozen=True)
class GradedProduct:
    """A product with the grade that it was given."""

    workflow: str
    request: str
    product: str
    points: int
    why: str
    source: str
    """`written with the control`, or `person` and a sign for one, such as `person ab`."""


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
        verdict = await self._fill(Verdict, PROMPT, fields)
        return verdict.points if verdict else None

    async def rule(self, material: str, rubric: str) -> bool | None:
        """Return whether a rubric holds of a turn; None if the judge did not decide."""
        ruling = await self._fill(Ruling, RUBRIC_PROMPT, {"turn": material, "statement": rubric})
        return ruling.holds if ruling else None

    async def prefer(self, workflow: str, request: str, products: tuple[str, str]) -> Side | None:
        """Return the better of two products, asked in both orders; None if the judge did not decide.

        A judge that changes its mind with the order prefers neither.
        """
        given = {"workflow": workflow, "request": request}
        answers = [
            await self._fill(PairVerdict, PAIR_PROMPT, {**given, "first": first, "second": second})
            for first, second in (products, products[::-1])
        ]
        if not answers[0] or not answers[1]:
            return None
        straight, swapped = answers[0].better, _SWAPPED[answers[1].better]
        return straight if straight == swapped else "neither"

    async def _fill(self, form: type[Form], prompt: Path, fields: Mapping[str, str]) -> Form | None:
        instructions = await asyncio.to_thread(prompt.read_text, "utf-8")
        try:
            filled = await fill_in(await model_for(self.model, ""), form, instructions, fields)
        except CallsheetError:
            return None
        return filled.form

    async def grade_all(self, products: Sequence[tuple[str, str, str]]) -> list[int | None]:
        """Return the points of products, each with its workflow and request; None for an empty one."""

        async def one(each: tuple[str, str, str]) -> int | None:
            return await self.grade(*each) if each[2] else None

        return await self.each(one, products)

    async def with_grades(self, scores: Sequence[Score]) -> list[Score]:
        """Return the scores with the judge's points, and with its rulings on their rubrics."""
        points = await self.grade_all([(one.workflow, one.request, one.product) for one in scores])
        decided = await self.each(self._decide, scores)
        return [replace(score, quality=each) for score, each in zip(decided, points, strict=True)]

    async def _decide(self, score: Score) -> Score:
        """Return the score with its rubrics decided; what the judge leaves open stays a rubric."""
        material = "\n".join([*score.transcript, score.product])
        rulings = {name: await self.rule(material, rubric) for name, rubric in score.rubrics.items()}
        denied = {
            name: f"the judge denies: {score.rubrics[name]}" for name, one in rulings.items() if one is False
        }
        waiting = {name: score.rubrics[name] for name, one in rulings.items() if one is None}
        return replace(score, failures={**score.failures, **denied}, rubrics=waiting)

    async def each(self, ask: Callable[[Any], Awaitable[Any]], items: Sequence[Any]) -> list[Any]:
        """Return what `ask` returns for each item, a few at once."""
        slots = asyncio.Semaphore(self.at_once)

        async def one(item: Any) -> Any:
            async with slots:
                return await ask(item)

        return await asyncio.gather(*map(one, items))

    async def agreement(self) -> str:
        """Return the judge's agreement with the given grades, by their source."""
        cases = graded_products()
        points = await self.grade_all([(one.workflow, one.request, one.product) for one in cases])
        pairs = [(case, actual) for case, actual in zip(cases, points, strict=True) if actual is not None]
        if not pairs:
            return f"{self.model} graded none of {len(cases)} products"
        return f"{self.model}: {'; '.join(_agreements(pairs))}"


def graded_products() -> list[GradedProduct]:
    """Return the products with given grades."""
    return [GradedProduct(**json.loads(line)) for line in GRADED.read_text("utf-8").splitlines()]


def _agreements(pairs: Sequence[tuple[GradedProduct, int]]) -> Iterator[str]:
    """Yield a sentence for each source of grades, people's before those written with the control."""

    def kind(pair: tuple[GradedProduct, int]) -> str:
        return WITH_CONTROL if pair[0].source == WITH_CONTROL else "by people"

    for name, group in groupby(sorted(pairs, key=kind), kind):
        grades = [(case.points, actual) for case, actual in group]
        same = sum(first == second for first, second in grades)
        figures = [kappa(grades, GRADES), kappa(grades, GRADES, weighted=True)]
        simple, weighted = ("-" if one is None else f"{one:.2f}" for one in figures)
        distance = fmean(abs(first - second) for first, second in grades)
        yield (
            f"the same as {same} of {len(grades)} grades {name}, Cohen's κ {simple}, "
            f"quadratically weighted {weighted}, mean difference {distance:.2f}"
        )

"""Two results compared in pairs of products, by a judge that reads each pair in both orders."""

import json
from collections.abc import Mapping
from pathlib import Path

from evals.judging import Judge
from evals.statistics import SIGNIFICANT, sign_flip


async def preferences(judge: Judge, first: Path, second: Path) -> str:
    """Return how often the judge prefers a product of each result, and whether that is more than noise."""
    sides = [_products(path) for path in (first, second)]
    both = [
        case for case, (_, product) in sides[0].items() if case in sides[1] and product != sides[1][case][1]
    ]

    async def ask(case: str) -> int | None:
        (request, old), (_, new) = sides[0][case], sides[1][case]
        better = await judge.prefer(case.partition(" ")[0], request, (old, new))
        return {"first": -1, "second": 1, "neither": 0, None: None}[better]

    answers = [one for one in await judge.each(ask, both) if one is not None]
    p = sign_flip(answers)
    verdict = "more than noise" if p < SIGNIFICANT else "within noise"
    return (
        f"{judge.model} prefers the second in {answers.count(1)}, the first in {answers.count(-1)} and "
        f"neither in {answers.count(0)} of {len(both)} pairs, read in both orders; p = {p:.3f}: {verdict}"
    )


def _products(path: Path) -> Mapping[str, tuple[str, str]]:
    """Return request and product of the first repetition of each case that has one."""
    tasks = [
        one for one in json.loads(path.read_text("utf-8"))["tasks"] if one["repeat"] == 1 and one["product"]
    ]
    return {f"{one['workflow']} {one['id']}": (one["request"], one["product"]) for one in tasks}

"""Statistics of repeated runs: intervals, pass^k, paired differences, and agreement of graders."""

import random
from collections.abc import Mapping, Sequence
from itertools import product
from math import comb, sqrt
from statistics import fmean
from typing import Final

Z95: Final = 1.959964
"""Standard normal quantile of a two-sided interval of 95 %."""
_EXACT: Final = 14
"""Differences up to which every assignment of signs is counted; more are sampled."""
_SAMPLES: Final = 20_000
_ROUNDING: Final = 1e-9
SIGNIFICANT: Final = 0.05


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's interval of 95 % for a share of `count` independent cases; 0 to 1 for none."""
    if not count:
        return 0.0, 1.0
    spread = Z95**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = Z95 * sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def pass_hat_k(runs: Sequence[Sequence[bool]], k: int) -> float:
    """Return pass^k: the mean probability that k runs of a task, drawn without replacement, all pass.

    `runs` has the outcomes of each task; every task needs at least k of them.
    """
    return fmean(comb(sum(outcomes), k) / comb(len(outcomes), k) for outcomes in runs)


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of a paired permutation test: that the mean difference is noise.

    Each difference is of one task, between two results. Under the null hypothesis its sign is a coin; all
    assignments of signs are counted, or 20,000 sampled ones with a fixed seed. 1 without any difference.
    """
    real = [one for one in differences if abs(one) > _ROUNDING]
    if not real:
        return 1.0
    least = abs(sum(real)) - _ROUNDING
    if len(real) <= _EXACT:
        signs = product((1, -1), repeat=len(real))
        sums = [abs(sum(a * b for a, b in zip(real, one, strict=True))) for one in signs]
        return sum(one >= least for one in sums) / len(sums)
    chance = random.Random(0)  # noqa: S311 -- a permutation test, no secret
    hits = sum(abs(sum(one * chance.choice((1, -1)) for one in real)) >= least for _ in range(_SAMPLES))
    return (hits + 1) / (_SAMPLES + 1)


def kappa(
    pairs: Sequence[tuple[int, int]], categories: Sequence[int], *, weighted: bool = False
) -> float | None:
    """Return Cohen's kappa of two graders, 1 for full agreement, 0 for that of chance; None if undefined.

    With `weighted`, a disagreement counts by the square of its distance, as for ordered grades.
    """
    if not pairs:
        return None
    at = {one: place for place, one in enumerate(categories)}

    def cost(first: int, second: int) -> float:
        distance = at[first] - at[second]
        return float(distance**2) if weighted else float(distance != 0)

    observed = fmean(cost(*pair) for pair in pairs)
    rows, columns = zip(*pairs, strict=True)
    chance = fmean(cost(first, second) for first in rows for second in columns)
    return 1 - observed / chance if chance else None


def paired_differences(
    first: Mapping[str, Sequence[bool]], second: Mapping[str, Sequence[bool]]
) -> list[float]:
    """Return the difference in the share of passed runs, second minus first, of each task in both results."""
    return [fmean(second[task]) - fmean(first[task]) for task in first if task in second]

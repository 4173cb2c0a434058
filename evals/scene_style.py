"""The likeness of two scenes in look and movement: the score of tasks that ask for one like another."""

import math
from collections.abc import Sequence
from typing import Final

from callsheet.state.video.scene import Scene
from callsheet.state.video.style import extract_style

_FAR: Final = 60.0
"""Difference of two colours (CIE 1976) from which they count as unlike."""
_WEIGHTS: Final = {"palette": 0.4, "pace": 0.25, "fonts": 0.15, "motion": 0.2}


def style_match(scene: Scene, reference: Scene) -> float:
    """Return how alike two scenes look and move, from 0 to 1."""
    one, other = extract_style(scene), extract_style(reference)
    parts = {
        "palette": _palette_match(one.palette, other.palette),
        "pace": (_ratio(one.seconds, other.seconds) + (1.0 if one.pace == other.pace else 0.0)) / 2,
        "fonts": _overlap(one.fonts, other.fonts),
        "motion": (_overlap(one.motions, other.motions) + _ratio(one.motion_seconds, other.motion_seconds))
        / 2,
    }
    return round(sum(_WEIGHTS[name] * value for name, value in parts.items()), 4)


def _palette_match(one: Sequence[tuple[str, float]], other: Sequence[tuple[str, float]]) -> float:
    """Return how much of what is seen in each has a like colour in the other."""
    return (_coverage(one, other) + _coverage(other, one)) / 2


def _coverage(one: Sequence[tuple[str, float]], other: Sequence[tuple[str, float]]) -> float:
    # The root makes small but striking colours count beside a large background.
    weights = {color: share**0.5 for color, share in one}
    near = {color: min(_difference(color, known) for known, _ in other) for color in weights}
    total = sum(weights.values())
    return float(sum(weight * max(0.0, 1 - near[color] / _FAR) for color, weight in weights.items()) / total)


def _difference(one: str, other: str) -> float:
    return math.dist(_lab(one), _lab(other))


def _lab(color: str) -> tuple[float, float, float]:
    """Return a colour in CIE L*a*b*, in which distances are what people see."""
    linear = [_linear(int(color[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    x, y, z = (sum(part * value for part, value in zip(row, linear, strict=True)) for row in _TO_XYZ)
    fx, fy, fz = _root(x / 0.95047), _root(y), _root(z / 1.08883)
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


_DARK: Final = 0.04045
_NEAR_BLACK: Final = 0.008856
_TO_XYZ: Final = (
    (0.4124, 0.3576, 0.1805),
    (0.2126, 0.7152, 0.0722),
    (0.0193, 0.1192, 0.9505),
)
"""From linear sRGB to CIE XYZ (IEC 61966-2-1)."""


def _linear(value: float) -> float:
    return value / 12.92 if value <= _DARK else float(((value + 0.055) / 1.055) ** 2.4)


def _root(value: float) -> float:
    return float(value ** (1 / 3)) if value > _NEAR_BLACK else 7.787 * value + 16 / 116


def _ratio(one: float, other: float) -> float:
    return 1.0 if one == other else min(one, other) / max(one, other)


def _overlap(one: Sequence[str], other: Sequence[str]) -> float:
    together = {*one} | {*other}
    return len({*one} & {*other}) / len(together) if together else 1.0

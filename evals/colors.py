"""Colours as people and models write them, compared."""

import colorsys
from typing import Final

from callsheet.state.colors import NAMES, rgb

_GREY: Final = 0.12
"""Most saturation of a colour without a hue."""
_HUE: Final = 40 / 360
_LIGHT: Final = 0.2
_STEP: Final = 2.0
"""Least difference of lightness, of 255, that makes a colour darker."""


def is_same(text: str, expected: str) -> bool:
    """Return whether a colour is the expected one; a name matches any colour of its hue."""
    actual, reference = rgb(text), rgb(expected)
    if actual is None or reference is None:
        return False
    if expected.casefold() not in NAMES:
        return actual == reference
    (hue, light, _), (other_hue, other_light, _) = (_hls(one) for one in (actual, reference))
    if _is_grey(reference) or _is_grey(actual):
        return _is_grey(reference) and _is_grey(actual) and abs(light - other_light) <= _LIGHT
    distance = abs(hue - other_hue)
    return min(distance, 1 - distance) <= _HUE


def is_darker(text: str, before: str) -> bool:
    """Return whether a colour is darker than the earlier one."""
    actual, old = rgb(text), rgb(before)
    return actual is not None and old is not None and _light(actual) <= _light(old) - _STEP


def _light(parts: tuple[int, int, int]) -> float:
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _is_grey(parts: tuple[int, int, int]) -> bool:
    return (max(parts) - min(parts)) / 255 <= _GREY


def _hls(parts: tuple[int, int, int]) -> tuple[float, float, float]:
    return colorsys.rgb_to_hls(*(part / 255 for part in parts))

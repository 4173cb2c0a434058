"""Colours as people and models write them, compared."""

import colorsys
import re
from typing import Final

_NAMES: Final = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "purple": (128, 0, 128),
    "lightgrey": (211, 211, 211),
    "lightgray": (211, 211, 211),
    "navy": (0, 0, 128),
    "teal": (0, 128, 128),
    "orange": (255, 165, 0),
    "yellow": (255, 255, 0),
    "grey": (128, 128, 128),
    "gray": (128, 128, 128),
    "pink": (255, 192, 203),
    "brown": (165, 42, 42),
    "royalblue": (65, 105, 225),
    "dodgerblue": (30, 144, 255),
    "darkblue": (0, 0, 139),
    "darkgreen": (0, 100, 0),
    "forestgreen": (34, 139, 34),
    "seagreen": (46, 139, 87),
    "crimson": (220, 20, 60),
    "darkred": (139, 0, 0),
    "gold": (255, 215, 0),
    "indigo": (75, 0, 130),
    "ivory": (255, 255, 240),
    "snow": (255, 250, 250),
    "whitesmoke": (245, 245, 245),
}
_GREY: Final = 0.12
"""Most saturation of a colour without a hue."""
_HUE: Final = 40 / 360
_LIGHT: Final = 0.2
_STEP: Final = 2.0
"""Least difference of lightness, of 255, that makes a colour darker."""


def rgb(text: str) -> tuple[int, int, int] | None:
    """Return the parts of a colour; None for an unknown one."""
    plain = text.strip().casefold()
    if match := re.fullmatch(r"#([0-9a-f]{3}|[0-9a-f]{6})", plain):
        digits = match[1] if len(match[1]) > len("rgb") else "".join(one * 2 for one in match[1])
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    if match := re.fullmatch(r"rgba?\((\d+),\s*(\d+),\s*(\d+).*\)", plain):
        return int(match[1]), int(match[2]), int(match[3])
    if match := re.fullmatch(r"hsla?\((\d+)(?:deg)?,?\s*(\d+)%,?\s*(\d+)%.*\)", plain):
        parts = colorsys.hls_to_rgb(int(match[1]) / 360, int(match[3]) / 100, int(match[2]) / 100)
        return round(parts[0] * 255), round(parts[1] * 255), round(parts[2] * 255)
    return _NAMES.get(plain)


def contrast(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2 defines it."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(parts: tuple[int, int, int]) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / 255 for one in parts)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def is_same(text: str, expected: str) -> bool:
    """Return whether a colour is the expected one; a name matches any colour of its hue."""
    actual, reference = rgb(text), rgb(expected)
    if actual is None or reference is None:
        return False
    if expected.casefold() not in _NAMES:
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

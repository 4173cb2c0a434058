"""Colours in CSS as numbers, and their contrast."""

import colorsys
import re
from typing import Final

Rgb = tuple[int, int, int]
_DARK: Final = 0.04045
"""Part of a colour up to which sRGB is linear."""
NAMES: Final = {
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
"""The names of CSS that people and models use most."""


def rgb(text: str) -> Rgb | None:
    """Return the parts of a colour; None for an unknown one."""
    plain = text.strip().casefold()
    if match := re.fullmatch(r"#([0-9a-f]{3}|[0-9a-f]{6})", plain):
        digits = match[1] if len(match[1]) > len("rgb") else "".join(one * 2 for one in match[1])
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    if match := re.fullmatch(r"rgb\((\d{1,3}),\s?(\d{1,3}),\s?(\d{1,3})\)", plain):
        return int(match[1]), int(match[2]), int(match[3])
    if match := re.fullmatch(r"hsl\((\d{1,3})(?:deg)?,?\s?(\d{1,3})%,?\s?(\d{1,3})%\)", plain):
        parts = colorsys.hls_to_rgb(int(match[1]) / 360, int(match[3]) / 100, int(match[2]) / 100)
        return round(parts[0] * 255), round(parts[1] * 255), round(parts[2] * 255)
    return NAMES.get(plain)


def contrast(first: Rgb, second: Rgb) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2 defines it."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(parts: Rgb) -> float:
    linear = [
        part / 12.92 if part <= _DARK else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / 255 for one in parts)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

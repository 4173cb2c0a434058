"""Page themes: named colours and fonts that styles refer to."""

from collections.abc import Mapping
from typing import Final

from callsheet.state.errors import Invalid
from callsheet.state.pages import styles

_SANS: Final = "inter, system-ui, sans-serif"
_PLAIN: Final = "arial, sans-serif"
_ROUND: Final = "nunito, system-ui, sans-serif"
_COLOURS: Final = ("primary", "on-primary", "secondary", "background", "surface", "text", "muted")
_RULES: Final = dict.fromkeys(_COLOURS, "color") | {
    "font": "font-family",
    "heading-font": "font-family",
    "radius": "border-radius",
}


def _theme(colours: str, font: str = _SANS, radius: str = "8px") -> dict[str, str]:
    named = dict(zip(_COLOURS, colours.split(), strict=True))
    return named | {"font": font, "heading-font": font, "radius": radius}


THEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "light": _theme("#1d4ed8 #ffffff #0f766e #ffffff #f4f6fb #111827 #4b5563"),
    "dark": _theme("#8ab4f8 #0b1220 #7ee0c6 #0b1220 #162033 #e8ecf4 #a8b3c7"),
    "ocean": _theme("#0b6e8f #ffffff #0f766e #f2fafc #e0f1f6 #0c2d3a #3d5c68"),
    "forest": _theme("#2f6b3a #ffffff #7a5c1e #f6f9f3 #e6efe0 #1b2a1d #4a5c4c"),
    "sunset": _theme("#b5371f #ffffff #9a3d73 #fff8f2 #ffe9db #3a1a12 #74483b"),
    "lavender": _theme("#6b3fa0 #ffffff #9b3a7d #faf7ff #efe7fb #2b1d3d #5f4f75"),
    "rose": _theme("#b3245a #ffffff #8a4a1f #fff6f8 #fde5ec #3b1220 #74495a"),
    "mono": _theme("#111111 #ffffff #555555 #ffffff #f2f2f2 #111111 #555555", radius="0"),
    "elegant": _theme("#7a5a16 #ffffff #33415c #fffdf8 #f5efe2 #221d14 #5d5545", "georgia, serif", "2px"),
    "playful": _theme("#a21caf #ffffff #b45309 #fffdf5 #fdf0d5 #2d1836 #6b4f73", _ROUND, "18px"),
    "corporate": _theme("#0a4a8f #ffffff #475569 #ffffff #eef2f7 #0f1e33 #4a5a70", _PLAIN, "4px"),
    "high-contrast": _theme("#ffff00 #000000 #00ffff #000000 #000000 #ffffff #ffffff", radius="0"),
}  # fmt: skip
"""Built-in themes by name."""
DEFAULT: Final = THEMES["light"]


def check_theme(tokens: Mapping[str, str]) -> dict[str, str]:
    """Return theme tokens in stored form; raises `Invalid` for a name or value not allowed."""
    tidy = {styles.property_name(token): text for token, text in tokens.items()}
    if unknown := sorted(tidy.keys() - _RULES.keys()):
        raise Invalid(f"a theme has no {unknown[0][:80]!r}", remedy=f"use one of {', '.join(styles.TOKENS)}")
    return {token: _check_token(token, text) for token, text in tidy.items()}


def build_theme(name: str | None, tokens: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the theme `name`, or `before` if None, with `tokens` changed.

    Raises `Invalid` for an unknown theme or token.
    """
    if name is None:
        return {**before, **check_theme(tokens)}
    theme = THEMES.get(name.strip().lower().replace(" ", "-").replace("_", "-"))
    if theme is None:
        raise Invalid(
            f"there is no theme {name[:80]!r}",
            remedy=f"use one of {', '.join(THEMES)}, or give single colours and fonts",
        )
    return {**theme, **check_theme(tokens)}


def _check_token(token: str, text: str) -> str:
    value = styles.check_value(_RULES[token], text)
    if "var(" in value or value == "inherit":
        raise Invalid(f"{token} of a theme cannot be {value!r}", remedy="give the colour or the font itself")
    return value

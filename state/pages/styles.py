"""Allowed CSS properties with the pattern of each one's values, and page themes: named colours and fonts.

Everything else is refused, so that a style cannot load, cover or run anything: no `url()`, `position`,
`expression()`, `@import`, escapes or comments.
"""

import re
from collections.abc import Mapping
from typing import Final

from callsheet.state.errors import Invalid

_TABLE: Final = """
aliceblue antiquewhite aqua aquamarine azure beige bisque black blanchedalmond blue blueviolet brown
burlywood cadetblue chartreuse chocolate coral cornflowerblue cornsilk crimson cyan darkblue darkcyan
darkgoldenrod darkgray darkgreen darkgrey darkkhaki darkmagenta darkolivegreen darkorange darkorchid
darkred darksalmon darkseagreen darkslateblue darkslategray darkslategrey darkturquoise darkviolet
deeppink deepskyblue dimgray dimgrey dodgerblue firebrick floralwhite forestgreen fuchsia gainsboro
ghostwhite gold goldenrod gray green greenyellow grey honeydew hotpink indianred indigo ivory khaki
lavender lavenderblush lawngreen lemonchiffon lightblue lightcoral lightcyan lightgoldenrodyellow
lightgray lightgreen lightgrey lightpink lightsalmon lightseagreen lightskyblue lightslategray
lightslategrey lightsteelblue lightyellow lime limegreen linen magenta maroon mediumaquamarine
mediumblue mediumorchid mediumpurple mediumseagreen mediumslateblue mediumspringgreen mediumturquoise
mediumvioletred midnightblue mintcream mistyrose moccasin navajowhite navy oldlace olive olivedrab
orange orangered orchid palegoldenrod palegreen paleturquoise palevioletred papayawhip peachpuff peru
pink plum powderblue purple rebeccapurple red rosybrown royalblue saddlebrown salmon sandybrown seagreen
seashell sienna silver skyblue slateblue slategray slategrey snow springgreen steelblue tan teal thistle
tomato turquoise violet wheat white whitesmoke yellow yellowgreen
"""
NAMES: Final = tuple(_TABLE.split())


TOKENS: Final = (
    "primary", "on-primary", "secondary", "background", "surface", "text", "muted", "font", "heading-font",
    "radius",
)  # fmt: skip
"""Tokens that a theme defines; styles use them as `var(--primary)`."""
MAX_VALUE: Final = 200
"""Maximum characters of a value."""

_NUMBER: Final = r"(?:\d{1,5}(?:\.\d{1,4})?|\.\d{1,4})"
_UNIT: Final = r"(?:px|rem|em|%|vw|vh|ch|pt|fr)"
_LENGTH: Final = rf"(?:-?{_NUMBER}{_UNIT}|0)"
_PART: Final = rf"-?{_NUMBER}(?:%|deg)?"
_FUNCTION: Final = (
    rf"(?:rgb|hsl)a?\(\s*{_PART}(?:\s*[,/]\s*|\s+){_PART}(?:\s*[,/]\s*|\s+){_PART}(?:\s*[,/]\s*{_PART})?\s*\)"
)
_TOKEN: Final = rf"var\(--(?:{'|'.join(TOKENS)})\)"
_COLOUR: Final = (
    rf"(?:#[0-9a-f]{{3,4}}|#[0-9a-f]{{6}}|#[0-9a-f]{{8}}|transparent|currentcolor|{_FUNCTION}|{_TOKEN}"
    rf"|{'|'.join(sorted(NAMES, key=len, reverse=True))})"
)
_DIRECTION: Final = r"(?:-?\d{1,3}deg|to (?:top|bottom|left|right)(?: (?:left|right))?)"
_STOP: Final = rf"{_COLOUR}(?:\s+{_LENGTH}){{0,2}}"
_FROM: Final = rf"(?:{_DIRECTION}\s*,\s*|circle\s*,\s*)?"
_GRADIENT: Final = rf"(?:linear|radial)-gradient\(\s*{_FROM}{_STOP}(?:\s*,\s*{_STOP}){{1,5}}\s*\)"
_LINE: Final = r"(?:none|solid|dashed|dotted|double)"
_SHADOW: Final = rf"(?:inset\s+)?{_LENGTH}(?:\s+{_LENGTH}){{1,3}}(?:\s+{_COLOUR})?"
_FAMILY: Final = r"""(?:[a-z][a-z0-9 -]{0,40}|"[a-z][a-z0-9 -]{0,40}"|'[a-z][a-z0-9 -]{0,40}')"""


def _words(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


def _several(value: str, most: int) -> str:
    return rf"{value}(?:\s+{value}){{0,{most - 1}}}"


_SIZE: Final = rf"(?:{_LENGTH}|auto|none|fit-content|max-content|min-content)"
_GAPS: Final = _several(rf"(?:{_LENGTH}|auto)", 4)
_TRACK: Final = rf"(?:{_LENGTH}|auto|minmax\(\s*{_LENGTH}\s*,\s*{_LENGTH}\s*\))"
_REPEAT: Final = rf"repeat\(\s*(?:[1-9]|1[0-2]|auto-fit|auto-fill)\s*,\s*{_TRACK}\s*\)"
_TRACKS: Final = rf"(?:{_REPEAT}|{_several(_TRACK, 12)})"
_ALIGN: Final = _words(
    "start end center flex-start flex-end stretch baseline space-between space-around space-evenly normal"
)
_SIZES: Final = "xx-small x-small small medium large x-large xx-large smaller larger"
_MARKS: Final = "none disc circle square decimal lower-alpha upper-alpha lower-roman upper-roman"
_RADIUS: Final = rf"(?:{_several(_LENGTH, 4)}|var\(--radius\))"
_BORDER: Final = rf"(?:none|0|{_LENGTH}\s+{_LINE}(?:\s+{_COLOUR})?)"
_FONT: Final = rf"(?:{_FAMILY}(?:\s*,\s*{_FAMILY}){{0,5}}|var\(--(?:heading-)?font\))"

_RULES: Final[Mapping[str, str]] = {
    "color": _COLOUR,
    "background": rf"(?:none|{_COLOUR}|{_GRADIENT})",
    "background-color": _COLOUR,
    "background-image": rf"(?:none|{_GRADIENT})",
    "font-family": _FONT,
    "font-size": rf"(?:{_LENGTH}|{_words(_SIZES)})",
    "font-weight": _words("normal bold bolder lighter 100 200 300 400 500 600 700 800 900"),
    "font-style": _words("normal italic oblique"),
    "line-height": rf"(?:normal|{_NUMBER}|{_LENGTH})",
    "letter-spacing": rf"(?:normal|{_LENGTH})",
    "word-spacing": rf"(?:normal|{_LENGTH})",
    "text-align": _words("left right center justify start end"),
    "text-decoration": _words("none underline overline line-through"),
    "text-transform": _words("none uppercase lowercase capitalize"),
    "text-shadow": rf"(?:none|{_SHADOW})",
    "text-indent": _LENGTH,
    "white-space": _words("normal nowrap pre-line pre-wrap"),
    "list-style-type": _words(_MARKS),
    "padding": _several(_LENGTH, 4),
    **{f"padding-{side}": _LENGTH for side in ("top", "right", "bottom", "left")},
    "margin": _GAPS,
    **{f"margin-{side}": rf"(?:{_LENGTH}|auto)" for side in ("top", "right", "bottom", "left")},
    "border": _BORDER,
    **{f"border-{side}": _BORDER for side in ("top", "right", "bottom", "left")},
    "border-color": _several(_COLOUR, 4),
    "border-style": _several(_LINE, 4),
    "border-width": _several(_LENGTH, 4),
    "border-radius": _RADIUS,
    "box-shadow": rf"(?:none|{_SHADOW}(?:\s*,\s*{_SHADOW}){{0,2}})",
    "opacity": r"(?:0|1|0?\.\d{1,4}|1\.0{1,4}|\d{1,3}%)",
    **{f"{limit}{side}": _SIZE for limit in ("", "min-", "max-") for side in ("width", "height")},
    "display": _words("block inline inline-block flex inline-flex grid none"),
    "flex-direction": _words("row row-reverse column column-reverse"),
    "flex-wrap": _words("nowrap wrap wrap-reverse"),
    "flex": rf"(?:none|auto|{_several(rf'(?:{_NUMBER}|{_LENGTH}|auto)', 3)})",
    "flex-grow": _NUMBER,
    "flex-shrink": _NUMBER,
    "flex-basis": _SIZE,
    "order": r"-?\d{1,3}",
    "grid-template-columns": _TRACKS,
    "grid-column": r"(?:span \d{1,2}|\d{1,2}(?:\s*/\s*-?\d{1,2})?)",
    "gap": _several(_LENGTH, 2),
    "row-gap": _LENGTH,
    "column-gap": _LENGTH,
    **dict.fromkeys(("justify-content", "justify-items", "justify-self"), _ALIGN),
    **dict.fromkeys(("align-content", "align-items", "align-self"), _ALIGN),
    "object-fit": _words("fill contain cover none scale-down"),
    "aspect-ratio": rf"(?:auto|{_NUMBER}(?:\s*/\s*{_NUMBER})?)",
    "overflow": _words("visible hidden auto"),
}  # fmt: skip
PROPERTIES: Final = tuple(sorted(_RULES))
"""Allowed properties in CSS spelling."""
_LEGAL: Final = {name: re.compile(rule, re.ASCII) for name, rule in _RULES.items()}
_COUNTED: Final = {"line-height", "grid-template-columns", "flex"}
"""Properties in which a bare number is not a length."""
_IN_PIXELS: Final = {name for name in _LEGAL.keys() - _COUNTED if _LEGAL[name].fullmatch("16px")}
_BARE: Final = re.compile(rf"-?{_NUMBER}")


def property_name(text: str) -> str:
    """Return a property in CSS spelling: `fontSize` becomes `font-size`. It need not be an allowed one."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"-\1", text.strip()).replace("_", "-").lower()


def check_value(prop: str, text: str) -> str:
    """Return a value of `prop` in stored form; raises `Invalid` if it is not allowed.

    Whitespace is collapsed, letters become lower case, and a bare number becomes pixels where CSS needs a
    length.
    """
    if prop not in _LEGAL:
        raise Invalid(f"style {prop[:80]!r} is not allowed", remedy=f"use one of {', '.join(PROPERTIES)}")
    # The value is cut before matching, so that a long one cannot make a pattern slow.
    tidy = re.sub(r"\s+", " ", text[: MAX_VALUE + 1].strip()).lower()
    if prop in _IN_PIXELS and _BARE.fullmatch(tidy) and not _LEGAL[prop].fullmatch(tidy):
        tidy += "px"
    if len(tidy) > MAX_VALUE or not (tidy == "inherit" or _LEGAL[prop].fullmatch(tidy)):
        raise Invalid(
            f"style {prop}: {text[:80]!r} is not allowed",
            remedy=f"give a plain CSS value for {prop}, without url(), calc(), scripts or !important",
        )
    return tidy


def check_style(style: Mapping[str, str]) -> dict[str, str]:
    """Return a style in stored form; raises `Invalid` for the first property or value not allowed."""
    tidy = {property_name(prop): text for prop, text in style.items()}
    return {prop: check_value(prop, text) for prop, text in sorted(tidy.items())}


_SANS: Final = "inter, system-ui, sans-serif"
_PLAIN: Final = "arial, sans-serif"
_ROUND: Final = "nunito, system-ui, sans-serif"
_COLOURS: Final = ("primary", "on-primary", "secondary", "background", "surface", "text", "muted")
_TOKEN_RULES: Final = dict.fromkeys(_COLOURS, "color") | {
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
DEFAULT_THEME: Final = THEMES["light"]


def check_theme(tokens: Mapping[str, str]) -> dict[str, str]:
    """Return theme tokens in stored form; raises `Invalid` for a name or value not allowed."""
    tidy = {property_name(token): text for token, text in tokens.items()}
    if unknown := sorted(tidy.keys() - _TOKEN_RULES.keys()):
        raise Invalid(f"a theme has no {unknown[0][:80]!r}", remedy=f"use one of {', '.join(TOKENS)}")
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
    value = check_value(_TOKEN_RULES[token], text)
    if "var(" in value or value == "inherit":
        raise Invalid(f"{token} of a theme cannot be {value!r}", remedy="give the colour or the font itself")
    return value

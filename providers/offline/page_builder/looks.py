"""How things are to look: colours, sizes and letters out of a clause, as styles of an element."""

import colorsys
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.view import TEXTS, Node, View
from state.colours import NAMES, rgb

_SIZE: Final = re.compile(
    r"(?<![\w#.])(\d{1,4}(?:\.\d{1,2})?)\s*(px|pixels?|píxeles|pikseli|piksel\w*|pixelů|pixeli|พิกเซล|像素|pt|points?|em|rem|%|percent)",
    re.IGNORECASE,
)
_UNITS: Final = {"%": "%", "percent": "%", "em": "em", "rem": "rem"}
_BARE: Final = re.compile(r"(?<![\w#.$€£])(\d{1,4}(?:\.\d{1,2})?)(?![\w%])")
_LENGTH: Final = re.compile(r"(-?\d+(?:\.\d+)?)(px|rem|em|%)?")
_REM_PX: Final = 16
_FONT_PX: Final[Mapping[str, float]] = {"1": 40, "2": 32, "3": 24, "4": 20, "5": 18, "6": 16}
"""Letters of a heading by its level, in pixels, where its style says nothing."""
_MIDDLE_PX: Final[Mapping[str, float]] = {
    "padding": 24,
    "margin": 16,
    "border-radius": 8,
    "width": 400,
    "height": 200,
}
_SIZED: Final = ("font-size", "width", "height", "padding", "margin", "radius", "size")
_PROPERTY: Final = {"radius": "border-radius"}
_FLAGS: Final[Mapping[str, tuple[str, str]]] = {
    "bold": ("font-weight", "bold"),
    "italic": ("font-style", "italic"),
    "underline": ("text-decoration", "underline"),
    "center": ("text-align", "center"),
    "left": ("text-align", "left"),
    "right": ("text-align", "right"),
    "capitalize": ("text-transform", "capitalize"),
    "uppercase": ("text-transform", "uppercase"),
    "lowercase": ("text-transform", "lowercase"),
    "shadow": ("box-shadow", "0 4px 16px #00000033"),
}
LETTERED: Final = frozenset(
    {"font-style", "font-weight", "text-decoration", "text-transform", "font-size", "color"}
)
"""Styles of letters, which a section has by what is written in it."""
_FAMILIES: Final = {
    "serif": "georgia, serif",
    "sans": "inter, system-ui, sans-serif",
    "mono": "ui-monospace, monospace",
}
_TURNS: Final[Mapping[str, tuple[str, float]]] = {
    "bigger": ("", 1.25), "smaller": ("", 0.8), "wider": ("width", 1.25), "narrower": ("width", 0.8),
    "taller": ("height", 1.25), "shorter": ("height", 0.8), "more": ("", 1.5), "less": ("", 0.6),
    "double": ("", 2.0), "half": ("", 0.5),
}  # fmt: skip
"""Words of degree, each with the property it is about by itself, and how many times as large."""
_SHADES: Final = {"darker": -0.25, "lighter": 0.25}


@dataclass(frozen=True)
class Look:
    """What is to become of how something looks."""

    colour: str = ""
    """As CSS has it."""
    part: str = ""
    """What the clause names: `background`, `colour`, `width` …"""
    flags: tuple[str, ...] = ()
    size: str = ""
    """A length."""
    times: float = 0
    """How many times as large; 0 for no change."""
    shade: float = 0
    """How much darker (below 0) or lighter, as a share."""
    family: str = ""
    dimension: str = ""
    """`width` or `height` where a word of degree is about it."""

    @property
    def relative(self) -> bool:
        """Whether it depends on how something looks now."""
        return bool(self.times or self.shade)

    @property
    def empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.colour or self.flags or self.size or self.times or self.shade or self.family)


def look(clause: Clause) -> Look:
    """Return what a clause says of how something is to look."""
    props = clause.names("prop")
    degrees = clause.names("degree")
    size, share = _size(clause, props)
    times, dimension = _times(clause, degrees, share)
    shade = next((_SHADES[one] for one in degrees if one in _SHADES), 0.0)
    return Look(
        colour=colour(clause),
        part=next((one for one in props if one not in _FLAGS), ""),
        flags=tuple(one for one in props if one in _FLAGS),
        size=size if not share else "",
        times=times,
        shade=shade * _strength(degrees),
        family=next((_FAMILIES[one] for one in clause.names("theme") if one in _FAMILIES), ""),
        dimension=dimension,
    )


def colour(clause: Clause) -> str:
    """Return the last colour a clause names, as CSS has it; empty without one."""
    named = [_spelt(one.text) if one.quoted else _named(one.names("colour")) for one in clause.pieces]
    return next((one for one in reversed(named) if one), "")


def lettering(clause: Clause) -> tuple[int, str, str] | None:
    """Return where "with white text" begins, the colour before it, and its own; None where it is not said."""
    cut = clause.place("link.to")
    if cut is None or not clause.part(cut).has("kind.text") or not clause.part(0, cut).has("kind."):
        return None
    behind, letter = colour(clause.part(0, cut)), colour(clause.part(cut))
    return (cut, behind, letter) if behind and letter else None


def _named(names: list[str]) -> str:
    return next((name for name in names if name in NAMES), "")


def _spelt(text: str) -> str:
    low = text.lower()
    if low.startswith("#") and rgb(low):
        return low
    figures = re.findall(r"\d+(?:\.\d+)?", low) if low.startswith("rgb") else []
    if len(figures) >= 3:  # noqa: PLR2004 -- red, green and blue
        return "#" + "".join(f"{min(255, round(float(one))):02x}" for one in figures[:3])
    return low if low.startswith("hsl") else low if low in NAMES else ""


def _size(clause: Clause, props: list[str]) -> tuple[str, float]:
    """Return a length, and the share that "by 25 %" says."""
    text = " ".join(one.text if not one.quoted else " " for one in clause.pieces)
    match = _SIZE.search(clause.text) if not clause.quotes() else _SIZE.search(text)
    if match:
        number, unit = match[1], _UNITS.get(match[2].lower(), "px")
        grown = clause.has("verb.grow", "verb.shrink", "degree.bigger", "degree.smaller")
        share = float(number) / 100 if unit == "%" and (grown or clause.has("degree.")) else 0.0
        return f"{number}{unit}", share
    bare = _BARE.search(text) if set(props) & {*_SIZED} else None
    return (f"{bare[1]}px" if bare else ""), 0.0


def _times(clause: Clause, degrees: list[str], share: float) -> tuple[float, str]:
    turns = [_TURNS[one] for one in degrees if one in _TURNS]
    down = clause.has("verb.shrink", "degree.smaller", "degree.narrower", "degree.less", "degree.shorter")
    if share:
        return (1 - share if down else 1 + share), next((one for one, _ in turns if one), "")
    if not turns:
        return (0.8 if clause.has("verb.shrink") else 1.25 if clause.has("verb.grow") else 0.0), ""
    exact = [times for name in ("double", "half") if name in degrees for _, times in [_TURNS[name]]]
    dimension = next((one for one, _ in turns if one), "")
    times = exact[0] if exact else 1 + (turns[0][1] - 1) * _strength(degrees)
    return times, dimension


def _strength(degrees: list[str]) -> float:
    return 0.5 if "bit" in degrees else 2.0 if "much" in degrees else 1.0


def styles(wanted: Look, node: Node, view: View) -> dict[str, str]:
    """Return the styles that make an element look so."""
    made: dict[str, str] = {}
    for flag in wanted.flags:
        name, value = _FLAGS[flag]
        made[name] = value
    if wanted.family:
        made["font-family"] = wanted.family
    if wanted.colour or wanted.shade:
        made |= _coloured(wanted, node, view)
    if wanted.size:
        made[_sized(wanted, node)] = wanted.size
    if wanted.times:
        made |= _grown(wanted, node)
    return made


def _coloured(wanted: Look, node: Node, view: View) -> dict[str, str]:
    name = _colour_property(wanted, node)
    if name == "border":
        return {"border": f"1px solid {wanted.colour}"}
    if wanted.colour and not wanted.shade:
        return {name: wanted.colour}
    before = _shown(node, name, view)
    return {name: shaded(wanted.colour or before, wanted.shade)}


def _colour_property(wanted: Look, node: Node) -> str:
    if wanted.part == "border":
        return "border"
    text = node.type in TEXTS and wanted.part != "background"
    if text or wanted.part == "letters":
        return "color"
    return "background" if "background" in node.style else "background-color"


def _shown(node: Node, name: str, view: View) -> str:
    """The colour an element has now, by its own style or by the theme."""
    usual = {"color": "var(--text)"}.get(
        name, "var(--primary)" if node.type == "button" else "var(--background)"
    )
    value = node.style.get(name, usual)
    token = re.fullmatch(r"var\(--([\w-]+)\)", value)
    value = view.theme.get(token[1], "") if token else value
    return value if rgb(value) else "#808080"


def shaded(colour_before: str, share: float) -> str:
    """Return a colour darker (share below 0) or lighter by that share."""
    red, green, blue = (part / 255 for part in rgb(colour_before) or (128, 128, 128))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    light = light * (1 + share) if share < 0 else light + (1 - light) * share
    return "#" + "".join(f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(hue, light, full))


def _sized(wanted: Look, node: Node) -> str:
    if wanted.dimension or wanted.part in {"width", "height", "padding", "margin", "font-size", "radius"}:
        return _PROPERTY.get(wanted.part, wanted.dimension or wanted.part)
    return "width" if node.type in {"image", "video"} else "font-size"


def _grown(wanted: Look, node: Node) -> dict[str, str]:
    return {name: _times_as_large(node, name, wanted.times) for name in _grows(wanted, node)}


def _grows(wanted: Look, node: Node) -> list[str]:
    named = _PROPERTY.get(wanted.part, wanted.part)
    if named in {"width", "height"} or wanted.dimension:
        return [wanted.dimension or named]
    if named in _MIDDLE_PX or named == "font-size":
        return [named]
    if node.type in {"image", "video", "divider"}:
        return ["width"]
    if node.type in {"section", "header", "footer", "nav", "card", "container", "columns", "form"}:
        return ["padding"]
    return ["font-size", *(["padding"] if node.type == "button" and "padding" in node.style else [])]


def _times_as_large(node: Node, name: str, times: float) -> str:
    match = _LENGTH.match(node.style.get(name, ""))
    if match is None:
        usual = _FONT_PX.get(node.attributes.get("level", "2"), 32) if node.type == "heading" else _REM_PX
        return _length((usual if name == "font-size" else _MIDDLE_PX[name]) * times, "px")
    rest = node.style[name][match.end() :]
    grown = _length(float(match[1]) * times, match[2] or "px")
    # A padding of two or four lengths grows in all of them.
    return grown + re.sub(_LENGTH, lambda one: _length(float(one[1]) * times, one[2] or "px"), rest)


def _length(number: float, unit: str) -> str:
    return f"{round(number) if unit == 'px' else round(number, 2):g}{unit}"

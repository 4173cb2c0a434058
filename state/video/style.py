"""The style of a scene, measured: colours, pace, fonts, movement; and a library of looks with trends."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from callsheet.state.video.scene import FPS, NAMED_COLORS, Scene, SceneElement

_FRAME: Final = 10_000.0
"""Area of the frame in per cent of width times per cent of height."""
_TEXT_SHARE: Final = 0.15
"""Part of a text's box that its letters cover, about."""


class Style(BaseModel):
    """The style of a scene."""

    model_config = ConfigDict(frozen=True)

    palette: tuple[tuple[str, float], ...]
    """Colours with their share of what is seen, largest first; the shares sum to 1."""
    seconds: float
    pace: str
    fonts: tuple[str, ...]
    motions: tuple[str, ...]
    """Kinds of animation."""
    easings: tuple[str, ...]
    motion_seconds: float
    """Mean length of an animation; 0 without any."""


def extract_style(scene: Scene) -> Style:
    """Return the style of a scene, from what it shows and not from what it says of itself."""
    animations = [each for element in scene.elements for each in element.animations]
    seconds = [each.duration / FPS for each in animations]
    texts = [element for element in scene.elements if element.kind == "text"]
    return Style(
        palette=_palette(scene),
        seconds=round(scene.durationInFrames / FPS, 3),
        pace=scene.pace,
        fonts=tuple(dict.fromkeys(element.font for element in texts)),
        motions=tuple(sorted({each.kind for each in animations})),
        easings=tuple(sorted({each.easing for each in animations})),
        motion_seconds=round(sum(seconds) / len(seconds), 3) if seconds else 0.0,
    )


def describe(style: Style) -> dict[str, Any]:
    """Return a style as JSON for a model and the context store."""
    return {
        "palette": [{"color": color, "share": share} for color, share in style.palette],
        **style.model_dump(mode="json", exclude={"palette"}),
    }


def _palette(scene: Scene) -> tuple[tuple[str, float], ...]:
    areas: dict[str, float] = defaultdict(float)
    background = scene.background
    areas[background.color] += _FRAME if background.to is None else _FRAME / 2
    if background.to:
        areas[background.to] += _FRAME / 2
    for element in scene.elements:
        for color, area in _element_areas(element):
            areas[color] += area
    total = sum(areas.values())
    return tuple(
        (color, round(area / total, 4)) for color, area in sorted(areas.items(), key=lambda pair: -pair[1])
    )


def _element_areas(element: SceneElement) -> Sequence[tuple[str, float]]:
    area = min(_FRAME, element.width * element.height) * element.opacity
    behind = [(element.background, area)] if element.background else []
    if element.kind == "text" and element.text:
        return [(element.color, area * _TEXT_SHARE), *behind]
    return [(element.color, area), *behind] if element.kind == "shape" else behind


def common(styles: Sequence[Mapping[str, Any]], name: str, limit: int) -> list[str]:
    """Return the most frequent values of a list field in described styles."""
    return [
        value for value, _ in Counter(each for style in styles for each in style[name]).most_common(limit)
    ]


_TRENDS: Final = 3


@cache
def examples() -> tuple[dict[str, Any], ...]:
    """Return every example: `{name, tags, style}`."""
    text = files("callsheet.state.video").joinpath("examples.toml").read_text(encoding="utf-8")
    return tuple(_example(one) for one in tomllib.loads(text)["example"])


def _example(one: dict[str, Any]) -> dict[str, Any]:
    palette = [{"color": color, "share": share} for color, share in one["palette"]]
    style = {name: one[name] for name in ("fonts", "motions", "seconds", "pace")}
    return {"name": one["name"], "tags": one["tags"].split(), "style": {"palette": palette, **style}}


def matching_examples(query: str, limit: int) -> list[dict[str, Any]]:
    """Return the examples whose tags share most words with a query; none if no word is shared."""
    words = {word.strip(".,;:!?\"'()") for word in query.casefold().split()}
    scored = [(len(words & {*one["tags"]}), one) for one in examples()]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return [one for _, one in best[:limit]]


def design_patterns(texts: Sequence[str]) -> list[str]:
    """Return the words of design that these texts use: colours, movements, looks; the most used first."""
    used = [{word.strip(".,;:!?\"'()") for word in text.casefold().split()} & _DESIGN_WORDS for text in texts]
    counts = Counter(word for words in used for word in sorted(words))
    return [word for word, _ in counts.most_common(_PATTERNS)]


_PATTERNS: Final = 12
_LOOKS: Final = (
    "animated animation abstract bold bright calm clean colorful cinematic contrast dark dynamic elegant "
    "energetic flat futuristic geometric glass glow gradient gradients grid handwritten illustration "
    "illustrations isometric kinetic light minimal minimalist modern monochrome neon organic pastel photo "
    "playful retro rounded serif sans shadow slow fast smooth soft texture transitions typography vibrant "
    "vintage warm fade slide zoom rotate bounce pulse typewriter"
)
_DESIGN_WORDS: Final = frozenset({*NAMED_COLORS, *_LOOKS.split()})


def trends(queries: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the examples for each query have in common: fonts, movement, pace and length."""
    return [trend for query in queries if (trend := _trend(query))]


def _trend(query: str) -> dict[str, Any] | None:
    styles = [one["style"] for one in matching_examples(query, len(examples()))]
    if not styles:
        return None
    seconds = sorted(style["seconds"] for style in styles)
    return {
        "query": query,
        "examples": len(styles),
        "fonts": common(styles, "fonts", _TRENDS),
        "motions": common(styles, "motions", _TRENDS),
        "medianSeconds": seconds[len(seconds) // 2],
        "paces": sorted({style["pace"] for style in styles}),
    }

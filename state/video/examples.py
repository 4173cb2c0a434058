"""The bundled library of looks, and the trends that it shows."""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from callsheet.state.video.style import common

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

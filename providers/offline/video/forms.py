"""The forms that steps of a video's plan fill in: a change of a scene, and a new scene."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_FASTER: Final = 1.5
_COLOR: Final = re.compile(r"#[0-9a-f]{6}|[a-z]{3,12}")
_REPLACE: Final = re.compile(r'replace "([^"]*)" with "([^"]*)"')
_THEMES: Final = (
    ("#0f172a", "#1e3a8a", "#f8fafc", "#38bdf8"),
    ("#3b0764", "#86198f", "#fdf4ff", "#f0abfc"),
    ("#052e16", "#166534", "#f0fdf4", "#86efac"),
    ("#431407", "#9a3412", "#fff7ed", "#fdba74"),
)
_COLORS: Final = ("color", "background", "to")


def edit_form(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `ScenePatch` for a request that a plan of the offline model made."""
    request, scene = str(given.get("request", "")), given.get("scene") or {}
    if request in {"faster", "shorter"}:
        return {"speed": _FASTER, "pace": "fast", "note": f"{_FASTER} times as fast"}
    if request in {"slower", "longer"}:
        return {"speed": round(1 / _FASTER, 3), "pace": "slow", "note": "slower"}
    if words := _REPLACE.fullmatch(request):
        return {"change": _text_changes(scene, *words.groups())}
    if examples := [*(given.get("examples") or {}).values()]:
        return _like(scene, examples[0], everything=request.startswith("like"))
    if _COLOR.fullmatch(request):
        return {"background": request, "note": f"the background is {request}"}
    return {"note": "nothing that the offline model knows"}


def new_scene(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain `Scene` with the request's words."""
    part, _, topic = str(given.get("request", "")).rpartition(": ")
    text = topic or "A new scene"
    dark, deep, light, accent = _THEMES[sum(part.encode()) % len(_THEMES)]
    rise = [{"kind": "slide-up", "start": 6, "duration": 18, "easing": "ease-out"}]
    title = {
        "id": "title",
        "kind": "text",
        "text": text[:1].upper() + text[1:],
        "size": 96,
        "color": light,
        "y": 36,
    }
    line = {"id": "line", "kind": "shape", "x": 44, "y": 62, "width": 12, "height": 1, "color": accent}
    seconds = given.get("seconds") or 3
    return {
        "name": part or text[:40],
        "durationInFrames": round(float(seconds) * 30),
        "background": {"color": dark, "to": deep},
        "elements": [{**title, "animations": rise}, {**line, "animations": [{"kind": "fade", "start": 18}]}],
        "palette": [dark, deep, light, accent],
        "fonts": ["Inter"],
    }


def _text_changes(scene: Mapping[str, Any], old: str, new: str) -> list[dict[str, Any]]:
    return [
        {"id": element["id"], "text": element["text"].replace(old, new)}
        for element in scene.get("elements", ())
        if old in element.get("text", "")
    ]


def _like(scene: Mapping[str, Any], example: Mapping[str, Any], *, everything: bool) -> dict[str, Any]:
    """Return the change that gives a scene the colours of another; with `everything` its pace, too."""
    background = example["background"]
    old, new = _colors(scene), _colors(example)
    pairs = (
        [{"old": one, "new": new[min(index, len(new) - 1)]} for index, one in enumerate(old)] if new else []
    )
    change: dict[str, Any] = {
        "background": background["color"],
        "background_to": background.get("to"),
        "palette": example.get("palette") or None,
        "recolor": pairs,
    }
    if everything:
        length, wanted = scene["durationInFrames"], example["durationInFrames"]
        change |= {
            "pace": example.get("pace"),
            "fonts": example.get("fonts"),
            "speed": round(length / wanted, 3),
        }
        fonts = [element["font"] for element in example["elements"] if element["kind"] == "text"]
        change["change"] = [{"id": "all", "font": fonts[0]}] if fonts else []
        moves = [each for element in example["elements"] for each in element["animations"]]
        change["animations"] = [
            {"element": "all", "kind": kind, "duration": _mean(each["duration"] for each in moves)}
            for kind in dict.fromkeys(each["kind"] for each in moves)
        ]
    return {name: value for name, value in change.items() if value is not None}


def _mean(frames: Iterable[int]) -> int:
    known = [*frames]
    return round(sum(known) / len(known))


def _colors(scene: Mapping[str, Any]) -> list[str]:
    """Return the colours of a scene's elements, in order."""
    named = [element.get(name) for element in scene.get("elements", ()) for name in _COLORS]
    return [*dict.fromkeys(color for color in named if color)]

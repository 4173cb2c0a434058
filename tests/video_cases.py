"""The checks of `evals/cases/scene_edit.jsonl`: a project before and after a message, and the plan."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.state.video.scene import Scene
from callsheet.state.video.style import style_match

FILE = Path(__file__).parent.parent / "evals" / "cases" / "scene_edit.jsonl"
Scenes = Mapping[str, Mapping[str, Any]]
"""Contents by id, in the project's order."""


def load() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


class Sides(NamedTuple):
    """A project before all messages, before the message, and after it."""

    start: Scenes
    before: Scenes
    after: Scenes


def failures(
    expect: Mapping[str, Any], sides: Sides, steps: Sequence[Mapping[str, Any]], reply: str
) -> list[str]:
    """Return the checks that fail, by name."""
    start, before, after = sides
    checks = [*_which(expect, before, after), *_plan(expect, steps), *_contents(expect, start, before, after)]
    checks.append(("says", str(expect.get("says", "")) in reply))
    return [name for name, holds in checks if not holds]


def _which(expect: Mapping[str, Any], before: Scenes, after: Scenes) -> Iterator[tuple[str, bool]]:
    changed = {name for name in before if name in after and before[name] != after[name]}
    if "changes" in expect:
        yield "changes", changed == {*expect["changes"]}
    if "changes_among" in expect:
        yield "changes_among", changed <= {*expect["changes_among"]}
    gone = {name for name in before if name not in after}
    if "deleted_max" in expect:
        yield "deleted_max", len(gone) <= expect["deleted_max"]
    elif "order" not in expect:
        yield "deleted", gone == {*expect.get("deleted", ())}
    new = [name for name in after if name not in before]
    if "order" in expect:
        yield "order", [*after] == expect["order"]
    else:
        yield "added", len(new) == expect.get("added", 0)
    if follower := expect.get("added_before"):
        ids = [*after]
        yield "added_before", ids[ids.index(follower) - len(new) : ids.index(follower)] == new


def _plan(expect: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    yield "steps_max", len(steps) <= expect["steps_max"]
    written = {name for step in steps for name in step["writes"]}
    yield "reads", not written & {*expect.get("reads", ())}
    if expect.get("sequential"):
        yield "sequential", any(step["dependencies"] for step in steps)


def _contents(
    expect: Mapping[str, Any], start: Scenes, before: Scenes, after: Scenes
) -> Iterator[tuple[str, bool]]:
    yield from _lengths(expect, before, after)
    for name, color in expect.get("background", {}).items():
        yield f"background {name}", after[name]["background"]["color"] == color
    if pair := expect.get("background_equal"):
        yield "background_equal", len({after[name]["background"]["color"] for name in pair}) == 1
    for name in expect.get("darker", ()):
        yield f"darker {name}", _light(after[name]) < _light(before[name])
    for name, example in expect.get("like", {}).items():
        match = style_match(*(Scene.model_validate(after[one]) for one in (name, example)))
        yield f"like {name} {match}", match >= 0.85
    yield from _texts(expect, after)
    for name in expect.get("audio", ()):
        yield f"audio {name}", bool(after[name]["audio"])
    for name in expect.get("as_at_start", ()):
        yield f"as_at_start {name}", after[name] == start[name]


def _lengths(expect: Mapping[str, Any], before: Scenes, after: Scenes) -> Iterator[tuple[str, bool]]:
    old, new = ({name: one["durationInFrames"] for name, one in side.items()} for side in (before, after))
    for name in expect.get("faster", ()):
        yield f"faster {name}", new[name] < old[name]
    for name in expect.get("slower", ()):
        yield f"slower {name}", new[name] > old[name]
    for name, seconds in expect.get("seconds", {}).items():
        yield f"seconds {name}", new[name] == round(seconds * 30)


def _texts(expect: Mapping[str, Any], after: Scenes) -> Iterator[tuple[str, bool]]:
    for name, text in expect.get("text", {}).items():
        yield f"text {name}", any(text in element["text"] for element in after[name]["elements"])
    for name, text in expect.get("text_gone", {}).items():
        yield f"text_gone {name}", all(text not in element["text"] for element in after[name]["elements"])


def _light(scene: Mapping[str, Any]) -> int:
    color = scene["background"]["color"]
    return sum(int(color[at : at + 2], 16) for at in (1, 3, 5))

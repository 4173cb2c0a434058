"""A project in a few lines, as the planner's model reads it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.state.live_plan import Execution, written
from callsheet.state.state_block import StateLine, fit
from callsheet.state.video.project import ORDER, Order, SceneLine

FPS: Final = 30
"""Frames of a second."""
_MAX_TEXT: Final = 60
_MAX_PREFERENCES: Final = 10


def scene_line(scene_id: str, order: Order, version: str, scene: Mapping[str, Any]) -> SceneLine:
    """Return a scene's line of the outline."""
    return SceneLine(
        id=scene_id,
        position=order.position(scene_id),
        version=version,
        name=str(scene.get("name") or ""),
        duration_s=round(float(scene.get("durationInFrames") or 0) / FPS, 2),
        about=about(scene),
    )


def about(scene: Mapping[str, Any]) -> str:
    """Return texts, kinds of elements, colours, fonts and animations of a scene in a line."""
    elements: Sequence[Mapping[str, Any]] = scene.get("elements") or ()
    texts = [f'"{_short(str(one["text"]))}"' for one in elements if one.get("text")]
    kinds = sorted({str(one.get("kind")) for one in elements if one.get("kind") not in {None, "text"}})
    motions = sorted({str(each.get("kind")) for one in elements for each in one.get("animations") or ()})
    parts = [
        *(["text " + ", ".join(texts)] if texts else ["no text"]),
        *kinds,
        *(["colours " + " ".join(map(str, scene["palette"]))] if scene.get("palette") else []),
        *(["fonts " + ", ".join(map(str, scene["fonts"]))] if scene.get("fonts") else []),
        *(["animations " + ", ".join(motions)] if motions else []),
        *([f"pace {scene['pace']}"] if scene.get("pace") else []),
        *(["audio"] if scene.get("audio") else []),
    ]
    return "; ".join(parts)


def state_block(
    order: Order,
    lines: Sequence[SceneLine],
    *,
    attached: Sequence[str] = (),
    last: Execution | None = None,
    preferences: Sequence[str] = (),
    context: Sequence[str] = (),
) -> str:
    """Return the project as it stands, for the planner's state block."""
    preferred = (StateLine("Preference of the person: ", text) for text in preferences[-_MAX_PREFERENCES:])
    attachments = f"Attached by the person, meant by their words: {', '.join(attached)}"
    return fit(
        [
            StateLine(_heading(order, lines)),
            *(_line(line) for line in lines),
            *_deleted_lines(order),
            *([StateLine(attachments)] if attached else []),
            *(_last_plan(last) if last else ()),
            *([StateLine("Gathered context: ", ", ".join(context))] if context else []),
            *(line._replace(need=2, more="preferences") for line in preferred),
        ]
    )


def _heading(order: Order, lines: Sequence[SceneLine]) -> str:
    seconds = sum(line.duration_s for line in lines if line.position)
    return f"{order.name or 'Untitled'}: {len(order.scenes)} scenes, {seconds:g} s"


def _line(line: SceneLine) -> StateLine:
    """Return a scene's line, which is never left out: plans name scenes by their ids."""
    name = f" {_short(line.name)!r}" if line.name else ""
    return StateLine(
        f"{line.position}. {line.id} {line.version}{name}, {line.duration_s:g} s: ", line.about, need=1
    )


def _deleted_lines(order: Order) -> list[StateLine]:
    if not order.deleted:
        return []
    listed = ", ".join(f"{scene.id} (was {scene.position})" for scene in order.deleted)
    return [StateLine("Deleted, can be restored: ", listed, need=1)]


def _last_plan(record: Execution) -> Iterator[StateLine]:
    """Yield the steps of the last plan, with the version of each scene before and after."""
    yield StateLine(f"The last plan, {record['status']}:")
    for one in record["steps"]:
        step = one["step"]
        versions = ((stream, version) for stream, version in written(one).items() if stream != ORDER)
        changes = ", ".join(f"{stream} now {version}" for stream, version in versions)
        head = f"- {step['id']} {step['tool']} {step['params'].get('sceneId', '')}: {one['status']}"
        yield StateLine(head, f" ({changes})" if changes else "", more="steps of it")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_TEXT else f"{flat[:_MAX_TEXT]}…"

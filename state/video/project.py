"""A project's order: which scenes it has, and where; and its few lines for the planner's model.

An id is given to a scene once and never again; a position is the scene's place now, counted from 1. A deleted
scene only leaves the order, so that it can come back.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NotRequired

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.cards import Card, shorten, texts
from callsheet.state.errors import Invalid, Missing
from callsheet.state.live_plan import Execution, written
from callsheet.state.state_block import StateLine, fit
from callsheet.state.video.scene import FPS
from callsheet.state.workflow import Workflow

ORDER: Final = "order"
"""Stream of the order."""
ORDER_WORDS: Final = "order of the scenes"
"""Name of that stream for people."""
SCENES: Final = "scene-*"
"""Family of the scenes' streams."""
RESTORABLE: Final = " and can be restored"
"""End of the sentence about a deleted scene."""
MAX_SCENES: Final = 100
"""Scenes of a project that are not deleted."""
MAX_IDS: Final = 10_000
"""Ids that a project may give."""
_ID: Final = re.compile(r"scene-([1-9][0-9]{0,4})")


class DeletedScene(BaseModel):
    """A scene that left the order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=_ID.pattern)
    position: int = Field(ge=1)
    """Its place before the deletion."""


class Order(BaseModel):
    """The scenes of a project in order, and the deleted ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scenes: tuple[str, ...] = Field(default=(), max_length=MAX_SCENES)
    deleted: tuple[DeletedScene, ...] = Field(default=(), max_length=MAX_IDS)
    next: int = Field(default=1, ge=1, le=MAX_IDS + 1)
    """Number of the next id."""
    name: str = Field(default="", max_length=200)

    def position(self, scene_id: str) -> int | None:
        """Return a scene's position from 1, or None if it is not in the order."""
        return self.scenes.index(scene_id) + 1 if scene_id in self.scenes else None

    def all_ids(self) -> tuple[str, ...]:
        """Return the ids of all scenes, deleted ones last."""
        return (*self.scenes, *(scene.id for scene in self.deleted))


@dataclass(frozen=True)
class SceneLine:
    """A scene in a project's outline."""

    id: str
    position: int | None
    """None for a deleted scene."""
    version: str
    name: str
    duration_s: float
    about: str
    """Texts and look of the scene in a line."""


def is_scene_id(name: str) -> bool:
    """Return True for the id of a scene, such as `scene-3`."""
    return _ID.fullmatch(name) is not None


def number_of(scene_id: str) -> int:
    """Return the number in an id; raise `Invalid` for a text that is none."""
    match = _ID.fullmatch(scene_id)
    if match is None:
        raise Invalid(f"{scene_id!r} is not the id of a scene", remedy="use an id such as 'scene-1'")
    return int(match[1])


def order_of(data: Any) -> Order:
    """Return the order that a version holds; the empty one for None."""
    return Order() if data is None else Order.model_validate(data)


def with_scene(order: Order, scene_id: str, after: Sequence[str] | None = None) -> Order:
    """Return the order with a new scene behind the first of `after` that it has.

    The scene becomes the first if none of them is there, and the last without a list. Calling it twice
    changes nothing more. Raises `Invalid` for a project that is full.
    """
    if scene_id in order.scenes:
        return order
    if len(order.scenes) >= MAX_SCENES:
        raise Invalid(
            f"a project has at most {MAX_SCENES} scenes", remedy="delete one that you no longer need"
        )
    if after is None:
        index = len(order.scenes)
    else:
        index = next((order.scenes.index(name) + 1 for name in after if name in order.scenes), 0)
    scenes = (*order.scenes[:index], scene_id, *order.scenes[index:])
    return order.model_copy(update={"scenes": scenes, "next": max(order.next, number_of(scene_id) + 1)})


def without_scene(order: Order, scene_id: str) -> Order:
    """Return the order without a scene, which is remembered; raise `Missing` for one that is not there."""
    position = order.position(scene_id)
    if position is None:
        raise Missing(f"{scene_id!r} is not in the project", remedy=f"use one of: {_names(order.scenes)}")
    scenes = tuple(name for name in order.scenes if name != scene_id)
    deleted = (*order.deleted, DeletedScene(id=scene_id, position=position))
    return order.model_copy(update={"scenes": scenes, "deleted": deleted})


def with_restored(order: Order, scene_id: str) -> Order:
    """Return the order with a deleted scene at its place again; raise `Missing` if it is not deleted."""
    scene = next((scene for scene in order.deleted if scene.id == scene_id), None)
    if scene is None:
        known = _names([scene.id for scene in order.deleted])
        raise Missing(f"{scene_id!r} is not a deleted scene", remedy=f"deleted scenes: {known}")
    if len(order.scenes) >= MAX_SCENES:
        raise Invalid(
            f"a project has at most {MAX_SCENES} scenes", remedy="delete one that you no longer need"
        )
    scenes = [*order.scenes]
    scenes.insert(min(scene.position - 1, len(scenes)), scene_id)
    deleted = tuple(one for one in order.deleted if one.id != scene_id)
    return order.model_copy(update={"scenes": tuple(scenes), "deleted": deleted})


def with_order(order: Order, scene_ids: Sequence[str]) -> Order:
    """Return the order with its scenes as in `scene_ids`; raise `Invalid` unless it has each exactly once."""
    if sorted(scene_ids) != sorted(order.scenes):
        different = sorted(set(scene_ids).symmetric_difference(order.scenes))
        wrong = _names(different) if different else "one is named twice"
        raise Invalid(
            f"an order names each scene of the project exactly once, which differs in: {wrong}",
            remedy=f"name all of: {_names(order.scenes)}",
        )
    return order.model_copy(update={"scenes": tuple(scene_ids)})


def _names(ids: Collection[str]) -> str:
    return ", ".join(ids) or "none"


_MAX_TEXT: Final = 60
_MAX_PREFERENCES: Final = 10
_MAX_COLOURS: Final = 6
"""Colours of a scene that its line names."""


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
        *(["colours " + " ".join(colours)] if (colours := _colours(scene)) else []),
        *(["fonts " + ", ".join(map(str, scene["fonts"]))] if scene.get("fonts") else []),
        *(["animations " + ", ".join(motions)] if motions else []),
        *([f"pace {scene['pace']}"] if scene.get("pace") else []),
        *(["audio"] if scene.get("audio") else []),
    ]
    return "; ".join(parts)


def _colours(scene: Mapping[str, Any]) -> list[str]:
    """Return the colours that a scene shows, its background first; its palette only says what was planned."""
    back: Mapping[str, Any] = scene.get("background") or {}
    shown = [back.get("color"), back.get("to")]
    for one in scene.get("elements") or ():
        shown += [one.get("background"), one.get("color") if one.get("kind") != "image" else None]
    return [*dict.fromkeys(str(each) for each in shown if each)][:_MAX_COLOURS]


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


class VideoState(Workflow):
    """Keys of a conversation about a video project."""

    project_id: NotRequired[str]
    """Id of the project; the thread's where absent."""
    scene_ids: NotRequired[list[str]]
    """Scenes that the person attached to the newest message."""
    execution: NotRequired[str]
    """Id of the newest plan."""
    replans: NotRequired[int]
    """Plans of this turn that could not be carried out."""


def card(newest: Mapping[str, Mapping[str, Any]]) -> Card:
    """Return the project's name, and the texts of its order and of the scenes in it."""
    order = order_of(newest.get(ORDER))
    scenes = [newest[name]["scene"] for name in order.scenes if name in newest]
    return Card(
        shorten(order.name),
        texts(
            [scene.get("name") for scene in scenes],
            [one.get("text") for scene in scenes for one in scene.get("elements", ())],
            [(scene.get("audio") or {}).get("description") for scene in scenes],
        ),
    )

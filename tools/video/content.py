"""The scene that a step reads and writes, and the order of its project."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from callsheet.state.errors import Conflict, Forbidden, Missing
from callsheet.state.video import project
from callsheet.state.video.patch import differences
from callsheet.state.video.project import FPS, ORDER, Order
from callsheet.state.video.scene import Scene
from callsheet.storage.artefacts.artefacts import StreamHead
from callsheet.tools.call import Call, VersionDraft

_TRIES: Final = 8
"""Writes of the order, if other steps change it at the same time."""


class HeldScene(NamedTuple):
    """A scene's newest version, and the head that it was read from."""

    scene: Scene
    head: StreamHead


async def read_scene(call: Call, scene_id: str) -> HeldScene:
    """Return a scene as it is; raise `Missing` if it has no version."""
    head = await call.artefact.stream_head(scene_id)
    if head.newest is None:
        raise Missing(f"there is no scene {scene_id!r}", remedy="Use the id of a scene of the project")
    return HeldScene(Scene.model_validate(head.newest.data["scene"]), head)


async def read_scenes(call: Call, scene_ids: Sequence[str]) -> dict[str, Scene]:
    """Return scenes by id."""
    return {name: (await read_scene(call, name)).scene for name in scene_ids}


def scene_draft(scene_id: str, scene: Scene, head: StreamHead, parent: str | None = None) -> VersionDraft:
    """Return the new version of a scene."""
    return VersionDraft(scene_id, {"scene": scene.data()}, parent, head)


async def write_scene(
    call: Call, scene_id: str, held: HeldScene, scene: Scene, *, message: str = "", parent: str | None = None
) -> dict[str, Any]:
    """Write a scene's next version and return the step's result; an unchanged scene gets no version."""
    result = changed_result(scene_id, held.scene, scene, message)
    if scene == held.scene:
        return {**result, "unchanged": True, "message": f"{scene_id} is as it was"}
    return await call.write_all([scene_draft(scene_id, scene, held.head, parent)], result=result)


def changed_result(scene_id: str, before: Scene, after: Scene, message: str = "") -> dict[str, Any]:
    """Return the result of a step that changed a scene: what is different, and a small preview."""
    lines = differences(before, after)
    return {
        "sceneId": scene_id,
        "differences": lines,
        "message": f"{scene_id}: {message or '; '.join(lines) or 'nothing changed'}",
        "preview": scene_preview(after),
    }


def scene_preview(scene: Scene) -> dict[str, Any]:
    """Return the few fields of a scene that a list shows."""
    return {
        "name": scene.name,
        "durationInFrames": scene.durationInFrames,
        "durationSeconds": round(scene.durationInFrames / FPS, 2),
        "background": scene.background.color,
        "palette": [*scene.palette],
    }


async def write_order(
    call: Call,
    change: Callable[[Order], Order],
    result: dict[str, Any],
    drafts: Sequence[VersionDraft] = (),
    *,
    scene_id: str = "",
) -> dict[str, Any]:
    """Write the changed order, together with versions of scenes, and return the step's result.

    Other steps may change the order at the same time; then the change is applied to the newer one. Raises
    `Forbidden` if the scene that comes or goes is locked.
    """
    for attempt in range(1, _TRIES + 1):
        head = await call.artefact.stream_head(ORDER)
        if scene_id in head.locked:
            raise Forbidden(
                f"{scene_id!r} of {call.artefact.kind} {call.artefact.id!r} is locked by its owner",
                remedy="leave it as it is, or ask the person to unlock it",
            )
        order = change(project.order_of(head.newest.data if head.newest else None))
        new = VersionDraft(ORDER, order.model_dump(mode="json"), None, head)
        try:
            return await call.write_all([*drafts, new], result=result)
        except Conflict:
            if attempt == _TRIES:
                raise
    raise AssertionError

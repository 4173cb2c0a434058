"""Creating projects, restoring versions, and locks."""

import uuid
from typing import Any

from pydantic import ValidationError

from callsheet.server.artefacts.execution_views import plan_view
from callsheet.server.artefacts.executions import require_no_question
from callsheet.server.artefacts.service import RequestContext, claim
from callsheet.server.http.context import AppContext
from callsheet.server.video import executions, service, views
from callsheet.server.video.bodies import ProjectCreate
from callsheet.server.video.service import VIDEOS
from callsheet.server.video.views import ProjectRef
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.plan import Step
from callsheet.state.video import project
from callsheet.state.video.project import MAX_SCENES, ORDER, Order
from callsheet.state.video.scene import Scene, starters
from callsheet.storage.artefacts.artefacts import NewVersion
from callsheet.storage.redis.connection import Storage


async def create_from(ctx: AppContext, owner: str, body: ProjectCreate) -> ProjectRef:
    """Create the project that a request describes."""
    scenes = starter_scenes(body.starter) if body.starter else _scenes(body.scenes or [])
    name = body.id or f"video-{uuid.uuid4().hex[:10]}"
    title = body.name or (body.starter or "").replace("-", " ").capitalize()
    await create(ctx.storage, owner, name, title, scenes)
    return await views.find_project(ctx, name, owner)


async def create(storage: Storage, owner: str, name: str, title: str, scenes: tuple[Scene, ...]) -> None:
    """Create a project; raise `Conflict` for an id that is in use."""
    thread = await VIDEOS.find_thread(storage, name, owner)
    artefact = VIDEOS.artefact(storage, thread)
    head = await artefact.stream_head(ORDER)
    if head.newest is not None:
        raise Conflict(f"there is a project {name!r} already", remedy="choose another id, or none")
    await claim(storage, thread)
    ids = [f"scene-{number}" for number in range(1, len(scenes) + 1)]
    order = Order(scenes=tuple(ids), next=len(ids) + 1, name=title)
    batch = uuid.uuid4().hex
    contents = zip(ids, scenes, strict=True)
    new = [
        NewVersion(ORDER, order.model_dump(mode="json"), owner, batch, expected_head=head),
        *(NewVersion(scene_id, {"scene": scene.data()}, owner, batch) for scene_id, scene in contents),
    ]
    await artefact.create_versions(new)


def starter_scenes(name: str) -> tuple[Scene, ...]:
    """Return the scenes of a starter; raise `Invalid` for an unknown one."""
    known = starters()
    if name not in known:
        raise Invalid(f"there is no starter {name!r}", remedy=f"use one of: {', '.join(known)}")
    return known[name]


def _scenes(given: list[dict[str, Any]]) -> tuple[Scene, ...]:
    if len(given) > MAX_SCENES:
        raise Invalid(f"a project has at most {MAX_SCENES} scenes", remedy="send fewer")
    scenes: list[Scene] = []
    for number, data in enumerate(given, 1):
        try:
            scenes.append(Scene.model_validate(data))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise Invalid(f"scene {number} is not valid at {place or 'its top'}: {first['msg']}") from error
    return tuple(scenes)


async def current_scenes(ref: ProjectRef) -> tuple[Order, list[Scene]]:
    """Return the order and the scenes in it."""
    order, heads = await views.read_scenes(ref.artefact)
    return order, [Scene.model_validate(head.newest.data["scene"]) for head in heads.values() if head.newest]


async def restore_version(
    ref: ProjectRef, caller: RequestContext, scene_id: str, version_id: str
) -> dict[str, Any]:
    """Start the run that restores a version of a scene."""
    order = await views.read_order(ref.artefact)
    if scene_id not in order.all_ids():
        raise views.missing_scene(order, scene_id)
    await ref.artefact.version(scene_id, version_id)
    thread = await executions.require_project(ref.ctx, ref.artefact.id, ref.owner)
    text = f"Restore {version_id} of {scene_id}"
    step = Step(
        id="s1",
        tool="restoreVersion",
        display=text,
        params={"sceneId": scene_id, "versionId": version_id},
        dependencies=[],
        reads=[],
        writes=[scene_id],
    )
    await require_no_question(ref.ctx.worker, thread)
    run = service.decided_run(caller, thread, service.decided_plan([step], "plan"), text)
    started = await executions.start_run(ref.ctx, run, queued=True)
    record = started.execution
    return {
        "executionId": record["id"] if record else None,
        "threadId": thread.id,
        "plan": plan_view(record, views.plan_context(record)) if record else None,
        "message": started.message,
        "question": started.question,
    }


async def lock(ref: ProjectRef, name: str) -> dict[str, Any]:
    """Lock a scene, or the order, and return all locks."""
    order = await views.read_order(ref.artefact)
    if name != ORDER and name not in order.all_ids():
        raise views.missing_scene(order, name)
    await ref.artefact.lock(name, ref.owner)
    return await _locks_view(ref)


async def unlock(ref: ProjectRef, name: str) -> dict[str, Any]:
    """Unlock a scene, locked or not, and return all locks."""
    if name != ORDER:
        project.number_of(name)
    await ref.artefact.unlock(name)
    return await _locks_view(ref)


async def _locks_view(ref: ProjectRef) -> dict[str, Any]:
    return {"locked": sorted(await ref.artefact.locks())}

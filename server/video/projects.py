"""Projects and their scenes: created, shown, restored, locked."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

from callsheet.graphs import scene_edit
from callsheet.server.artefacts import sources, views
from callsheet.server.artefacts.execution_views import execution_summary, plan_view
from callsheet.server.artefacts.executions import require_no_question
from callsheet.server.artefacts.schemas import ArtefactSource
from callsheet.server.artefacts.service import RequestContext, claim, with_fingerprint
from callsheet.server.artefacts.titles import titles
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.requests import identifier
from callsheet.server.video import service
from callsheet.server.video.schemas import ProjectCreate
from callsheet.server.video.service import VIDEOS
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.lessons.narration import Narration, Segment
from callsheet.state.plan import Step
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Origin, Version, origin, status
from callsheet.state.video import otio, project, undo
from callsheet.state.video.narrated import SpokenPart, narrated_scenes
from callsheet.state.video.plan import RULES
from callsheet.state.video.project import ORDER, Order, about
from callsheet.state.video.scene import FPS, Scene, starters
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, StreamHead
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.redis.connection import Storage

KIND: Final = "video"
_SPEC: Final = scene_edit.WORKFLOW.artefact


@dataclass(frozen=True)
class ProjectRef:
    """An existing project of the caller."""

    ctx: AppContext
    artefact: Artefact
    owner: str
    meta: Mapping[str, str]

    @property
    def thread(self) -> str:
        """Id of the project's conversation."""
        return self.meta.get("thread") or self.artefact.id


async def find_project(ctx: AppContext, name: str, owner: str) -> ProjectRef:
    """Return the owner's project; raise `Missing` if there is none."""
    artefact = Artefact(ctx.storage, KIND, identifier(name, "projectId"), owner)
    meta = await artefact.meta()
    if meta.get("owner") != owner:
        raise Missing(
            f"there is no project {name!r}", remedy="create it with POST /api/projects, or with a message"
        )
    return ProjectRef(ctx, artefact, owner, meta)


async def project_ref(project_id: str, request: Request) -> ProjectRef:
    """Return the caller's project; raise `Missing` for none."""
    return await find_project(app_context(request), project_id, current_owner(request))


async def project_list(ctx: AppContext, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return the owner's projects, newest change first: `{projects, next}`."""
    page = await indexes.list_owned(ctx.storage, owner, KIND, after=after, limit=limit)
    artefacts = [Artefact(ctx.storage, KIND, name, owner) for name in page.ids]
    metas = await asyncio.gather(*(artefact.meta() for artefact in artefacts))
    refs = [
        ProjectRef(ctx, artefact, owner, meta)
        for artefact, meta in zip(artefacts, metas, strict=True)
        if meta.get("owner") == owner
    ]
    orders = await asyncio.gather(*(read_order(ref.artefact) for ref in refs))
    of_thread = await titles(ctx, owner, [ref.thread for ref in refs])
    listed = [_project(ref, order, of_thread) for ref, order in zip(refs, orders, strict=True)]
    return {"projects": listed, "next": page.next}


async def project_view(ref: ProjectRef) -> dict[str, Any]:
    """Return a project with its scenes, deleted scenes and locks."""
    order, heads = await read_scenes(ref.artefact)
    records, of_thread = await asyncio.gather(
        service.plans_to_undo(_executions(ref)), titles(ref.ctx, ref.owner, [ref.thread])
    )
    return {
        **_project(ref, order, of_thread),
        "canUndo": undo.can_undo(records),
        "canRedo": undo.can_redo(records),
        "scenes": [scene_view(order, name, head) for name, head in heads.items()],
        "deleted": [scene.model_dump() for scene in order.deleted],
        "locked": sorted((await ref.artefact.locks()).keys()),
    }


async def scene_list(ref: ProjectRef) -> dict[str, Any]:
    """Return the scenes in order."""
    order, heads = await read_scenes(ref.artefact)
    return {"scenes": [scene_view(order, name, head) for name, head in heads.items()]}


async def one_scene(ref: ProjectRef, scene_id: str, version_id: str | None = None) -> dict[str, Any]:
    """Return a scene with its content, now or in an earlier version; a deleted one, too."""
    order = await read_order(ref.artefact)
    if scene_id not in order.all_ids():
        raise missing_scene(order, scene_id)
    if version_id:
        version = await ref.artefact.version(scene_id, version_id)
    else:
        version = newest_version(await ref.artefact.stream_head(scene_id), scene_id)
    return scene_fields(order, scene_id, version) | {"scene": version.data["scene"]}


async def scene_versions(ref: ProjectRef, scene_id: str, page: views.VersionPage) -> dict[str, Any]:
    """Return the versions of a scene, newest last."""
    order = await read_order(ref.artefact)
    if scene_id not in order.all_ids():
        raise missing_scene(order, scene_id)
    return await views.version_list(_SPEC, ref.artefact, scene_id, page)


async def diff_view(ref: ProjectRef, scene_id: str, old: str, new: str) -> dict[str, Any]:
    """Return the differences from one version of a scene to another."""
    order = await read_order(ref.artefact)
    if scene_id not in order.all_ids():
        raise missing_scene(order, scene_id)
    return await views.diff_view(_SPEC, ref.artefact, scene_id, old, new)


async def read_order(artefact: Artefact) -> Order:
    """Return the order of a project."""
    head = await artefact.stream_head(ORDER)
    return project.order_of(head.newest.data if head.newest else None)


async def read_scenes(artefact: Artefact) -> tuple[Order, dict[str, StreamHead]]:
    """Return the order, and the newest version of each scene in it."""
    order = await read_order(artefact)
    heads = await artefact.stream_heads(order.scenes)
    return order, {name: head for name, head in heads.items() if head.newest}


def newest_version(head: StreamHead, scene_id: str) -> Version:
    """Return the newest version of a scene; raise `Missing` without one."""
    if head.newest is None:
        raise Missing(f"{scene_id!r} has no version", remedy="add it again")
    return head.newest


def missing_scene(order: Order, scene_id: str) -> Missing:
    """Return the error for a scene that a project does not have."""
    known = ", ".join(order.all_ids()) or "none"
    return Missing(f"there is no scene {scene_id!r}", remedy=f"the scenes are: {known}")


def scene_view(order: Order, scene_id: str, head: StreamHead) -> dict[str, Any]:
    """Return a scene in a list."""
    return scene_fields(order, scene_id, newest_version(head, scene_id)) | {"locked": scene_id in head.locked}


def scene_fields(order: Order, scene_id: str, version: Version) -> dict[str, Any]:
    """Return id, position, version and the main fields of a scene."""
    scene = version.data["scene"]
    return {
        "id": scene_id,
        "position": order.position(scene_id),
        "name": scene["name"],
        "revision": int(version.id.removeprefix("v")),
        "versionId": version.id,
        "status": status(version, version),
        "durationInFrames": scene["durationInFrames"],
        "durationSeconds": round(scene["durationInFrames"] / FPS, 3),
        "summary": about(scene),
        "narrated": bool((scene.get("audio") or {}).get("spokenLanguage")),
        "updatedAt": version.created_at(),
    }


async def project_title(ref: ProjectRef, order: Order) -> str:
    """Return the title of a project: that of its conversation, else its name."""
    return _title(ref, order, await titles(ref.ctx, ref.owner, [ref.thread]))


def _title(ref: ProjectRef, order: Order, of_thread: Mapping[str, str]) -> str:
    return of_thread.get(ref.thread) or order.name or ref.artefact.id


def _project(ref: ProjectRef, order: Order, of_thread: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": ref.artefact.id,
        "name": order.name,
        "title": _title(ref, order, of_thread),
        "threadId": ref.thread,
        "sceneCount": len(order.scenes),
        "createdAt": iso_time_or_none(ref.meta.get("createdMs")),
        "updatedAt": iso_time_or_none(ref.meta.get("updatedMs")),
    }


async def execution_list(ref: ProjectRef, limit: int, after: str | None) -> dict[str, Any]:
    """Return a page of a project's executions, newest first, and where the next one begins."""
    records = await _executions(ref).newest(limit + 1, after)
    shown = [execution_summary(record) for record in records[:limit]]
    return {"executions": shown, "next": shown[-1]["id"] if len(records) > limit else None}


def _executions(ref: ProjectRef) -> Executions:
    return Executions(ref.ctx.storage, "video", ref.artefact.id, ref.owner, RULES)


async def create_from(ctx: AppContext, owner: str, body: ProjectCreate, key: str | None) -> ProjectRef:
    """Create the project that a request describes; with a lesson, once for an idempotency key."""
    if body.lessonId:
        return await _create_from_lesson(ctx, owner, body, key)
    scenes = starter_scenes(body.starter) if body.starter else tuple(body.scenes or ())
    name = body.id or f"video-{uuid.uuid4().hex[:10]}"
    title = body.name or (body.starter or "").replace("-", " ").capitalize()
    chosen = origin("person", f"starter {body.starter}") if body.starter else origin("import")
    await create(ctx.storage, owner, name, title, scenes, chosen)
    return await find_project(ctx, name, owner)


async def _create_from_lesson(
    ctx: AppContext, owner: str, body: ProjectCreate, key: str | None
) -> ProjectRef:
    """Create a project of the scenes of a lesson's newest narration.

    Raises `Missing` without the lesson, and `Conflict` without a narration and for a project that is there.
    """
    lesson = await sources.find_source(ctx.storage, "lesson", str(body.lessonId), owner)
    version = (await lesson.stream_head("narration")).newest
    if version is None:
        raise Conflict(f"lesson {lesson.id!r} has no narration", remedy="write it first")
    narration = Narration.model_validate(version.data)
    name = await sources.new_id(ctx.storage, KIND, owner, body.id, key)
    item: ArtefactSource = {"kind": "lesson", "id": lesson.id, "versions": {"narration": version.id}}
    fact = sources.sources_fact([item], key, body)
    thread = await VIDEOS.find_thread(ctx.storage, name, owner)
    artefact = await sources.claim_new(VIDEOS, ctx.storage, thread, fact, key)
    if (await artefact.stream_head(ORDER)).newest is None:
        parts = [_narrated_part(segment) for segment in narration.segments]
        scenes = narrated_scenes(parts, narration.language)
        source = origin("person", f"from lesson {lesson.id}")
        await create(ctx.storage, owner, name, body.name or narration.topic, scenes, source)
    await sources.record_use(lesson, ctx.storage, KIND, name)
    return await find_project(ctx, name, owner)


def _narrated_part(segment: Segment) -> SpokenPart:
    return SpokenPart(
        title=", ".join(segment.key_concepts[:3]) or segment.type.replace("_", " ").capitalize(),
        guidance=segment.visual_guidance,
        seconds=segment.duration,
        sentences=tuple(sentence.text for sentence in segment.sentences),
    )


async def create(
    storage: Storage,
    owner: str,
    name: str,
    title: str,
    scenes: tuple[Scene, ...],
    origin_of: Origin | None = None,
) -> None:
    """Create a project; raise `Conflict` for an id that is in use."""
    thread = await VIDEOS.find_thread(storage, name, owner)
    artefact = VIDEOS.artefact(storage, thread)
    head = await artefact.stream_head(ORDER)
    if head.newest is not None:
        raise Conflict(f"there is a project {name!r} already", remedy="choose another id, or none")
    await claim(storage, thread)
    ids = [f"scene-{number}" for number in range(1, len(scenes) + 1)]
    order = Order(scenes=tuple(ids), next=len(ids) + 1, name=title)
    batch, source = uuid.uuid4().hex, origin_of or Origin()
    contents = zip(ids, scenes, strict=True)
    new = [
        NewVersion(ORDER, order.model_dump(mode="json"), owner, batch, expected_head=head, origin=source),
        *(
            NewVersion(scene_id, {"scene": scene.data()}, owner, batch, origin=source)
            for scene_id, scene in contents
        ),
    ]
    await artefact.create_versions(new)


def starter_scenes(name: str) -> tuple[Scene, ...]:
    """Return the scenes of a starter; raise `Invalid` for an unknown one."""
    known = starters()
    if name not in known:
        raise Invalid(f"there is no starter {name!r}", remedy=f"use one of: {', '.join(known)}")
    return known[name]


async def current_scenes(ref: ProjectRef) -> tuple[Order, list[Scene]]:
    """Return the order and the scenes in it."""
    order, heads = await read_scenes(ref.artefact)
    return order, [Scene.model_validate(head.newest.data["scene"]) for head in heads.values() if head.newest]


async def timeline_data(ref: ProjectRef) -> dict[str, Any]:
    """Return the project as a timeline in OpenTimelineIO's form."""
    order, heads = await read_scenes(ref.artefact)
    newest = [(name, head.newest) for name, head in heads.items() if head.newest]
    scenes = [(name, one.id, Scene.model_validate(one.data["scene"])) for name, one in newest]
    return otio.timeline(ref.artefact.id, order.name, scenes)


async def restore_version(
    ref: ProjectRef, caller: RequestContext, scene_id: str, version_id: str
) -> dict[str, Any]:
    """Start the run that restores a version of a scene, which comes back to its place if it is deleted."""
    order = await read_order(ref.artefact)
    if scene_id not in order.all_ids():
        raise missing_scene(order, scene_id)
    await ref.artefact.version(scene_id, version_id)
    text = f"Restore {version_id} of {scene_id}"
    params = {"sceneId": scene_id, "versionId": version_id}
    steps = [_step("restoreVersion", text, params, writes=scene_id)]
    if scene_id not in order.scenes:
        back = _step("restoreScene", f"Bring {scene_id} back", {"sceneId": scene_id}, writes=ORDER)
        newest = (await ref.artefact.stream_head(scene_id)).newest
        is_newest = newest is not None and newest.id == version_id
        steps = [back] if is_newest else [back, {**steps[0], "id": "s2", "dependencies": ["s1"]}]
    body = {"ask": "restore", "scene": scene_id, "version": version_id}
    return await _start_steps(ref, caller, steps, text, body)


async def reorder_scenes(ref: ProjectRef, caller: RequestContext, scenes: Sequence[str]) -> dict[str, Any]:
    """Start the run that puts the scenes in this order."""
    order = await read_order(ref.artefact)
    if sorted(scenes) != sorted(order.scenes):
        raise Invalid(
            "the new order must name every scene once",
            remedy=f"send these ids in their new order: {', '.join(order.scenes)}",
        )
    text, params = "Move scenes by hand", {"sceneIds": list(scenes)}
    body = {"ask": "reorder", "scenes": list(scenes)}
    return await _start_steps(ref, caller, [_step("reorderScenes", text, params, writes=ORDER)], text, body)


def _step(tool: str, text: str, params: dict[str, Any], *, writes: str) -> Step:
    return Step(id="s1", tool=tool, display=text, params=params, dependencies=[], reads=[], writes=[writes])


async def _start_steps(
    ref: ProjectRef, caller: RequestContext, steps: Sequence[Step], text: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Start a run of steps that a person has decided on; `body` tells repeated requests apart."""
    thread = await service.require_project(ref.ctx, ref.artefact.id, ref.owner)
    await require_no_question(ref.ctx.worker, thread)
    run = service.decided_run(caller, thread, service.decided_plan(steps, "plan"), text)
    run = with_fingerprint(run, thread, caller, body)
    started = await service.start_run(ref.ctx, run, queued=True)
    record = started.execution
    return {
        "executionId": record["id"] if record else None,
        "threadId": thread.id,
        "plan": plan_view(record, service.plan_context(record)) if record else None,
        "message": started.message,
        "question": started.question,
        "receipt": None,
    }


async def lock(ref: ProjectRef, name: str) -> dict[str, Any]:
    """Lock a scene, or the order, and return all locks."""
    order = await read_order(ref.artefact)
    if name != ORDER and name not in order.all_ids():
        raise missing_scene(order, name)
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

"""Projects, scenes and executions as the API shows them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.server.artefacts.execution_views import execution_summary
from callsheet.server.http.context import AppContext
from callsheet.server.http.requests import identifier
from callsheet.state.errors import Missing
from callsheet.state.live_plan import Execution, LiveStep
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Version, status, version_fields
from callsheet.state.video import project
from callsheet.state.video.plan import RULES
from callsheet.state.video.project import ORDER, Order, about
from callsheet.state.video.scene import FPS
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.storage.plans import Executions

KIND: Final = "video"


@dataclass(frozen=True)
class ProjectRef:
    """An existing project of the caller."""

    ctx: AppContext
    artefact: Artefact
    owner: str
    meta: Mapping[str, str]


async def find_project(ctx: AppContext, name: str, owner: str) -> ProjectRef:
    """Return the owner's project; raise `Missing` if there is none."""
    artefact = Artefact(ctx.storage, KIND, identifier(name, "projectId"), owner)
    meta = await artefact.meta()
    if meta.get("owner") != owner:
        raise Missing(
            f"there is no project {name!r}", remedy="create it with POST /api/projects, or with a message"
        )
    return ProjectRef(ctx, artefact, owner, meta)


async def project_list(ctx: AppContext, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return the owner's projects, newest change first: `{projects, next}`."""
    page = await indexes.list_owned(ctx.storage, owner, KIND, after=after, limit=limit)
    refs = await asyncio.gather(*(find_project(ctx, name, owner) for name in page.ids))
    orders = await asyncio.gather(*(read_order(ref.artefact) for ref in refs))
    listed = [_project(ref, order) for ref, order in zip(refs, orders, strict=True)]
    return {"projects": listed, "next": page.next}


async def project_view(ref: ProjectRef) -> dict[str, Any]:
    """Return a project with its scenes, deleted scenes and locks."""
    order, heads = await read_scenes(ref.artefact)
    return {
        **_project(ref, order),
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


async def scene_versions(ref: ProjectRef, scene_id: str) -> dict[str, Any]:
    """Return the versions of a scene, newest last."""
    order = await read_order(ref.artefact)
    if scene_id not in order.all_ids():
        raise missing_scene(order, scene_id)
    stream = await ref.artefact.stream(scene_id)
    newest = stream.newest()
    return {
        "versions": [
            version_fields(version, newest) | {"summary": about(version.data["scene"])}
            for version in stream.versions
            if newest
        ]
    }


async def read_order(artefact: Artefact) -> Order:
    """Return the order of a project."""
    head = await artefact.stream_head(ORDER)
    return project.order_of(head.newest.data if head.newest else None)


async def read_scenes(artefact: Artefact) -> tuple[Order, dict[str, StreamHead]]:
    """Return the order, and the newest version of each scene in it."""
    order = await read_order(artefact)
    heads = await asyncio.gather(*(artefact.stream_head(name) for name in order.scenes))
    return order, {name: head for name, head in zip(order.scenes, heads, strict=True) if head.newest}


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
        "updatedAt": version.created_at(),
    }


def _project(ref: ProjectRef, order: Order) -> dict[str, Any]:
    return {
        "id": ref.artefact.id,
        "name": order.name,
        "threadId": ref.meta.get("thread") or ref.artefact.id,
        "sceneCount": len(order.scenes),
        "createdAt": iso_time_or_none(ref.meta.get("createdMs")),
        "updatedAt": iso_time_or_none(ref.meta.get("updatedMs")),
    }


async def execution_list(ref: ProjectRef, limit: int, after: str | None) -> dict[str, Any]:
    """Return a page of a project's executions, newest first, and where the next one begins."""
    records = await Executions(ref.ctx.storage, "video", ref.artefact.id, ref.owner, RULES).newest(
        limit + 1, after
    )
    shown = [execution_summary(record) for record in records[:limit]]
    return {"executions": shown, "next": shown[-1]["id"] if len(records) > limit else None}


def plan_context(record: Execution) -> dict[str, Any]:
    """Return what a plan looks up, and the scene that it works like."""
    gathering = [one["step"]["params"] for one in record["steps"] if one["step"]["tool"] == "contextGatherer"]
    references = _references(record["steps"])
    return {
        "needsWebSearch": any("web" in params.get("sources", ()) for params in gathering),
        "searchQueries": [query for params in gathering for query in params.get("queries", ())],
        "referenceSceneId": references[0] if references else None,
    }


def _references(steps: Sequence[LiveStep]) -> list[str]:
    named = [
        name
        for one in steps
        for params in (one["step"]["params"],)
        for name in [params.get("targetSceneId"), *params.get("referenceSceneIds", ())]
    ]
    return [*dict.fromkeys(name for name in named if name)]

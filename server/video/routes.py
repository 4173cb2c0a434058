"""Videos over REST: projects, scenes, executions, and a person's settings."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from starlette.responses import Response

from callsheet.server.artefacts import execution_views
from callsheet.server.artefacts.deletion import delete_artefact
from callsheet.server.artefacts.execution_views import plan_view
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.schemas import ArtefactDeleted, VersionDiff
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.artefacts.views import VersionQuery, reply_builder
from callsheet.server.artefacts.zip_files import download_headers, file_name
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, with_policy
from callsheet.server.http.requests import IdempotencyKey, api_router, identifier
from callsheet.server.video import audio_routes, projects, service
from callsheet.server.video.projects import ProjectRef
from callsheet.server.video.schemas import (
    ContextEntries,
    ContextWrite,
    ExecutionCreate,
    ExecutionList,
    ExecutionStarted,
    LockedScenes,
    Preferences,
    Presets,
    PresetWrite,
    ProjectCreate,
    ProjectExport,
    ProjectList,
    ProjectView,
    SceneList,
    SceneOrder,
    SceneVersions,
    SceneView,
    UndoCreate,
)
from callsheet.server.video.service import Started
from callsheet.state.errors import Missing
from callsheet.state.times import iso_time_or_none
from callsheet.state.video.film import Film, film
from callsheet.state.video.preview import POLICY, project_page, scene_page
from callsheet.state.video.scene import Scene
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video import settings
from callsheet.storage.video.context import ContextStore

list_router = api_router("/api/projects", "videos")
router = api_router("/api/projects/{project_id}", "videos")
_READ = (400, 403, 404, 500, 503, 504)
_QUERY = (*_READ, 422)


_HTML: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_QUERY, 410, reply=None),
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page"},
}
_OTIO_TYPE: Final = "application/vnd.pixar.opentimelineio+json"
_OTIO: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_READ, reply=None),
    200: {"content": {_OTIO_TYPE: {"schema": {"type": "object"}}}, "description": "The timeline"},
}
_VERSION = Query(max_length=80, description="A version's id; the newest if left out")
_AT = Query(ge=0, le=36_000, description="Second at which the picture stands still; it plays if left out")


_Project = Annotated[ProjectRef, Depends(projects.project_ref)]


@list_router.get("", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=ProjectList))
@with_policy(API_READ)
async def list_projects(
    request: Request,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the list before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the projects, newest change first."""
    return await projects.project_list(app_context(request), current_owner(request), after, limit)


@list_router.post(
    "",
    status_code=201,
    responses=documented_responses(400, 404, 409, 422, 500, 503, 504, reply=ProjectView, status=201),
)
@with_policy(API_WRITE)
async def create_project(
    body: ProjectCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Create a project: empty, from a starter, from exported scenes, or from a lesson's narration.

    With `lessonId` the records of both name each other (`GET /api/artefacts/{kind}/{id}`), and the same
    `Idempotency-Key` makes it once.
    """
    return await projects.project_view(
        await projects.create_from(app_context(request), current_owner(request), body, idempotency_key)
    )


@router.get("", responses=documented_responses(*_READ, reply=ProjectView))
@with_policy(API_READ)
async def get_project(ref: _Project) -> dict[str, Any]:
    """Show a project: its scenes in order, deleted scenes and locks."""
    return await projects.project_view(ref)


@router.delete("", responses=documented_responses(*_READ, 409, reply=ArtefactDeleted))
@with_policy(API_WRITE)
async def delete_project(ref: _Project, request: Request) -> ArtefactDeleted:
    """Delete a project with everything that belongs to it: scenes, executions, context, conversation, runs.

    Presets and learnt preferences are for all projects and stay. Refused (409) while a run has it.
    """
    thread = Thread(ref.thread, ref.owner, service.GRAPH)
    return await delete_artefact(app_context(request), ref.artefact, thread)


@router.get("/scenes", responses=documented_responses(*_READ, reply=SceneList))
@with_policy(API_READ)
async def list_scenes(ref: _Project) -> dict[str, Any]:
    """List the scenes in order."""
    return await projects.scene_list(ref)


@router.get("/scenes/{scene_id}", responses=documented_responses(*_QUERY, 410, reply=SceneView))
@with_policy(API_READ)
async def get_scene(
    scene_id: str,
    ref: _Project,
    version: Annotated[str | None, _VERSION] = None,
) -> dict[str, Any]:
    """Show a scene with its content."""
    return await projects.one_scene(ref, scene_id, version)


@router.get("/scenes/{scene_id}/versions", responses=documented_responses(*_READ, reply=SceneVersions))
@with_policy(API_READ)
async def list_scene_versions(scene_id: str, ref: _Project, page: VersionQuery) -> dict[str, Any]:
    """List the versions of a scene, newest last."""
    return await projects.scene_versions(ref, scene_id, page)


@router.get(
    "/scenes/{scene_id}/versions/{version_id}/diff/{other_id}",
    responses=documented_responses(*_READ, 410, reply=VersionDiff),
)
@with_policy(API_READ)
async def diff_scene_versions(scene_id: str, version_id: str, other_id: str, ref: _Project) -> dict[str, Any]:
    """Compare two versions of a scene: what another one changed of this one, as data and in words."""
    return await projects.diff_view(ref, scene_id, version_id, other_id)


@router.post(
    "/scenes/{scene_id}/versions/{version_id}/restore",
    responses=documented_responses(*_READ, 409, 410, reply=ExecutionStarted),
)
@with_policy(API_WRITE)
async def restore_scene_version(
    scene_id: str, version_id: str, ref: _Project, request: Request
) -> dict[str, Any]:
    """Restore a version of a scene as its newest one; nothing else changes."""
    options = RequestContext(current_owner(request))
    return await projects.restore_version(ref, options, scene_id, version_id)


@router.put("/order", responses=documented_responses(*_READ, 409, 422, reply=ExecutionStarted))
@with_policy(API_WRITE)
async def reorder_scenes(body: SceneOrder, ref: _Project, request: Request) -> dict[str, Any]:
    """Put the scenes in another order; nothing else changes, and it can be undone like every plan."""
    return await projects.reorder_scenes(ref, RequestContext(current_owner(request)), body.sceneIds)


@router.get("/preview", responses=_HTML, response_class=Response)
@with_policy(API_READ)
async def preview_project(ref: _Project, at: Annotated[float | None, _AT] = None) -> Response:
    """Show the whole video as one page that plays without scripts."""
    order, scenes = await projects.current_scenes(ref)
    title = await projects.project_title(ref, order)
    return _page(project_page(scenes, title, still_s=at), file_name(title, "html"))


@router.get("/scenes/{scene_id}/preview", responses=_HTML, response_class=Response)
@with_policy(API_READ)
async def preview_scene(
    scene_id: str,
    ref: _Project,
    version: Annotated[str | None, _VERSION] = None,
    at: Annotated[float | None, _AT] = None,
) -> Response:
    """Show a scene, now or in an earlier version, as one page that plays without scripts."""
    view = await projects.one_scene(ref, scene_id, version)
    scene = Scene.model_validate(view["scene"])
    return _page(scene_page(scene, still_s=at), file_name(scene.name or scene_id, "html"))


@router.get("/export", responses=documented_responses(*_READ, reply=ProjectExport))
@with_policy(API_READ)
async def export_project(ref: _Project, response: Response) -> dict[str, Any]:
    """Export name and scenes; `POST /api/projects` takes them back."""
    order, scenes = await projects.current_scenes(ref)
    name = file_name(await projects.project_title(ref, order), "json")
    response.headers.update(download_headers(name, shown=True))
    return {"name": order.name, "scenes": [scene.data() for scene in scenes]}


@router.get("/film", responses=documented_responses(*_READ, reply=Film))
@with_policy(API_READ)
async def get_project_film(ref: _Project) -> Film:
    """Show the drawing of a film of the project: places in pixels, movements in frames."""
    order, scenes = await projects.current_scenes(ref)
    return film(scenes, await projects.project_title(ref, order))


@router.get("/timeline.otio", responses=_OTIO, response_class=Response)
@with_policy(API_READ)
async def export_project_timeline(ref: _Project) -> Response:
    """Export the project as a timeline in OpenTimelineIO's form, for editing programs."""
    data = dumps(await projects.timeline_data(ref))
    order = await projects.read_order(ref.artefact)
    name = file_name(await projects.project_title(ref, order), "otio")
    return Response(data, media_type=_OTIO_TYPE, headers=download_headers(name))


@router.put("/locks/{scene_id}", responses=documented_responses(*_READ, reply=LockedScenes))
@with_policy(API_WRITE)
async def lock_scene(scene_id: str, ref: _Project) -> dict[str, Any]:
    """Lock a scene against every change, its deletion too; it may still be moved.

    `order` locks which scenes there are and where.
    """
    return await projects.lock(ref, scene_id)


@router.delete("/locks/{scene_id}", responses=documented_responses(*_READ, reply=LockedScenes))
@with_policy(API_WRITE)
async def unlock_scene(scene_id: str, ref: _Project) -> dict[str, Any]:
    """Unlock a scene."""
    return await projects.unlock(ref, scene_id)


@router.get("/executions", responses=documented_responses(*_QUERY, reply=ExecutionList))
@with_policy(API_READ)
async def list_executions(
    ref: _Project,
    after: Annotated[str | None, Query(max_length=255, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List executions, newest first."""
    return await projects.execution_list(ref, limit, after)


def _page(html: str, name: str) -> Response:
    headers = {
        **download_headers(name, shown=True),
        "Content-Security-Policy": f"{POLICY}; sandbox; frame-ancestors 'self'",
        "Referrer-Policy": "no-referrer",
    }
    return Response(html, media_type="text/html", headers=headers)


_CHANGE = (400, 403, 404, 409, 422, 500, 503, 504)
_STARTED = documented_responses(*_CHANGE, 402, 410, 429, reply=ExecutionStarted)


@router.post("/executions", responses=_STARTED)
@with_policy(API_WRITE)
async def start_execution(
    project_id: str, body: ExecutionCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Start edits of a project by a message; the reply comes with the plan, and its steps run meanwhile.

    A project id that was never used is a new project.
    """
    ctx, owner = app_context(request), current_owner(request)
    message = body.message
    if body.preset is not None:
        known = await settings.presets(ctx.storage, owner)
        if body.preset not in known:
            raise Missing(f"there is no preset {body.preset!r}", remedy="list them with GET /api/presets")
        message = f"{known[body.preset]}\n\n{message}".strip()
    caller = RequestContext(owner, idempotency_key, body.context())
    body = body.model_copy(update={"message": message})
    return _reply(await service.start_run(ctx, await service.edit_run(ctx.worker, project_id, body, caller)))


@router.post("/undo", responses=_STARTED)
@with_policy(API_WRITE)
async def undo_execution(
    project_id: str,
    request: Request,
    body: UndoCreate | None = None,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Undo the newest execution, another one, or some of its steps; every version stays.

    409 while a plan runs, unless steps are named, and while one is paused or waits for approval.
    """
    body = body or UndoCreate()
    ctx, owner = app_context(request), current_owner(request)
    thread = await service.require_project(ctx, project_id, owner)
    caller = RequestContext(owner, idempotency_key, body.context())
    run = await service.undo_run(ctx.worker, caller, thread, body.executionId, body.steps)
    return _reply(await service.start_run(ctx, run, queued=True))


@router.post("/redo", responses=_STARTED)
@with_policy(API_WRITE)
async def redo_execution(
    project_id: str, request: Request, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Redo the newest undo, if nothing was changed after it."""
    ctx, owner = app_context(request), current_owner(request)
    thread = await service.require_project(ctx, project_id, owner)
    run = await service.redo_run(ctx.worker, RequestContext(owner, idempotency_key), thread)
    return _reply(await service.start_run(ctx, run, queued=True))


def _reply(started: Started) -> dict[str, Any]:
    record = started.execution
    return {
        "executionId": record["id"] if record else None,
        "threadId": started.thread.id,
        "plan": plan_view(record, service.plan_context(record)) if record else None,
        "message": started.message
        or (execution_views.plan_message(record) or record["feedback"] if record else ""),
        "question": started.question,
        "receipt": started.receipt,
    }


settings_router = api_router("/api", "videos")


@settings_router.get("/presets", responses=documented_responses(500, 503, 504, reply=Presets))
@with_policy(API_READ)
async def list_presets(request: Request) -> dict[str, Any]:
    """List the saved messages by name."""
    return {"presets": await settings.presets(app_context(request).storage, current_owner(request))}


@settings_router.put("/presets/{name}", responses=documented_responses(*_QUERY, reply=Presets))
@with_policy(API_WRITE)
async def save_preset(name: str, body: PresetWrite, request: Request) -> dict[str, Any]:
    """Save a message under a name; it runs with `preset` of a new execution."""
    storage, owner = app_context(request).storage, current_owner(request)
    await settings.save_preset(storage, owner, identifier(name, "name"), body.message)
    return {"presets": await settings.presets(storage, owner)}


@settings_router.delete(
    "/presets/{name}",
    status_code=204,
    responses=documented_responses(404, 500, 503, 504, reply=None, status=204),
)
@with_policy(API_WRITE)
async def delete_preset(name: str, request: Request) -> Response:
    """Delete a saved message."""
    await settings.delete_preset(app_context(request).storage, current_owner(request), name)
    return Response(status_code=204)


@settings_router.get("/preferences", responses=documented_responses(500, 503, 504, reply=Preferences))
@with_policy(API_READ)
async def list_preferences(request: Request) -> dict[str, Any]:
    """List preferences learnt from a person's edits and undos; the model reads them with every plan."""
    known = await settings.preferences(app_context(request).storage, current_owner(request))
    return {
        "preferences": [
            {"id": one["id"], "text": one["text"], "at": iso_time_or_none(one["at_ms"])} for one in known
        ]
    }


@settings_router.delete(
    "/preferences/{preference_id}",
    status_code=204,
    responses=documented_responses(404, 500, 503, 504, reply=None, status=204),
)
@with_policy(API_WRITE)
async def delete_preference(preference_id: str, request: Request) -> Response:
    """Delete a preference."""
    await settings.delete_preference(app_context(request).storage, current_owner(request), preference_id)
    return Response(status_code=204)


async def _store(project_id: str, request: Request) -> ContextStore:
    ref = await projects.find_project(app_context(request), project_id, current_owner(request))
    return ContextStore(app_context(request).storage, ref.artefact.id, ref.owner)


_Store = Annotated[ContextStore, Depends(_store)]


@router.get("/context", responses=documented_responses(*_QUERY, reply=ContextEntries))
@with_policy(API_READ)
async def search_project_context(
    store: _Store, contains: Annotated[str, Query(max_length=255, description="Part of the keys")] = ""
) -> dict[str, Any]:
    """List gathered context whose key contains a text."""
    return await _context_view(store, await store.search(contains))


@router.put(
    "/context/{key}",
    responses=documented_responses(*_QUERY, 413, reply=ContextEntries),
)
@with_policy(API_WRITE)
async def set_project_context(key: str, body: ContextWrite, store: _Store) -> dict[str, Any]:
    """Set a value for later steps; 413 over 100 KB of JSON."""
    await store.set_exact(key, body.value, ttl_s=body.expiresInSeconds)
    return await _context_view(store, {key: await store.get(key)})


async def _context_view(store: ContextStore, entries: Mapping[str, Any]) -> dict[str, Any]:
    times = await store.times([*entries])
    return {
        "entries": entries,
        "times": {
            key: {
                "createdAt": iso_time_or_none(one["created_s"] * 1000),
                "expiresAt": iso_time_or_none(one["expires_s"] * 1000),
            }
            for key, one in times.items()
        },
    }


@router.delete(
    "/context/{key}",
    status_code=204,
    responses=documented_responses(*_QUERY, reply=None, status=204),
)
@with_policy(API_WRITE)
async def delete_project_context(key: str, store: _Store) -> Response:
    """Delete a value."""
    if not await store.delete(key):
        raise Missing(f"there is no context {key[:80]!r}", remedy="list the keys of the project")
    return Response(status_code=204)


API: Final = FeatureApi(
    routers=(
        list_router,
        router,
        audio_routes.router,
        settings_router,
    ),
    plan_edits=service.SceneEdits(),
    reply_builder=reply_builder,
    tags={"videos": "Videos of many scenes: edited by plans that can be changed while they run"},
)

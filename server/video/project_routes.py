"""Projects and their scenes over REST."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from callsheet.server.artefacts.service import RequestContext
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import StrictRoute
from callsheet.server.video import projects, views
from callsheet.server.video.bodies import ProjectCreate
from callsheet.server.video.replies import (
    ExecutionList,
    ExecutionStarted,
    LockedScenes,
    ProjectExport,
    ProjectList,
    ProjectView,
    SceneList,
    SceneVersions,
    SceneView,
)
from callsheet.server.video.views import ProjectRef
from callsheet.state.video.preview import POLICY, project_page, scene_page
from callsheet.state.video.scene import Scene

list_router = APIRouter(
    prefix="/api/projects", route_class=StrictRoute, tags=["videos"], default_response_class=JsonReply
)
router = APIRouter(
    prefix="/api/projects/{project_id}",
    route_class=StrictRoute,
    tags=["videos"],
    default_response_class=JsonReply,
)
_READ = (400, 403, 404, 500, 503, 504)
_QUERY = (*_READ, 422)


_HTML: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_QUERY, reply=None),
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page"},
}
_VERSION = Query(max_length=80, description="A version's id; the newest if left out")
_AT = Query(ge=0, le=36_000, description="Second at which the picture stands still; it plays if left out")


async def _project_ref(project_id: str, request: Request) -> ProjectRef:
    return await views.find_project(app_context(request), project_id, current_owner(request))


_Project = Annotated[ProjectRef, Depends(_project_ref)]


@list_router.get("", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=ProjectList))
@with_policy(API_READ)
async def list_projects(
    request: Request,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the list before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the projects, newest change first."""
    return await views.project_list(app_context(request), current_owner(request), after, limit)


@list_router.post(
    "",
    status_code=201,
    responses=documented_responses(400, 409, 422, 500, 503, 504, reply=ProjectView, status=201),
)
@with_policy(API_WRITE)
async def create_project(body: ProjectCreate, request: Request) -> dict[str, Any]:
    """Create a project: empty, from a starter, or from exported scenes."""
    return await views.project_view(
        await projects.create_from(app_context(request), current_owner(request), body)
    )


@router.get("", responses=documented_responses(*_READ, reply=ProjectView))
@with_policy(API_READ)
async def get_project(ref: _Project) -> dict[str, Any]:
    """Show a project: its scenes in order, deleted scenes and locks."""
    return await views.project_view(ref)


@router.get("/scenes", responses=documented_responses(*_READ, reply=SceneList))
@with_policy(API_READ)
async def list_scenes(ref: _Project) -> dict[str, Any]:
    """List the scenes in order."""
    return await views.scene_list(ref)


@router.get("/scenes/{scene_id}", responses=documented_responses(*_QUERY, reply=SceneView))
@with_policy(API_READ)
async def get_scene(
    scene_id: str,
    ref: _Project,
    version: Annotated[str | None, _VERSION] = None,
) -> dict[str, Any]:
    """Show a scene with its content."""
    return await views.one_scene(ref, scene_id, version)


@router.get("/scenes/{scene_id}/versions", responses=documented_responses(*_READ, reply=SceneVersions))
@with_policy(API_READ)
async def list_scene_versions(scene_id: str, ref: _Project) -> dict[str, Any]:
    """List the versions of a scene, newest last."""
    return await views.scene_versions(ref, scene_id)


@router.post(
    "/scenes/{scene_id}/versions/{version_id}/restore",
    responses=documented_responses(*_READ, 409, reply=ExecutionStarted),
)
@with_policy(API_WRITE)
async def restore_scene_version(
    scene_id: str, version_id: str, ref: _Project, request: Request
) -> dict[str, Any]:
    """Restore a version of a scene as its newest one; nothing else changes."""
    options = RequestContext(current_owner(request))
    return await projects.restore_version(ref, options, scene_id, version_id)


@router.get("/preview", responses=_HTML, response_class=Response)
@with_policy(API_READ)
async def preview_project(ref: _Project, at: Annotated[float | None, _AT] = None) -> Response:
    """Show the whole video as one page that plays without scripts."""
    order, scenes = await projects.current_scenes(ref)
    return _page(project_page(scenes, order.name, still_s=at))


@router.get("/scenes/{scene_id}/preview", responses=_HTML, response_class=Response)
@with_policy(API_READ)
async def preview_scene(
    scene_id: str,
    ref: _Project,
    version: Annotated[str | None, _VERSION] = None,
    at: Annotated[float | None, _AT] = None,
) -> Response:
    """Show a scene, now or in an earlier version, as one page that plays without scripts."""
    view = await views.one_scene(ref, scene_id, version)
    return _page(scene_page(Scene.model_validate(view["scene"]), still_s=at))


@router.get("/export", responses=documented_responses(*_READ, reply=ProjectExport))
@with_policy(API_READ)
async def export_project(ref: _Project) -> dict[str, Any]:
    """Export name and scenes; `POST /api/projects` takes them back."""
    order, scenes = await projects.current_scenes(ref)
    return {"name": order.name, "scenes": [scene.data() for scene in scenes]}


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
    return await views.execution_list(ref, limit, after)


def _page(html: str) -> Response:
    headers = {
        "Content-Security-Policy": f"{POLICY}; sandbox; frame-ancestors 'self'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return Response(html, media_type="text/html", headers=headers)

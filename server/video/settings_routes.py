"""Presets, preferences and gathered context over REST."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import StrictRoute, identifier
from callsheet.server.video import views
from callsheet.server.video.bodies import ContextWrite, PresetWrite
from callsheet.server.video.replies import ContextEntries, Preferences, Presets
from callsheet.state.errors import Missing
from callsheet.state.times import iso_time_or_none
from callsheet.storage.video import settings
from callsheet.storage.video.context import ContextStore

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["videos"], default_response_class=JsonReply)
context_router = APIRouter(
    prefix="/api/projects/{project_id}",
    route_class=StrictRoute,
    tags=["videos"],
    default_response_class=JsonReply,
)
_ERRORS = (400, 403, 404, 422, 500, 503, 504)


@router.get("/presets", responses=documented_responses(500, 503, 504, reply=Presets))
@with_policy(API_READ)
async def list_presets(request: Request) -> dict[str, Any]:
    """List the saved messages by name."""
    return {"presets": await settings.presets(app_context(request).storage, current_owner(request))}


@router.put("/presets/{name}", responses=documented_responses(*_ERRORS, reply=Presets))
@with_policy(API_WRITE)
async def save_preset(name: str, body: PresetWrite, request: Request) -> dict[str, Any]:
    """Save a message under a name; it runs with `preset` of a new execution."""
    storage, owner = app_context(request).storage, current_owner(request)
    await settings.save_preset(storage, owner, identifier(name, "name"), body.message)
    return {"presets": await settings.presets(storage, owner)}


@router.delete(
    "/presets/{name}",
    status_code=204,
    responses=documented_responses(404, 500, 503, 504, reply=None, status=204),
)
@with_policy(API_WRITE)
async def delete_preset(name: str, request: Request) -> Response:
    """Delete a saved message."""
    await settings.delete_preset(app_context(request).storage, current_owner(request), name)
    return Response(status_code=204)


@router.get("/preferences", responses=documented_responses(500, 503, 504, reply=Preferences))
@with_policy(API_READ)
async def list_preferences(request: Request) -> dict[str, Any]:
    """List preferences learnt from a person's edits and undos; the model reads them with every plan."""
    known = await settings.preferences(app_context(request).storage, current_owner(request))
    return {
        "preferences": [
            {"id": one["id"], "text": one["text"], "at": iso_time_or_none(one["at_ms"])} for one in known
        ]
    }


@router.delete(
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
    ref = await views.find_project(app_context(request), project_id, current_owner(request))
    return ContextStore(app_context(request).storage, ref.artefact.id, ref.owner)


_Store = Annotated[ContextStore, Depends(_store)]


@context_router.get("/context", responses=documented_responses(*_ERRORS, reply=ContextEntries))
@with_policy(API_READ)
async def search_context(
    store: _Store, contains: Annotated[str, Query(max_length=255, description="Part of the keys")] = ""
) -> dict[str, Any]:
    """List gathered context whose key contains a text."""
    return {"entries": await store.search(contains)}


@context_router.put(
    "/context/{key}",
    responses=documented_responses(*_ERRORS, 413, reply=ContextEntries),
)
@with_policy(API_WRITE)
async def set_context(key: str, body: ContextWrite, store: _Store) -> dict[str, Any]:
    """Set a value for later steps; 413 over 100 KB of JSON."""
    await store.set_exact(key, body.value, ttl_s=body.expiresInSeconds)
    return {"entries": {key: await store.get(key)}}


@context_router.delete(
    "/context/{key}",
    status_code=204,
    responses=documented_responses(*_ERRORS, reply=None, status=204),
)
@with_policy(API_WRITE)
async def delete_context(key: str, store: _Store) -> Response:
    """Delete a value."""
    if not await store.delete(key):
        raise Missing(f"there is no context {key[:80]!r}", remedy="list the keys of the project")
    return Response(status_code=204)

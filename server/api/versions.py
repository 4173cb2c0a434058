"""The versions of an ad's streams: looked at, made and changed by hand, activated (A30–A35)."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request

from server.api import edits, views
from server.api.bodies import StrictRoute
from server.api.replies import Activated, Version, Versions, Written
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented

_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (*_READ, 413, 422)
router = APIRouter(
    prefix="/api/ads/{ad_id}/{stream}",
    route_class=StrictRoute,
    tags=["versions"],
    default_response_class=Reply,
)
_TRACK = {"voiceId": "openai/alloy@english", "text": "Fresh bread, every morning.", "playAfter": "start"}
_EFFECT = {"description": "shop bell", "placement": {"type": "afterVoice", "index": 0}, "duration": 1.5}
_DATA = Body(
    openapi_examples={
        "voices": {"value": {"voiceTracks": [_TRACK]}},
        "music": {"value": {"musicPrompt": "warm acoustic guitar, 90 bpm", "musicProvider": "loudly"}},
        "sfx": {"value": {"soundFxPrompts": [_EFFECT]}},
    }
)
_PATCH = Body(
    openapi_examples={
        "one track": {"value": {"voiceTracks": {"track-0": {"speed": 0.9}}}},
        "music": {"value": {"musicPrompt": "upbeat funk"}},
        "all effects": {"value": {"soundFxPrompts": [_EFFECT]}},
    }
)


async def _found(ad_id: str, stream: str, request: Request) -> edits.Ad:
    edits.known(stream)
    return await edits.find(parts(request).storage, ad_id, owner(request))


_Found = Annotated[edits.Ad, Depends(_found)]


@router.get("", responses=documented(*_READ, reply=Versions))
async def versions(stream: str, found: _Found) -> dict[str, Any]:
    """List the versions, newest last, and say which is active."""
    return await views.versions(found, stream)


@router.post("", status_code=201, responses=documented(*_WRITE, reply=Written, status=201))
async def create(stream: str, data: Annotated[dict[str, Any], _DATA], found: _Found) -> dict[str, Any]:
    """Make a version by hand from the stream's whole data."""
    return await views.written(found, stream, await edits.write(found, stream, data))


@router.get("/{version_id}", responses=documented(*_READ, reply=Version))
async def version(stream: str, version_id: str, found: _Found) -> dict[str, Any]:
    """Show a version: what is known of it, its `data`, and the same data flat beside it."""
    return await views.version(found, stream, version_id)


@router.patch("/{version_id}", responses=documented(*_WRITE, reply=Written))
async def change(
    stream: str, version_id: str, patch: Annotated[dict[str, Any], _PATCH], found: _Found
) -> dict[str, Any]:
    """Make a new version from this one with a partial change; this one stays as it is (A33).

    A list replaces the whole list; an object in its place changes single tracks by id or effects by number.
    """
    before, _ = await views.kept(found, stream, version_id)
    changed = edits.patched(before, patch)
    return await views.written(found, stream, await edits.write(found, stream, changed, parent=before.id))


@router.post("/{version_id}/activate", responses=documented(*_READ, reply=Activated))
async def activate(stream: str, version_id: str, found: _Found) -> dict[str, Any]:
    """Make this version the one that counts (A34)."""
    await found.artefact.activate(stream, version_id)
    return await views.written(found, stream, version_id) | {"active": version_id}


@router.post("/{version_id}/clone", status_code=201, responses=documented(*_READ, reply=Written, status=201))
async def clone(stream: str, version_id: str, found: _Found) -> dict[str, Any]:
    """Make a new draft that holds what this version holds."""
    before, _ = await views.kept(found, stream, version_id)
    return await views.written(found, stream, await edits.write(found, stream, before.data, parent=before.id))


@router.delete("/{version_id}", responses=documented(*_READ, 409, reply=Versions))
async def delete(stream: str, version_id: str, found: _Found) -> dict[str, Any]:
    """Delete a draft for good; its number is not used again. Others are history and stay (409)."""
    await found.artefact.delete_draft(stream, version_id)
    return await views.versions(found, stream)

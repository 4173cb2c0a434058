"""Versions of an ad's streams over REST: read, write by hand, activate."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request

from callsheet.server.ads import edits, views
from callsheet.server.ads.replies import VersionActivated, VersionList, VersionReply, VersionWritten
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import StrictRoute

_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (*_READ, 413, 422)
router = APIRouter(
    prefix="/api/ads/{ad_id}/{stream}",
    route_class=StrictRoute,
    tags=["versions"],
    default_response_class=JsonReply,
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


async def _ad_ref(ad_id: str, stream: str, request: Request) -> edits.AdRef:
    edits.require_stream(stream)
    return await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))


_AdRef = Annotated[edits.AdRef, Depends(_ad_ref)]


@router.get("", responses=documented_responses(*_READ, reply=VersionList))
@with_policy(API_READ)
async def list_versions(stream: str, ref: _AdRef) -> dict[str, Any]:
    """List the versions, newest last, and say which is active."""
    return await views.versions_view(ref, stream)


@router.post("", status_code=201, responses=documented_responses(*_WRITE, reply=VersionWritten, status=201))
@with_policy(API_WRITE)
async def create_version(stream: str, data: Annotated[dict[str, Any], _DATA], ref: _AdRef) -> dict[str, Any]:
    """Create a version from the stream's whole data."""
    return await views.write_reply(ref, stream, await edits.write_version(ref, stream, data))


@router.get("/{version_id}", responses=documented_responses(*_READ, reply=VersionReply))
@with_policy(API_READ)
async def get_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Show a version: what is known of it, its `data`, and the same data flat beside it."""
    return await views.version_view(ref, stream, version_id)


@router.patch("/{version_id}", responses=documented_responses(*_WRITE, reply=VersionWritten))
@with_policy(API_WRITE)
async def patch_version(
    stream: str, version_id: str, patch: Annotated[dict[str, Any], _PATCH], ref: _AdRef
) -> dict[str, Any]:
    """Create a version from this one with a partial change; this one stays as it is.

    A list replaces the whole list; an object in its place changes single tracks by id or effects by number.
    """
    before, _ = await views.find_version(ref, stream, version_id)
    changed = edits.apply_patch(before, patch)
    return await views.write_reply(
        ref, stream, await edits.write_version(ref, stream, changed, parent=before.id)
    )


@router.post("/{version_id}/activate", responses=documented_responses(*_READ, reply=VersionActivated))
@with_policy(API_WRITE)
async def activate_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Activate a version."""
    await ref.artefact.activate(stream, version_id)
    return await views.write_reply(ref, stream, version_id) | {"status": "active", "active": version_id}


@router.post(
    "/{version_id}/clone",
    status_code=201,
    responses=documented_responses(*_READ, reply=VersionWritten, status=201),
)
@with_policy(API_WRITE)
async def clone_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Clone a version as a new draft."""
    before, _ = await views.find_version(ref, stream, version_id)
    return await views.write_reply(
        ref, stream, await edits.write_version(ref, stream, before.data, parent=before.id)
    )


@router.delete("/{version_id}", responses=documented_responses(*_READ, 409, reply=VersionList))
@with_policy(API_WRITE)
async def delete_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Delete a draft for good; its number is not used again. Others are history and stay (409)."""
    await ref.artefact.delete_draft(stream, version_id)
    return await views.versions_view(ref, stream)

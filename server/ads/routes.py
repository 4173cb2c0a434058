"""Audio ads over REST: make from a brief, refine by chat, read, and write versions by hand."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import Body, Depends, Query, Request
from starlette.responses import Response

from callsheet.server.ads import audio_routes, edits, service, voice_routes
from callsheet.server.ads.schemas import (
    AdChat,
    AdFromCampaigns,
    AdGenerate,
    AdList,
    AdTurn,
    AdView,
    Conversation,
    Mixer,
    MixerUpdate,
    StreamLocks,
    VersionActivated,
    VersionList,
    VersionReply,
    VersionWritten,
)
from callsheet.server.artefacts import views
from callsheet.server.artefacts.conversation_routes import RESUMABLE, turn_reply
from callsheet.server.artefacts.deletion import delete_artefact
from callsheet.server.artefacts.event_schemas import turn_events
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.schemas import ArtefactDeleted, VersionDiff
from callsheet.server.artefacts.service import CHAT, RequestContext
from callsheet.server.artefacts.titles import titles
from callsheet.server.artefacts.views import VersionPage, VersionQuery
from callsheet.server.http import replies
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.openapi import json_body
from callsheet.server.http.policy import API_READ, API_RUN, API_WRITE, with_policy
from callsheet.server.http.requests import IdempotencyKey, IfMatch, api_router, expected_version
from callsheet.state.ads.timeline import Timeline
from callsheet.state.errors import Invalid
from callsheet.state.versions import origin
from callsheet.storage.archive.file import ArtefactEntry
from callsheet.storage.runs.records import RunRequest

router = api_router("/api", "ads")
_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_RUN = documented_responses(*_WRITE, 402, 429, reply=AdTurn)
_RUN[200] |= turn_events(AdTurn)


@router.post("/ai/generate", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def generate_ad(body: AdGenerate, request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Create an ad from a brief: voices, music and effects as new drafts.

    With `Accept: text/event-stream` the reply is a stream of events: `text` (the model's words as they come),
    `step`, `drafts`, then `result` or `error`. Words of an answer that broke off and was asked for again have
    another `messageId` than those that count. `Last-Event-ID` resumes the stream of an equal request.
    """
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    return await _execute(request, await service.generate_run(app_context(request).storage, body, caller))


@router.post("/ads", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def create_ad(
    body: AdFromCampaigns, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create an ad from campaigns of the library: their offers, word for word, are its brief.

    The record of the ad names the campaigns (`GET /api/artefacts/ad/{id}`). Streams events like generate.
    """
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    run, fact = await service.campaign_run(app_context(request).storage, body, caller)
    return await _execute(request, run, fact)


@router.post("/ads/{ad_id}/chat", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def chat_about_ad(
    ad_id: str, body: AdChat, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Refine an ad in words; `drafts` names only what changed. Streams events like generate."""
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    return await _execute(request, await service.chat_run(app_context(request).worker, ad_id, body, caller))


@router.get("/ads", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=AdList))
@with_policy(API_READ)
async def list_ads(
    request: Request,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the ads, newest change first."""
    return await edits.ad_list(app_context(request), current_owner(request), after, limit)


@router.get("/ads/{ad_id}", responses=documented_responses(*_READ, reply=AdView))
@with_policy(API_READ)
async def get_ad(ad_id: str, request: Request) -> dict[str, Any]:
    """Show an ad: record, brief, newest and active versions, times, mixer."""
    ref = await _ad_ref(ad_id, request)
    ctx = app_context(request)
    of_thread = await titles(ctx, ref.thread.owner, [ref.thread.id])
    shown = await edits.ad_view(ref, (await ctx.worker.state(ref.thread)).values)
    return shown | {"title": of_thread.get(ref.thread.id, ref.artefact.id)}


@router.delete("/ads/{ad_id}", responses=documented_responses(*_READ, 409, reply=ArtefactDeleted))
@with_policy(API_WRITE)
async def delete_ad(ad_id: str, request: Request) -> ArtefactDeleted:
    """Delete an ad with everything that belongs to it: versions, mixer, locks, plans, conversation, runs.

    Refused (409) while a run has it.
    """
    ref = await _ad_ref(ad_id, request)
    return await delete_artefact(app_context(request), ref.artefact, ref.thread)


@router.get("/ads/{ad_id}/conversation", responses=documented_responses(*_READ, reply=Conversation))
@with_policy(API_READ)
async def get_ad_conversation(ad_id: str, request: Request) -> dict[str, Any]:
    """Show the conversation in order, the system prompt first."""
    ref = await _ad_ref(ad_id, request)
    return edits.conversation_view(ref, (await app_context(request).worker.state(ref.thread)).values)


@router.delete("/ads/{ad_id}/conversation", responses=documented_responses(*_READ, 409, reply=Conversation))
@with_policy(API_WRITE)
async def clear_ad_conversation(ad_id: str, request: Request) -> dict[str, Any]:
    """Delete an ad's conversation; the versions stay. The next request about the ad is a brief."""
    ref, ctx = await _ad_ref(ad_id, request), app_context(request)
    await edits.clear_conversation(ref, ctx.saver)
    return edits.conversation_view(ref, {})


@router.get("/ads/{ad_id}/timeline", responses=documented_responses(*_READ, reply=Timeline))
@with_policy(API_READ)
async def get_ad_timeline(
    ad_id: str,
    request: Request,
    versions: Annotated[
        edits.ChosenVersions,
        Query(description="Which version stands for its stream; one without an active one is silent"),
    ] = "newest",
) -> Any:
    """Show the timeline: when every voice, effect and the music plays, in seconds from the first sound."""
    return await edits.timeline_view(await _ad_ref(ad_id, request), versions)


@router.get("/ads/{ad_id}/mixer", responses=documented_responses(*_READ, reply=Mixer))
@with_policy(API_READ)
async def get_ad_mixer(ad_id: str, request: Request) -> dict[str, Any]:
    """Show the mixer: gains in decibels, and how the music makes room."""
    return await edits.mixer_view(await _ad_ref(ad_id, request))


@router.patch("/ads/{ad_id}/mixer", responses=documented_responses(*_WRITE, reply=Mixer))
@with_policy(API_WRITE)
async def update_ad_mixer(ad_id: str, body: MixerUpdate, request: Request) -> dict[str, Any]:
    """Change the mixer; fields that are not sent stay."""
    return await edits.update_mixer(await _ad_ref(ad_id, request), body.model_dump(exclude_none=True))


@router.put("/ads/{ad_id}/locks/{stream}", responses=documented_responses(*_READ, reply=StreamLocks))
@with_policy(API_WRITE)
async def lock_ad_stream(ad_id: str, stream: str, request: Request) -> dict[str, Any]:
    """Lock `voices`, `music` or `sfx` against every change, whoever makes it: "leave the voices alone"."""
    ref = await _ad_ref(ad_id, request)
    return await views.lock(ref.artefact, "stream", edits.require_stream(stream), ref.thread.owner)


@router.delete("/ads/{ad_id}/locks/{stream}", responses=documented_responses(*_READ, reply=StreamLocks))
@with_policy(API_WRITE)
async def unlock_ad_stream(ad_id: str, stream: str, request: Request) -> dict[str, Any]:
    """Unlock a stream."""
    ref = await _ad_ref(ad_id, request)
    return await views.unlock(ref.artefact, "stream", edits.require_stream(stream))


@router.patch(
    "/ads/{ad_id}/voices/tracks/{track_id}", responses=documented_responses(*_WRITE, reply=VersionWritten)
)
@with_policy(API_WRITE)
async def edit_ad_track(
    ad_id: str, track_id: str, body: edits.TrackPatch, request: Request, if_match: IfMatch = None
) -> dict[str, Any]:
    """Edit one track by hand: its text, voice, pace or place. The others stay as they are.

    Names the newest voices version, by `version` or `If-Match`; 409 if there is a newer one.
    """
    ref = await _ad_ref(ad_id, request)
    version = expected_version(if_match, body.version)
    return await edits.write_reply(
        ref, "voices", await edits.edit_track(ref, track_id, body.changes(), version)
    )


async def _ad_ref(ad_id: str, request: Request) -> edits.AdRef:
    return await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))


async def _execute(
    request: Request, run_request: RunRequest, facts: Mapping[str, str] = MappingProxyType({})
) -> Response:
    if replies.wants_event_stream(request):
        run_request = replace(run_request, request={**run_request.request, "stream_mode": [*CHAT]})
    worker = app_context(request).worker
    return await turn_reply(request, run_request, partial(service.submit, worker, run_request, facts))


_VERSION_WRITE = (*_READ, 413, 422)
version_router = api_router("/api/ads/{ad_id}/{stream}", "versions")
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


async def _stream_ref(ad_id: str, stream: str, request: Request) -> edits.AdRef:
    edits.require_stream(stream)
    return await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))


_AdRef = Annotated[edits.AdRef, Depends(_stream_ref)]


@version_router.get("", responses=documented_responses(*_READ, reply=VersionList))
@with_policy(API_READ)
async def list_ad_versions(stream: str, ref: _AdRef, page: VersionQuery) -> dict[str, Any]:
    """List the versions, newest last, and say which is active."""
    return await edits.versions_view(ref, stream, page)


@version_router.post(
    "",
    status_code=201,
    responses=documented_responses(*_VERSION_WRITE, reply=VersionWritten, status=201),
    openapi_extra=json_body(edits.VoicesData | edits.MusicData | edits.SfxData),
)
@with_policy(API_WRITE)
async def create_ad_version(
    stream: str, data: Annotated[dict[str, Any], _DATA], ref: _AdRef
) -> dict[str, Any]:
    """Create a version from the stream's whole data."""
    return await edits.write_reply(
        ref, stream, await edits.write_version(ref, stream, data, origin("person", "written by hand"))
    )


@version_router.get("/{version_id}", responses=documented_responses(*_READ, 410, reply=VersionReply))
@with_policy(API_READ)
async def get_ad_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Show a version: what is known of it, its `data`, and the same data flat beside it."""
    return await edits.version_view(ref, stream, version_id)


@version_router.get(
    "/{version_id}/diff/{other_id}", responses=documented_responses(*_READ, 410, reply=VersionDiff)
)
@with_policy(API_READ)
async def diff_ad_versions(stream: str, version_id: str, other_id: str, ref: _AdRef) -> dict[str, Any]:
    """Compare two versions: what another one changed of this one, as data and in words."""
    return await edits.diff_view(ref, stream, version_id, other_id)


@version_router.patch(
    "/{version_id}", responses=documented_responses(*_VERSION_WRITE, 410, reply=VersionWritten)
)
@with_policy(API_WRITE)
async def patch_ad_version(
    stream: str, version_id: str, patch: Annotated[dict[str, Any], _PATCH], ref: _AdRef
) -> dict[str, Any]:
    """Create a version from this one with a partial change; this one stays as it is.

    A list replaces the whole list; an object in its place changes single tracks by id or effects by number.
    """
    before, _ = await edits.find_version(ref, stream, version_id)
    changed = edits.apply_patch(before, patch)
    return await edits.write_reply(
        ref,
        stream,
        await edits.write_version(
            ref, stream, changed, origin("person", f"a change of {before.id} by hand"), parent=before.id
        ),
    )


@version_router.post(
    "/{version_id}/activate", responses=documented_responses(*_READ, 410, reply=VersionActivated)
)
@with_policy(API_WRITE)
async def activate_ad_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Activate a version."""
    await ref.artefact.activate(stream, version_id)
    return await edits.write_reply(ref, stream, version_id) | {"status": "active", "active": version_id}


@version_router.post(
    "/{version_id}/clone",
    status_code=201,
    responses=documented_responses(*_READ, 410, reply=VersionWritten, status=201),
)
@with_policy(API_WRITE)
async def clone_ad_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Clone a version as a new draft."""
    before, _ = await edits.find_version(ref, stream, version_id)
    return await edits.write_reply(
        ref,
        stream,
        await edits.write_version(
            ref, stream, before.data, origin("undo", f"restore {before.id}"), parent=before.id
        ),
    )


@version_router.delete("/{version_id}", responses=documented_responses(*_READ, 409, 410, reply=VersionList))
@with_policy(API_WRITE)
async def delete_ad_version(stream: str, version_id: str, ref: _AdRef) -> dict[str, Any]:
    """Delete a draft for good; its number is not used again. Others are history and stay (409)."""
    await ref.artefact.delete_draft(stream, version_id)
    return await edits.versions_view(ref, stream, VersionPage())


def _check_artefact(entry: ArtefactEntry) -> None:
    facts = entry.artefact.facts
    _require_number(facts, "spotSeconds")
    audio_routes.check_names(facts)
    if entry.artefact.mixer is not None:
        MixerUpdate.model_validate(entry.artefact.mixer)
    newest: dict[str, Mapping[str, Any]] = {version.stream: version.data for version in entry.versions}
    for version in entry.versions:
        edits.normalize(version.stream, version.data, newest, facts)


def _require_number(facts: Mapping[str, str], name: str) -> None:
    try:
        float(facts.get(name, "0"))
    except ValueError as error:
        raise Invalid(f"{name} {facts[name]!r} is not a number", remedy="export the thread again") from error


API: Final = FeatureApi(
    routers=(
        router,
        audio_routes.router,
        version_router,
        audio_routes.voice_router,
        audio_routes.name_router,
        voice_routes.router,
    ),
    reply_builder=service.reply_builder,
    tags={
        "ads": "Audio ads: made from a brief, refined by chat",
        "versions": "Versions of an ad's voices, music and sound effects",
        "voices": "Voices that ads may use",
    },
    check_artefact=_check_artefact,
)

"""Audio ads over REST: make from a brief, refine by chat, read."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from callsheet.server.ads import edits, service, views
from callsheet.server.ads.bodies import AdChat, AdGenerate, MixerUpdate
from callsheet.server.ads.replies import AdList, AdTurn, AdView, Conversation, Mixer, StreamLocks
from callsheet.server.artefacts import views as locks
from callsheet.server.artefacts.conversation_routes import RESUMABLE, stream_turn
from callsheet.server.artefacts.service import CHAT, RequestContext
from callsheet.server.http import events
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import ConfirmedReply, JsonReply
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import API_READ, API_RUN, API_WRITE, with_policy
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.state.ads.timeline import Timeline
from callsheet.storage.runs.records import RunRequest

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["ads"], default_response_class=JsonReply)
_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_RUN = documented_responses(*_WRITE, 429, reply=AdTurn)
_RUN[200] |= {"content": EVENTS["content"]}


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
    return await views.ad_list(app_context(request).storage, current_owner(request), after, limit)


@router.get("/ads/{ad_id}", responses=documented_responses(*_READ, reply=AdView))
@with_policy(API_READ)
async def get_ad(ad_id: str, request: Request) -> dict[str, Any]:
    """Show an ad: record, brief, newest and active versions, times, mixer."""
    ref = await _ad_ref(ad_id, request)
    return await views.ad_view(ref, (await app_context(request).worker.state(ref.thread)).values)


@router.get("/ads/{ad_id}/conversation", responses=documented_responses(*_READ, reply=Conversation))
@with_policy(API_READ)
async def get_conversation(ad_id: str, request: Request) -> dict[str, Any]:
    """Show the conversation in order, the system prompt first."""
    ref = await _ad_ref(ad_id, request)
    return views.conversation_view(ref, (await app_context(request).worker.state(ref.thread)).values)


@router.delete("/ads/{ad_id}/conversation", responses=documented_responses(*_READ, 409, reply=Conversation))
@with_policy(API_WRITE)
async def clear_conversation(ad_id: str, request: Request) -> dict[str, Any]:
    """Delete an ad's conversation; the versions stay. The next request about the ad is a brief."""
    ref, ctx = await _ad_ref(ad_id, request), app_context(request)
    await edits.clear_conversation(ref, ctx.saver)
    return views.conversation_view(ref, {})


@router.get("/ads/{ad_id}/timeline", responses=documented_responses(*_READ, reply=Timeline))
@with_policy(API_READ)
async def get_timeline(
    ad_id: str,
    request: Request,
    versions: Annotated[
        views.ChosenVersions,
        Query(description="Which version stands for its stream; one without an active one is silent"),
    ] = "newest",
) -> Any:
    """Show the timeline: when every voice, effect and the music plays, in seconds from the first sound."""
    return await views.timeline_view(await _ad_ref(ad_id, request), versions)


@router.get("/ads/{ad_id}/mixer", responses=documented_responses(*_READ, reply=Mixer))
@with_policy(API_READ)
async def get_mixer(ad_id: str, request: Request) -> dict[str, Any]:
    """Show the mixer: gains in decibels, and how the music makes room."""
    return await views.mixer_view(await _ad_ref(ad_id, request))


@router.patch("/ads/{ad_id}/mixer", responses=documented_responses(*_WRITE, reply=Mixer))
@with_policy(API_WRITE)
async def update_mixer(ad_id: str, body: MixerUpdate, request: Request) -> dict[str, Any]:
    """Change the mixer; fields that are not sent stay."""
    return await edits.update_mixer(await _ad_ref(ad_id, request), body.model_dump(exclude_none=True))


@router.put("/ads/{ad_id}/locks/{stream}", responses=documented_responses(*_READ, reply=StreamLocks))
@with_policy(API_WRITE)
async def lock_stream(ad_id: str, stream: str, request: Request) -> dict[str, Any]:
    """Lock `voices`, `music` or `sfx` against every change, whoever makes it: "leave the voices alone"."""
    ref = await _ad_ref(ad_id, request)
    return await locks.lock(ref.artefact, "stream", edits.require_stream(stream), ref.thread.owner)


@router.delete("/ads/{ad_id}/locks/{stream}", responses=documented_responses(*_READ, reply=StreamLocks))
@with_policy(API_WRITE)
async def unlock_stream(ad_id: str, stream: str, request: Request) -> dict[str, Any]:
    """Unlock a stream."""
    ref = await _ad_ref(ad_id, request)
    return await locks.unlock(ref.artefact, "stream", edits.require_stream(stream))


async def _ad_ref(ad_id: str, request: Request) -> edits.AdRef:
    return await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))


async def _execute(request: Request, run_request: RunRequest) -> Response:
    ctx = app_context(request)
    if events.wants_event_stream(request):
        run_request = replace(run_request, request={**run_request.request, "stream_mode": [*CHAT]})
        return await stream_turn(request, run_request, partial(service.submit, ctx.worker, run_request))
    reply, ack = await service.run(ctx.worker, run_request)
    return ConfirmedReply(reply, ack)

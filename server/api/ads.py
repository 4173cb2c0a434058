"""Audio ads: made from a brief, refined by chat, looked at as a whole (A50–A61)."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from server import jobs
from server.api import edits, events, locks, views
from server.api.bodies import ChatBody, GenerateBody, IdempotencyKey, MixerBody, StrictRoute
from server.api.replies import AdPage, AdView, Conversation, Mixer, StreamLocks, Turn
from server.description import EVENTS
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented
from server.requested import Job
from server.worker import Report, Told
from state.timeline import Timeline

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["ads"], default_response_class=Reply)
_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_RUN = documented(*_WRITE, 429, reply=Turn)
_RUN[200] |= {"content": EVENTS["content"]}


@router.post("/ai/generate", responses=_RUN, response_model=None)
async def generate(body: GenerateBody, request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Make an ad from a brief: voices, music and effects as new drafts (A50, A53).

    With `Accept: text/event-stream` the reply is a stream of events: `step`, `drafts`, then `result` or
    `error`.
    """
    asked = body.asked(owner(request), idempotency_key)
    return await _carried_out(request, await jobs.generate_job(parts(request).storage, asked))


@router.post("/ads/{ad_id}/chat", responses=_RUN, response_model=None)
async def chat(
    ad_id: str, body: ChatBody, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Refine an ad in words; `drafts` names only what changed (A55, A56). Streams events like generate."""
    here = parts(request)
    meant = await edits.meant(here.storage, ad_id, owner(request))
    asked = body.asked(meant, owner(request), idempotency_key)
    return await _carried_out(request, await jobs.chat_job(here.worker, here.storage, asked))


@router.get("/ads", responses=documented(400, 403, 422, 500, 503, 504, reply=AdPage))
async def ads(
    request: Request,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the ads, newest change first."""
    return await views.listed(parts(request).storage, owner(request), after, limit)


@router.get("/ads/{ad_id}", responses=documented(*_READ, reply=AdView))
async def ad(ad_id: str, request: Request) -> dict[str, Any]:
    """Show an ad: record, brief, newest and active versions, times, mixer."""
    found = await _found(ad_id, request)
    return await views.whole(found, (await parts(request).worker.state(found.thread)).values)


@router.get("/ads/{ad_id}/conversation", responses=documented(*_READ, reply=Conversation))
async def conversation(ad_id: str, request: Request) -> dict[str, Any]:
    """Show the conversation in order, the system prompt first (A36, A37)."""
    found = await _found(ad_id, request)
    return views.talked(found, (await parts(request).worker.state(found.thread)).values)


@router.delete("/ads/{ad_id}/conversation", responses=documented(*_READ, 409, reply=Conversation))
async def clear_conversation(ad_id: str, request: Request) -> dict[str, Any]:
    """Forget the conversation; the versions stay (A36). The next request about the ad is a brief."""
    found, here = await _found(ad_id, request), parts(request)
    await edits.forget(found, here.saver)
    return views.talked(found, {})


@router.get("/ads/{ad_id}/timeline", responses=documented(*_READ, reply=Timeline))
async def timeline(
    ad_id: str,
    request: Request,
    versions: Annotated[
        views.Chosen,
        Query(description="Which version stands for its stream; one without an active one is silent"),
    ] = "newest",
) -> Any:
    """Show when every voice, effect and the music plays, in seconds from the first sound."""
    return await views.timeline(await _found(ad_id, request), versions)


@router.get("/ads/{ad_id}/mixer", responses=documented(*_READ, reply=Mixer))
async def mixer(ad_id: str, request: Request) -> dict[str, Any]:
    """Show the mixer: gains in decibels, and how the music makes room (A35)."""
    return await views.mixer(await _found(ad_id, request))


@router.patch("/ads/{ad_id}/mixer", responses=documented(*_WRITE, reply=Mixer))
async def change_mixer(ad_id: str, body: MixerBody, request: Request) -> dict[str, Any]:
    """Set what the body names at the mixer; the rest stays."""
    return await edits.mix(await _found(ad_id, request), body.model_dump(exclude_none=True))


@router.put("/ads/{ad_id}/locks/{stream}", responses=documented(*_READ, reply=StreamLocks))
async def lock(ad_id: str, stream: str, request: Request) -> dict[str, Any]:
    """Lock `voices`, `music` or `sfx` against every change, whoever makes it: "leave the voices alone"."""
    found = await _found(ad_id, request)
    return await locks.lock(found.artefact, "stream", edits.known(stream), found.thread.owner)


@router.delete("/ads/{ad_id}/locks/{stream}", responses=documented(*_READ, reply=StreamLocks))
async def unlock(ad_id: str, stream: str, request: Request) -> dict[str, Any]:
    """Unlock a stream."""
    found = await _found(ad_id, request)
    return await locks.unlock(found.artefact, "stream", edits.known(stream))


async def _found(ad_id: str, request: Request) -> edits.Ad:
    return await edits.find(parts(request).storage, ad_id, owner(request))


async def _carried_out(request: Request, job: Job) -> Response:
    here = parts(request)

    async def carry(report: Report | None = None) -> tuple[dict[str, Any], Told]:
        return await jobs.answered(here.worker, here.storage, job, report)

    if events.wanted(request):
        return events.streamed(here.running, carry)
    reply, told = await carry()
    return Reply(reply, background=BackgroundTask(told))

"""The chat about pages over REST, with its frames as server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response
from typing_extensions import TypedDict

from callsheet.server.artefacts.replies import ApprovalQuestion, ModelUse, ToolCall, Usage
from callsheet.server.context import app_context
from callsheet.server.http import events
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import JsonReply, dumps
from callsheet.server.http.origins import current_owner
from callsheet.server.http.policy import API_READ, API_RUN, Streaming, with_policy
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.server.http.streaming import StreamingReply
from callsheet.server.pages import chat, service
from callsheet.server.pages.chat_bodies import DecisionCreate, PageChatCreate
from callsheet.server.pages.chat_events import Frame
from callsheet.server.runtime.run_request import DomainRun
from callsheet.state.workflow import DraftMade


class PageTurn(TypedDict):
    """The result of a turn."""

    conversationId: str
    pageId: str
    drafts: dict[str, str]
    """`page`: the newest version, if the turn made one."""
    created: list[DraftMade]
    message: str
    """Empty while a question is pending."""
    question: ApprovalQuestion | None
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: Usage
    turnUsage: ModelUse


router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["pages"], default_response_class=JsonReply)
_MEDIA: Final = "text/event-stream"
_EVENTS: Final = {"content": {_MEDIA: {"schema": {"type": "string"}}}}
_HEADERS: Final = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_RUN = documented_responses(400, 403, 404, 409, 413, 422, 429, 500, 503, 504, reply=PageTurn)
_RUN[200] |= _EVENTS
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(400, 403, 404, 409, 422, 500, 503, 504, reply=None),
    200: {**_EVENTS, "description": "Events, as long as there is the conversation"},
}
Frames = AsyncGenerator[tuple[str, Frame] | None, None]


@router.post("/pages/{page_id}/chat", responses=_RUN, response_model=None)
@with_policy(API_RUN)
async def chat_about_page(
    page_id: str, body: PageChatCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Edit a page in words; a page that is not there begins as the starter page.

    A plain yes or no answers the question that waits, if one does. With `Accept: text/event-stream` the
    reply is what the web socket tells of the run, to its end.
    """
    ctx = app_context(request)
    message = body.to_request(page_id, current_owner(request), idempotency_key)
    return await _execute(request, await service.chat_run(ctx.worker, ctx.storage, message))


@router.post("/pages/{page_id}/decisions", responses=_RUN, response_model=None)
@with_policy(API_RUN)
async def answer_approval(
    page_id: str, body: DecisionCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Answer the question that the page's conversation waits with."""
    ctx = app_context(request)
    decision = body.to_decision(page_id, current_owner(request), idempotency_key)
    return await _execute(request, await service.decision_run(ctx.worker, ctx.storage, decision))


@router.get("/conversations/{conversation_id}/events", responses=_STREAM, response_model=None)
@with_policy(replace(API_READ, streaming=Streaming.ALWAYS))
async def stream_conversation(
    conversation_id: str,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=80, description="Of the last event seen")] = None,
    since: Annotated[str | None, Query(max_length=80, description="The same, for who cannot set it")] = None,
) -> Response:
    """Stream a page conversation's events, as the web socket does; `0` is from the beginning."""
    frames = await chat.listen(
        app_context(request), current_owner(request), conversation_id, last_event_id or since
    )
    return _stream_reply(frames)


async def _execute(request: Request, domain_run: DomainRun) -> Response:
    ctx = app_context(request)
    if events.wants_event_stream(request):
        return _stream_reply(await chat.submit_and_follow(ctx, domain_run))
    await service.PAGES.claim(ctx.storage, domain_run.thread)
    reply, ack = await ctx.worker.run(domain_run)
    return JsonReply(reply, background=BackgroundTask(ack))


def _stream_reply(frames: Frames) -> Response:
    return StreamingReply(_lines(frames), media_type=_MEDIA, headers=_HEADERS)


async def _lines(frames: Frames) -> AsyncGenerator[bytes, None]:
    async with aclosing(frames):
        async for item in frames:
            if item is None:
                yield b": heartbeat\n\n"
            else:
                event_id, frame = item
                fields = (event_id.encode(), frame["type"].encode(), dumps({"eventId": event_id, **frame}))
                yield b"id: %b\nevent: %b\ndata: %b\n\n" % fields

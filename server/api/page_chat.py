"""The chat about pages over REST: what the web socket does, one request at a time, and its events as SSE."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response
from typing_extensions import TypedDict

from server import chats, page_jobs
from server.api import events
from server.api.bodies import IdempotencyKey, StrictRoute
from server.api.chat_bodies import DecisionBody, PageChatBody
from server.api.replies import ToolCall, Usage
from server.chat_events import Frame
from server.encoding import dumps
from server.followed import Followed
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented
from server.requested import Job
from state.workflow import DraftMade


class Question(TypedDict):
    """What a person is asked before something is gone."""

    id: str
    actions: list[dict[str, Any]]
    """Each `{name, args, description}`."""


class PageTurn(TypedDict):
    """What came of a turn."""

    conversationId: str
    pageId: str
    drafts: dict[str, str]
    """`page`: its newest version, where this turn made one."""
    created: list[DraftMade]
    message: str
    """Empty where a question waits."""
    question: Question | None
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: Usage


router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["pages"], default_response_class=Reply)
_MEDIA: Final = "text/event-stream"
_EVENTS: Final = {"content": {_MEDIA: {"schema": {"type": "string"}}}}
_HEADERS: Final = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_RUN = documented(400, 403, 404, 409, 413, 422, 429, 500, 503, 504, reply=PageTurn)
_RUN[200] |= _EVENTS
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    **documented(400, 403, 404, 409, 422, 500, 503, 504, reply=None),
    200: {**_EVENTS, "description": "Events, as long as there is the conversation"},
}
Told = AsyncGenerator[tuple[str, Frame] | None, None]


@router.post("/pages/{page_id}/chat", responses=_RUN, response_model=None)
async def chat(
    page_id: str, body: PageChatBody, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Edit a page in words; a page that is not there begins as the starter page.

    A plain yes or no answers the question that waits, if one does. With `Accept: text/event-stream` the
    reply is what the web socket tells of the run, to its end.
    """
    here, asked = parts(request), body.asked(page_id, owner(request), idempotency_key)
    return await _carried_out(request, await page_jobs.chat_job(here.worker, here.storage, asked))


@router.post("/pages/{page_id}/decisions", responses=_RUN, response_model=None)
async def decide(
    page_id: str, body: DecisionBody, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Answer the question that the page's conversation waits with."""
    here, asked = parts(request), body.decided(page_id, owner(request), idempotency_key)
    return await _carried_out(request, await page_jobs.decision_job(here.worker, here.storage, asked))


@router.get("/conversations/{conversation_id}/events", responses=_STREAM, response_model=None)
async def listen(
    conversation_id: str,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=80, description="Of the last event seen")] = None,
    since: Annotated[str | None, Query(max_length=80, description="The same, for who cannot set it")] = None,
) -> Response:
    """Tell what happens in a conversation about a page, as the web socket does; `0` is from the beginning."""
    told = await chats.listen(parts(request), owner(request), conversation_id, last_event_id or since)
    return _streamed(told)


async def _carried_out(request: Request, job: Job) -> Response:
    here = parts(request)
    if events.wanted(request):
        return _streamed(await chats.until_over(here, job))
    await page_jobs.DESK.opened(here.storage, job.thread)
    reply, told = await here.worker.answer(job)
    return Reply(reply, background=BackgroundTask(told))


def _streamed(told: Told) -> Response:
    return Followed(_lines(told), media_type=_MEDIA, headers=_HEADERS)


async def _lines(told: Told) -> AsyncGenerator[bytes, None]:
    async with aclosing(told):
        async for one in told:
            if one is None:
                yield b": heartbeat\n\n"
            else:
                event_id, frame = one
                shown = (event_id.encode(), frame["type"].encode(), dumps({"eventId": event_id, **frame}))
                yield b"id: %b\nevent: %b\ndata: %b\n\n" % shown

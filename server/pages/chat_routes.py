"""The chat about pages over REST, with its frames as server-sent events."""

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from callsheet.server.artefacts.conversation_routes import RESUMABLE, stream_turn
from callsheet.server.artefacts.replies import ApprovalQuestion, ModelUse, ToolCall, UsageReply
from callsheet.server.artefacts.service import RequestContext, run, submit
from callsheet.server.http import events
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import ConfirmedReply, JsonReply
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import API_RUN, with_policy
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.server.pages import service
from callsheet.server.pages.chat_bodies import DecisionCreate, PageChatCreate
from callsheet.state.workflow import DraftMade
from callsheet.storage.runs.records import RunRequest


class PageTurn(TypedDict):
    """The result of a turn."""

    conversationId: str
    pageId: str
    drafts: dict[str, str]
    """`page`: the newest version, if the turn made one."""
    created: list[DraftMade]
    message: str
    """The model's words, or the text of `question`."""
    question: ApprovalQuestion | None
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: UsageReply
    turnUsage: ModelUse


router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["pages"], default_response_class=JsonReply)
_RUN = documented_responses(400, 403, 404, 409, 413, 422, 429, 500, 503, 504, reply=PageTurn)
_RUN[200] |= {"content": EVENTS["content"]}


@router.post("/pages/{page_id}/chat", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def chat_about_page(
    page_id: str, body: PageChatCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Edit a page in words; a page that is not there begins as the starter page.

    A plain yes or no answers the question that waits, if one does. With `Accept: text/event-stream` the
    reply is what the web socket tells of the run, to its end; `Last-Event-ID` resumes it.
    """
    ctx = app_context(request)
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    return await _execute(request, await service.chat_run(ctx.worker, page_id, body, caller))


@router.post("/pages/{page_id}/decisions", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def answer_approval(
    page_id: str, body: DecisionCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Answer the question that the page's conversation waits with."""
    ctx = app_context(request)
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    return await _execute(request, await service.decision_run(ctx.worker, page_id, body, caller))


async def _execute(request: Request, run_request: RunRequest) -> Response:
    ctx = app_context(request)
    if events.wants_event_stream(request):
        return await stream_turn(request, run_request, partial(submit, ctx.worker, run_request))
    reply, ack = await run(ctx.worker, run_request)
    return ConfirmedReply(reply, ack)

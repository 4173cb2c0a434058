"""Lessons over REST: the chat and its sessions."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from callsheet.server.artefacts.conversation_routes import RESUMABLE, stream_turn
from callsheet.server.artefacts.service import RequestContext, run, submit
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.http import events
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import ConfirmedReply, JsonReply
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, LESSON_WRITE, with_policy
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.server.lessons import assets, edits, service, sessions
from callsheet.server.lessons.bodies import LessonTurnCreate, SessionUpdate
from callsheet.server.lessons.edits import Lesson, set_status, update_student
from callsheet.server.lessons.replies import LessonTurn, SessionDeleted, SessionList, SessionView
from callsheet.server.lessons.service import LESSONS, SessionRef
from callsheet.storage.runs.records import RunRequest

router = APIRouter(
    prefix="/api/agent-create", route_class=StrictRoute, tags=["lessons"], default_response_class=JsonReply
)
HEADER: Final = "X-Session-Id"
"""Header that names the session; in a reply, the session that the request created."""
READ: Final = (400, 403, 404, 409, 422, 500, 503, 504)
WRITE: Final = (*READ, 413)
SessionHeader = Annotated[str | None, Header(alias=HEADER, max_length=255, description="The session")]
SessionQuery = Annotated[str | None, Query(alias="sessionId", max_length=255, description="The session")]
_RUN = documented_responses(*WRITE, 429, reply=LessonTurn)
_RUN[200] |= {"content": EVENTS["content"]}


@router.post("/tools", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@router.post("", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(LESSON_RUN)
async def create_turn(
    body: LessonTurnCreate,
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Send a message to a session, or choose facts; without a session, create one.

    With `Accept: text/event-stream` the reply is a stream of events: `text` (the model's words as they come),
    `step`, `drafts`, then `result` or `error`. `Last-Event-ID` resumes the stream of an equal request that
    names the session, or that has the first one's `Idempotency-Key`.
    """
    ctx, owner = app_context(request), current_owner(request)
    named = header or body.sessionId or query
    session = await service.find_or_create_session(ctx.storage, owner, named, idempotency_key)
    if session.new and body.is_answer and (body.requires_question or named):
        # A new session has no question to answer.
        await service.find_session(ctx.storage, owner, named)
    caller = RequestContext(owner, idempotency_key, body.context())
    return await run_or_stream(request, session, await service.turn_run(ctx.worker, session, body, caller))


@router.get("/session", responses=documented_responses(*READ, reply=SessionView))
@with_policy(LESSON_READ)
async def get_session(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Show a session: the lesson, what was said, and what waits for an answer."""
    ctx = app_context(request)
    thread = await service.find_session(ctx.storage, current_owner(request), header or query)
    snapshot = await sessions.snapshot(LESSONS.artefact(ctx.storage, thread))
    state = await ctx.worker.state(thread)
    interrupts = pending_interrupts(state)
    messages = await sessions.messages_view(ctx.worker, thread, state.values.get("messages", []))
    return {
        "sessionId": thread.id,
        **sessions.lesson_view(
            snapshot, sessions.pending_question(interrupt.value for interrupt in interrupts)
        ),
        "interrupt": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        "session": snapshot.session.model_dump(mode="json"),
        "messages": messages,
        "assets": await assets.list_assets(Lesson(ctx.storage, thread)),
    }


@router.patch("/session", responses=documented_responses(*WRITE, reply=SessionView))
@with_policy(LESSON_WRITE)
async def update_session(
    body: SessionUpdate, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Update the student and the standing of a lesson.

    What is made later takes the status back.
    """
    student = body.student_update()
    thread = await service.find_session(
        app_context(request).storage, current_owner(request), header or body.sessionId or query
    )
    lesson = Lesson(app_context(request).storage, thread)
    if body.status is not None:
        await set_status(lesson, body.status)
    if any(student):
        await update_student(lesson, *student)
    return await get_session(request, thread.id)


@router.delete("/session", responses=documented_responses(*READ, reply=SessionDeleted))
@with_policy(LESSON_WRITE)
async def delete_session(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Delete a session with its files and versions."""
    ctx = app_context(request)
    thread = await service.find_session(ctx.storage, current_owner(request), header or query)
    await edits.delete_session(Lesson(ctx.storage, thread), ctx.saver)
    return {"deleted": thread.id}


@router.get("/sessions", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=SessionList))
@with_policy(LESSON_READ)
async def list_sessions(
    request: Request,
    after: Annotated[int, Query(ge=0, le=10_000_000, description="`next` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the sessions, newest change first."""
    return await sessions.list_sessions(
        app_context(request).storage, LESSONS, current_owner(request), after, limit
    )


async def find_lesson(request: Request, session_id: str | None) -> Lesson:
    """Return the caller's lesson; raise `Missing` if there is none."""
    ctx = app_context(request)
    return Lesson(ctx.storage, await service.find_session(ctx.storage, current_owner(request), session_id))


async def run_or_stream(request: Request, session: SessionRef, run_request: RunRequest) -> Response:
    """Execute the run; return its reply or its event stream."""
    ctx = app_context(request)
    if events.wants_event_stream(request):
        recorded = partial(submit, ctx.worker, run_request)
        return with_session_header(await stream_turn(request, run_request, recorded), session)
    reply, ack = await run(ctx.worker, run_request)
    return with_session_header(ConfirmedReply(reply, ack), session)


def with_session_header(reply: Response, session: SessionRef) -> Response:
    """Return the reply, with the id of a new session in its header."""
    if session.new:
        reply.headers[HEADER] = session.thread.id
    return reply

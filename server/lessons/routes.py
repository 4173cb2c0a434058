"""Lessons: a chat in which facts are found, chosen and narrated; and its sessions (B24-B49)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from callsheet.server.ads.bodies import IdempotencyKey, StrictRoute
from callsheet.server.context import app_context
from callsheet.server.http import events
from callsheet.server.http.errors import JsonReply, documented_responses
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.origins import current_owner
from callsheet.server.lessons import assets, edits
from callsheet.server.lessons import service as lesson_jobs
from callsheet.server.lessons import sessions as lessons
from callsheet.server.lessons.bodies import LessonTurnCreate, SessionUpdate
from callsheet.server.lessons.edits import Lesson, set_status, update_student
from callsheet.server.lessons.replies import LessonTurn, SessionDeleted, SessionList, SessionView
from callsheet.server.lessons.service import LESSONS, SessionRef
from callsheet.server.runtime.execution import pending_interrupts
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Ack, OnProgress

router = APIRouter(
    prefix="/api/agent-create", route_class=StrictRoute, tags=["lessons"], default_response_class=JsonReply
)
HEADER: Final = "X-Session-Id"
"""Names a session; in a reply, the one that began with the request (B28)."""
READ: Final = (400, 403, 404, 409, 422, 500, 503, 504)
WRITE: Final = (*READ, 413)
SessionHeader = Annotated[str | None, Header(alias=HEADER, max_length=255, description="The session (B35)")]
SessionQuery = Annotated[str | None, Query(alias="sessionId", max_length=255, description="The session")]
_RUN = documented_responses(*WRITE, 429, reply=LessonTurn)
_RUN[200] |= {"content": EVENTS["content"]}


@router.post("/tools", responses=_RUN, response_model=None)
@router.post("", responses=_RUN, response_model=None)
async def create_turn(
    body: LessonTurnCreate,
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Send a message to a session, or choose facts; without a session, create one (B24, B25, B-R2).

    With `Accept: text/event-stream` the reply is a stream of events: `step`, then `result` or `error`.
    """
    here, who = app_context(request), current_owner(request)
    place = await lesson_jobs.find_or_create_session(here.storage, who, header or body.sessionId or query)
    if place.new and body.is_answer and (body.requires_question or header or body.sessionId or query):
        # An answer belongs to a question, and a session of this name has none (B-R5).
        await lesson_jobs.find_session(here.storage, who, header or body.sessionId or query)
    asked = body.to_request(place, who, idempotency_key)
    return await run_or_stream(request, place, await lesson_jobs.turn_run(here.worker, here.storage, asked))


@router.get("/session", responses=documented_responses(*READ, reply=SessionView))
async def get_session(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Show a session: the lesson, what was said, and what waits for an answer (B26, B38, B43)."""
    here = app_context(request)
    thread = await lesson_jobs.find_session(here.storage, current_owner(request), header or query)
    seen = await lessons.snapshot(LESSONS.artefact(here.storage, thread))
    state = await here.worker.state(thread)
    asked = pending_interrupts(state)
    told = await lessons.messages_view(here.worker, thread, state.values.get("messages", []))
    return {
        "sessionId": thread.id,
        **lessons.lesson_view(seen, lessons.pending_question(one.value for one in asked)),
        "interrupt": {"id": asked[0].id, "value": asked[0].value} if asked else None,
        "session": seen.session.model_dump(mode="json"),
        "messages": told,
        "assets": await assets.list_assets(Lesson(here.storage, thread)),
    }


@router.patch("/session", responses=documented_responses(*WRITE, reply=SessionView))
async def update_session(
    body: SessionUpdate, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Update the student and the standing of a lesson (B44, B64).

    What is made later takes the status back.
    """
    news = body.student_update()
    thread = await lesson_jobs.find_session(
        app_context(request).storage, current_owner(request), header or body.sessionId or query
    )
    about = Lesson(app_context(request).storage, thread)
    if body.status is not None:
        await set_status(about, body.status)
    if any(news):
        await update_student(about, *news)
    return await get_session(request, thread.id)


@router.delete("/session", responses=documented_responses(*READ, reply=SessionDeleted))
async def delete_session(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Delete a session with its files and versions."""
    here = app_context(request)
    thread = await lesson_jobs.find_session(here.storage, current_owner(request), header or query)
    await edits.delete_session(Lesson(here.storage, thread), here.saver)
    return {"deleted": thread.id}


@router.get("/sessions", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=SessionList))
async def list_sessions(
    request: Request,
    after: Annotated[int, Query(ge=0, le=10_000_000, description="`next` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the sessions, newest change first."""
    return await lessons.list_sessions(
        app_context(request).storage, LESSONS, current_owner(request), after, limit
    )


async def find_lesson(request: Request, asked: str | None) -> Lesson:
    """Return the caller's lesson of this session; raises `Missing` where there is none."""
    here = app_context(request)
    return Lesson(here.storage, await lesson_jobs.find_session(here.storage, current_owner(request), asked))


async def run_or_stream(request: Request, place: SessionRef, job: DomainRun) -> Response:
    """Have the job carried out and return the reply, or the stream of what happens."""
    here = app_context(request)
    await LESSONS.claim(here.storage, place.thread)

    async def carry(report: OnProgress = lambda _: None) -> tuple[dict[str, Any], Ack]:
        return await here.worker.run(job, report)

    if events.wants_event_stream(request):
        return with_session_header(
            events.event_stream_reply(here.running, here.workflows.tools, carry), place
        )
    reply, told = await carry()
    return with_session_header(JsonReply(reply, background=BackgroundTask(told)), place)


def with_session_header(reply: Response, place: SessionRef) -> Response:
    """Return the reply with the name of the session that it begins (B28)."""
    if place.new:
        reply.headers[HEADER] = place.thread.id
    return reply

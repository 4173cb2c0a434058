"""Lessons: a chat in which facts are found, chosen and narrated; and its sessions (B24-B49)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from server import lesson_assets, lesson_jobs, lessons
from server.api import events
from server.api.bodies import IdempotencyKey, StrictRoute
from server.api.lesson_bodies import SessionBody, ToolsBody
from server.api.lesson_replies import Deleted, LessonTurn, Sessions, SessionView
from server.description import EVENTS
from server.execution import questions
from server.lesson_edits import Lesson, become, forget, know
from server.lesson_jobs import DESK, Place
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented
from server.requested import Job
from server.worker import Report, Told

router = APIRouter(
    prefix="/api/agent-create", route_class=StrictRoute, tags=["lessons"], default_response_class=Reply
)
HEADER: Final = "X-Session-Id"
"""Names a session; in a reply, the one that began with the request (B28)."""
READ: Final = (400, 403, 404, 409, 422, 500, 503, 504)
WRITE: Final = (*READ, 413)
Session = Annotated[str | None, Header(alias=HEADER, max_length=255, description="The session (B35)")]
Query_ = Annotated[str | None, Query(alias="sessionId", max_length=255, description="The session")]
_RUN = documented(*WRITE, 429, reply=LessonTurn)
_RUN[200] |= {"content": EVENTS["content"]}


@router.post("/tools", responses=_RUN, response_model=None)
@router.post("", responses=_RUN, response_model=None)
async def say(
    body: ToolsBody,
    request: Request,
    header: Session = None,
    query: Query_ = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Say something in a session, or choose facts; without a session, in a new one (B24, B25, B-R2).

    With `Accept: text/event-stream` the reply is a stream of events: `step`, then `result` or `error`.
    """
    here, who = parts(request), owner(request)
    place = await lesson_jobs.place(here.storage, who, header or body.sessionId or query)
    if place.new and body.answers and (body.bound or header or body.sessionId or query):
        # An answer belongs to a question, and a session of this name has none (B-R5).
        await lesson_jobs.known(here.storage, who, header or body.sessionId or query)
    asked = body.asked(place, who, idempotency_key)
    return await carried_out(request, place, await lesson_jobs.job(here.worker, here.storage, asked))


@router.get("/session", responses=documented(*READ, reply=SessionView))
async def session(request: Request, header: Session = None, query: Query_ = None) -> dict[str, Any]:
    """Show a session: the lesson, what was said, and what waits for an answer (B26, B38, B43)."""
    here = parts(request)
    thread = await lesson_jobs.known(here.storage, owner(request), header or query)
    seen = await lessons.seen(DESK.artefact_of(here.storage, thread))
    state = await here.worker.state(thread)
    asked = questions(state)
    told = await lessons.messages(here.worker, thread, state.values.get("messages", []))
    return {
        "sessionId": thread.id,
        **lessons.brief(seen, lessons.waits_for(one.value for one in asked)),
        "interrupt": {"id": asked[0].id, "value": asked[0].value} if asked else None,
        "session": seen.session.model_dump(mode="json"),
        "messages": told,
        "assets": await lesson_assets.listed(Lesson(here.storage, thread)),
    }


@router.patch("/session", responses=documented(*WRITE, reply=SessionView))
async def change(
    body: SessionBody, request: Request, header: Session = None, query: Query_ = None
) -> dict[str, Any]:
    """Note who the lesson is for, and how far it is beyond what was made in it (B44, B64).

    What is made later takes the status back.
    """
    news = body.news()
    thread = await lesson_jobs.known(
        parts(request).storage, owner(request), header or body.sessionId or query
    )
    about = Lesson(parts(request).storage, thread)
    if body.status is not None:
        await become(about, body.status)
    if any(news):
        await know(about, *news)
    return await session(request, thread.id)


@router.delete("/session", responses=documented(*READ, reply=Deleted))
async def delete(request: Request, header: Session = None, query: Query_ = None) -> dict[str, Any]:
    """Take a session away with everything in it, its files and versions too."""
    here = parts(request)
    thread = await lesson_jobs.known(here.storage, owner(request), header or query)
    await forget(Lesson(here.storage, thread), here.saver)
    return {"deleted": thread.id}


@router.get("/sessions", responses=documented(400, 403, 422, 500, 503, 504, reply=Sessions))
async def sessions(
    request: Request,
    after: Annotated[int, Query(ge=0, le=10_000_000, description="`next` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the sessions, newest change first."""
    return await lessons.listed(parts(request).storage, DESK, owner(request), after, limit)


async def lesson(request: Request, asked: str | None) -> Lesson:
    """Return the caller's lesson of this session; raises `Missing` where there is none."""
    here = parts(request)
    return Lesson(here.storage, await lesson_jobs.known(here.storage, owner(request), asked))


async def carried_out(request: Request, place: Place, job: Job) -> Response:
    """Have the job carried out and return the reply, or the stream of what happens."""
    here = parts(request)
    await DESK.opened(here.storage, place.thread)

    async def carry(report: Report = lambda _: None) -> tuple[dict[str, Any], Told]:
        return await here.worker.answer(job, report)

    if events.wanted(request):
        return named(events.streamed(here.running, carry), place)
    reply, told = await carry()
    return named(Reply(reply, background=BackgroundTask(told)), place)


def named(reply: Response, place: Place) -> Response:
    """Return the reply with the name of the session that it begins (B28)."""
    if place.new:
        reply.headers[HEADER] = place.thread.id
    return reply

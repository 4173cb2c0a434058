"""The material of a lesson over REST: a text, a web page or a file."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts import uploads
from callsheet.server.artefacts.service import claim
from callsheet.server.engine.json_values import dumps
from callsheet.server.http import replies
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses, error_body
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, LESSON_WRITE, BodyLimit, with_policy
from callsheet.server.http.replies import Events, JsonReply, ServerEvent
from callsheet.server.http.requests import StrictRoute
from callsheet.server.lessons import edits, service
from callsheet.server.lessons.bodies import SourceCreate
from callsheet.server.lessons.edits import Lesson
from callsheet.server.lessons.replies import SourceSaved
from callsheet.server.lessons.routes import READ, WRITE, SessionHeader, SessionQuery, with_session_header
from callsheet.server.lessons.service import LESSONS, SessionRef
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons.sources import Source

router = APIRouter(
    prefix="/api/agent-create/session/source",
    route_class=StrictRoute,
    tags=["lessons"],
    default_response_class=JsonReply,
)
_KEPT = documented_responses(*WRITE, reply=SourceSaved, status=201)
_STREAMED = documented_responses(*WRITE, reply=SourceSaved, status=201) | {200: EVENTS}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*READ, reply=None),
    200: {
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("application/pdf", "text/plain")
        },
        "description": "The file",
    },
}


@router.post("", status_code=201, responses=_KEPT)
@with_policy(LESSON_WRITE)
async def add_source(
    body: SourceCreate, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> Response:
    """Add material to a session: a text, or a public page; without a session, create one.

    The next message that speaks of the material, or of nothing else, has its facts found.
    """
    session = await _session(request, header or body.sessionId or query)
    lesson = Lesson(app_context(request).storage, session.thread)
    if "text" in body.content():
        source = await edits.add_text(lesson, body.content()["text"], body.name)
    else:
        source = await edits.add_page(lesson, body.content()["url"])
    return with_session_header(JsonReply(_source_view(session, source), 201), session)


@router.post("/files", status_code=201, responses=_STREAMED, openapi_extra=uploads.BODY, response_model=None)
@with_policy(replace(LESSON_RUN, body=BodyLimit(MAX_MATERIAL)))
async def upload_source(
    request: Request,
    name: Annotated[str, Query(alias="fileName", max_length=210, description="Such as candle.pdf")],
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> Response:
    """Add material to a session as a file, the body: a PDF, or a text in UTF-8.

    With `Accept: text/event-stream` the pages are told as they are read, then `result` or `error`.
    """
    session = await _session(request, header or query)
    lesson = Lesson(app_context(request).storage, session.thread)
    data = await edits.read_file(name, request.stream())
    add = partial(edits.add_file, lesson, name, data)
    if replies.wants_event_stream(request):
        source = _page_events(session, add, app_context(request).settings.heartbeat_s)
        return with_session_header(replies.event_stream_reply(source), session)
    added = await add(lambda _done, _of: None)
    return with_session_header(JsonReply(_source_view(session, added), 201), session)


@router.get("/files/{file_id}", responses=_FILE, response_class=Response)
@with_policy(LESSON_READ)
async def get_source_file(
    file_id: str, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> StreamingResponse:
    """Download a file that the lesson was made from."""
    thread = await service.find_session(app_context(request).storage, current_owner(request), header or query)
    return await uploads.file_reply(
        app_context(request).storage, LESSONS.artefact(app_context(request).storage, thread), file_id
    )


async def _session(request: Request, session_id: str | None) -> SessionRef:
    """Return the material's session, bound to its owner."""
    ctx = app_context(request)
    session = await service.find_or_create_session(ctx.storage, current_owner(request), session_id)
    await claim(ctx.storage, session.thread)
    return session


async def _page_events(
    session: SessionRef, add: Callable[[OnProgress], Coroutine[Any, Any, Source]], heartbeat_s: float
) -> Events:
    """Yield a step for each page that is read, then the result or the error.

    They have no ids: the stream belongs to one upload, not to a run, and cannot be resumed.
    """
    pages: asyncio.Queue[ServerEvent] = asyncio.Queue()

    def report(done: int, of: int) -> None:
        step = {"type": "progress", "name": "Reading the material", "done": done, "of": of}
        pages.put_nowait(ServerEvent("step", dumps(step)))

    adding = asyncio.create_task(add(report))
    adding.add_done_callback(lambda task: pages.put_nowait(_last_event(session, task)))
    event: ServerEvent | None = None
    try:
        while event is None or event.name == "step":
            event = await _next_event(pages, heartbeat_s)
            yield event
    finally:
        # The file has arrived: it is kept even if the reader has left.
        await asyncio.wait({adding})


async def _next_event(pages: "asyncio.Queue[ServerEvent]", heartbeat_s: float) -> ServerEvent | None:
    try:
        # Not wait_for: Python 3.11's may swallow a cancellation that comes with the event.
        async with asyncio.timeout(heartbeat_s):
            return await pages.get()
    except TimeoutError:
        return None


def _last_event(session: SessionRef, adding: "asyncio.Task[Source]") -> ServerEvent:
    if error := adding.exception():
        status, body = error_body(cast("Exception", error))
        return ServerEvent("error", dumps(body | {"status": status}))
    return ServerEvent("result", dumps(_source_view(session, adding.result())))


def _source_view(session: SessionRef, source: Source) -> dict[str, Any]:
    return {
        "sessionId": session.thread.id,
        "kind": source.kind,
        "name": source.name,
        "characters": len(source.text),
        "pages": source.pages,
        "url": source.url or None,
        "warnings": [*source.warnings],
    }

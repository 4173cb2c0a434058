"""The material and the assets of a lesson over REST, image search and statistics."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Final, cast

from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.providers import search_engines
from callsheet.server.artefacts import uploads
from callsheet.server.artefacts.event_schemas import StreamError, WorkProgress
from callsheet.server.artefacts.service import claim
from callsheet.server.engine.json_values import dumps
from callsheet.server.http import replies
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses, error_body
from callsheet.server.http.openapi import event_stream
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, LESSON_WRITE, BodyLimit, with_policy
from callsheet.server.http.replies import Events, JsonReply, ServerEvent
from callsheet.server.http.requests import UPLOAD_BODY, api_router
from callsheet.server.lessons import edits, service, statistics
from callsheet.server.lessons.edits import Lesson
from callsheet.server.lessons.schemas import (
    Asset,
    AssetCreate,
    AssetDeleted,
    AssetList,
    ImageList,
    SessionStatistics,
    SourceCreate,
    SourceSaved,
)
from callsheet.server.lessons.service import LESSONS, SessionRef
from callsheet.state.uploads import MAX_FILE, MAX_MATERIAL
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons.sources import Source

HEADER: Final = "X-Session-Id"
"""Header that names the session; in a reply, the session that the request created."""
READ: Final = (400, 403, 404, 409, 422, 500, 503, 504)
WRITE: Final = (*READ, 413)
SessionHeader = Annotated[str | None, Header(alias=HEADER, max_length=255, description="The session")]
SessionQuery = Annotated[str | None, Query(alias="sessionId", max_length=255, description="The session")]
router = api_router("/api/agent-create/session/source", "lessons")
_KEPT = documented_responses(*WRITE, reply=SourceSaved, status=201)
_STREAMED = documented_responses(*WRITE, reply=SourceSaved, status=201) | {
    200: event_stream({"step": WorkProgress, "result": SourceSaved, "error": StreamError})
}
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
async def add_lesson_source(
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


@router.post("/files", status_code=201, responses=_STREAMED, openapi_extra=UPLOAD_BODY, response_model=None)
@with_policy(replace(LESSON_RUN, body=BodyLimit(MAX_MATERIAL + uploads.FORM_ROOM)))
async def upload_lesson_source(
    request: Request,
    name: Annotated[
        str | None, Query(alias="fileName", max_length=210, description="Such as candle.pdf")
    ] = None,
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> Response:
    """Add material to a session as a file, the body or in a form: a PDF, or a text in UTF-8.

    The name is that of the form's file unless `fileName` is sent.

    With `Accept: text/event-stream` the pages are told as they are read, then `result` or `error`.
    """
    session = await _session(request, header or query)
    lesson = Lesson(app_context(request).storage, session.thread)
    ticket, data = await uploads.receive_file(request, name, edits.material_ticket)
    add = partial(edits.add_file, lesson, ticket["fileName"], data)
    if replies.wants_event_stream(request):
        source = _page_events(session, add, app_context(request).settings.heartbeat_s)
        return with_session_header(replies.event_stream_reply(source), session)
    added = await add(lambda _done, _of: None)
    return with_session_header(JsonReply(_source_view(session, added), 201), session)


@router.get("/files/{file_id}", responses=_FILE, response_class=Response)
@with_policy(LESSON_READ)
async def get_lesson_source_file(
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


async def find_lesson(request: Request, session_id: str | None) -> Lesson:
    """Return the caller's lesson; raise `Missing` if there is none."""
    ctx = app_context(request)
    return Lesson(ctx.storage, await service.find_session(ctx.storage, current_owner(request), session_id))


def with_session_header(reply: Response, session: SessionRef) -> Response:
    """Return the reply, with the id of a new session in its header."""
    if session.new:
        reply.headers[HEADER] = session.thread.id
    return reply


asset_router = api_router("/api/agent-create/session", "lessons")
_Attribution = Annotated[str | None, Query(max_length=300, description="The author, or the source")]
_ASSET_FILE: Final = {
    **documented_responses(*READ, reply=None),
    200: uploads.binary_responses("image", "video"),
}


@asset_router.get("/assets", responses=documented_responses(*READ, reply=AssetList))
@with_policy(LESSON_READ)
async def list_lesson_assets(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """List the images, sounds and films of a lesson, oldest first."""
    return {"assets": await edits.list_assets(await find_lesson(request, header or query))}


@asset_router.post(
    "/assets", status_code=201, responses=documented_responses(*WRITE, reply=Asset, status=201)
)
@with_policy(LESSON_WRITE)
async def add_lesson_asset(
    body: AssetCreate, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Add an image, a sound or a film by its address."""
    lesson = await find_lesson(request, header or body.sessionId or query)
    return await edits.add_asset(lesson, body.assetType, body.url, body.metadata)


@asset_router.post(
    "/assets/files",
    status_code=201,
    responses=documented_responses(*WRITE, reply=Asset, status=201),
    openapi_extra=UPLOAD_BODY,
)
@with_policy(replace(LESSON_WRITE, body=BodyLimit(MAX_FILE + uploads.FORM_ROOM)))
async def upload_lesson_asset(
    request: Request,
    name: Annotated[
        str | None, Query(alias="fileName", max_length=210, description="Such as leaf.png")
    ] = None,
    credit: _Attribution = None,
    source: _Attribution = None,
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> dict[str, Any]:
    """Add an image or a film by its bytes, the body or in a form: PNG, JPEG, GIF, WebP, MP4 or WebM.

    The name is that of the form's file unless `fileName` is sent.
    """
    lesson = await find_lesson(request, header or query)
    attribution = {key: value for key, value in (("credit", credit), ("source", source)) if value}
    ticket, data = await uploads.receive_file(request, name, edits.asset_ticket)
    return await edits.upload_asset(lesson, ticket, data, attribution)


@asset_router.get("/assets/{asset_id}/file", responses=_ASSET_FILE, response_class=Response)
@with_policy(LESSON_READ)
async def get_lesson_asset_file(
    asset_id: str, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> StreamingResponse:
    """Download the file of an asset, to be saved or shown as an image, never as a page."""
    lesson = await find_lesson(request, header or query)
    return await uploads.file_reply(lesson.storage, lesson.artefact, await edits.file_id_of(lesson, asset_id))


@asset_router.delete("/assets/{asset_id}", responses=documented_responses(*READ, reply=AssetDeleted))
@with_policy(LESSON_WRITE)
async def delete_lesson_asset(
    asset_id: str, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Delete an asset."""
    await edits.remove_asset(await find_lesson(request, header or query), asset_id)
    return {"deleted": asset_id}


@asset_router.get("/images", responses=documented_responses(*READ, reply=ImageList))
@with_policy(LESSON_READ)
async def search_lesson_images(
    request: Request,
    query_text: Annotated[str, Query(alias="q", min_length=1, max_length=300, description="Search text")],
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> dict[str, Any]:
    """Search for six images to choose from; 422 where no search is configured. One is chosen as an asset."""
    lesson = await find_lesson(request, header or query)
    results = [asdict(image) for image in await search_engines.image_search().top(query_text)]
    return {"sessionId": lesson.thread.id, "images": results}


@asset_router.get("/analytics", responses=documented_responses(*READ, reply=SessionStatistics))
@with_policy(LESSON_READ)
async def get_lesson_statistics(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Show a session's usage: calls of tools, how many went well, tokens and US dollars."""
    lesson = await find_lesson(request, header or query)
    ctx = app_context(request)
    state = await ctx.worker.state(lesson.thread)
    return await statistics.session_statistics(lesson, state.values, ctx.tool_environment.policy.prices)

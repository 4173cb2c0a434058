"""What a lesson is made from: a text, a web page or a file (B4, B5, B42)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from server import lesson_edits, lesson_jobs
from server.api import events, uploads
from server.api.bodies import StrictRoute
from server.api.lesson_bodies import SourceBody
from server.api.lesson_replies import SourceKept
from server.api.lessons import READ, WRITE, Query_, Session, named
from server.description import EVENTS
from server.lesson_edits import Lesson
from server.lesson_jobs import DESK, Place
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented
from server.worker import Report, Told
from tools.apart import Report as Pages
from tools.sources import Source

router = APIRouter(
    prefix="/api/agent-create/session/source",
    route_class=StrictRoute,
    tags=["lessons"],
    default_response_class=Reply,
)
_KEPT = documented(*WRITE, reply=SourceKept, status=201)
_STREAMED = documented(*WRITE, reply=SourceKept, status=201) | {200: EVENTS}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented(*READ, reply=None),
    200: {
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("application/pdf", "text/plain")
        },
        "description": "The file",
    },
}


@router.post("", status_code=201, responses=_KEPT)
async def add(body: SourceBody, request: Request, header: Session = None, query: Query_ = None) -> Response:
    """Give a session its material: a text, or a public page; without a session, a new one.

    The next message that speaks of the material, or of nothing else, has its facts found.
    """
    place = await _place(request, header or body.sessionId or query)
    about = Lesson(parts(request).storage, place.thread)
    if "text" in body.one():
        kept = await lesson_edits.add_text(about, body.one()["text"], body.name)
    else:
        kept = await lesson_edits.add_page(about, body.one()["url"])
    return named(Reply(_shown(place, kept), 201), place)


@router.post("/files", status_code=201, responses=_STREAMED, openapi_extra=uploads.BODY, response_model=None)
async def send(
    request: Request,
    name: Annotated[str, Query(alias="fileName", max_length=210, description="Such as candle.pdf")],
    header: Session = None,
    query: Query_ = None,
) -> Response:
    """Give a session its material as a file, the body: a PDF, or a text in UTF-8.

    With `Accept: text/event-stream` the pages are told as they are read, then `result` or `error`.
    """
    place = await _place(request, header or query)
    about = Lesson(parts(request).storage, place.thread)
    data = await lesson_edits.whole(name, request.stream())

    async def carry(report: Report = lambda _: None) -> tuple[dict[str, Any], Told]:
        return _shown(place, await lesson_edits.add_file(about, name, data, _pages(report))), _nothing

    if not events.wanted(request):
        shown, _ = await carry()
        return named(Reply(shown, 201), place)
    return named(events.streamed(parts(request).running, carry), place)


@router.get("/files/{file_id}", responses=_FILE, response_class=Response)
async def file(
    file_id: str, request: Request, header: Session = None, query: Query_ = None
) -> StreamingResponse:
    """Send a file that the lesson was made from, to be saved."""
    thread = await lesson_jobs.known(parts(request).storage, owner(request), header or query)
    return await uploads.sent(
        parts(request).storage, DESK.artefact_of(parts(request).storage, thread), file_id
    )


async def _place(request: Request, asked: str | None) -> Place:
    """Return the session a material is for, its owner's from here on."""
    here = parts(request)
    place = await lesson_jobs.place(here.storage, owner(request), asked)
    await DESK.opened(here.storage, place.thread)
    return place


def _pages(report: Report) -> Pages:
    def told(done: int, of: int) -> None:
        report({"type": "progress", "name": "Reading the material", "done": done, "of": of})

    return told


async def _nothing() -> None:
    """What is to be done once a reply that nobody repeats has arrived."""


def _shown(place: Place, kept: Source) -> dict[str, Any]:
    return {
        "sessionId": place.thread.id,
        "kind": kept.kind,
        "name": kept.name,
        "characters": len(kept.text),
        "pages": kept.pages,
        "url": kept.url or None,
        "warnings": [*kept.warnings],
    }

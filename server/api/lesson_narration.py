"""The narration of a lesson by hand: changed, written again, brought back, exported (B44, B48)."""

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from server import lesson_edits, lesson_jobs
from server.api.bodies import IdempotencyKey, StrictRoute
from server.api.lesson_bodies import AgainBody, EditsBody
from server.api.lesson_replies import LessonTurn, NarrationKept, NarrationVersions
from server.api.lessons import READ, WRITE, Query_, Session, carried_out, lesson
from server.lesson_edits import Lesson
from server.lesson_jobs import Place, Rewrite
from server.problems import Reply, documented
from state import narration_export
from state.errors import Invalid
from state.narration import Narration
from state.versions import described

router = APIRouter(
    prefix="/api/agent-create/session/narration",
    route_class=StrictRoute,
    tags=["lessons"],
    default_response_class=Reply,
)
_MEDIA: Final = {
    "md": "text/markdown; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "json": "application/json",
}
_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    **documented(*READ, reply=None),
    200: {
        "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _MEDIA.values()},
        "description": "The narration as a file",
    },
}
_Version = Annotated[str | None, Query(max_length=80, description="A version's id; the newest when left out")]


@router.get("", responses=_TEXT, response_class=Response)
async def export(
    request: Request,
    header: Session = None,
    query: Query_ = None,
    form: Annotated[Literal["md", "srt", "vtt", "json"], Query(alias="format")] = "json",
    version: _Version = None,
) -> Response:
    """Send the narration as a file: Markdown to read, SRT or WebVTT to show, JSON to go on with."""
    about = await lesson(request, header or query)
    found = await lesson_edits.narration(about, version)
    text = narration_export.exported(Narration.model_validate(found.data), form)
    name = quote(f"narration-{found.id}.{form}", safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(text, media_type=_MEDIA[form], headers=headers)


@router.get("/versions", responses=documented(*READ, reply=NarrationVersions))
async def versions(request: Request, header: Session = None, query: Query_ = None) -> dict[str, Any]:
    """List the versions of the narration, newest last."""
    about = await lesson(request, header or query)
    kept = await about.artefact.stream("narration")
    return {
        "versions": [
            {**described(one, kept.versions[-1]), "summary": lesson_edits.summary(one)}
            for one in kept.versions
        ],
        "active": kept.active,
    }


@router.patch("", responses=documented(*WRITE, reply=NarrationKept))
async def edit(
    body: EditsBody, request: Request, header: Session = None, query: Query_ = None
) -> dict[str, Any]:
    """Change segments by hand; the others stay as they are, to the byte."""
    about = await lesson(request, header or body.sessionId or query)
    return await _kept(about, await lesson_edits.edit(about, body.segments))


@router.post("", responses=documented(*WRITE, 429, reply=LessonTurn | NarrationKept), response_model=None)
async def again(
    body: AgainBody,
    request: Request,
    header: Session = None,
    query: Query_ = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Have segments written again by the model, or bring them back from an earlier version.

    The others stay as they are, to the byte. `regenerate` is a turn of the session, and streams events like
    one.
    """
    about = await lesson(request, header or body.sessionId or query)
    if body.action == "restore":
        if not body.version:
            raise Invalid("no version is named to restore", remedy="list the versions of the narration")
        return Reply(await _kept(about, await lesson_edits.restore(about, body.version, body.segments)))
    await lesson_edits.narration(about, None)
    asked = Rewrite(
        thread=about.thread,
        segments=body.segments,
        guidance=body.guidance or "",
        context=body.context(),
        owner=about.thread.owner,
        idempotency_key=idempotency_key,
    )
    return await carried_out(request, Place(about.thread, new=False), lesson_jobs.rewrite(asked))


async def _kept(about: Lesson, made: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    version, changed = made
    found = await lesson_edits.narration(about, version)
    told = Narration.model_validate(found.data).model_dump(mode="json")
    named = {"sessionId": about.thread.id, "versionId": version}
    return {**named, "narration": told, "changedSegments": [*changed]}

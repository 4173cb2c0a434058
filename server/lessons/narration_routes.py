"""The narration of a lesson over REST: edit, rewrite, restore, export."""

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from callsheet.server.artefacts.conversation_routes import RESUMABLE
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, LESSON_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.server.lessons import edits, service
from callsheet.server.lessons.bodies import NarrationEdit, NarrationRewrite
from callsheet.server.lessons.edits import Lesson
from callsheet.server.lessons.replies import LessonTurn, NarrationList, NarrationSaved
from callsheet.server.lessons.routes import (
    READ,
    WRITE,
    SessionHeader,
    SessionQuery,
    find_lesson,
    run_or_stream,
)
from callsheet.server.lessons.service import SessionRef
from callsheet.state.errors import Invalid
from callsheet.state.lessons import narration_export
from callsheet.state.lessons.narration import Narration
from callsheet.state.versions import version_fields

router = APIRouter(
    prefix="/api/agent-create/session/narration",
    route_class=StrictRoute,
    tags=["lessons"],
    default_response_class=JsonReply,
)
_MEDIA: Final = {
    "md": "text/markdown; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "json": "application/json",
}
_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*READ, reply=None),
    200: {
        "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _MEDIA.values()},
        "description": "The narration as a file",
    },
}
_REWRITTEN: Final = documented_responses(*WRITE, 429, reply=LessonTurn | NarrationSaved)
_REWRITTEN[200] |= {"content": EVENTS["content"]}
_Version = Annotated[str | None, Query(max_length=80, description="A version's id; the newest when left out")]


@router.get("", responses=_TEXT, response_class=Response)
@with_policy(LESSON_READ)
async def export_narration(
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    file_format: Annotated[Literal["md", "srt", "vtt", "json"], Query(alias="format")] = "json",
    version: _Version = None,
) -> Response:
    """Export the narration as a file: Markdown to read, SRT or WebVTT to show, JSON to go on with."""
    lesson = await find_lesson(request, header or query)
    narration = await edits.get_narration(lesson, version)
    text = narration_export.export(Narration.model_validate(narration.data), file_format)
    name = quote(f"narration-{narration.id}.{file_format}", safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(text, media_type=_MEDIA[file_format], headers=headers)


@router.get("/versions", responses=documented_responses(*READ, reply=NarrationList))
@with_policy(LESSON_READ)
async def list_narrations(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """List the versions of the narration, newest last."""
    lesson = await find_lesson(request, header or query)
    stream = await lesson.artefact.stream("narration")
    return {
        "versions": [
            {**version_fields(version, stream.versions[-1]), "summary": edits.narration_summary(version)}
            for version in stream.versions
        ],
        "active": stream.active,
    }


@router.patch("", responses=documented_responses(*WRITE, reply=NarrationSaved))
@with_policy(LESSON_WRITE)
async def edit_narration(
    body: NarrationEdit, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Change segments by hand; the others stay as they are, to the byte."""
    lesson = await find_lesson(request, header or body.sessionId or query)
    return await _saved_view(lesson, await edits.edit_narration(lesson, body.segments))


@router.post("", responses=_REWRITTEN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(LESSON_RUN)
async def rewrite_narration(
    body: NarrationRewrite,
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Rewrite segments with the model, or restore them from an earlier version.

    The others stay as they are, to the byte. `regenerate` is a turn of the session, and streams events like
    one.
    """
    lesson = await find_lesson(request, header or body.sessionId or query)
    if body.action == "restore":
        if not body.version:
            raise Invalid("no version is named to restore", remedy="list the versions of the narration")
        return JsonReply(
            await _saved_view(lesson, await edits.restore_narration(lesson, body.version, body.segments))
        )
    await edits.get_narration(lesson, None)
    caller = RequestContext(lesson.thread.owner, idempotency_key, body.context())
    rewrite = service.rewrite_run(lesson.thread, body, caller)
    return await run_or_stream(request, SessionRef(lesson.thread, new=False), rewrite)


async def _saved_view(lesson: Lesson, saved: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    version_id, changed = saved
    version = await edits.get_narration(lesson, version_id)
    return {
        "sessionId": lesson.thread.id,
        "versionId": version_id,
        "narration": Narration.model_validate(version.data).model_dump(mode="json"),
        "changedSegments": [*changed],
    }

"""Lessons over REST: the chat, its sessions, and the narration."""

from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from starlette.responses import Response

from callsheet.graphs import fact_narration
from callsheet.providers.speech import local_rate
from callsheet.server.artefacts import views
from callsheet.server.artefacts.conversation_routes import RESUMABLE, turn_reply
from callsheet.server.artefacts.deletion import delete_artefact
from callsheet.server.artefacts.event_schemas import turn_events
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.schemas import ArtefactDeleted, VersionDiff
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.artefacts.titles import title_of
from callsheet.server.artefacts.views import VersionQuery
from callsheet.server.artefacts.zip_files import download_headers, file_name
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, LESSON_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import IdempotencyKey, api_router
from callsheet.server.lessons import (
    audio,
    audio_routes,
    edits,
    material_routes,
    quiz_routes,
    service,
    sessions,
)
from callsheet.server.lessons.edits import Lesson, set_status, update_student
from callsheet.server.lessons.material_routes import (
    READ,
    WRITE,
    SessionHeader,
    SessionQuery,
    find_lesson,
    with_session_header,
)
from callsheet.server.lessons.schemas import (
    LessonTurn,
    LessonTurnCreate,
    NarrationEdit,
    NarrationList,
    NarrationRewrite,
    NarrationSaved,
    SessionList,
    SessionUpdate,
    SessionView,
)
from callsheet.server.lessons.service import LESSONS, SessionRef
from callsheet.state.errors import Invalid
from callsheet.state.lessons import narration_export
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.slides import POLICY
from callsheet.storage.runs.records import RunRequest

router = api_router("/api/agent-create", "lessons")
_SPEC: Final = fact_narration.WORKFLOW.artefact
_RUN = documented_responses(*WRITE, 402, 429, reply=LessonTurn)
_RUN[200] |= turn_events(LessonTurn)


@router.post(
    "/tools",
    name="create_lesson_turn_with_tools",
    responses=_RUN,
    response_model=None,
    openapi_extra=RESUMABLE,
)
@router.post("", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(LESSON_RUN)
async def create_lesson_turn(
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
async def get_lesson_session(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Show a session: the lesson, what was said, and what waits for an answer."""
    ctx = app_context(request)
    thread = await service.find_session(ctx.storage, current_owner(request), header or query)
    snapshot = await sessions.snapshot(LESSONS.artefact(ctx.storage, thread))
    state = await ctx.worker.state(thread)
    interrupts = pending_interrupts(state)
    messages = await sessions.messages_view(ctx.worker, thread, state.values.get("messages", []))
    lesson, written = Lesson(ctx.storage, thread), snapshot.session.generatedScript
    return {
        "sessionId": thread.id,
        "title": await title_of(ctx, thread),
        **sessions.lesson_view(
            snapshot, sessions.pending_question(interrupt.value for interrupt in interrupts)
        ),
        **(await audio.measured_length(lesson, written) if written else {}),
        "interrupt": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        "session": snapshot.session.model_dump(mode="json"),
        "messages": messages,
        "assets": await edits.list_assets(lesson),
    }


@router.patch("/session", responses=documented_responses(*WRITE, reply=SessionView))
@with_policy(LESSON_WRITE)
async def update_lesson_session(
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
    return await get_lesson_session(request, thread.id)


@router.delete("/session", responses=documented_responses(*READ, reply=ArtefactDeleted))
@with_policy(LESSON_WRITE)
async def delete_lesson_session(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> ArtefactDeleted:
    """Delete a session with everything that belongs to it: versions, files, conversation, runs.

    Refused (409) while a run has it.
    """
    thread = service.session_thread(header or query, current_owner(request))
    ctx = app_context(request)
    return await delete_artefact(ctx, LESSONS.artefact(ctx.storage, thread), thread)


@router.get("/sessions", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=SessionList))
@with_policy(LESSON_READ)
async def list_lesson_sessions(
    request: Request,
    after: Annotated[int, Query(ge=0, le=10_000_000, description="`next` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the sessions, newest change first."""
    return await sessions.list_sessions(app_context(request), LESSONS, current_owner(request), after, limit)


async def run_or_stream(request: Request, session: SessionRef, run_request: RunRequest) -> Response:
    """Execute the run; return its reply or its event stream."""
    return with_session_header(await turn_reply(request, run_request), session)


narration_router = api_router("/api/agent-create/session/narration", "lessons")
_MEDIA: Final = {
    "md": "text/markdown; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "json": "application/json",
    "slides": "text/html; charset=utf-8",
}
_TEXT: Final = documented_responses(*READ, 410, reply=Narration)
_TEXT[200] |= {
    "content": {
        kind.partition(";")[0]: {"schema": {"type": "string"}}
        for form, kind in _MEDIA.items()
        if form != "json"
    },
    "description": "The narration as a file",
}
_REWRITTEN: Final = documented_responses(*WRITE, 402, 410, 429, reply=LessonTurn | NarrationSaved)
_REWRITTEN[200] |= turn_events(LessonTurn)
_Version = Annotated[str | None, Query(max_length=80, description="A version's id; the newest when left out")]


@narration_router.get("", responses=_TEXT, response_class=Response)
@with_policy(LESSON_READ)
async def export_lesson_narration(
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    file_format: Annotated[Literal["md", "srt", "vtt", "json", "slides"], Query(alias="format")] = "json",
    version: _Version = None,
    timing: Annotated[
        Literal["auto", "written", "measured"],
        Query(description="Times in all but JSON: `measured` on rendered speech, `auto` where there is some"),
    ] = "auto",
) -> Response:
    """Export the narration as a file: Markdown, SRT, WebVTT, JSON, or slides in one file of HTML.

    `X-Subtitle-Timing` and the name of a file of subtitles say which times it has: `written` or `measured`.
    """
    lesson = await find_lesson(request, header or query)
    narration = await edits.get_narration(lesson, version)
    script, has_times = Narration.model_validate(narration.data), file_format in narration_export.TIMED
    sound = None if file_format == "json" else await _sound(lesson, version, timing)
    times, length = sound or ((), script.length_words(local_rate(script.language)))
    text = narration_export.export(script, file_format, times, length)
    ending = "html" if file_format == "slides" else file_format
    which = "measured" if times else "written"
    title = await title_of(app_context(request), lesson.thread)
    name = f"{title}, narration {narration.id}{f' {which}' if has_times else ''}"
    headers = download_headers(file_name(name, ending))
    if has_times:
        headers["X-Subtitle-Timing"] = which
    if file_format == "slides":
        headers["Content-Security-Policy"] = f"{POLICY}; sandbox"
    return Response(text, media_type=_MEDIA[file_format], headers=headers)


async def _sound(lesson: edits.Lesson, version: str | None, timing: str) -> audio.SoundLength | None:
    """Return what was measured; None if the written times are wanted, or by default if no speech is kept."""
    if timing == "written":
        return None
    return await (audio.sound_length if timing == "measured" else audio.find_sound_length)(lesson, version)


@narration_router.get("/versions", responses=documented_responses(*READ, reply=NarrationList))
@with_policy(LESSON_READ)
async def list_lesson_narrations(
    request: Request, page: VersionQuery, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """List the versions of the narration, newest last."""
    lesson = await find_lesson(request, header or query)
    return await views.version_list(_SPEC, lesson.artefact, "narration", page)


@narration_router.get(
    "/versions/{version_id}/diff/{other_id}", responses=documented_responses(*READ, 410, reply=VersionDiff)
)
@with_policy(LESSON_READ)
async def diff_lesson_narrations(
    version_id: str,
    other_id: str,
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> dict[str, Any]:
    """Compare two narrations: what another one changed of this one, as data and in words."""
    lesson = await find_lesson(request, header or query)
    return await views.diff_view(_SPEC, lesson.artefact, "narration", version_id, other_id)


@narration_router.patch("", responses=documented_responses(*WRITE, reply=NarrationSaved))
@with_policy(LESSON_WRITE)
async def edit_lesson_narration(
    body: NarrationEdit, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Change segments by hand; the others stay as they are, to the byte."""
    lesson = await find_lesson(request, header or body.sessionId or query)
    return await _saved_view(lesson, await edits.edit_narration(lesson, body.segments, body.version))


@narration_router.post("", responses=_REWRITTEN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(LESSON_RUN)
async def rewrite_lesson_narration(
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
        "segmentNotes": sessions.segment_notes(await lesson.snapshot()),
    }


API: Final = FeatureApi(
    routers=(
        router,
        material_routes.router,
        audio_routes.router,
        narration_router,
        quiz_routes.router,
        material_routes.asset_router,
    ),
    reply_builder=service.reply_builder,
    tags={"lessons": "Lessons: facts of a text, chosen by a person, narrated"},
    max_file_bytes=edits.MAX_LESSON_BYTES,
    file_url=lambda _artefact_id, thread_id, file_id: edits.source_file_url(thread_id, file_id),
)

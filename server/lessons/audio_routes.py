"""The sound of a narration over REST: render it, hear it."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Query, Request
from starlette.responses import Response

from callsheet.server.artefacts.recordings import SOUND, progress_events, render_events, sound_reply
from callsheet.server.artefacts.titles import title_of
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, with_policy
from callsheet.server.http.replies import JsonReply, event_stream_reply, wants_event_stream
from callsheet.server.http.requests import api_router
from callsheet.server.lessons import audio
from callsheet.server.lessons.audio import NarrationRendering, NarrationSound
from callsheet.server.lessons.material_routes import SessionHeader, SessionQuery, find_lesson
from callsheet.state.errors import Missing
from callsheet.state.lessons.narration import kind_name

router = api_router("/api/agent-create/session/narration", "lessons")
_ERRORS: Final = (400, 403, 404, 409, 410, 413, 422, 429, 500, 501, 503, 504)
_RENDER: Final = documented_responses(*_ERRORS, reply=NarrationRendering)
_RENDER[200] |= {"content": render_events(NarrationRendering)["content"]}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_ERRORS, 416, reply=None),
    200: SOUND,
    206: SOUND,
    304: {"description": "The file is the one that If-None-Match names"},
}


class NarrationSoundQuery(NarrationSound):
    """Choice of a rendering, beside the session."""

    sessionId: str | None = None


@router.post("/render", responses=_RENDER, response_model=None)
@with_policy(LESSON_RUN)
async def render_narration(
    body: NarrationSound, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> Response:
    """Render the narration, or one segment, to a sound file, which is kept for a day.

    With `Accept: text/event-stream` the reply is a stream of `progress` events, then `result` or `error`.
    """
    lesson = await find_lesson(request, header or query)
    title = await title_of(app_context(request), lesson.thread)
    score = replace(await audio.read_score(lesson, body), title=title)
    if wants_event_stream(request):
        heartbeat_s = app_context(request).settings.heartbeat_s
        return event_stream_reply(progress_events(partial(audio.render, score), heartbeat_s))
    return JsonReply(await audio.render(score, lambda _stage, _done, _of: None))


@router.get("/audio", responses=_FILE, response_class=Response)
@with_policy(LESSON_READ)
async def get_narration_audio(
    query: Annotated[NarrationSoundQuery, Query()], request: Request, header: SessionHeader = None
) -> Response:
    """Send the rendered file of a narration; a Range names a part of it. 404 where it was not rendered."""
    lesson = await find_lesson(request, header or query.sessionId)
    score = await audio.read_score(lesson, NarrationSound(**query.model_dump(exclude={"sessionId"})))
    record = await audio.find_rendering(score)
    if record is None:
        raise Missing(
            "the narration as it is now was not rendered, or more than a day ago",
            remedy="render it: POST /api/agent-create/session/narration/render with the same fields",
        )
    title = await title_of(app_context(request), lesson.thread)
    name = f"{title}, {kind_name(query.segment)}" if query.segment else title
    return sound_reply(request, lesson.artefact, score.digest, record, name)

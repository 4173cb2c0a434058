"""The sound of a film over REST: render it, hear it."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from starlette.responses import Response

from callsheet.server.artefacts.recordings import SOUND, progress_events, render_events, sound_reply
from callsheet.server.artefacts.titles import titles
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_RUN, with_policy
from callsheet.server.http.replies import JsonReply, event_stream_reply, wants_event_stream
from callsheet.server.http.requests import api_router
from callsheet.server.video import audio, projects
from callsheet.server.video.audio import FilmSound, FilmSoundRendering
from callsheet.server.video.projects import ProjectRef

router = api_router("/api/projects/{project_id}/film", "videos")
_ERRORS: Final = (400, 403, 404, 409, 413, 422, 429, 500, 501, 503, 504)
_RENDER: Final = documented_responses(*_ERRORS, reply=FilmSoundRendering)
_RENDER[200] |= {"content": render_events(FilmSoundRendering)["content"]}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_ERRORS, 416, reply=None),
    200: SOUND,
    206: SOUND,
    304: {"description": "The file is the one that If-None-Match names"},
}


_Project = Annotated[ProjectRef, Depends(projects.project_ref)]


@router.post("/render", responses=_RENDER, response_model=None)
@with_policy(API_RUN)
async def render_film_sound(ref: _Project, body: FilmSound, request: Request) -> Response:
    """Render the sound of a film: the words of narrated scenes, and music; the file is kept for a day.

    With `Accept: text/event-stream` the reply is a stream of `progress` events, then `result` or `error`.
    """
    score = await audio.read_score(ref, body)
    if wants_event_stream(request):
        heartbeat_s = app_context(request).settings.heartbeat_s
        return event_stream_reply(progress_events(partial(audio.render, score), heartbeat_s))
    return JsonReply(await audio.render(score, lambda _stage, _done, _of: None))


@router.get("/audio", responses=_FILE, response_class=Response)
@with_policy(API_READ)
async def get_film_audio(ref: _Project, query: Annotated[FilmSound, Query()], request: Request) -> Response:
    """Send the rendered sound of a film as it is now; a Range names a part of it. 404 if not rendered."""
    score = await audio.read_score(ref, query)
    record = await audio.find_rendering(score)
    if record is None:
        raise audio.missing_rendering(score)
    of_thread = await titles(ref.ctx, ref.owner, [ref.thread])
    title = of_thread.get(ref.thread, ref.artefact.id)
    return sound_reply(request, ref.artefact, score.digest, record, title)

"""Streams of turns and conversations of every domain, resumed after any of their events."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from callsheet.server.artefacts import conversation_stream
from callsheet.server.artefacts.conversation_stream import (
    Frame,
    Frames,
    FrameTranslator,
    StreamPosition,
    Turn,
)
from callsheet.server.artefacts.event_schemas import TurnResult, turn_events
from callsheet.server.artefacts.features import feature_of
from callsheet.server.artefacts.service import submit, thread_of
from callsheet.server.engine.background import cancel_and_wait
from callsheet.server.engine.errors import deserialize_error, serialize_error
from callsheet.server.engine.json_values import dumps
from callsheet.server.engine.worker import Ack, progress_of
from callsheet.server.http.auth import check_credential, current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_responses, error_body
from callsheet.server.http.policy import API_READ, Streaming, with_policy
from callsheet.server.http.replies import (
    ConfirmedReply,
    Events,
    ServerEvent,
    StreamingReply,
    event_stream_reply,
    wants_event_stream,
)
from callsheet.server.http.requests import StrictRoute
from callsheet.state.errors import CallsheetError, Conflict, Missing
from callsheet.state.receipts import RECEIPT
from callsheet.storage.runs import events
from callsheet.storage.runs.events import END, PAUSED, Event
from callsheet.storage.runs.records import OPEN_STATUSES, Created, Run, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_LARGE_FIELDS: Final = frozenset({"plan", "input", "output"})
"""Large fields of a step, which the stream leaves out."""
_CANCEL_S: Final = 1.0
"""Seconds for the tasks of a request to end with it."""
_FAILED: Final = frozenset({"error", "timeout"})
"""Endings that follow an `error` event."""


class TurnTranslator:
    """Translates stored events to those of `turn_events`; the last is `result` or `error`."""

    def __init__(self, ctx: AppContext, thread: Thread) -> None:
        self._runs = ctx.worker.runs
        self._tools = ctx.workflows.tools
        self._thread = thread.id

    async def translate(self, event: Event) -> list[Frame]:
        """Return the frames of a stored event."""
        match event.name:
            case "error":
                frames = [await self._error(event)]
            case _ if event.name == END:
                frames = await self._end(event)
            case _:
                frames = self._progress(event)
        return [
            Frame(StreamPosition(event.id, number), name, data) for number, (name, data) in enumerate(frames)
        ]

    def _progress(self, event: Event) -> list[tuple[str, Mapping[str, Any]]]:
        progress = progress_of(event)
        if progress is None:
            return []
        if (kind := progress.get("type")) in {"text", "withdrawn", RECEIPT}:
            return [(str(kind), progress)]
        step = {name: value for name, value in progress.items() if name not in _LARGE_FIELDS}
        drafts = self._drafts(progress)
        return [("step", step), *([("drafts", drafts)] if drafts else [])]

    def _drafts(self, step: Mapping[str, Any]) -> dict[str, str]:
        """Return the version that a completed step made, by stream."""
        preview = step.get("preview")
        version_id: Any = preview.get("versionId") if isinstance(preview, dict) else None
        tool = str(step.get("tool"))
        if step.get("status") != "completed" or not version_id or tool not in self._tools:
            return {}
        return dict.fromkeys(self._tools[tool][1].writes, version_id)

    async def _error(self, event: Event) -> tuple[str, Mapping[str, Any]]:
        run = await self._run(event.run)
        # The record has more than the event, until the run is resumed.
        return _error_frame(run.error if run and run.error else json.loads(event.data), event.run)

    async def _end(self, event: Event) -> list[tuple[str, Mapping[str, Any]]]:
        ending = event.data.decode()
        if ending in _FAILED:
            return []
        if ending not in {"success", PAUSED}:
            cancelled = Conflict(f"run {event.run!r} was cancelled", remedy="send the request again")
            return [_error_frame(serialize_error(cancelled), event.run)]
        run = await self._run(event.run)
        # A run that was started on the LangGraph wire has no reply.
        return [
            ("result", run.answer if run and run.answer is not None else {"conversationId": self._thread})
        ]

    async def _run(self, run: str) -> Run | None:
        try:
            return await self._runs.get(self._thread, run)
        except Missing:
            return None


def _error_frame(record: Mapping[str, Any], run: str) -> tuple[str, Mapping[str, Any]]:
    status, body = error_body(deserialize_error(record), logged_as=run)
    return "error", body | {"status": status}


_log = logging.getLogger(__name__)
router = APIRouter(prefix="/api/conversations/{conversation_id}", route_class=StrictRoute, tags=["artefacts"])
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(400, 403, 404, 409, 422, 500, 503, 504, reply=None),
    200: turn_events(TurnResult) | {"description": "Events, as long as there is the conversation"},
}
RESUMABLE: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": 80},
            "description": "Id of the last event of this request that was received; the stream goes on after "
            "it, and nothing is started. Where the request is not the same a second time (409), GET the "
            "Content-Location of the reply with this header",
        }
    ]
}
"""OpenAPI of a route whose replies are those of `turn_reply`."""


@router.get("/events", responses=_STREAM, response_model=None)
@with_policy(replace(API_READ, streaming=Streaming.ALWAYS))
async def stream_conversation(
    conversation_id: str,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=80, description="Of the last event seen")] = None,
    since: Annotated[str | None, Query(max_length=80, description="The same, for who cannot set it")] = None,
) -> Response:
    """Stream the events of a conversation's turns, of any workflow, as long as it exists.

    It goes on after `Last-Event-ID`. `0` is the beginning; without an id it begins with the running turn.
    `gap` says that events at this place are not kept any more: read the conversation.
    A conversation about a page has the events of the web socket, any other one those of its POST requests.
    """
    ctx = app_context(request)
    thread = await threads.get(ctx.storage, conversation_id, current_owner(request))
    position = await conversation_stream.position_after(ctx, thread.id, last_event_id or since)
    frames = conversation_stream.follow_conversation(
        ctx, thread, position, _translator(ctx, thread), partial(check_credential, request)
    )
    return event_stream_reply(_server_events(frames))


async def turn_reply(
    request: Request, run_request: RunRequest, record: Callable[[], Awaitable[Created]] | None = None
) -> Response:
    """Execute a run, or join the one of the same request; return its reply, or its events as they come.

    `record` records the run, by default as `service.submit`. A client that accepts an event stream gets the
    events.
    """
    worker = app_context(request).worker
    record = record or partial(submit, worker, run_request)
    await worker.require_executor()
    if wants_event_stream(request):
        return await _stream_turn(request, run_request, record)
    reply, ack = await _follow(request, run_request.thread, await record())
    return ConfirmedReply(reply, ack)


async def _follow(request: Request, thread: str, created: Created) -> tuple[dict[str, Any], Ack]:
    """Wait for the run's end, as `Worker.follow`.

    If the client leaves before its run has begun, the run is cancelled: nobody would read the reply.
    """
    worker = app_context(request).worker
    following = asyncio.ensure_future(worker.follow(thread, created))
    leaving = asyncio.ensure_future(_wait_for_departure(request))
    try:
        await asyncio.wait((following, leaving), return_when=asyncio.FIRST_COMPLETED)
        if leaving.done() and not following.done() and created.verdict in {"start", "queued"}:
            await worker.cancel_unstarted(thread, created.run)
        return await following
    finally:
        await cancel_and_wait(following, leaving, within_s=_CANCEL_S)


async def _wait_for_departure(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stream_turn(
    request: Request, run_request: RunRequest, record: Callable[[], Awaitable[Created]]
) -> StreamingReply:
    """Start a run, or join the one of the same request, and stream its events to its end.

    With a `Last-Event-ID` nothing is started: the stream of that event goes on. Raises `Invalid` for a
    malformed id, `Missing` for an event that is not or no longer stored, and `Conflict` for an event of
    another request.
    """
    ctx, thread = app_context(request), thread_of(run_request)
    if last := request.headers.get("last-event-id"):
        since = conversation_stream.parse_position(last)
        turn = await _find_turn(ctx, run_request, since)
    else:
        created = await record()
        turn = await _turn_of(ctx, thread.id, created)
        is_new = created.verdict == "start"
        since = (
            StreamPosition(turn.start)
            if is_new
            else await conversation_stream.position_before_turn(ctx, turn)
        )
    frames = conversation_stream.follow_turn(ctx, turn, since, _translator(ctx, thread))
    place = f"/api/conversations/{quote(thread.id, safe='')}/events"
    return event_stream_reply(_server_events(frames), headers={"Content-Location": place})


async def _turn_of(ctx: AppContext, thread: str, created: Created) -> Turn:
    start = created.since
    if created.verdict != "start":
        start = await conversation_stream.start_of_turn(ctx, thread, created.run) or events.START_ID
    return Turn(thread, created.run, start, open=created.verdict != "replay")


async def _find_turn(ctx: AppContext, run_request: RunRequest, since: StreamPosition) -> Turn:
    thread = await threads.find(ctx.storage, run_request.thread, run_request.owner)
    if thread is None:
        raise Missing(
            f"event {str(since)!r} belongs to a conversation that the request does not name",
            remedy="name it in the request, or send its Idempotency-Key again; Content-Location of the first"
            " reply has the path to follow with GET",
        )
    event = await events.find(ctx.storage, thread.id, since.event)
    place = f"GET /api/conversations/{thread.id}/events goes on after it"
    if event is None or not event.run:
        raise Missing(
            f"event {str(since)!r} is not stored, or no longer",
            remedy="read the conversation, or send the request without Last-Event-ID",
        )
    run = await ctx.worker.runs.get(thread.id, event.run)
    # Another request would be lost: its caller would take the end of an earlier one for its own.
    if run.fingerprint != run_request.fingerprint or not run.fingerprint:
        raise Conflict(f"event {str(since)!r} belongs to another request", remedy=place)
    start = await conversation_stream.start_of_turn(ctx, thread.id, run.id, event.id) or events.START_ID
    return Turn(thread.id, run.id, start, open=run.status in OPEN_STATUSES)


def _translator(ctx: AppContext, thread: Thread) -> FrameTranslator:
    feature = feature_of(ctx, thread.graph)
    return ((feature and feature.translator) or TurnTranslator)(ctx, thread)


async def _server_events(frames: Frames) -> Events:
    """Yield the frames as events; a failure while they are read is an `error` without an id, to resume at."""
    try:
        async with aclosing(frames):
            async for frame in frames:
                place = str(frame.position) if frame and frame.name != events.GAP else None
                yield frame and ServerEvent(frame.name, dumps(frame.data), place)
    except CallsheetError as error:
        status, body = error_body(error)
        _log.warning("an event stream ended: %s", error)
        yield ServerEvent("error", dumps(body | {"status": status}))

"""Runs: started on a thread or on one of their own, in batches, waited for, followed, listed, cancelled."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from callsheet.server.ads.bodies import StrictRoute
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph import run_streams, waiting
from callsheet.server.langgraph.run_bodies import BatchRunCreate, RunCreate
from callsheet.server.langgraph.run_streams import ENDED, ThreadMode, event_stream_reply
from callsheet.server.langgraph.shapes import run_view
from callsheet.server.langgraph.starting import (
    StartedRun,
    ValidatedRun,
    record_run,
    start_on_thread,
    start_stateless,
    stateless_thread_ids,
    validate_on_thread,
    validate_stateless,
)
from callsheet.server.runtime.encoding import dumps
from callsheet.state.errors import Conflict, Invalid, Missing, Refused, TooLarge
from callsheet.storage.runs import events
from callsheet.storage.runs.records import Action, Run
from callsheet.storage.threads import records as thread_records


async def start_batch(here: AppContext, owner: str, bodies: Sequence[BatchRunCreate]) -> list[StartedRun]:
    """Record the runs in their order and have them carried out, or none of them.

    Raises `Invalid` naming the first that cannot be begun, and `TooLarge` for more than one request may have.
    What only shows as a run is recorded (a thread that is to be left alone, storage that goes away) ends the
    rest, and is raised as it is.
    """
    if len(bodies) > (most := here.settings.max_batch_runs):
        raise TooLarge(
            f"a batch of {len(bodies)} runs is over the limit of {most}",
            remedy="send fewer at a time, or raise CALLSHEET_MAX_BATCH_RUNS",
        )
    return [await record_run(here, one) for one in await _looked_at(here, owner, bodies)]


async def _looked_at(here: AppContext, owner: str, bodies: Sequence[BatchRunCreate]) -> list[ValidatedRun]:
    asked = (
        validate_on_thread(here, owner, each.thread_id, each)
        if each.thread_id
        else validate_stateless(here, owner, each)
        for each in bodies
    )
    found: list[ValidatedRun] = []
    graphs: dict[str, str] = {}
    answered: set[tuple[str, str]] = set()
    for number, one in enumerate(await asyncio.gather(*asked, return_exceptions=True), 1):
        try:
            if isinstance(one, BaseException):
                raise one
            _fits(one, graphs, answered)
        except Refused as error:
            raise Invalid(
                f"run {number} of {len(bodies)}: {error.message}",
                remedy="; ".join(part for part in (error.remedy, "none of them was started") if part),
            ) from error
        graphs[one.thread] = one.asked.graph
        answered |= _answers(one)
        found.append(one)
    return found


def _fits(one: ValidatedRun, graphs: Mapping[str, str], answered: Collection[tuple[str, str]]) -> None:
    """Raise `Conflict` for what an earlier run of the batch makes impossible."""
    graph = graphs.get(one.thread, one.asked.graph)
    if graph != one.asked.graph:
        raise Conflict(f"an earlier one runs {graph!r} on thread {one.thread!r}")
    if any(answer in answered for answer in _answers(one)):
        raise Conflict(f"an earlier one answers the question of thread {one.thread!r}")


def _answers(one: ValidatedRun) -> set[tuple[str, str]]:
    return {(one.thread, question) for question in one.asked.questions}


router = APIRouter(route_class=StrictRoute, tags=["runs"])
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]
_RUN = documented_wire_responses(*_WRITE, reply=_Object)
_STREAM = documented_wire_responses(*_WRITE, reply=_Object) | {200: EVENTS}
_JOIN = documented_wire_responses(*_READ, reply=_Object)
_FOLLOW = documented_wire_responses(*_READ, reply=_Object) | {200: EVENTS}
_LastId = Annotated[str | None, Header(alias="Last-Event-ID", description="-1 for all there is")]
_Modes = Annotated[list[str] | None, Query(description="Only events of these modes")]
_ThreadModes = Annotated[
    list[ThreadMode] | None,
    Query(description="run_modes, unless chosen; lifecycle, state_update"),
]
_Leave = Annotated[bool, Query(description="Whether the run ends with this connection")]


class EventJsonReply(Response):
    """JSON as the graphs' events have it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON text."""
        return dumps(content)


class RunsCancel(BaseModel):
    """Which runs are to be cancelled: some of a thread's, or all that stand so."""

    thread_id: str | None = None
    run_ids: list[str] | None = Field(None, max_length=1_000)
    status: Literal["pending", "running", "all"] | None = None


@router.post("/threads/{thread_id}/runs", responses=_RUN, response_model=None)
async def create_run(thread_id: str, body: RunCreate, request: Request) -> Response:
    """Start a run on a thread and return at once."""
    return await _told(
        request, await start_on_thread(app_context(request), current_owner(request), thread_id, body)
    )


@router.post("/threads/{thread_id}/runs/stream", responses=_STREAM, response_model=None)
async def stream_run(thread_id: str, body: RunCreate, request: Request) -> Response:
    """Start a run on a thread and stream its events."""
    return _streamed(
        request, await start_on_thread(app_context(request), current_owner(request), thread_id, body), body
    )


@router.post("/threads/{thread_id}/runs/wait", responses=_RUN, response_model=None)
async def wait_for_run(thread_id: str, body: RunCreate, request: Request) -> Response:
    """Start a run on a thread and return what it comes to."""
    return _awaited(
        request, await start_on_thread(app_context(request), current_owner(request), thread_id, body), body
    )


@router.post("/runs", responses=_RUN, response_model=None)
async def create_stateless_run(body: RunCreate, request: Request) -> Response:
    """Start a run on a thread of its own and return at once."""
    return await _told(request, await start_stateless(app_context(request), current_owner(request), body))


@router.post("/runs/stream", responses=_STREAM, response_model=None)
async def stream_stateless_run(body: RunCreate, request: Request) -> Response:
    """Start a run on a thread of its own and stream its events."""
    return _streamed(request, await start_stateless(app_context(request), current_owner(request), body), body)


@router.post("/runs/wait", responses=_RUN, response_model=None)
async def wait_for_stateless_run(body: RunCreate, request: Request) -> Response:
    """Start a run on a thread of its own and return what it comes to."""
    return _awaited(request, await start_stateless(app_context(request), current_owner(request), body), body)


@router.post(
    "/runs/batch", responses=documented_wire_responses(*_WRITE, reply=list[_Object]), response_model=None
)
async def create_run_batch(body: list[BatchRunCreate], request: Request) -> Response:
    """Start several runs and return at once; where one of them cannot be, none is."""
    here, who = app_context(request), current_owner(request)
    batch_runs = await start_batch(here, who, body)
    return EventJsonReply([await _recorded(here, one) for one in batch_runs])


@router.post(
    "/runs/cancel", status_code=204, responses=documented_wire_responses(*_WRITE, reply=None, status=204)
)
async def cancel_runs(body: RunsCancel, request: Request, action: Action = "interrupt") -> Response:
    """Cancel several runs; those that have ended, or are not there, are left out."""
    here = app_context(request)
    for found in await _meant(here, current_owner(request), body):
        await here.worker.cancel(found.thread, found.id, action)
    return Response(status_code=204)


@router.get(
    "/threads/{thread_id}/runs",
    responses=documented_wire_responses(*_READ, reply=list[_Object]),
    response_model=None,
)
async def list_runs(
    thread_id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"] | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """List a thread's runs, newest first."""
    here = app_context(request)
    await thread_records.get(here.storage, thread_id, current_owner(request))
    if status is None:
        found = await here.worker.runs.list_runs(thread_id, offset, limit)
    else:
        fitting = [run for run in await here.worker.runs.list_runs(thread_id) if run.status == status]
        found = fitting[offset : offset + limit]
    return EventJsonReply([_selected(run_view(run), select) for run in found])


@router.get("/threads/{thread_id}/runs/{run_id}", responses=_JOIN, response_model=None)
async def get_run(thread_id: str, run_id: str, request: Request) -> Response:
    """Show a run."""
    return EventJsonReply(run_view(await _found(request, run_id, thread_id)))


@router.get("/runs/{run_id}", responses=_JOIN, response_model=None)
async def get_stateless_run(run_id: str, request: Request) -> Response:
    """Show a run that has a thread of its own; where that goes with it, until a minute after its end."""
    return EventJsonReply(run_view(await _found(request, run_id)))


@router.delete(
    "/threads/{thread_id}/runs/{run_id}",
    status_code=204,
    responses=documented_wire_responses(*_WRITE, reply=None, status=204),
)
async def delete_run(thread_id: str, run_id: str, request: Request) -> Response:
    """Delete the record of a run that has ended; what it did stays."""
    found = await _found(request, run_id, thread_id)
    await app_context(request).worker.runs.delete(found.thread, found.id)
    return Response(status_code=204)


@router.get("/threads/{thread_id}/runs/{run_id}/join", responses=_JOIN, response_model=None)
async def join_run(
    thread_id: str,
    run_id: str,
    request: Request,
    cancel_on_disconnect: _Leave = False,  # noqa: FBT002
) -> Response:
    """Return what a run comes to, when it has ended."""
    return _joined(request, await _found(request, run_id, thread_id), leaving=cancel_on_disconnect)


@router.get("/runs/{run_id}/join", responses=_JOIN, response_model=None)
async def join_stateless_run(run_id: str, request: Request) -> Response:
    """Return what a run that has a thread of its own comes to, when it has ended."""
    return _joined(request, await _found(request, run_id), leaving=False)


@router.get("/threads/{thread_id}/runs/{run_id}/stream", responses=_FOLLOW, response_model=None)
async def join_run_stream(
    thread_id: str,
    run_id: str,
    request: Request,
    last_event_id: _LastId = None,
    stream_mode: _Modes = None,
    cancel_on_disconnect: _Leave = False,  # noqa: FBT002
) -> Response:
    """Stream a run's events: from now on, or those after an event."""
    found = await _found(request, run_id, thread_id)
    return await _followed(
        request, found, last_event_id, run_streams.parse_modes(stream_mode), leaving=cancel_on_disconnect
    )


@router.get("/runs/{run_id}/stream", responses=_FOLLOW, response_model=None)
async def join_stateless_run_stream(
    run_id: str, request: Request, last_event_id: _LastId = None, stream_mode: _Modes = None
) -> Response:
    """Stream the events of a run that has a thread of its own."""
    found = await _found(request, run_id)
    return await _followed(request, found, last_event_id, run_streams.parse_modes(stream_mode), leaving=False)


@router.post(
    "/threads/{thread_id}/runs/{run_id}/cancel",
    responses=documented_wire_responses(*_WRITE, reply=_Object) | {202: {"description": "It will end"}},
    response_model=None,
)
async def cancel_run(
    thread_id: str,
    run_id: str,
    request: Request,
    wait: Annotated[bool, Query(description="Whether to return when the run has ended")] = False,  # noqa: FBT002
    action: Action = "interrupt",
) -> Response:
    """Cancel a run; rolled back, it leaves no trace on the thread."""
    here, found = app_context(request), await _found(request, run_id, thread_id)
    since = await events.newest_id(here.storage, found.thread)
    ended = await here.worker.cancel(found.thread, found.id, action)
    if not wait:
        return Response(status_code=202)
    if not ended:
        async for _ in run_streams.follow_run(
            here, StartedRun(found.thread, found.id, since, resumable=False)
        ):
            pass
    return EventJsonReply({})


@router.get("/threads/{thread_id}/stream", responses=_FOLLOW, response_model=None)
async def join_thread_stream(
    thread_id: str,
    request: Request,
    last_event_id: _LastId = None,
    stream_mode: _ThreadModes = None,
    stream_modes: _ThreadModes = None,
) -> Response:
    """Stream what happens on the thread, now and later; the modes go by either name."""
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    if last_event_id in {run_streams.BEGINNING, "-"}:
        after = events.BEGINNING
    elif last_event_id:
        after = run_streams.checked_event_id(last_event_id)
    else:
        after = await events.newest_id(here.storage, thread_id)
    modes = {*(stream_mode or ()), *(stream_modes or ())} or {"run_modes"}
    return event_stream_reply(run_streams.stream_thread(here, record, after, modes))


async def _found(request: Request, run_id: str, thread_id: str | None = None) -> Run:
    """The run, if it is the caller's; one with a thread of its own is found without it."""
    here, who = app_context(request), current_owner(request)
    if thread_id not in {None, run_id}:
        # One after the other: what is missing of another's thread is not to be told.
        await thread_records.get(here.storage, str(thread_id), who)
        return await here.worker.runs.get(str(thread_id), run_id)
    # A thread that goes with its run has its id, and is in no list.
    for home in stateless_thread_ids(run_id) if thread_id is None else (run_id,):
        with suppress(Missing):
            if (found := await here.worker.runs.get(home, run_id)).owner == who:
                return found
    raise Missing(
        f"there is no run {run_id[:255]!r}", remedy="check the id; one without a thread is not kept"
    )


async def _meant(here: AppContext, who: str, body: RunsCancel) -> list[Run]:
    if body.thread_id and body.run_ids:
        await thread_records.get(here.storage, body.thread_id, who)
        runs = await here.worker.runs.list_runs(body.thread_id)
        return [run for run in runs if run.id in body.run_ids]
    found = await here.worker.runs.open_runs(who, body.thread_id)
    return [run for run in found if body.status in {"all", run.status}]


def _streamed(request: Request, started: StartedRun, body: RunCreate) -> Response:
    here = app_context(request)
    leave = _leaving(here, started, wanted=body.on_disconnect == "cancel")
    return event_stream_reply(run_streams.stream_run(here, started, leave=leave), started.path)


def _awaited(request: Request, started: StartedRun, body: RunCreate) -> Response:
    here = app_context(request)
    leave = _leaving(here, started, wanted=body.on_disconnect == "cancel")
    return waiting.LongPollReply(partial(waiting.wait_for_result, here, started, leave), started.path)


async def _told(request: Request, started: StartedRun) -> Response:
    recorded = await _recorded(app_context(request), started)
    return EventJsonReply(recorded, headers={"Content-Location": started.path})


async def _recorded(here: AppContext, started: StartedRun) -> _Object:
    """The run as it was recorded; LangGraph's clients know a new one as pending, however far it is by now."""
    try:
        record = await here.worker.runs.get(started.thread, started.run)
    except Missing:
        # Another run has taken its place, and taken it back, since it was made.
        if started.wanted is None:
            raise
        record = started.wanted.to_run(started.thread)
    return run_view(replace(record, status="pending"))


def _joined(request: Request, found: Run, *, leaving: bool) -> Response:
    here, started = app_context(request), _started(found, run_streams.id_before_run(found))
    if found.status in ENDED:
        return waiting.LongPollReply(partial(waiting.result_of_ended_run, here, started), started.path)
    leave = _leaving(here, started, wanted=leaving)
    return waiting.LongPollReply(partial(waiting.wait_for_result, here, started, leave), started.path)


async def _followed(
    request: Request, found: Run, last_id: str | None, modes: list[str], *, leaving: bool
) -> Response:
    here = app_context(request)
    since = run_streams.resume_id(last_id, found)
    if found.status in ENDED:
        started = _started(found, since or events.BEGINNING)
        told = run_streams.replay_run(here, started, modes) if since else run_streams.empty_stream()
        return event_stream_reply(told, started.path)
    if since is None:
        since = await events.newest_id(here.storage, found.thread)
        # It may have ended since it was looked at; its end comes after `since` only if it has not.
        found = await here.worker.runs.get(found.thread, found.id)
        if found.status in ENDED:
            return event_stream_reply(run_streams.empty_stream(), _started(found, since).path)
    started = _started(found, since)
    leave = _leaving(here, started, wanted=leaving)
    return event_stream_reply(run_streams.stream_run(here, started, modes=modes, leave=leave), started.path)


def _started(found: Run, since: str) -> StartedRun:
    return StartedRun(found.thread, found.id, since, bool(found.request["resumable"]), found.is_stateless)


def _leaving(here: AppContext, started: StartedRun, *, wanted: bool) -> Callable[[], None] | None:
    if not wanted:
        return None
    return lambda: here.worker.cancel_later(started.thread, started.run)


def _selected(told: Mapping[str, Any], names: list[str] | None) -> Mapping[str, Any]:
    return {name: told[name] for name in names if name in told} if names else told

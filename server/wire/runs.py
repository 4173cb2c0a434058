"""Runs: started on a thread or on one of their own, waited for, followed, listed, cancelled."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from server.api.bodies import StrictRoute
from server.description import EVENTS
from server.encoding import dumps
from server.origins import owner
from server.parts import Parts, parts
from server.problems import documented_wire
from server.wire import batches, run_streams, waiting
from server.wire.run_bodies import BatchBody, RunBody
from server.wire.run_shapes import shown
from server.wire.run_streams import OVER, ThreadMode, streamed
from server.wire.starting import Started, alone, homes, on_thread
from state.errors import Missing
from storage import events, thread_records
from storage.run_records import Action, Run

router = APIRouter(route_class=StrictRoute, tags=["runs"])
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]
_RUN = documented_wire(*_WRITE, reply=_Object)
_STREAM = documented_wire(*_WRITE, reply=_Object) | {200: EVENTS}
_JOIN = documented_wire(*_READ, reply=_Object)
_FOLLOW = documented_wire(*_READ, reply=_Object) | {200: EVENTS}
_LastId = Annotated[str | None, Header(alias="Last-Event-ID", description="-1 for all there is")]
_Modes = Annotated[list[str] | None, Query(description="Only events of these modes")]
_ThreadModes = Annotated[
    list[ThreadMode] | None,
    Query(description="run_modes, unless chosen; lifecycle, state_update"),
]
_Leave = Annotated[bool, Query(description="Whether the run ends with this connection")]


class Json(Response):
    """JSON as the graphs' events have it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON text."""
        return dumps(content)


class CancelBody(BaseModel):
    """Which runs are to be cancelled: some of a thread's, or all that stand so."""

    thread_id: str | None = None
    run_ids: list[str] | None = Field(None, max_length=1_000)
    status: Literal["pending", "running", "all"] | None = None


@router.post("/threads/{thread_id}/runs", responses=_RUN, response_model=None)
async def create(thread_id: str, body: RunBody, request: Request) -> Response:
    """Start a run on a thread and return at once."""
    return await _told(request, await on_thread(parts(request), owner(request), thread_id, body))


@router.post("/threads/{thread_id}/runs/stream", responses=_STREAM, response_model=None)
async def stream(thread_id: str, body: RunBody, request: Request) -> Response:
    """Start a run on a thread and stream its events."""
    return _streamed(request, await on_thread(parts(request), owner(request), thread_id, body), body)


@router.post("/threads/{thread_id}/runs/wait", responses=_RUN, response_model=None)
async def wait(thread_id: str, body: RunBody, request: Request) -> Response:
    """Start a run on a thread and return what it comes to."""
    return _awaited(request, await on_thread(parts(request), owner(request), thread_id, body), body)


@router.post("/runs", responses=_RUN, response_model=None)
async def create_alone(body: RunBody, request: Request) -> Response:
    """Start a run on a thread of its own and return at once."""
    return await _told(request, await alone(parts(request), owner(request), body))


@router.post("/runs/stream", responses=_STREAM, response_model=None)
async def stream_alone(body: RunBody, request: Request) -> Response:
    """Start a run on a thread of its own and stream its events."""
    return _streamed(request, await alone(parts(request), owner(request), body), body)


@router.post("/runs/wait", responses=_RUN, response_model=None)
async def wait_alone(body: RunBody, request: Request) -> Response:
    """Start a run on a thread of its own and return what it comes to."""
    return _awaited(request, await alone(parts(request), owner(request), body), body)


@router.post("/runs/batch", responses=documented_wire(*_WRITE, reply=list[_Object]), response_model=None)
async def batch(body: list[BatchBody], request: Request) -> Response:
    """Start several runs and return at once; where one of them cannot be, none is."""
    here, who = parts(request), owner(request)
    started = await batches.started(here, who, body)
    return Json([await _recorded(here, one) for one in started])


@router.post("/runs/cancel", status_code=204, responses=documented_wire(*_WRITE, reply=None, status=204))
async def cancel_many(body: CancelBody, request: Request, action: Action = "interrupt") -> Response:
    """Cancel several runs; those that have ended, or are not there, are left out."""
    here = parts(request)
    for found in await _meant(here, owner(request), body):
        await here.worker.cancel(found.thread, found.id, action)
    return Response(status_code=204)


@router.get(
    "/threads/{thread_id}/runs", responses=documented_wire(*_READ, reply=list[_Object]), response_model=None
)
async def listed(
    thread_id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"] | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """List a thread's runs, newest first."""
    here = parts(request)
    await thread_records.get(here.storage, thread_id, owner(request))
    if status is None:
        found = await here.worker.runs.listed(thread_id, offset, limit)
    else:
        fitting = [run for run in await here.worker.runs.listed(thread_id) if run.status == status]
        found = fitting[offset : offset + limit]
    return Json([_selected(shown(run), select) for run in found])


@router.get("/threads/{thread_id}/runs/{run_id}", responses=_JOIN, response_model=None)
async def get(thread_id: str, run_id: str, request: Request) -> Response:
    """Show a run."""
    return Json(shown(await _found(request, run_id, thread_id)))


@router.get("/runs/{run_id}", responses=_JOIN, response_model=None)
async def get_alone(run_id: str, request: Request) -> Response:
    """Show a run that has a thread of its own; where that goes with it, until a minute after its end."""
    return Json(shown(await _found(request, run_id)))


@router.delete(
    "/threads/{thread_id}/runs/{run_id}",
    status_code=204,
    responses=documented_wire(*_WRITE, reply=None, status=204),
)
async def delete(thread_id: str, run_id: str, request: Request) -> Response:
    """Delete the record of a run that has ended; what it did stays."""
    found = await _found(request, run_id, thread_id)
    await parts(request).worker.runs.delete(found.thread, found.id)
    return Response(status_code=204)


@router.get("/threads/{thread_id}/runs/{run_id}/join", responses=_JOIN, response_model=None)
async def join(
    thread_id: str,
    run_id: str,
    request: Request,
    cancel_on_disconnect: _Leave = False,  # noqa: FBT002
) -> Response:
    """Return what a run comes to, when it has ended."""
    return _joined(request, await _found(request, run_id, thread_id), leaving=cancel_on_disconnect)


@router.get("/runs/{run_id}/join", responses=_JOIN, response_model=None)
async def join_alone(run_id: str, request: Request) -> Response:
    """Return what a run that has a thread of its own comes to, when it has ended."""
    return _joined(request, await _found(request, run_id), leaving=False)


@router.get("/threads/{thread_id}/runs/{run_id}/stream", responses=_FOLLOW, response_model=None)
async def follow(
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
        request, found, last_event_id, run_streams.modes_of(stream_mode), leaving=cancel_on_disconnect
    )


@router.get("/runs/{run_id}/stream", responses=_FOLLOW, response_model=None)
async def follow_alone(
    run_id: str, request: Request, last_event_id: _LastId = None, stream_mode: _Modes = None
) -> Response:
    """Stream the events of a run that has a thread of its own."""
    found = await _found(request, run_id)
    return await _followed(request, found, last_event_id, run_streams.modes_of(stream_mode), leaving=False)


@router.post(
    "/threads/{thread_id}/runs/{run_id}/cancel",
    responses=documented_wire(*_WRITE, reply=_Object) | {202: {"description": "It will end"}},
    response_model=None,
)
async def cancel(
    thread_id: str,
    run_id: str,
    request: Request,
    wait: Annotated[bool, Query(description="Whether to return when the run has ended")] = False,  # noqa: FBT002
    action: Action = "interrupt",
) -> Response:
    """Cancel a run; rolled back, it leaves no trace on the thread."""
    here, found = parts(request), await _found(request, run_id, thread_id)
    since = await events.newest(here.storage, found.thread)
    ended = await here.worker.cancel(found.thread, found.id, action)
    if not wait:
        return Response(status_code=202)
    if not ended:
        async for _ in run_streams.followed(here, Started(found.thread, found.id, since, resumable=False)):
            pass
    return Json({})


@router.get("/threads/{thread_id}/stream", responses=_FOLLOW, response_model=None)
async def follow_thread(
    thread_id: str,
    request: Request,
    last_event_id: _LastId = None,
    stream_mode: _ThreadModes = None,
    stream_modes: _ThreadModes = None,
) -> Response:
    """Stream what happens on the thread, now and later; the modes go by either name."""
    here = parts(request)
    record = await thread_records.get(here.storage, thread_id, owner(request))
    if last_event_id in {run_streams.BEGINNING, "-"}:
        after = events.BEGINNING
    elif last_event_id:
        after = run_streams.checked(last_event_id)
    else:
        after = await events.newest(here.storage, thread_id)
    modes = {*(stream_mode or ()), *(stream_modes or ())} or {"run_modes"}
    return streamed(run_streams.of_thread(here, record, after, modes))


async def _found(request: Request, run_id: str, thread_id: str | None = None) -> Run:
    """The run, if it is the caller's; one with a thread of its own is found without it."""
    here, who = parts(request), owner(request)
    if thread_id not in {None, run_id}:
        # One after the other: what is missing of another's thread is not to be told.
        await thread_records.get(here.storage, str(thread_id), who)
        return await here.worker.runs.get(str(thread_id), run_id)
    # A thread that goes with its run has its id, and is in no list.
    for home in homes(run_id) if thread_id is None else (run_id,):
        with suppress(Missing):
            if (found := await here.worker.runs.get(home, run_id)).owner == who:
                return found
    raise Missing(
        f"there is no run {run_id[:255]!r}", remedy="check the id; one without a thread is not kept"
    )


async def _meant(here: Parts, who: str, body: CancelBody) -> list[Run]:
    if body.thread_id and body.run_ids:
        await thread_records.get(here.storage, body.thread_id, who)
        runs = await here.worker.runs.listed(body.thread_id)
        return [run for run in runs if run.id in body.run_ids]
    found = await here.worker.runs.open_of(who, body.thread_id)
    return [run for run in found if body.status in {"all", run.status}]


def _streamed(request: Request, started: Started, body: RunBody) -> Response:
    here = parts(request)
    leave = _leaving(here, started, wanted=body.on_disconnect == "cancel")
    return streamed(run_streams.of_run(here, started, leave=leave), started.place)


def _awaited(request: Request, started: Started, body: RunBody) -> Response:
    here = parts(request)
    leave = _leaving(here, started, wanted=body.on_disconnect == "cancel")
    return waiting.Awaited(partial(waiting.answer, here, started, leave), started.place)


async def _told(request: Request, started: Started) -> Response:
    recorded = await _recorded(parts(request), started)
    return Json(recorded, headers={"Content-Location": started.place})


async def _recorded(here: Parts, started: Started) -> _Object:
    """The run as it was recorded; LangGraph's clients know a new one as pending, however far it is by now."""
    try:
        record = await here.worker.runs.get(started.thread, started.run)
    except Missing:
        # Another run has taken its place, and taken it back, since it was made.
        if started.wanted is None:
            raise
        record = started.wanted.record(started.thread)
    return shown(replace(record, status="pending"))


def _joined(request: Request, found: Run, *, leaving: bool) -> Response:
    here, started = parts(request), _started(found, run_streams.before(found))
    if found.status in OVER:
        return waiting.Awaited(partial(waiting.ended, here, started), started.place)
    leave = _leaving(here, started, wanted=leaving)
    return waiting.Awaited(partial(waiting.answer, here, started, leave), started.place)


async def _followed(
    request: Request, found: Run, last_id: str | None, modes: list[str], *, leaving: bool
) -> Response:
    here = parts(request)
    since = run_streams.after_id(last_id, found)
    if found.status in OVER:
        started = _started(found, since or events.BEGINNING)
        told = run_streams.replayed(here, started, modes) if since else run_streams.nothing()
        return streamed(told, started.place)
    if since is None:
        since = await events.newest(here.storage, found.thread)
        # It may have ended since it was looked at; its end comes after `since` only if it has not.
        found = await here.worker.runs.get(found.thread, found.id)
        if found.status in OVER:
            return streamed(run_streams.nothing(), _started(found, since).place)
    started = _started(found, since)
    leave = _leaving(here, started, wanted=leaving)
    return streamed(run_streams.of_run(here, started, modes=modes, leave=leave), started.place)


def _started(found: Run, since: str) -> Started:
    return Started(found.thread, found.id, since, bool(found.request["resumable"]), found.temporary)


def _leaving(here: Parts, started: Started, *, wanted: bool) -> Callable[[], None] | None:
    if not wanted:
        return None
    return lambda: here.worker.cancel_later(started.thread, started.run)


def _selected(told: Mapping[str, Any], names: list[str] | None) -> Mapping[str, Any]:
    return {name: told[name] for name in names if name in told} if names else told

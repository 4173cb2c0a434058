"""Routes of runs: create one or a batch, wait, stream, list, cancel, delete."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.policy import (
    LANGGRAPH_READ,
    LANGGRAPH_READ_STREAM,
    LANGGRAPH_WRITE,
    LANGGRAPH_WRITE_STREAM,
    with_policy,
)
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import IDEMPOTENT, StrictRoute, create_once
from callsheet.server.langgraph import run_streams
from callsheet.server.langgraph.reply_schemas import RUN_EVENTS, RUNS, GraphValue, RunCancelled, RunReply
from callsheet.server.langgraph.retention import end_run
from callsheet.server.langgraph.run_streams import ENDED, ThreadMode, event_stream_reply
from callsheet.server.langgraph.schemas import (
    RUN_FIELDS,
    BatchRunCreate,
    JsonObject,
    RunCreate,
    read_responses,
    run_view,
    write_responses,
)
from callsheet.server.langgraph.starting import (
    StartedRun,
    ValidatedRun,
    record_run,
    require_one_workflow,
    start_run,
    stateless_thread_ids,
    validate_run,
)
from callsheet.server.langgraph.webhooks import require_callable
from callsheet.state.errors import Conflict, Invalid, Missing, Refused, TooLarge
from callsheet.storage.runs import events
from callsheet.storage.runs.records import Action, Run
from callsheet.storage.threads import threads

router = APIRouter(route_class=StrictRoute, tags=["runs"])
_CREATE: Final = write_responses(RunReply)
_CREATE_STREAM: Final = _CREATE | {200: RUN_EVENTS}
_WAIT: Final = write_responses(GraphValue)
_READ: Final = read_responses(RunReply)
_JOIN: Final = read_responses(GraphValue)
_READ_STREAM: Final = read_responses(None, 410) | {200: RUN_EVENTS}
_LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="Id to continue after (410 if events after it are not kept any more); -1 for all events, "
        "of which `gap` says that the first are not kept any more",
    ),
]
_Modes = Annotated[list[str] | None, Query(description="Stream modes; all by default")]
_ThreadModes = Annotated[
    list[ThreadMode] | None,
    BeforeValidator(run_streams.expand_query),
    Query(description="`run_modes` by default"),
]
_JOIN_POLICY: Final = replace(LANGGRAPH_READ, cancels_on_disconnect=True)
_JOIN_STREAM_POLICY: Final = replace(LANGGRAPH_READ_STREAM, cancels_on_disconnect=True)
_CancelOnDisconnect = Annotated[bool, Query(description="Cancel the run if the connection closes")]


class RunsCancel(BaseModel):
    """Runs to cancel: some of a thread, or all of a status."""

    thread_id: str | None = None
    run_ids: list[str] | None = Field(None, max_length=1_000)
    status: Literal["pending", "running", "all"] | None = None


@router.post("/threads/{thread_id}/runs", responses=_CREATE, openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def create_run(thread_id: str, body: RunCreate, request: Request) -> Response:
    """Create a run on a thread. Returns before the run ends."""
    return await _create_reply(request, thread_id, body)


@router.post("/threads/{thread_id}/runs/stream", responses=_CREATE_STREAM, openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE_STREAM)
async def stream_run(thread_id: str, body: RunCreate, request: Request) -> Response:
    """Create a run on a thread and stream its events."""
    return await _create_and_stream_reply(request, thread_id, body)


@router.post("/threads/{thread_id}/runs/wait", responses=_WAIT, openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def wait_for_run(thread_id: str, body: RunCreate, request: Request) -> Response:
    """Create a run on a thread and wait for its result."""
    return await _create_and_wait_reply(request, thread_id, body)


@router.post("/runs", responses=_CREATE, openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def create_stateless_run(body: RunCreate, request: Request) -> Response:
    """Create a stateless run, which has a thread of its own. Returns before the run ends."""
    return await _create_reply(request, None, body)


@router.post("/runs/stream", responses=_CREATE_STREAM, openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE_STREAM)
async def stream_stateless_run(body: RunCreate, request: Request) -> Response:
    """Create a stateless run and stream its events."""
    return await _create_and_stream_reply(request, None, body)


@router.post("/runs/wait", responses=_WAIT, openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def wait_for_stateless_run(body: RunCreate, request: Request) -> Response:
    """Create a stateless run and wait for its result."""
    return await _create_and_wait_reply(request, None, body)


@router.post("/runs/batch", responses=write_responses(list[RunReply]), openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def create_run_batch(body: list[BatchRunCreate], request: Request) -> Response:
    """Create several runs. If one of them is invalid, none is created."""
    ctx = app_context(request)

    async def find(batch: str) -> list[StartedRun]:
        wanted = zip(_ids(batch), body, strict=False)
        runs = [await _run(request, id_, run.thread_id or None) for id_, run in wanted]
        return [_started_run(run, "") for run in runs]

    batch = await create_once(
        request, body, lambda id_: start_batch(ctx, current_owner(request), body, _ids(id_)), find
    )
    return JsonReply([await _created_view(ctx, started) for started in batch])


@router.post("/runs/cancel", status_code=204, responses=write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def cancel_runs(body: RunsCancel, request: Request, action: Action = "interrupt") -> Response:
    """Cancel several runs; those that have ended are skipped. 404 if there are none."""
    ctx = app_context(request)
    if not body.status and not (body.thread_id and body.run_ids):
        raise Invalid("it is not said which runs to cancel", remedy="send thread_id and run_ids, or status")
    for run in await _runs_to_cancel(ctx, current_owner(request), body):
        await ctx.worker.cancel(run.thread, run.id, action)
    return Response(status_code=204)


@router.get("/threads/{thread_id}/runs", responses=read_responses(RUNS))
@with_policy(LANGGRAPH_READ)
async def list_runs(
    thread_id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"] | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """List a thread's runs, newest first."""
    ctx = app_context(request)
    await threads.get(ctx.storage, thread_id, current_owner(request))
    if status is None:
        runs = await ctx.worker.runs.list_runs(thread_id, offset, limit)
    else:
        runs = await ctx.worker.runs.list_with_status(thread_id, status, offset, limit)
    views = [run_view(run) for run in runs]
    if names := run_streams.expand_query(select):
        _require_run_fields(names)
        views = [{name: view[name] for name in names} for view in views]
    return JsonReply(views)


def _require_run_fields(names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in RUN_FIELDS]:
        raise Invalid(
            f"a run has no field {unknown[0][:40]!r}", remedy=f"select from {', '.join(RUN_FIELDS)}"
        )


@router.get("/threads/{thread_id}/runs/{run_id}", responses=_READ)
@with_policy(LANGGRAPH_READ)
async def get_run(thread_id: str, run_id: str, request: Request) -> Response:
    """Get a run."""
    return JsonReply(run_view(await _run(request, run_id, thread_id)))


@router.get("/runs/{run_id}", responses=_READ)
@with_policy(LANGGRAPH_READ)
async def get_stateless_run(run_id: str, request: Request) -> Response:
    """Get a stateless run. If its thread is not kept, it is deleted a minute after its end."""
    return JsonReply(run_view(await _run(request, run_id)))


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204, responses=write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def delete_run(thread_id: str, run_id: str, request: Request) -> Response:
    """Delete the record of a run; an unfinished one is cancelled first. Its effects on the thread stay."""
    ctx, run = app_context(request), await _run(request, run_id, thread_id)
    if run.status not in ENDED:
        await end_run(ctx, run)
    await ctx.worker.runs.delete(run.thread, run.id)
    return Response(status_code=204)


@router.get("/threads/{thread_id}/runs/{run_id}/join", responses=_JOIN)
@with_policy(_JOIN_POLICY)
async def join_run(
    thread_id: str,
    run_id: str,
    request: Request,
    cancel_on_disconnect: _CancelOnDisconnect = False,  # noqa: FBT002
) -> Response:
    """Wait for a run's result."""
    run = await _run(request, run_id, thread_id)
    return _join_reply(app_context(request), run, cancel=cancel_on_disconnect)


@router.get("/runs/{run_id}/join", responses=_JOIN)
@with_policy(LANGGRAPH_READ)
async def join_stateless_run(run_id: str, request: Request) -> Response:
    """Wait for a stateless run's result."""
    return _join_reply(app_context(request), await _run(request, run_id), cancel=False)


@router.get("/threads/{thread_id}/runs/{run_id}/stream", responses=_READ_STREAM)
@with_policy(_JOIN_STREAM_POLICY)
async def join_run_stream(
    thread_id: str,
    run_id: str,
    request: Request,
    last_event_id: _LastEventId = None,
    stream_mode: _Modes = None,
    cancel_on_disconnect: _CancelOnDisconnect = False,  # noqa: FBT002
) -> Response:
    """Stream a run's events, from now on or after `Last-Event-ID`."""
    run = await _run(request, run_id, thread_id)
    modes = run_streams.parse_modes(stream_mode)
    return await _join_stream_reply(
        app_context(request), run, last_event_id, modes, cancel=cancel_on_disconnect
    )


@router.get("/runs/{run_id}/stream", responses=_READ_STREAM)
@with_policy(LANGGRAPH_READ_STREAM)
async def join_stateless_run_stream(
    run_id: str, request: Request, last_event_id: _LastEventId = None, stream_mode: _Modes = None
) -> Response:
    """Stream a stateless run's events, from now on or after `Last-Event-ID`."""
    run = await _run(request, run_id)
    modes = run_streams.parse_modes(stream_mode)
    return await _join_stream_reply(app_context(request), run, last_event_id, modes, cancel=False)


@router.post(
    "/threads/{thread_id}/runs/{run_id}/cancel",
    responses=write_responses(RunCancelled) | {202: {"description": "The run will be cancelled"}},
)
@with_policy(LANGGRAPH_WRITE)
async def cancel_run(
    thread_id: str,
    run_id: str,
    request: Request,
    wait: Annotated[bool, Query(description="Wait until the run has ended")] = False,  # noqa: FBT002
    action: Action = "interrupt",
) -> Response:
    """Cancel a run. With `action=rollback`, its checkpoints and its record are deleted too."""
    ctx, run = app_context(request), await _run(request, run_id, thread_id)
    if not wait:
        await ctx.worker.cancel(run.thread, run.id, action)
        return Response(status_code=202)
    await end_run(ctx, run, action)
    return JsonReply({})


@router.get("/threads/{thread_id}/stream", responses=_READ_STREAM)
@with_policy(LANGGRAPH_READ_STREAM)
async def join_thread_stream(
    thread_id: str,
    request: Request,
    last_event_id: _LastEventId = None,
    stream_mode: _ThreadModes = None,
    stream_modes: _ThreadModes = None,
) -> Response:
    """Stream a thread's events. `stream_mode` and `stream_modes` are the same parameter.

    The event `gap` says that events at this place are not kept any more.
    """
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    if last_event_id in {*run_streams.BEGINNINGS, "-"}:
        after = events.START_ID
    elif last_event_id:
        after = await run_streams.resumed_position(ctx, thread_id, last_event_id)
    else:
        after = await events.newest_id(ctx.storage, thread_id)
    modes = {*(stream_mode or ()), *(stream_modes or ())} or {"run_modes"}
    return event_stream_reply(run_streams.stream_thread(ctx, record, after, modes))


def _ids(batch: str) -> Iterator[str]:
    """Yield the ids of a batch's runs."""
    return (str(uuid.uuid5(uuid.UUID(batch), str(number))) for number in itertools.count())


async def start_batch(
    ctx: AppContext, owner: str, bodies: Sequence[BatchRunCreate], ids: Iterator[str]
) -> list[StartedRun]:
    """Record the runs in order and submit them, or none of them.

    Raises `TooLarge` for a batch over the limit, and `Invalid` naming the first invalid run. Errors that only
    recording reveals (a busy thread, a storage outage) are raised as they are, and leave the earlier runs.
    """
    if len(bodies) > (limit := ctx.settings.max_batch_runs):
        raise TooLarge(
            f"a batch of {len(bodies)} runs is over the limit of {limit}",
            remedy="send fewer at a time, or raise CALLSHEET_MAX_BATCH_RUNS",
        )
    return [await record_run(ctx, run) for run in await _validate_batch(ctx, owner, bodies, ids)]


async def _validate_batch(
    ctx: AppContext, owner: str, bodies: Sequence[BatchRunCreate], ids: Iterator[str]
) -> list[ValidatedRun]:
    results = await asyncio.gather(
        *(validate_run(ctx, owner, body.thread_id or None, body, next(ids)) for body in bodies),
        return_exceptions=True,
    )
    validated: list[ValidatedRun] = []
    graphs: dict[str, str] = {}
    answered: set[tuple[str, str]] = set()
    for number, result in enumerate(results, 1):
        try:
            if isinstance(result, BaseException):
                raise result
            require_callable(result.body.webhook, allow_private=ctx.settings.webhook_private)
            _check_against_earlier(ctx, result, graphs, answered)
        except Refused as error:
            raise Invalid(
                f"run {number} of {len(bodies)}: {error.message}",
                remedy="; ".join(part for part in (error.remedy, "no run was created") if part),
            ) from error
        graphs[result.request.thread] = result.request.graph
        answered |= _interrupts(result)
        validated.append(result)
    return validated


def _check_against_earlier(
    ctx: AppContext, run: ValidatedRun, graphs: Mapping[str, str], answered: Collection[tuple[str, str]]
) -> None:
    """Raise `Conflict` if an earlier run of the batch makes this one impossible."""
    thread, graph = run.request.thread, run.request.graph
    require_one_workflow(ctx, thread, graphs.get(thread, graph), graph)
    if any(interrupt in answered for interrupt in _interrupts(run)):
        raise Conflict(f"an earlier run answers the same interrupt of thread {run.request.thread!r}")


def _interrupts(run: ValidatedRun) -> set[tuple[str, str]]:
    return {(run.request.thread, question) for question in run.request.questions}


async def _run(request: Request, run_id: str, thread_id: str | None = None) -> Run:
    """Return the caller's run; a stateless run needs no thread id. Raises `Missing`."""
    ctx, owner = app_context(request), current_owner(request)
    if thread_id not in {None, run_id}:
        # Check the thread first: the reply must not reveal runs on another owner's thread.
        await threads.get(ctx.storage, str(thread_id), owner)
        return await ctx.worker.runs.get(str(thread_id), run_id)
    # A temporary thread has its run's id, and no record.
    for thread in stateless_thread_ids(run_id) if thread_id is None else (run_id,):
        with suppress(Missing):
            if (run := await ctx.worker.runs.get(thread, run_id)).owner == owner:
                return run
    raise Missing(f"there is no run {run_id[:255]!r}", remedy="check the id; stateless runs are not kept")


async def _runs_to_cancel(ctx: AppContext, owner: str, body: RunsCancel) -> list[Run]:
    if body.thread_id and body.run_ids:
        await threads.get(ctx.storage, body.thread_id, owner)
        chosen = await ctx.worker.runs.get_many(body.thread_id, list(dict.fromkeys(body.run_ids)))
        # The newest first, so that none of them starts meanwhile.
        chosen.sort(key=lambda run: run.created_ms, reverse=True)
    else:
        runs = await ctx.worker.runs.open_runs(owner, body.thread_id)
        chosen = [run for run in runs if body.status in {"all", run.status}]
    if not chosen:
        raise Missing("there are no such runs to cancel", remedy="list the thread's runs")
    return chosen


async def _created_view(ctx: AppContext, started: StartedRun) -> JsonObject:
    """Return a new run, always as pending: LangGraph's clients expect that of a run just created."""
    try:
        record = await ctx.worker.runs.get(started.thread, started.run)
    except Missing:
        # A run created later has rolled this one back already.
        if started.request is None:
            raise
        record = started.request.to_run()
    return run_view(replace(record, status="pending"))


async def _start(request: Request, thread_id: str | None, body: RunCreate) -> StartedRun | Run:
    """Record a run and submit it, or return the run of the same idempotency key."""
    ctx, owner = app_context(request), current_owner(request)
    return await create_once(
        request,
        body,
        lambda run_id: start_run(ctx, owner, thread_id, body, run_id),
        lambda run_id: _run(request, run_id, thread_id),
        path=f"/threads/{thread_id}/runs" if thread_id else "/runs",
    )


async def _create_reply(request: Request, thread_id: str | None, body: RunCreate) -> Response:
    ctx, run = app_context(request), await _start(request, thread_id, body)
    started = _started_run(run, "") if isinstance(run, Run) else run
    return JsonReply(await _created_view(ctx, started), headers={"Content-Location": started.path})


async def _create_and_stream_reply(request: Request, thread_id: str | None, body: RunCreate) -> Response:
    await app_context(request).worker.require_executor()
    ctx, run = app_context(request), await _start(request, thread_id, body)
    cancel = body.on_disconnect == "cancel"
    if isinstance(run, Run):
        return await _join_stream_reply(ctx, run, run_streams.BEGINNING, [], cancel=cancel)
    return _stream_reply(ctx, run, cancel=cancel)


async def _create_and_wait_reply(request: Request, thread_id: str | None, body: RunCreate) -> Response:
    await app_context(request).worker.require_executor()
    ctx, run = app_context(request), await _start(request, thread_id, body)
    cancel = body.on_disconnect == "cancel"
    if isinstance(run, Run):
        return _join_reply(ctx, run, cancel=cancel)
    return _wait_reply(ctx, run, cancel=cancel)


def _stream_reply(
    ctx: AppContext,
    started: StartedRun,
    modes: Collection[str] = (),
    *,
    cancel: bool,
    beginning_of: Run | None = None,
) -> Response:
    stream = run_streams.stream_run(ctx, started, modes, beginning_of)
    reply = event_stream_reply(stream, started.path)
    reply.on_disconnect = _canceller(ctx, started) if cancel else None
    return reply


def _wait_reply(ctx: AppContext, started: StartedRun, *, cancel: bool) -> Response:
    reply = run_streams.LongPollReply(partial(run_streams.wait_for_result, ctx, started), started.path)
    reply.on_disconnect = _canceller(ctx, started) if cancel else None
    return reply


def _join_reply(ctx: AppContext, run: Run, *, cancel: bool) -> Response:
    started = _started_run(run, run_streams.id_before_run(run))
    if run.status in ENDED:
        return run_streams.LongPollReply(partial(run_streams.result_of_ended_run, ctx, started), started.path)
    return _wait_reply(ctx, started, cancel=cancel)


async def _join_stream_reply(
    ctx: AppContext, run: Run, last_id: str | None, modes: list[str], *, cancel: bool
) -> Response:
    since = await run_streams.resume_id(ctx, last_id, run)
    beginning_of = run if since == run_streams.id_before_run(run) else None
    if run.status in ENDED:
        started = _started_run(run, since or events.START_ID)
        if since is None:
            return event_stream_reply(run_streams.empty_stream(), started.path)
        return event_stream_reply(run_streams.replay_run(ctx, started, modes, beginning_of), started.path)
    if since is None:
        since = await events.newest_id(ctx.storage, run.thread)
        # The run may have ended after it was read; then its end is not after `since`.
        run = await ctx.worker.runs.get(run.thread, run.id)
        if run.status in ENDED:
            return event_stream_reply(run_streams.empty_stream(), _started_run(run, since).path)
    return _stream_reply(ctx, _started_run(run, since), modes, cancel=cancel, beginning_of=beginning_of)


def _started_run(run: Run, since: str) -> StartedRun:
    return StartedRun(run.thread, run.id, since, bool(run.request["resumable"]), run.is_stateless)


def _canceller(ctx: AppContext, started: StartedRun) -> Callable[[], None]:
    return partial(ctx.worker.cancel_later, started.thread, started.run)

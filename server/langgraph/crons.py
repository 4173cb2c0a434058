"""Routes of crons, and the loop that creates their runs when they are due."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from fastapi import APIRouter, Request
from pydantic import AwareDatetime, BaseModel, Field, ValidationError
from starlette.responses import Response

from callsheet.server.engine import background
from callsheet.server.engine.errors import error_message
from callsheet.server.http.auth import current_owner, public_config
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.policy import LANGGRAPH_READ, LANGGRAPH_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import IDEMPOTENT, Flag, StrictRoute, create_once
from callsheet.server.langgraph import inputs, starting
from callsheet.server.langgraph.reply_schemas import CRONS, CronReply
from callsheet.server.langgraph.schemas import (
    JsonObject,
    ListPage,
    RunCreate,
    contains,
    page_reply,
    read_responses,
    select_fields,
    wire_time,
    write_responses,
)
from callsheet.server.langgraph.webhooks import require_callable
from callsheet.state.errors import CallsheetError, Invalid, Missing, Unavailable
from callsheet.storage import crons
from callsheet.storage.crons import Cron, Due
from callsheet.storage.redis import health
from callsheet.storage.threads import threads

router = APIRouter(route_class=StrictRoute, tags=["crons"])
_BATCH: Final = 100
"""Crons that are claimed at once, and fired side by side."""
CHECK_INTERVAL_S: Final = 1.0
"""Seconds between two checks for due crons."""
_SCHEDULE_FIELDS: Final = 5
_CHECKED_TIMES: Final = 64
"""Due times between which the shortest interval is looked for."""
_EXAMPLE: Final = "send five fields, such as '0 9 * * 1-5' for nine o'clock on working days"
_CRON_FIELDS: Final = frozenset(
    {"schedule", "timezone", "end_time", "enabled", "on_run_completed", "metadata", "assistant_id"}
)
"""Fields of a body that belong to the cron; all others belong to its runs."""
_RUN_NAMESPACE: Final = uuid.UUID("5f8b1c5e-6d0e-4c8a-9d55-6f0d4f6a2b11")
"""UUID5 namespace of the runs that crons create."""
_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MINUTE_S: Final = 60
_log = logging.getLogger(__name__)


class CronCreate(RunCreate):
    """New cron and the run it creates."""

    schedule: str = Field(
        max_length=200, description="Five fields of a crontab, with a second as a sixth, or a name: @daily"
    )
    timezone: str | None = Field(None, max_length=100, description="IANA name; UTC by default")
    end_time: AwareDatetime | datetime | None = Field(None, description="UTC unless it has an offset")
    on_run_completed: Literal["delete", "keep"] | None = Field(
        None, description="`delete` by default; a thread stays where its run asks a person"
    )
    enabled: Flag = True


class CronUpdate(CronCreate):
    """Changes to a cron."""

    assistant_id: str = Field("", max_length=255, description="Ignored")
    schedule: str = Field("", max_length=200)


class CronCount(BaseModel):
    """Filter for crons."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: Flag | None = None
    metadata: JsonObject | None = None


class CronSearch(CronCount, ListPage):
    """Filter, order and fields of a search for crons."""

    sort_by: Literal[
        "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time"
    ] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


@router.post("/runs/crons", responses=write_responses(CronReply), openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def create_cron(body: CronCreate, request: Request) -> Response:
    """Create a cron of stateless runs."""
    return JsonReply(await _create(request, body, None))


@router.post(
    "/threads/{thread_id}/runs/crons", responses=write_responses(CronReply), openapi_extra=IDEMPOTENT
)
@with_policy(LANGGRAPH_WRITE)
async def create_thread_cron(thread_id: str, body: CronCreate, request: Request) -> Response:
    """Create a cron of runs on a thread."""
    await threads.get(app_context(request).storage, thread_id, current_owner(request))
    return JsonReply(await _create(request, body, thread_id))


@router.post("/runs/crons/search", responses=write_responses(CRONS))
@with_policy(LANGGRAPH_READ)
async def search_crons(body: CronSearch, request: Request) -> Response:
    """Search crons, newest first by default."""
    ctx = app_context(request)
    views = [await _view(ctx, cron) for cron in await _matching(ctx, current_owner(request), body)]
    views.sort(
        key=lambda view: (view[body.sort_by] or "", view["cron_id"]), reverse=body.sort_order == "desc"
    )
    return page_reply([select_fields(view, body.select) for view in body.cut(views)], body)


@router.post("/runs/crons/count", responses=write_responses(int))
@with_policy(LANGGRAPH_READ)
async def count_crons(body: CronCount, request: Request) -> Response:
    """Count crons."""
    return JsonReply(len(await _matching(app_context(request), current_owner(request), body)))


@router.get("/runs/crons/{cron_id}", responses=read_responses(CronReply))
@with_policy(LANGGRAPH_READ)
async def get_cron(cron_id: str, request: Request) -> Response:
    """Get a cron."""
    ctx = app_context(request)
    return JsonReply(await _view(ctx, await crons.get(ctx.storage, current_owner(request), cron_id)))


@router.patch("/runs/crons/{cron_id}", responses=write_responses(CronReply))
@with_policy(LANGGRAPH_WRITE)
async def update_cron(cron_id: str, body: CronUpdate, request: Request) -> Response:
    """Update a cron. Fields that are not sent keep their values."""
    ctx, owner = app_context(request), current_owner(request)
    require_callable(body.webhook, allow_private=ctx.settings.webhook_private)
    if body.input is not None:
        name = (await crons.get(ctx.storage, owner, cron_id)).assistant
        assistant = await starting.resolve_assistant(ctx, owner, name)
        inputs.check_input(ctx.graphs[assistant.graph_id], body.input)
    now_ms = await _now_ms(ctx)
    cron = await crons.update(
        ctx.storage,
        owner,
        cron_id,
        lambda cron: _require_interval(ctx, _with_changes(cron, body, now_ms)),
        lambda cron: _next_ms(cron, now_ms),
    )
    return JsonReply(await _view(ctx, cron))


@router.delete("/runs/crons/{cron_id}", status_code=204, responses=write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def delete_cron(cron_id: str, request: Request) -> Response:
    """Delete a cron. Runs that it has created continue."""
    ctx = app_context(request)
    await crons.delete(ctx.storage, await crons.get(ctx.storage, current_owner(request), cron_id))
    return Response(status_code=204)


def next_due_ms(schedule: str, timezone: str | None, after_ms: int, end_ms: int | None = None) -> int | None:
    """Return a schedule's next due time in milliseconds since the epoch; None for never.

    Raises `Invalid` for a malformed schedule and for an unknown time zone.
    """
    after = datetime.fromtimestamp(after_ms / 1000, _zone(timezone))
    due = next(_due_times(schedule, after), None)
    if due is None:
        return None
    ms = int(due.timestamp() * 1000)
    return ms if end_ms is None or ms <= end_ms else None


def _due_times(schedule: str, after: datetime) -> Iterator[datetime]:
    """Return a schedule's due times after a time; raises `Invalid` for a malformed schedule."""
    fields = _ALIASES.get(schedule.strip().casefold(), schedule).split()
    # As LangGraph's server, the sixth field are the seconds.
    second = fields.pop() if len(fields) == _SCHEDULE_FIELDS + 1 else "0"
    if len(fields) != _SCHEDULE_FIELDS:
        raise Invalid(f"schedule {schedule[:80]!r} does not have five fields", remedy=_EXAMPLE)
    if not (second.isascii() and second.isdecimal() and int(second) < _MINUTE_S):
        raise Invalid(
            f"schedule {schedule[:80]!r}: the sixth field, the second, is {second!r}",
            remedy="send one number from 0 to 59, or five fields",
        )
    offset = timedelta(seconds=int(second))
    try:
        return (due + offset for due in CronSim(" ".join(fields), after - offset))
    except CronSimError as error:
        raise Invalid(f"schedule {schedule[:80]!r}: {error}".rstrip(": "), remedy=_EXAMPLE) from None


def _require_interval(ctx: AppContext, cron: Cron) -> Cron:
    """Return the cron; raises `Invalid` if it is malformed, or due more often than the settings allow."""
    shortest_s = ctx.settings.cron_interval_s
    due = islice(_due_times(cron.schedule, datetime.now(_zone(cron.timezone))), _CHECKED_TIMES)
    gap_s = min(
        (after.timestamp() - before.timestamp() for before, after in pairwise(due)), default=shortest_s
    )
    if gap_s < shortest_s:
        raise Invalid(
            f"schedule {cron.schedule!r} is due every {gap_s:g} s, and the shortest is {shortest_s:g}",
            remedy="choose a longer interval, or lower CALLSHEET_CRON_INTERVAL_S",
        )
    return cron


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"there is no time zone {name[:80]!r}", remedy="use one such as Europe/Paris") from None


def start_firing(ctx: AppContext) -> Callable[[], Awaitable[object]]:
    """Start the loop that fires due crons, and return the function that stops it."""
    return background.start_periodic(lambda: fire_due(ctx), CHECK_INTERVAL_S, "crons do not fire")


async def fire_due(ctx: AppContext, until_ms: int | None = None) -> int:
    """Create one run for every cron that is due, and return the number of crons fired here.

    A cron that came due several times while no process was running fires once. `until_ms` replaces the time
    of Redis.
    """
    count = 0
    while True:
        now_ms, batch = await crons.claim_due(ctx.storage, _BATCH, until_ms)
        if not batch:
            return count
        results = await asyncio.gather(*(_fire(ctx, due, now_ms) for due in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            count += result


async def _fire(ctx: AppContext, due: Due, now_ms: int) -> bool:
    try:
        cron = await crons.get(ctx.storage, due.owner, due.id)
    except Missing:
        await crons.reschedule(ctx.storage, due, None)
        return False
    try:
        # The run's id is derived from the due time: a process that fires after this one died before
        # rescheduling creates the same run.
        await _start_run(ctx, cron, due)
    except Unavailable:
        await crons.release(ctx.storage, due)
        raise
    return await crons.reschedule(ctx.storage, due, _next_ms(cron, now_ms))


async def _start_run(ctx: AppContext, cron: Cron, due: Due) -> None:
    run = str(uuid.uuid5(_RUN_NAMESPACE, f"{cron.id} {due.due_ms}"))
    try:
        body = RunCreate(
            **{**cron.payload, "assistant_id": cron.assistant, "metadata": dict(cron.metadata)},
            on_completion=cron.on_run_completed,
        )
        # One whose webhook is not allowed any more runs all the same; the call is refused, and logged.
        validated = await starting.validate_run(ctx, cron.owner, cron.thread, body, run, unwatched=True)
        await starting.record_run(ctx, validated)
    except Unavailable:
        raise
    except (CallsheetError, ValidationError) as error:
        about = {"owner": cron.owner, "kind": type(error).__name__}
        _log.warning(
            "cron %s created no run at %s: %s",
            cron.id,
            wire_time(due.due_ms),
            error_message(error),
            extra=about,
        )


async def _create(request: Request, body: CronCreate, thread: str | None) -> JsonObject:
    ctx, owner = app_context(request), current_owner(request)
    cron = await create_once(
        request,
        body,
        lambda cron_id: _store(ctx, owner, body, thread, cron_id),
        lambda cron_id: crons.get(ctx.storage, owner, cron_id),
    )
    return await _view(ctx, cron)


async def _store(ctx: AppContext, owner: str, body: CronCreate, thread: str | None, cron_id: str) -> Cron:
    require_callable(body.webhook, allow_private=ctx.settings.webhook_private)
    assistant = await starting.resolve_assistant(ctx, owner, body.assistant_id)
    inputs.check_input(ctx.graphs[assistant.graph_id], body.input)
    now_ms = await _now_ms(ctx)
    cron = Cron(
        cron_id,
        owner,
        assistant.assistant_id,
        body.schedule,
        _run_payload(body),
        now_ms,
        now_ms,
        thread,
        body.timezone,
        _end_ms(body.end_time, now_ms),
        body.enabled,
        body.metadata or {},
        body.on_run_completed,
    )
    _require_interval(ctx, cron)
    await crons.create(ctx.storage, cron, _next_ms(cron, now_ms), ctx.settings.crons_per_owner)
    return cron


def _with_changes(cron: Cron, body: CronUpdate, now_ms: int) -> Cron:
    names = {"timezone", "enabled", "on_run_completed"} & body.model_fields_set
    changes: JsonObject = {name: getattr(body, name) for name in names}
    if body.schedule:
        changes["schedule"] = body.schedule
    if "end_time" in body.model_fields_set:
        changes["end_ms"] = _end_ms(body.end_time, now_ms)
    if body.metadata is not None:
        changes["metadata"] = body.metadata
    return replace(cron, **changes, payload={**cron.payload, **_run_payload(body)}, updated_ms=now_ms)


def _run_payload(body: CronCreate) -> JsonObject:
    # Refuse now what each run would be refused for, while the caller can still read the error.
    public_config(body.config or {})
    return body.model_dump(exclude_unset=True, exclude={*_CRON_FIELDS})


def _next_ms(cron: Cron, after_ms: int) -> int | None:
    next_ms = next_due_ms(cron.schedule, cron.timezone, after_ms, cron.end_ms)
    return next_ms if cron.enabled else None


async def _matching(ctx: AppContext, owner: str, query: CronCount) -> list[Cron]:
    return [
        cron
        for cron in await crons.list_crons(ctx.storage, owner)
        if query.assistant_id in {None, cron.assistant}
        and query.thread_id in {None, cron.thread}
        and query.enabled in {None, cron.enabled}
        and contains(cron.metadata, query.metadata)
    ]


async def _view(ctx: AppContext, cron: Cron) -> JsonObject:
    next_ms = await crons.next_ms(ctx.storage, cron)
    return {
        "cron_id": cron.id,
        "assistant_id": cron.assistant,
        "thread_id": cron.thread,
        "on_run_completed": cron.on_run_completed,
        "end_time": None if cron.end_ms is None else wire_time(cron.end_ms),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "created_at": wire_time(cron.created_ms),
        "updated_at": wire_time(cron.updated_ms),
        "payload": {**cron.payload, "assistant_id": cron.assistant},
        "user_id": cron.owner,
        "next_run_date": None if next_ms is None else wire_time(next_ms),
        "metadata": cron.metadata,
        "enabled": cron.enabled,
    }


def _end_ms(end_time: datetime | None, now_ms: int) -> int | None:
    """Return the time in milliseconds since the epoch; raise `Invalid` if it has passed."""
    if end_time is None:
        return None
    aware = end_time if end_time.tzinfo else end_time.replace(tzinfo=UTC)
    end_ms = int(aware.timestamp() * 1000)
    if end_ms <= now_ms:
        raise Invalid(
            f"end_time {aware.isoformat()} has passed, so no run would start",
            remedy="send a later time, or leave it out; an existing cron is stopped with enabled: false",
        )
    return end_ms


async def _now_ms(ctx: AppContext) -> int:
    """Return Redis' time, by which crons fire: clocks of servers differ."""
    return int(await health.server_time_s(ctx.storage.redis) * 1000)

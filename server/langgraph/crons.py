"""Crons: schedules by which runs start."""

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from fastapi import APIRouter, Request
from pydantic import AwareDatetime, BaseModel, Field, ValidationError
from starlette.responses import Response

from callsheet.server.ads.bodies import Flag, StrictRoute
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.auth import public_config
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph import starting
from callsheet.server.langgraph.bodies import Page, contains, page_reply
from callsheet.server.langgraph.run_bodies import RunCreate
from callsheet.server.langgraph.shapes import WireJsonReply, iso_time, select_fields
from callsheet.server.langgraph.webhooks import checked_url
from callsheet.server.runtime import background
from callsheet.state.errors import CallsheetError, Invalid, Missing, Unavailable
from callsheet.storage import crons
from callsheet.storage.crons import Cron, Due
from callsheet.storage.threads import records as thread_records

_EXAMPLE: Final = "send five fields, such as '0 9 * * 1-5' for nine o'clock on working days"


def next_due_ms(schedule: str, timezone: str | None, after_ms: int, end_ms: int | None = None) -> int | None:
    """Return when a schedule is due next after a time, in milliseconds of the epoch; None for never.

    Raises `Invalid` for what is no schedule, and for a place there is none of.
    """
    after = datetime.fromtimestamp(after_ms / 1000, _zone(timezone))
    try:
        found = next(CronSim(schedule, after), None)
    except CronSimError as error:
        raise Invalid(f"schedule {schedule[:80]!r}: {error}".rstrip(": "), remedy=_EXAMPLE) from None
    if found is None:
        return None
    ms = int(found.timestamp() * 1000)
    return ms if end_ms is None or ms <= end_ms else None


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"there is no time zone {name[:80]!r}", remedy="use one such as Europe/Paris") from None


router = APIRouter(route_class=StrictRoute, tags=["crons"])
EVERY_S: Final = 1.0
"""Seconds between two looks for what is due."""
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]
_OWN: Final = frozenset({"schedule", "timezone", "end_time", "enabled", "on_run_completed", "metadata"})
_CRON: Final = documented_wire_responses(*_WRITE, reply=_Object)
_SPACE: Final = uuid.UUID("5f8b1c5e-6d0e-4c8a-9d55-6f0d4f6a2b11")
"""What the ids of runs that schedules start are derived in."""
_log = logging.getLogger(__name__)


class _When(BaseModel):
    timezone: str | None = Field(None, max_length=100, description="IANA name; UTC where there is none")
    end_time: AwareDatetime | datetime | None = Field(None, description="UTC unless it says otherwise")
    on_run_completed: Literal["delete", "keep"] | None = None


class CronCreate(RunCreate, _When):
    """A schedule, and the run it starts."""

    schedule: str = Field(max_length=200, description="Five fields of a crontab")
    enabled: Flag = True


class CronUpdate(CronCreate):
    """What is to change of a schedule."""

    assistant_id: str = Field("", max_length=255, description="Stays as it is")
    schedule: str = Field("", max_length=200)


class CronCount(BaseModel):
    """Which schedules are meant."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: Flag | None = None
    metadata: _Object | None = None


class CronSearch(CronCount, Page):
    """Which schedules, in which order, and what of them."""

    sort_by: Literal[
        "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time"
    ] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


@router.post("/runs/crons", responses=_CRON, response_model=None)
async def create_cron(body: CronCreate, request: Request) -> Response:
    """Make a schedule, every run of which has a thread of its own."""
    return WireJsonReply(await _made(request, body, None))


@router.post("/threads/{thread_id}/runs/crons", responses=_CRON, response_model=None)
async def create_thread_cron(thread_id: str, body: CronCreate, request: Request) -> Response:
    """Make a schedule of runs on a thread."""
    await thread_records.get(app_context(request).storage, thread_id, current_owner(request))
    return WireJsonReply(await _made(request, body, thread_id))


@router.post(
    "/runs/crons/search",
    responses=documented_wire_responses(*_WRITE, reply=list[_Object]),
    response_model=None,
)
async def search_crons(body: CronSearch, request: Request) -> Response:
    """List schedules, newest first unless told otherwise."""
    here = app_context(request)
    found = [await _shown(here, cron) for cron in await _found(here, current_owner(request), body)]
    found.sort(key=lambda one: (one[body.sort_by] or "", one["cron_id"]), reverse=body.sort_order == "desc")
    shown = found[body.offset : body.offset + body.limit + 1]
    return page_reply([select_fields(one, body.select) for one in shown], body)


@router.post(
    "/runs/crons/count", responses=documented_wire_responses(*_WRITE, reply=int), response_model=None
)
async def count_crons(body: CronCount, request: Request) -> Response:
    """Count schedules."""
    return WireJsonReply(len(await _found(app_context(request), current_owner(request), body)))


@router.get(
    "/runs/crons/{cron_id}", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None
)
async def get_cron(cron_id: str, request: Request) -> Response:
    """Show a schedule."""
    here = app_context(request)
    return WireJsonReply(await _shown(here, await crons.get(here.storage, current_owner(request), cron_id)))


@router.patch("/runs/crons/{cron_id}", responses=_CRON, response_model=None)
async def update_cron(cron_id: str, body: CronUpdate, request: Request) -> Response:
    """Change a schedule; what is not sent stays."""
    here = app_context(request)
    cron = await crons.update(
        here.storage,
        current_owner(request),
        cron_id,
        lambda before: _changed(before, body),
        lambda cron: _next(cron, _now_ms()),
    )
    return WireJsonReply(await _shown(here, cron))


@router.delete(
    "/runs/crons/{cron_id}",
    status_code=204,
    responses=documented_wire_responses(*_WRITE, reply=None, status=204),
)
async def delete_cron(cron_id: str, request: Request) -> Response:
    """Take a schedule away; runs it has started go on."""
    here = app_context(request)
    await crons.delete(here.storage, await crons.get(here.storage, current_owner(request), cron_id))
    return Response(status_code=204)


def start_firing(here: AppContext) -> Callable[[], Awaitable[object]]:
    """Begin to fire what is due, and return what ends that."""
    return background.start_periodic(lambda: fire_due(here, _now_ms()), EVERY_S, "schedules wait")


async def fire_due(here: AppContext, now_ms: int) -> int:
    """Start a run for every schedule that is due by then, once for each; return how many this call started.

    What came due while no process was there is started once, however often it was.
    """
    fired = 0
    for due in await crons.due(here.storage, now_ms):
        try:
            cron = await crons.get(here.storage, due.owner, due.id)
        except Missing:
            await crons.reschedule(here.storage, due, None)
            continue
        # The run's id is the firing's: whoever else starts it at the same moment starts the same run, and
        # one that dies before the schedule is moved has lost nothing.
        await _started(here, cron, due)
        fired += await crons.reschedule(here.storage, due, _next(cron, now_ms))
    return fired


async def _started(here: AppContext, cron: Cron, due: Due) -> None:
    run = str(uuid.uuid5(_SPACE, f"{cron.id} {due.ms}"))
    try:
        body = RunCreate(
            **{**cron.payload, "assistant_id": cron.assistant, "metadata": dict(cron.metadata)},
            on_completion=cron.on_run_completed,
        )
        if cron.thread is None:
            await starting.start_stateless(here, cron.owner, body, run)
        else:
            await starting.start_on_thread(here, cron.owner, cron.thread, body, run)
    except Unavailable:
        raise
    except (CallsheetError, ValidationError) as error:
        _log.warning("cron %s started nothing at %s: %s", cron.id, iso_time(due.ms), error)


async def _made(request: Request, body: CronCreate, thread: str | None) -> _Object:
    here, who = app_context(request), current_owner(request)
    chosen = await starting.resolve_assistant(here, who, body.assistant_id)
    now = _now_ms()
    cron = Cron(
        str(uuid.uuid4()),
        who,
        chosen.assistant_id,
        body.schedule,
        _payload(body),
        now,
        now,
        thread,
        body.timezone,
        _ms(body.end_time),
        body.enabled,
        body.metadata or {},
        body.on_run_completed,
    )
    await crons.create(here.storage, cron, _next(cron, now))
    return await _shown(here, cron)


def _changed(before: Cron, body: CronUpdate) -> Cron:
    sent = body.model_fields_set
    own: _Object = {
        name: getattr(body, name) for name in ("timezone", "enabled", "on_run_completed") if name in sent
    }
    if body.schedule:
        own["schedule"] = body.schedule
    if "end_time" in sent:
        own["end_ms"] = _ms(body.end_time)
    if body.metadata is not None:
        own["metadata"] = body.metadata
    payload = {**before.payload, **_payload(body)}
    return replace(before, **own, payload=payload, updated_ms=_now_ms())


def _payload(body: CronCreate) -> _Object:
    # What a run would be refused for is refused now, while somebody is there to be told.
    if body.webhook:
        checked_url(body.webhook)
    public_config(body.config or {})
    return body.model_dump(exclude_unset=True, exclude={*_OWN, "assistant_id"})


def _next(cron: Cron, after_ms: int) -> int | None:
    found = next_due_ms(cron.schedule, cron.timezone, after_ms, cron.end_ms)
    return found if cron.enabled else None


async def _found(here: AppContext, who: str, wanted: CronCount) -> list[Cron]:
    return [
        cron
        for cron in await crons.list_crons(here.storage, who)
        if wanted.assistant_id in {None, cron.assistant}
        and wanted.thread_id in {None, cron.thread}
        and wanted.enabled in {None, cron.enabled}
        and contains(cron.metadata, wanted.metadata)
    ]


async def _shown(here: AppContext, cron: Cron) -> _Object:
    next_ms = await crons.next_ms(here.storage, cron)
    return {
        "cron_id": cron.id,
        "assistant_id": cron.assistant,
        "thread_id": cron.thread,
        "on_run_completed": cron.on_run_completed,
        "end_time": None if cron.end_ms is None else iso_time(cron.end_ms),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "created_at": iso_time(cron.created_ms),
        "updated_at": iso_time(cron.updated_ms),
        "payload": _with(cron.payload, cron.assistant),
        "user_id": cron.owner,
        "next_run_date": None if next_ms is None else iso_time(next_ms),
        "metadata": cron.metadata,
        "enabled": cron.enabled,
    }


def _with(payload: Mapping[str, Any], assistant: str) -> _Object:
    return {**payload, "assistant_id": assistant}


def _ms(given: datetime | None) -> int | None:
    if given is None:
        return None
    aware = given if given.tzinfo else given.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def _now_ms() -> int:
    return int(time.time() * 1000)

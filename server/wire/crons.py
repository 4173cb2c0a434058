"""Schedules by which runs start: made, listed, changed, taken away, and fired."""

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import AwareDatetime, BaseModel, Field, ValidationError
from starlette.responses import Response

from server import repeating
from server.api.bodies import Flag, StrictRoute
from server.auth import public_config
from server.origins import owner
from server.parts import Parts, parts
from server.problems import documented_wire
from server.wire import starting
from server.wire.bodies import Page
from server.wire.cron_times import following
from server.wire.matching import contains
from server.wire.paging import paged
from server.wire.run_bodies import RunBody
from server.wire.shapes import Wire, selected, when
from server.wire.webhooks import checked
from state.errors import CallsheetError, Missing, Unavailable
from storage import crons, thread_records
from storage.crons import Cron, Due

router = APIRouter(route_class=StrictRoute, tags=["crons"])
EVERY_S: Final = 1.0
"""Seconds between two looks for what is due."""
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]
_OWN: Final = frozenset({"schedule", "timezone", "end_time", "enabled", "on_run_completed", "metadata"})
_CRON: Final = documented_wire(*_WRITE, reply=_Object)
_SPACE: Final = uuid.UUID("5f8b1c5e-6d0e-4c8a-9d55-6f0d4f6a2b11")
"""What the ids of runs that schedules start are derived in."""
_log = logging.getLogger(__name__)


class _When(BaseModel):
    timezone: str | None = Field(None, max_length=100, description="IANA name; UTC where there is none")
    end_time: AwareDatetime | datetime | None = Field(None, description="UTC unless it says otherwise")
    on_run_completed: Literal["delete", "keep"] | None = None


class CronBody(RunBody, _When):
    """A schedule, and the run it starts."""

    schedule: str = Field(max_length=200, description="Five fields of a crontab")
    enabled: Flag = True


class ChangeBody(CronBody):
    """What is to change of a schedule."""

    assistant_id: str = Field("", max_length=255, description="Stays as it is")
    schedule: str = Field("", max_length=200)


class CountBody(BaseModel):
    """Which schedules are meant."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: Flag | None = None
    metadata: _Object | None = None


class SearchBody(CountBody, Page):
    """Which schedules, in which order, and what of them."""

    sort_by: Literal[
        "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time"
    ] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


@router.post("/runs/crons", responses=_CRON, response_model=None)
async def create(body: CronBody, request: Request) -> Response:
    """Make a schedule, every run of which has a thread of its own."""
    return Wire(await _made(request, body, None))


@router.post("/threads/{thread_id}/runs/crons", responses=_CRON, response_model=None)
async def create_for_thread(thread_id: str, body: CronBody, request: Request) -> Response:
    """Make a schedule of runs on a thread."""
    await thread_records.get(parts(request).storage, thread_id, owner(request))
    return Wire(await _made(request, body, thread_id))


@router.post(
    "/runs/crons/search", responses=documented_wire(*_WRITE, reply=list[_Object]), response_model=None
)
async def search(body: SearchBody, request: Request) -> Response:
    """List schedules, newest first unless told otherwise."""
    here = parts(request)
    found = [await _shown(here, cron) for cron in await _found(here, owner(request), body)]
    found.sort(key=lambda one: (one[body.sort_by] or "", one["cron_id"]), reverse=body.sort_order == "desc")
    shown = found[body.offset : body.offset + body.limit + 1]
    return paged([selected(one, body.select) for one in shown], body)


@router.post("/runs/crons/count", responses=documented_wire(*_WRITE, reply=int), response_model=None)
async def count(body: CountBody, request: Request) -> Response:
    """Count schedules."""
    return Wire(len(await _found(parts(request), owner(request), body)))


@router.get("/runs/crons/{cron_id}", responses=documented_wire(*_READ, reply=_Object), response_model=None)
async def get(cron_id: str, request: Request) -> Response:
    """Show a schedule."""
    here = parts(request)
    return Wire(await _shown(here, await crons.get(here.storage, owner(request), cron_id)))


@router.patch("/runs/crons/{cron_id}", responses=_CRON, response_model=None)
async def update(cron_id: str, body: ChangeBody, request: Request) -> Response:
    """Change a schedule; what is not sent stays."""
    here = parts(request)
    cron = await crons.change(
        here.storage,
        owner(request),
        cron_id,
        lambda before: _changed(before, body),
        lambda cron: _next(cron, _now_ms()),
    )
    return Wire(await _shown(here, cron))


@router.delete(
    "/runs/crons/{cron_id}", status_code=204, responses=documented_wire(*_WRITE, reply=None, status=204)
)
async def delete(cron_id: str, request: Request) -> Response:
    """Take a schedule away; runs it has started go on."""
    here = parts(request)
    await crons.remove(here.storage, await crons.get(here.storage, owner(request), cron_id))
    return Response(status_code=204)


def begun(here: Parts) -> Callable[[], Awaitable[object]]:
    """Begin to fire what is due, and return what ends that."""
    return repeating.begun(lambda: fire(here, _now_ms()), EVERY_S, "schedules wait")


async def fire(here: Parts, now_ms: int) -> int:
    """Start a run for every schedule that is due by then, once for each; return how many this call started.

    What came due while no process was there is started once, however often it was.
    """
    fired = 0
    for due in await crons.due(here.storage, now_ms):
        try:
            cron = await crons.get(here.storage, due.owner, due.id)
        except Missing:
            await crons.move(here.storage, due, None)
            continue
        # The run's id is the firing's: whoever else starts it at the same moment starts the same run, and
        # one that dies before the schedule is moved has lost nothing.
        await _started(here, cron, due)
        fired += await crons.move(here.storage, due, _next(cron, now_ms))
    return fired


async def _started(here: Parts, cron: Cron, due: Due) -> None:
    run = str(uuid.uuid5(_SPACE, f"{cron.id} {due.ms}"))
    try:
        body = RunBody(
            **{**cron.payload, "assistant_id": cron.assistant, "metadata": dict(cron.metadata)},
            on_completion=cron.on_run_completed,
        )
        if cron.thread is None:
            await starting.alone(here, cron.owner, body, run)
        else:
            await starting.on_thread(here, cron.owner, cron.thread, body, run)
    except Unavailable:
        raise
    except (CallsheetError, ValidationError) as error:
        _log.warning("cron %s started nothing at %s: %s", cron.id, when(due.ms), error)


async def _made(request: Request, body: CronBody, thread: str | None) -> _Object:
    here, who = parts(request), owner(request)
    chosen = await starting.assistant(here, who, body.assistant_id)
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
    await crons.put(here.storage, cron, _next(cron, now))
    return await _shown(here, cron)


def _changed(before: Cron, body: ChangeBody) -> Cron:
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


def _payload(body: CronBody) -> _Object:
    # What a run would be refused for is refused now, while somebody is there to be told.
    if body.webhook:
        checked(body.webhook)
    public_config(body.config or {})
    return body.model_dump(exclude_unset=True, exclude={*_OWN, "assistant_id"})


def _next(cron: Cron, after_ms: int) -> int | None:
    found = following(cron.schedule, cron.timezone, after_ms, cron.end_ms)
    return found if cron.enabled else None


async def _found(here: Parts, who: str, wanted: CountBody) -> list[Cron]:
    return [
        cron
        for cron in await crons.of_owner(here.storage, who)
        if wanted.assistant_id in {None, cron.assistant}
        and wanted.thread_id in {None, cron.thread}
        and wanted.enabled in {None, cron.enabled}
        and contains(cron.metadata, wanted.metadata)
    ]


async def _shown(here: Parts, cron: Cron) -> _Object:
    next_ms = await crons.next_ms(here.storage, cron)
    return {
        "cron_id": cron.id,
        "assistant_id": cron.assistant,
        "thread_id": cron.thread,
        "on_run_completed": cron.on_run_completed,
        "end_time": None if cron.end_ms is None else when(cron.end_ms),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "created_at": when(cron.created_ms),
        "updated_at": when(cron.updated_ms),
        "payload": _with(cron.payload, cron.assistant),
        "user_id": cron.owner,
        "next_run_date": None if next_ms is None else when(next_ms),
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

"""Routes of operators for all owners: runs, use of models and the audit. They need the permission `admin`."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from pydantic import Field
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import ModelUse
from callsheet.server.artefacts.views import use_view
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_ADMIN, with_policy
from callsheet.server.http.requests import api_router
from callsheet.server.operations.usage_routes import period
from callsheet.state.errors import Invalid
from callsheet.state.times import iso_time
from callsheet.storage import journals, spending
from callsheet.storage.journals import JournalEntry
from callsheet.storage.redis import caller_keys, health
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import overview
from callsheet.storage.runs.overview import FAILED_STATUSES, RunSummary
from callsheet.storage.runs.records import OPEN_STATUSES
from callsheet.storage.spending import ModelUsage

_DAY_MS: Final = 86_400_000
_READS_AT_ONCE: Final = 4
"""States that are read at once, since each may be large."""
_ACCOUNTS_AT_ONCE: Final = 200
_SCANNED: Final = 1_000
"""Entries of the audit that are read at once."""
_CURSOR: Final = re.compile(r"\A(\d{1,15})-(.{1,255})\Z", re.DOTALL)
_READ: Final = (400, 403, 422, 500, 503, 504)

RunStatus = Literal["pending", "running", "error", "timeout"]
Grouping = Literal["owner", "day", "model"]
router = api_router("/api/admin", "operator")


class OperatorRun(TypedDict):
    """A run of any owner."""

    runId: str
    threadId: str
    graph: str
    owner: str
    status: RunStatus
    createdAt: str
    ageSeconds: float
    """Time since its creation; of a failed run until its failure."""
    attempts: int
    """Attempts that processes have begun."""
    step: int | None
    """Steps that a running run has stored; null before the first one."""
    endedAt: str | None
    """Time of a failure."""
    error: str | None
    """Kind of the error of a failed run."""
    message: str | None


class OperatorRuns(TypedDict):
    """A page of runs, newest first."""

    runs: list[OperatorRun]
    next: str | None


class OwnerUse(ModelUse):
    """Use of models, with what the report is grouped by; null for all."""

    owner: str | None
    day: str | None
    model: str | None


class OperatorUsage(TypedDict):
    """A page of a report on the use of models."""

    rows: list[OwnerUse]
    next: int | None
    total: ModelUse
    """Of all pages."""


@router.get("/runs", responses=documented_responses(*_READ, reply=OperatorRuns))
@with_policy(API_ADMIN)
async def list_all_runs(
    request: Request,
    status: Annotated[
        list[RunStatus] | None, Query(description="Unfinished ones by default: pending and running")
    ] = None,
    since: Annotated[
        datetime | None,
        Query(description="Created since; of failed runs, failed since. A day ago by default"),
    ] = None,
    owner: Annotated[str | None, Query(max_length=255, description="Only this owner's")] = None,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """List the runs of all owners, newest first: unfinished ones, and those that failed in the last week.

    `since` limits unfinished runs only if it is given.
    """
    ctx = app_context(request)
    runs = await _runs(ctx.storage, {*(status or OPEN_STATUSES)}, since)
    runs = sorted((run for run in runs if owner in {None, run.owner}), key=_place, reverse=True)
    if after is not None:
        last = _parse_place(after)
        runs = [run for run in runs if _place(run) < last]
    page = runs[:limit]
    steps = await _steps(ctx, page)
    now_ms = await health.server_time_s(ctx.storage.redis) * 1000
    place = "{}-{}".format(*_place(page[-1])) if len(runs) > limit else None
    return {"runs": [_run_view(run, steps.get(run.id), now_ms) for run in page], "next": place}


async def _runs(storage: Storage, statuses: set[str], since: datetime | None) -> list[RunSummary]:
    since_ms = _ms(since)
    unfinished = await overview.read_open(storage) if statuses & {*OPEN_STATUSES} else []
    runs = [run for run in unfinished if run.status in statuses and run.created_ms >= since_ms]
    if statuses & {*FAILED_STATUSES}:
        now_ms = await health.server_time_s(storage.redis) * 1000
        failed = await overview.read_failures(storage, since_ms or int(now_ms - _DAY_MS))
        # One that failed and was continued is unfinished, and one may have failed more than once.
        known = {(run.thread, run.id) for run in unfinished}
        for run in failed:
            if run.status in statuses and (run.thread, run.id) not in known:
                known.add((run.thread, run.id))
                runs.append(run)
    return runs


def _place(run: RunSummary) -> tuple[int, str]:
    return run.created_ms, run.id


def _parse_place(text: str) -> tuple[int, str]:
    match = _CURSOR.match(text)
    if match is None:
        raise Invalid(f"after {text!r} is no place in the list", remedy="send `next` of the page before")
    return int(match[1]), match[2]


async def _steps(ctx: AppContext, runs: Sequence[RunSummary]) -> dict[str, int]:
    """Return the step of each running run that has stored one, by id."""
    limit = asyncio.Semaphore(_READS_AT_ONCE)

    async def step(run: RunSummary) -> int | None:
        async with limit:
            config = {"configurable": {"thread_id": run.thread, "checkpoint_ns": ""}}
            newest = await ctx.saver.aget_tuple(config)  # type: ignore[arg-type]  # a literal
        own = newest is not None and newest.metadata.get("run_id") == run.id
        return newest.metadata.get("step") if newest and own else None

    running = [run for run in runs if run.status == "running"]
    steps = await asyncio.gather(*(step(run) for run in running))
    return {run.id: number for run, number in zip(running, steps, strict=True) if number is not None}


def _run_view(run: RunSummary, step: int | None, now_ms: float) -> dict[str, Any]:
    return {
        "runId": run.id,
        "threadId": run.thread,
        "graph": run.graph,
        "owner": run.owner,
        "status": run.status,
        "createdAt": iso_time(run.created_ms),
        "ageSeconds": round(max(0, (run.ended_ms or now_ms) - run.created_ms) / 1000, 1),
        "attempts": run.attempts,
        "step": step,
        "endedAt": iso_time(run.ended_ms) if run.ended_ms else None,
        "error": run.error or None,
        "message": run.message or None,
    }


@router.get("/usage", responses=documented_responses(*_READ, reply=OperatorUsage))
@with_policy(API_ADMIN)
async def report_all_usage(
    request: Request,
    by: Annotated[list[Grouping] | None, Query(description="`owner` and `model` by default")] = None,
    first: Annotated[
        date | None, Query(alias="from", description="First day; 30 days before the last by default")
    ] = None,
    last: Annotated[date | None, Query(alias="to", description="Last day; today by default")] = None,
    after: Annotated[int, Query(ge=0, description="`next` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> dict[str, Any]:
    """Show the use of models by all owners: the days (UTC) since this version of the server."""
    names = tuple(by or ("owner", "model"))
    sums: defaultdict[tuple[str | None, ...], ModelUsage] = defaultdict(ModelUsage)
    for (owner, day, model), used in await _uses(app_context(request).storage, *period(first, last)):
        row = {"owner": owner, "day": day, "model": model}
        sums[tuple(row[name] if name in names else None for name in row)] += used
    rows = [
        dict(zip(("owner", "day", "model"), key, strict=True)) | use_view(used)
        for key, used in sorted(sums.items(), key=lambda one: [name or "" for name in one[0]])
    ]
    more = after + limit < len(rows)
    return {
        "rows": rows[after : after + limit],
        "next": after + limit if more else None,
        "total": use_view(sum(sums.values(), ModelUsage())),
    }


class AuditedAction(TypedDict):
    """An action of a person, a program or an operator."""

    id: str
    at: str
    action: str
    """`answer`, `delete`, `thread.export`, `thread.import`, `thread.prune`, `key.create`, `key.rotate`,
    `key.revoke` or `budgets`."""
    target: str
    """Method and path of a request, the thread of an answer, or the id of a key."""
    owner: str
    keyId: str | None
    """API key of the request; null for a token, and without authentication."""
    requestId: str | None
    details: Annotated[dict[str, Any], Field(description="Free: what belongs to the action")]


class AuditedActions(TypedDict):
    """A page of actions, newest first."""

    actions: list[AuditedAction]
    next: str | None


@router.get("/audit", responses=documented_responses(*_READ, reply=AuditedActions))
@with_policy(API_ADMIN)
async def list_audited_actions(
    request: Request,
    since: Annotated[datetime | None, Query(description="Only later ones")] = None,
    action: Annotated[str | None, Query(max_length=40, description="Only these")] = None,
    after: Annotated[
        str | None,
        Query(max_length=40, pattern="^[0-9]{1,15}-[0-9]{1,15}$", description="`next` of the page before"),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """List the actions of the audit, newest first: answers, deletions, keys, budgets, exports and imports."""
    storage, matching = app_context(request).storage, list[JournalEntry]()
    place = after or ""
    while len(matching) <= limit:
        page = await journals.read(
            storage, caller_keys.AUDIT, since_ms=_ms(since), before=place, most=_SCANNED
        )
        matching += [entry for entry in page if action in {None, entry.fields["action"]}]
        if len(page) < _SCANNED:
            break
        place = page[-1].id
    shown = matching[:limit]
    return {
        "actions": [_action_view(entry) for entry in shown],
        "next": shown[-1].id if len(matching) > limit else None,
    }


def _action_view(entry: JournalEntry) -> dict[str, Any]:
    fields = entry.fields
    return {
        "id": entry.id,
        "at": iso_time(entry.at_ms),
        "action": fields["action"],
        "target": fields["target"],
        "owner": fields.get("owner", ""),
        "keyId": fields.get("key_id"),
        "requestId": fields.get("request_id"),
        "details": fields["details"],
    }


def _ms(time: datetime | None) -> int:
    """Return the milliseconds of a time, in UTC where it names no zone; 0 for none, 1 before 1970."""
    return max(1, int(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1000)) if time else 0


async def _uses(storage: Storage, first: date, last: date) -> list[tuple[tuple[str, str, str], ModelUsage]]:
    """Return the use of models by owner, day and model."""
    owners = await spending.read_owners(storage, first, last)
    accounts = [(owner, day) for day, names in owners.items() for owner in names]
    uses = []
    for start in range(0, len(accounts), _ACCOUNTS_AT_ONCE):
        some = accounts[start : start + _ACCOUNTS_AT_ONCE]
        models = await asyncio.gather(*(spending.read_day(storage, owner, day) for owner, day in some))
        uses += [
            ((owner, day.isoformat(), model), used)
            for (owner, day), by_model in zip(some, models, strict=True)
            for model, used in by_model.items()
        ]
    return uses

"""Health and metrics."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NotRequired

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from callsheet import providers
from callsheet.providers.routing import RoutingRequest, outages, route
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import ApiError
from callsheet.server.http.outage import outage_reason
from callsheet.server.http.policy import ErrorForm, OnOutage, RoutePolicy, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.shutdown import Shutdown
from callsheet.server.operations import tool_routes
from callsheet.server.telemetry import telemetry
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.state.errors import CallsheetError
from callsheet.storage.campaigns.index import URL_VARIABLE
from callsheet.storage.campaigns.library import check_libraries
from callsheet.storage.migrations import FORMAT, newer_format, read_format
from callsheet.storage.redis import health as vitals
from callsheet.storage.redis.health import HealthProblem, ServerHealth
from callsheet.storage.runs.records import count_open
from callsheet.storage.tool_admission import Breaker


class ToolHealth(TypedDict):
    """Availability of the tools."""

    available: int
    resting: dict[str, float]
    """Tools whose breaker is open for some owner, with the seconds until they accept calls."""


class StorageHealth(TypedDict):
    """The storage, and where it is."""

    ok: bool
    place: str
    server: NotRequired[str]
    format: NotRequired[int]
    """Number of the data's format."""
    latencyMs: NotRequired[float]


class ProviderHealth(TypedDict):
    """The model provider that answers where a request names none."""

    name: str
    reason: str


class Health(TypedDict):
    """Health of the server."""

    status: Literal["ok", "degraded"]
    version: str
    storage: StorageHealth
    provider: ProviderHealth
    tools: NotRequired[ToolHealth]
    error: NotRequired[str]
    remedy: NotRequired[str]
    degraded: NotRequired[list[str]]
    """`stopping`, `storage`, `queue`, `memory`, `persistence`, `format`, `graphs`, `workers`, `campaigns`."""
    warnings: NotRequired[list[str]]
    """Settings of Redis that may lose data later."""


class Readiness(TypedDict):
    """Answer of `/ready`."""

    ready: bool


router = APIRouter(tags=["health"])
_READY_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Readiness},
    503: {"model": Readiness, "description": "The server stops, or `/health` answers 503"},
}
_HEALTH_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Health},
    503: {
        # An unknown key cannot be looked up while storage is away.
        "model": Health | ApiError,
        "description": "Storage does not answer or accepts no writes, or the task queue fails",
    },
}
_METRICS_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Prometheus text format",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
}


@router.head("/ready", response_model=None, include_in_schema=False)
@router.get("/ready", responses=_READY_RESPONSES, response_model=None)
@with_policy(RoutePolicy("public", on_outage=OnOutage.REPORT))
async def show_readiness(request: Request) -> JsonReply:
    """Show to load balancers if requests should be sent here; `/health` has the reason."""
    ready = not any(problem.fatal for problem in await _fatal_problems(request))
    return JsonReply({"ready": ready}, *_status(fatal=not ready))


@router.head("/health", response_model=None, include_in_schema=False)
@router.get("/health", responses=_HEALTH_RESPONSES, response_model=None)
@with_policy(RoutePolicy("read", on_outage=OnOutage.REPORT))
async def show_health(request: Request) -> JsonReply:
    """Check the health of storage and processes; name the place of the data and the default model provider.

    `degraded` names what is wrong or in danger; 503 only where requests fail already.
    """
    ctx = app_context(request)
    server_health, problems = await _read_storage(ctx)
    storage_ok = not any(problem.fatal for problem in problems)
    problems = [*_stop_problems(request), *problems]
    data_format = await _read_format(ctx) if storage_ok else None
    if storage_ok:
        problems = [
            *problems,
            *_format_problems(ctx, data_format),
            *_queue_problems(ctx),
            *await _worker_problems(ctx),
            *await _graph_problems(ctx),
            *await _campaign_problems(ctx),
        ]
    fatal = any(problem.fatal for problem in problems)
    tools = await _tools(ctx) if server_health else {}
    chosen = route(RoutingRequest(), providers.with_key(os.environ), failed=outages().current())
    content = {
        "status": "degraded" if problems else "ok",
        "version": request.app.version,
        "storage": {
            "ok": storage_ok,
            "place": ctx.storage.origin,
            **_storage_fields(server_health, data_format),
        },
        "provider": {"name": chosen.provider, "reason": chosen.reason},
        **({"tools": _availability(tools)} if tools else {}),
        **_problem_fields(problems),
        **_warning_fields(server_health),
    }
    return JsonReply(content, *_status(fatal=fatal))


def _status(*, fatal: bool) -> tuple[int, dict[str, str] | None]:
    """Return status and headers."""
    return (503, {"Retry-After": "1"}) if fatal else (200, None)


async def _fatal_problems(request: Request) -> Sequence[HealthProblem]:
    """Return the problems that `/ready` depends on; a server that stops does not look further."""
    if stopping := _stop_problems(request):
        return stopping
    ctx = app_context(request)
    _, problems = await _read_storage(ctx)
    return [*problems, *_queue_problems(ctx)]


def _stop_problems(request: Request) -> Sequence[HealthProblem]:
    """Return the problem of a server that got a signal to stop."""
    shutdown: Shutdown = request.app.state.shutdown
    if not shutdown.is_stopping:
        return ()
    remedy = "Send requests to another server."
    return (HealthProblem("stopping", fatal=True, message="this process stops", remedy=remedy),)


@router.get("/metrics", responses=_METRICS_RESPONSES, response_class=Response)
@with_policy(RoutePolicy("admin", errors=ErrorForm.LANGGRAPH, on_outage=OnOutage.REPORT))
async def show_metrics(request: Request) -> Response:
    """Get the metrics of this process and of storage, in the text format of Prometheus."""
    observer: Telemetry = request.app.state.observer
    ctx = app_context(request)
    server_health, problems = await _read_storage(ctx)
    up = not any(problem.fatal for problem in problems)
    runs = await _runs(ctx) if up else {}
    tools = await _tools(ctx) if up else {}
    waiting = await _waiting(ctx) if up else None
    return Response(
        observer.require_metrics().exposition(server_health, tools, up=up, runs=runs, waiting=waiting),
        media_type=telemetry.MEDIA_TYPE,
    )


def _queue_problems(ctx: AppContext) -> Sequence[HealthProblem]:
    """Return the problem of a task queue that does not deliver."""
    failure = ctx.worker.queue_failure
    if failure is None:
        return ()
    return (HealthProblem("queue", fatal=True, message=failure.message, remedy=failure.remedy),)


async def _worker_problems(ctx: AppContext) -> Sequence[HealthProblem]:
    """Return the problem of a server that leaves runs to workers while there are none."""
    if ctx.settings.carry_runs:
        return ()
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            has_executor = await ctx.worker.has_executor()
    except (CallsheetError, TimeoutError):
        return ()
    if has_executor:
        return ()
    message = "no worker executes runs, and CALLSHEET_CARRY_RUNS is False"
    remedy = "Start one on the same Redis: callsheet worker."
    return (HealthProblem("workers", fatal=False, message=message, remedy=remedy),)


async def _graph_problems(ctx: AppContext) -> Sequence[HealthProblem]:
    """Return the problem of runs that wait for graphs which this process does not serve."""
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            unserved = await ctx.worker.turns.unserved_runs(ctx.graphs)
    except (CallsheetError, TimeoutError):
        return ()
    return [
        HealthProblem(
            "graphs",
            fatal=False,
            message=f"{count} {'run has' if count == 1 else 'runs have'} waited for over a minute "
            f"for graph {graph!r}, which is not served here",
            remedy="Start a process that serves it, or cancel them: callsheet runs cancel.",
        )
        for graph, count in unserved.items()
    ]


async def _campaign_problems(ctx: AppContext) -> Sequence[HealthProblem]:
    """Return the problem of campaigns in a PostgreSQL that does not answer."""
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            await check_libraries(ctx.storage)
    except CallsheetError as error:
        return (HealthProblem("campaigns", fatal=False, message=error.message, remedy=error.remedy),)
    except TimeoutError:
        message = (
            f"the PostgreSQL in {URL_VARIABLE} gave no answer within {ctx.settings.storage_patience_s:g} s"
        )
        return (HealthProblem("campaigns", fatal=False, message=message, remedy="Check that it is running."),)
    return ()


async def _read_format(ctx: AppContext) -> int | None:
    """Return the format of the data; None if it is unknown or storage is away."""
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            return await read_format(ctx.storage)
    except (CallsheetError, TimeoutError):
        return None


def _format_problems(ctx: AppContext, data_format: int | None) -> Sequence[HealthProblem]:
    """Return the problem of a process that goes on while a newer version has changed the format."""
    if data_format is None or data_format <= FORMAT:
        return ()
    message = newer_format(ctx.storage, data_format).message
    remedy = "Replace this process with the newer version: it cannot start again."
    return (HealthProblem("format", fatal=False, message=message, remedy=remedy),)


async def _runs(ctx: AppContext) -> Mapping[str, int]:
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            return await count_open(ctx.storage)
    except (CallsheetError, TimeoutError):
        return {}


async def _waiting(ctx: AppContext) -> tuple[int, float] | None:
    """Return the number of waiting runs, and the seconds that the oldest waits."""
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            count = await ctx.worker.turns.waiting.count()
            oldest = await ctx.worker.turns.waiting.oldest(0)
    except (CallsheetError, TimeoutError):
        return None
    return count, oldest[0][1] if oldest else 0.0


async def _tools(ctx: AppContext) -> Mapping[str, Breaker]:
    """Return the tools' breakers; empty if storage is away."""
    try:
        async with asyncio.timeout(ctx.settings.storage_patience_s):
            return await tool_routes.breakers_view(ctx)
    except (CallsheetError, TimeoutError):
        return {}


def _availability(tools: Mapping[str, Breaker]) -> Mapping[str, Any]:
    resting = {name: one.open_for_s for name, one in sorted(tools.items()) if one.state == "open"}
    return {"available": len(tools) - len(resting), "resting": resting}


async def _read_storage(ctx: AppContext) -> tuple[ServerHealth | None, Sequence[HealthProblem]]:
    server_health, problems = await _read_problems(ctx)
    ctx.outage_log.report(problems)
    return server_health, problems


async def _read_problems(ctx: AppContext) -> tuple[ServerHealth | None, Sequence[HealthProblem]]:
    patience_s = ctx.settings.storage_patience_s
    try:
        async with asyncio.timeout(patience_s):
            now = await vitals.read_health(ctx.storage)
            problems = vitals.health_problems(now)
            if not any(problem.fatal for problem in problems):
                problems += await ctx.marker.check()
            return now, problems
    except CallsheetError as error:
        return None, [HealthProblem("storage", fatal=True, message=error.message, remedy=error.remedy)]
    except TimeoutError:
        reason = await outage_reason(ctx.storage, patience_s, "Check that it is running.")
        return None, [HealthProblem("storage", fatal=True, message=reason.message, remedy=reason.remedy)]


def _storage_fields(server_health: ServerHealth | None, data_format: int | None) -> Mapping[str, Any]:
    if server_health is None:
        return {}
    fields = {"server": server_health.name, "latencyMs": round(server_health.latency_s * 1000, 1)}
    return fields | ({"format": data_format} if data_format is not None else {})


def _warning_fields(server_health: ServerHealth | None) -> Mapping[str, Any]:
    warnings = vitals.health_warnings(server_health) if server_health else ()
    return {"warnings": [str(each) for each in warnings]} if warnings else {}


def _problem_fields(problems: Sequence[HealthProblem]) -> Mapping[str, Any]:
    if not problems:
        return {}
    return {
        "error": "; ".join(problem.message for problem in problems),
        "remedy": " ".join(problem.remedy for problem in problems),
        "degraded": list(dict.fromkeys(problem.component for problem in problems)),
    }

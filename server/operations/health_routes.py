"""How the server is: whether its parts answer, what of it is in danger, which model would write; figures."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from callsheet import providers
from callsheet.providers.routing import Request as Asked
from callsheet.providers.routing import route
from callsheet.server.ads.replies import Health
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.errors import JsonReply
from callsheet.server.operations import metrics, tool_views
from callsheet.server.operations.telemetry import Telemetry
from callsheet.state.errors import CallsheetError
from callsheet.storage.redis import health as vitals
from callsheet.storage.redis.health import HealthProblem, ServerHealth
from callsheet.storage.runs.records import count_open
from callsheet.storage.tool_admission import Breaker

router = APIRouter(tags=["health"])
_TOLD: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Health},
    503: {"model": Health, "description": "Nothing can be kept: storage does not answer or takes no writes"},
}
_FIGURES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Prometheus text format",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
}


@router.head("/health", response_model=None, include_in_schema=False)
@router.get("/health", responses=_TOLD, response_model=None)
async def show_health(request: Request) -> JsonReply:
    """Check the health of storage and processes; name the place of the data and the default model provider.

    `degraded` names what is wrong or in danger; 503 only where requests fail already.
    """
    here = app_context(request)
    found, troubles = await _seen(here)
    tools = await _tools(here) if found else {}
    fatal = any(trouble.fatal for trouble in troubles)
    chosen = route(Asked(), providers.available(os.environ))
    told = {
        "status": "degraded" if troubles else "ok",
        "version": request.app.version,
        "storage": {"ok": not fatal, "place": here.storage.origin, **_facts(found)},
        "provider": {"name": chosen.provider, "reason": chosen.reason},
        **({"tools": _availability(tools)} if tools else {}),
        **_wrong(troubles),
    }
    return JsonReply(told, 503 if fatal else 200, {"Retry-After": "1"} if fatal else None)


@router.get("/metrics", responses=_FIGURES, response_class=Response)
async def show_metrics(request: Request) -> Response:
    """Get the metrics of this process and of storage, in the text format of Prometheus."""
    observer: Telemetry = request.app.state.observer
    here = app_context(request)
    found, troubles = await _seen(here)
    up = not any(trouble.fatal for trouble in troubles)
    runs = await _runs(here) if up else {}
    tools = await _tools(here) if up else {}
    return Response(
        observer.counted().exposition(found, tools, up=up, runs=runs), media_type=metrics.MEDIA_TYPE
    )


async def _runs(here: AppContext) -> Mapping[str, int]:
    try:
        async with asyncio.timeout(here.settings.storage_patience_s):
            return await count_open(here.storage)
    except (CallsheetError, TimeoutError):
        return {}


async def _tools(here: AppContext) -> Mapping[str, Breaker]:
    """Return how the breakers of the tools stand; nothing where storage has just gone away."""
    try:
        async with asyncio.timeout(here.settings.storage_patience_s):
            return await tool_views.breakers_view(here)
    except (CallsheetError, TimeoutError):
        return {}


def _availability(tools: Mapping[str, Breaker]) -> Mapping[str, Any]:
    resting = {name: one.rests_s for name, one in sorted(tools.items()) if one.state == "open"}
    return {"available": len(tools) - len(resting), "resting": resting}


async def _seen(here: AppContext) -> tuple[ServerHealth | None, Sequence[HealthProblem]]:
    patience_s = here.settings.storage_patience_s
    try:
        async with asyncio.timeout(patience_s):
            now = await vitals.read_health(here.storage)
    except CallsheetError as error:
        return None, [HealthProblem("storage", fatal=True, message=error.message, remedy=error.remedy)]
    except TimeoutError:
        told = f"{here.storage.origin} gave no answer within {patience_s:g} s"
        return None, [HealthProblem("storage", fatal=True, message=told, remedy="See whether it is running.")]
    return now, vitals.health_problems(now)


def _facts(seen: ServerHealth | None) -> Mapping[str, Any]:
    return {"server": seen.name, "latencyMs": round(seen.answered_s * 1000, 1)} if seen else {}


def _wrong(troubles: Sequence[HealthProblem]) -> Mapping[str, Any]:
    if not troubles:
        return {}
    return {
        "error": "; ".join(trouble.message for trouble in troubles),
        "remedy": " ".join(trouble.remedy for trouble in troubles),
        "degraded": list(dict.fromkeys(trouble.part for trouble in troubles)),
    }

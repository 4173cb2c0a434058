"""How the server is: whether its parts answer, what of it is in danger, which model would write; figures."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

import providers
from providers.routing import Request as Asked
from providers.routing import route
from server import metrics
from server.api import calls
from server.api.replies import Health
from server.observing import Observer
from server.parts import Parts, parts
from server.problems import Reply
from state.errors import CallsheetError
from storage import vitals
from storage.admission import Breaker
from storage.run_counts import counted
from storage.vitals import Trouble, Vitals

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
async def health(request: Request) -> Reply:
    """Say whether storage answers, where the data lies, and who would answer a brief without a choice.

    `degraded` names what is wrong or in danger; 503 only where requests fail already.
    """
    here = parts(request)
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
    return Reply(told, 503 if fatal else 200, {"Retry-After": "1"} if fatal else None)


@router.get("/metrics", responses=_FIGURES, response_class=Response)
async def figures(request: Request) -> Response:
    """Tell the figures of this process, and how storage is, in the text format of Prometheus."""
    observer: Observer = request.app.state.observer
    here = parts(request)
    found, troubles = await _seen(here)
    up = not any(trouble.fatal for trouble in troubles)
    runs = await _runs(here) if up else {}
    tools = await _tools(here) if up else {}
    return Response(observer.counted().exposition(found, tools, up=up, runs=runs), media_type=metrics.MEDIA)


async def _runs(here: Parts) -> Mapping[str, int]:
    try:
        async with asyncio.timeout(here.settings.storage_patience_s):
            return await counted(here.storage)
    except (CallsheetError, TimeoutError):
        return {}


async def _tools(here: Parts) -> Mapping[str, Breaker]:
    """Return how the breakers of the tools stand; nothing where storage has just gone away."""
    try:
        async with asyncio.timeout(here.settings.storage_patience_s):
            return await calls.breakers(here.storage)
    except (CallsheetError, TimeoutError):
        return {}


def _availability(tools: Mapping[str, Breaker]) -> Mapping[str, Any]:
    resting = {name: one.rests_s for name, one in sorted(tools.items()) if one.state == "open"}
    return {"available": len(tools) - len(resting), "resting": resting}


async def _seen(here: Parts) -> tuple[Vitals | None, Sequence[Trouble]]:
    patience_s = here.settings.storage_patience_s
    try:
        async with asyncio.timeout(patience_s):
            now = await vitals.vitals(here.storage)
    except CallsheetError as error:
        return None, [Trouble("storage", fatal=True, told=error.message, remedy=error.remedy)]
    except TimeoutError:
        told = f"{here.storage.origin} gave no answer within {patience_s:g} s"
        return None, [Trouble("storage", fatal=True, told=told, remedy="See whether it is running.")]
    return now, vitals.troubles(now)


def _facts(seen: Vitals | None) -> Mapping[str, Any]:
    return {"server": seen.name, "latencyMs": round(seen.answered_s * 1000, 1)} if seen else {}


def _wrong(troubles: Sequence[Trouble]) -> Mapping[str, Any]:
    if not troubles:
        return {}
    return {
        "error": "; ".join(trouble.told for trouble in troubles),
        "remedy": " ".join(trouble.remedy for trouble in troubles),
        "degraded": list(dict.fromkeys(trouble.part for trouble in troubles)),
    }

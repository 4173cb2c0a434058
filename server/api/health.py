"""How the server is: whether its parts answer, and which model would."""

import asyncio
import os
from typing import Any, Final

from fastapi import APIRouter, Request

import providers
from providers.routing import Request as Asked
from providers.routing import route
from server.api.replies import Health
from server.parts import Parts, parts
from server.problems import Reply
from state.errors import CallsheetError

router = APIRouter(tags=["health"])
_PATIENCE_S: Final = 2.0
_TOLD: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Health},
    503: {"model": Health, "description": "Storage does not answer"},
}


@router.get("/health", responses=_TOLD, response_model=None)
async def health(request: Request) -> Reply:
    """Say whether storage answers, where the data lies, and who would answer a brief without a choice."""
    here = parts(request)
    down = await _down(here)
    chosen = route(Asked(), providers.available(os.environ))
    storage: dict[str, Any] = {"ok": down is None, "place": here.storage.origin}
    told = {
        "status": "ok" if down is None else "degraded",
        "version": request.app.version,
        "storage": storage,
        "provider": {"name": chosen.provider, "reason": chosen.reason},
    }
    if down is None:
        return Reply(told)
    return Reply(told | {"error": down, "degraded": ["storage"]}, 503, {"Retry-After": "1"})


async def _down(here: Parts) -> str | None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await here.storage.redis.ping()
    except CallsheetError as error:
        return error.message
    except TimeoutError:
        return f"{here.storage.origin} gave no answer within {_PATIENCE_S:g} s"
    return None

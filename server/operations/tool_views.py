"""What is told of tools and of their calls."""

from collections.abc import Mapping
from typing import Any

from callsheet.server.artefacts.views import iso
from callsheet.server.context import AppContext
from callsheet.state.errors import Missing
from callsheet.storage import tool_admission, tool_calls
from callsheet.storage.redis.connection import Storage
from callsheet.storage.tool_admission import Breaker
from callsheet.storage.tool_calls import CallFilter
from callsheet.tools.guard import guard
from callsheet.tools.guard.attempt import resolve_tool
from callsheet.tools.registry import Tool, definition


async def tools_view(ctx: AppContext, owner: str) -> dict[str, Any]:
    """Return the tools of all served workflows, with the owner's permission and each tool's availability."""
    breakers = await breakers_view(ctx)
    return {
        "tools": [
            _tool(tool, kind, owner, breakers[name]) for name, (kind, tool) in ctx.workflows.tools.items()
        ]
    }


async def breakers_view(ctx: AppContext) -> Mapping[str, Breaker]:
    """Return the states of the tools' circuit breakers, by tool."""
    limits = [resolve_tool(tool, guard.house).gate for _, tool in ctx.workflows.tools.values()]
    return await tool_admission.read_breakers(ctx.storage, limits)


async def executions_view(storage: Storage, owner: str, wanted: CallFilter, limit: int) -> dict[str, Any]:
    """Return a page of the owner's calls, newest first, and where the next one begins."""
    found = await tool_calls.list_calls(storage, owner, wanted, limit + 1)
    shown = [_execution(record) for record in found[:limit]]
    return {"executions": shown, "next": shown[-1]["id"] if len(found) > limit else None}


async def execution_view(storage: Storage, owner: str, name: str) -> dict[str, Any]:
    """Return one call; raises `Missing` where this owner has none of that id."""
    found = await tool_calls.find(storage, owner, name)
    if found is None:
        raise Missing(f"there is no tool execution {name!r}", remedy="list them to see which there are")
    return _execution(found)


def _tool(item: Tool, kind: str, owner: str, breaker: Breaker) -> dict[str, Any]:
    terms = resolve_tool(item, guard.house).terms
    return {
        "name": item.name,
        "description": item.description,
        "domain": kind,
        "inputSchema": definition(item)["function"]["parameters"],
        "effect": item.effect,
        "safetyLevel": item.safety,
        "internal": item.internal,
        "idempotent": item.idempotent,
        "permissions": sorted(item.permissions),
        "allowed": guard.is_permitted(item, owner),
        "available": breaker.state != "open",
        "breaker": {"state": breaker.state, "failures": breaker.failed, "retryAfterSeconds": breaker.rests_s},
        "limits": {
            "timeoutSeconds": terms.timeout_s,
            "calls": terms.calls,
            "windowSeconds": terms.window_s,
            "rateLimitKey": item.rate_key or item.name,
            "tries": terms.tries,
            "cacheSeconds": terms.cache_s if item.is_pure_lookup else 0,
            "outputBytes": terms.output_bytes,
        },
    }


def _execution(record: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in record.items() if name not in {"startMs", "endMs"}}
    times = {"startTime": record["startMs"], "endTime": record.get("endMs")}
    return told | {name: iso(ms) for name, ms in times.items()}

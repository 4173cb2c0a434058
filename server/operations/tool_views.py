"""Replies about tools and their calls."""

from collections.abc import Mapping
from typing import Any

from callsheet.server.http.context import AppContext
from callsheet.state.errors import Missing
from callsheet.state.times import iso_time_or_none
from callsheet.storage import tool_admission, tool_calls
from callsheet.storage.redis.connection import Storage
from callsheet.storage.tool_admission import Breaker
from callsheet.storage.tool_calls import CallFilter
from callsheet.tools.guard.attempt import resolve_tool
from callsheet.tools.policy import ToolPolicy
from callsheet.tools.registry import Tool, definition


async def tools_view(ctx: AppContext, owner: str) -> dict[str, Any]:
    """Return the tools of all served workflows, with the owner's permission and each tool's availability."""
    breakers = await breakers_view(ctx)
    return {
        "tools": [
            _tool(tool, kind, ctx.tool_environment.policy, owner, breakers[name])
            for name, (kind, tool) in ctx.workflows.tools.items()
        ]
    }


async def breakers_view(ctx: AppContext) -> Mapping[str, Breaker]:
    """Return the states of the tools' circuit breakers, by tool."""
    limits = [
        resolve_tool(tool, ctx.tool_environment.policy).limits for _, tool in ctx.workflows.tools.values()
    ]
    return await tool_admission.read_breakers(ctx.storage, limits)


async def executions_view(
    storage: Storage, owner: str, call_filter: CallFilter, limit: int
) -> dict[str, Any]:
    """Return a page of the owner's calls, newest first, and where the next one begins."""
    records = await tool_calls.list_calls(storage, owner, call_filter, limit + 1)
    shown = [_execution(record) for record in records[:limit]]
    return {"executions": shown, "next": shown[-1]["id"] if len(records) > limit else None}


async def execution_view(storage: Storage, owner: str, name: str) -> dict[str, Any]:
    """Return one call of the owner; raises `Missing`."""
    record = await tool_calls.find(storage, owner, name)
    if record is None:
        raise Missing(f"there is no tool execution {name!r}", remedy="list them to see which there are")
    return _execution(record)


def _tool(item: Tool, kind: str, tool_policy: ToolPolicy, owner: str, breaker: Breaker) -> dict[str, Any]:
    policy = resolve_tool(item, tool_policy).policy
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
        "allowed": tool_policy.grants_all(owner, item.permissions),
        "available": breaker.state != "open",
        "breaker": {
            "state": breaker.state,
            "failures": breaker.failures,
            "retryAfterSeconds": breaker.open_for_s,
        },
        "limits": {
            "timeoutSeconds": policy.timeout_s,
            "calls": policy.calls,
            "windowSeconds": policy.window_s,
            "rateLimitKey": item.rate_key or item.name,
            "tries": policy.tries,
            "cacheSeconds": policy.cache_s if item.is_pure_lookup else 0,
            "outputBytes": policy.output_bytes,
        },
    }


def _execution(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in record.items() if name not in {"startMs", "endMs"}}
    times = {"startTime": record["startMs"], "endTime": record.get("endMs")}
    return fields | {name: iso_time_or_none(ms) for name, ms in times.items()}

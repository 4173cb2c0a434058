"""What is told of tools and of their calls."""

from collections.abc import Mapping
from typing import Any

from server.api.times import iso
from state.errors import Missing
from storage import admission, calls
from storage.admission import Breaker
from storage.calls import Wanted
from storage.connection import Storage
from tools import REGISTRY, guard
from tools.attempt import held
from tools.registry import Tool, definition


async def tools(storage: Storage, owner: str) -> dict[str, Any]:
    """Return every tool, with whether this owner may call it and whether it can be called now."""
    standing = await breakers(storage)
    return {"tools": [_tool(item, owner, standing[item.name]) for item in REGISTRY.values()]}


async def breakers(storage: Storage) -> Mapping[str, Breaker]:
    """Return how the breakers of all tools stand."""
    gates = [held(item, guard.house).gate for item in REGISTRY.values()]
    return await admission.breakers(storage, gates)


async def executions(storage: Storage, owner: str, wanted: Wanted, limit: int) -> dict[str, Any]:
    """Return a page of the owner's calls, newest first, and where the next one begins."""
    found = await calls.listed(storage, owner, wanted, limit + 1)
    shown = [_execution(record) for record in found[:limit]]
    return {"executions": shown, "next": shown[-1]["id"] if len(found) > limit else None}


async def execution(storage: Storage, owner: str, name: str) -> dict[str, Any]:
    """Return one call; raises `Missing` where this owner has none of that id."""
    found = await calls.find(storage, owner, name)
    if found is None:
        raise Missing(f"there is no tool execution {name!r}", remedy="list them to see which there are")
    return _execution(found)


def _tool(item: Tool, owner: str, breaker: Breaker) -> dict[str, Any]:
    terms = held(item, guard.house).terms
    return {
        "name": item.name,
        "description": item.description,
        "domain": REGISTRY.domain(item.name),
        "inputSchema": definition(item)["function"]["parameters"],
        "effect": item.effect,
        "safetyLevel": item.safety,
        "idempotent": item.idempotent,
        "permissions": sorted(item.permissions),
        "allowed": guard.permitted(item, owner),
        "available": breaker.state != "open",
        "breaker": {"state": breaker.state, "failures": breaker.failed, "retryAfterSeconds": breaker.rests_s},
        "limits": {
            "timeoutSeconds": terms.timeout_s,
            "calls": terms.calls,
            "windowSeconds": terms.window_s,
            "rateLimitKey": item.rate_key or item.name,
            "tries": terms.tries,
            "cacheSeconds": terms.cache_s if item.pure else 0,
            "outputBytes": terms.output_bytes,
        },
    }


def _execution(record: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in record.items() if name not in {"startMs", "endMs"}}
    times = {"startTime": record["startMs"], "endTime": record.get("endMs")}
    return told | {name: iso(ms) for name, ms in times.items()}

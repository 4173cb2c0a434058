"""Tools and their calls over REST."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired

from fastapi import Query, Request
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import JsonSchema
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, with_policy
from callsheet.server.http.requests import api_router
from callsheet.state.errors import Missing
from callsheet.state.times import iso_time_or_none
from callsheet.storage import tool_admission, tool_calls
from callsheet.storage.redis.connection import Storage
from callsheet.storage.tool_admission import Breaker, ToolLimits
from callsheet.storage.tool_calls import CallFilter
from callsheet.tools.guard.attempt import resolve_tool
from callsheet.tools.policy import ToolPolicy
from callsheet.tools.registry import Tool, definition


class ToolBreaker(TypedDict):
    """State of the caller's circuit breaker of a tool."""

    state: Literal["closed", "open", "half-open"]
    failures: int
    """Consecutive failures."""
    retryAfterSeconds: float


class ToolLimitsReply(TypedDict):
    """Limits of a tool's calls."""

    timeoutSeconds: float
    calls: int
    """Calls of one owner in `windowSeconds`; 0 for no limit."""
    windowSeconds: float
    rateLimitKey: str
    tries: int
    cacheSeconds: float
    outputBytes: int


class ToolView(TypedDict):
    """A tool."""

    name: str
    displayName: str
    """Title of its steps for people, such as "Writing the music"."""
    description: str
    domain: str
    inputSchema: JsonSchema
    effect: Literal["read", "write", "outside"]
    safetyLevel: Literal["safe", "potentially_destructive"]
    internal: bool
    """True for a tool that executes a person's answer and that no model is offered."""
    idempotent: bool
    permissions: list[str]
    allowed: bool
    """True if the caller has its permissions."""
    available: bool
    """False while its breaker is open."""
    breaker: ToolBreaker
    limits: ToolLimitsReply


class ToolList(TypedDict):
    """All tools."""

    tools: list[ToolView]


class ToolExecution(TypedDict):
    """The record of one call."""

    id: str
    conversationId: str
    messageId: str
    """The model's message that asked for it; call ids repeat from message to message with some vendors."""
    toolCallId: str
    toolName: str
    input: Any
    output: NotRequired[Any]
    error: NotRequired[str]
    errorType: NotRequired[str]
    retryable: NotRequired[bool]
    status: Literal["pending", "executing", "completed", "failed", "timeout"]
    startTime: str
    endTime: str | None
    userId: str
    runId: str
    kind: str
    artefactId: str
    tries: NotRequired[int]
    cached: NotRequired[bool]


class ToolExecutionList(TypedDict):
    """A page of tool calls, newest first."""

    executions: list[ToolExecution]
    next: str | None


async def tools_view(ctx: AppContext, owner: str) -> dict[str, Any]:
    """Return the tools of all served workflows, with the owner's permission and each tool's availability."""
    breakers = await tool_admission.read_breakers(ctx.storage, _limits(ctx), owner)
    return {
        "tools": [
            _tool(tool, kind, ctx.tool_environment.policy, owner, breakers[name])
            for name, (kind, tool) in ctx.workflows.tools.items()
        ]
    }


async def breakers_view(ctx: AppContext) -> Mapping[str, Breaker]:
    """Return the states of the tools' circuit breakers over all owners, by tool."""
    return await tool_admission.read_open_breakers(ctx.storage, _limits(ctx))


def _limits(ctx: AppContext) -> list[ToolLimits]:
    return [
        resolve_tool(tool, ctx.tool_environment.policy).limits for _, tool in ctx.workflows.tools.values()
    ]


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
        "displayName": item.display,
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


router = api_router("/api", "tools")
_READ: Final = (400, 403, 422, 500, 503, 504)


@router.get("/tools", responses=documented_responses(*_READ, reply=ToolList))
@with_policy(API_READ)
async def list_tools(request: Request) -> dict[str, Any]:
    """List the tools: what they take, what they may do, on what terms, and whether they can be called now."""
    return await tools_view(app_context(request), current_owner(request))


@router.get("/tool-executions", responses=documented_responses(*_READ, reply=ToolExecutionList))
@with_policy(API_READ)
async def list_tool_executions(
    request: Request,
    conversation: Annotated[str | None, Query(alias="conversationId", max_length=255)] = None,
    tool: Annotated[str | None, Query(alias="toolName", max_length=64)] = None,
    status: Annotated[
        str | None, Query(description="pending, executing, completed, failed or timeout", max_length=20)
    ] = None,
    after: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the calls of tools, newest first, refused ones too; kept for 30 days, the newest 10 000."""
    call_filter = CallFilter(conversation, tool, status, after)
    return await executions_view(app_context(request).storage, current_owner(request), call_filter, limit)


@router.get(
    "/tool-executions/{execution_id}", responses=documented_responses(404, *_READ, reply=ToolExecution)
)
@with_policy(API_READ)
async def show_tool_execution(execution_id: str, request: Request) -> dict[str, Any]:
    """Show one call of a tool."""
    return await execution_view(app_context(request).storage, current_owner(request), execution_id)

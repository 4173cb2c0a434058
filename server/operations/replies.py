"""Reply shapes of health and tools."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class ToolHealth(TypedDict):
    """Availability of the tools."""

    available: int
    resting: dict[str, float]
    """Tools whose breaker is open, with the seconds until they accept calls."""


class Health(TypedDict):
    """Health of the server."""

    status: Literal["ok", "degraded"]
    version: str
    storage: dict[str, Any]
    provider: dict[str, str]
    tools: NotRequired[ToolHealth]
    error: NotRequired[str]
    remedy: NotRequired[str]
    degraded: NotRequired[list[str]]
    """`storage`, `queue`, `memory`, `persistence`, `workers`."""
    warnings: NotRequired[list[str]]
    """Settings of Redis that may lose data later."""


class ToolBreaker(TypedDict):
    """State of a tool's circuit breaker."""

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
    description: str
    domain: str
    inputSchema: dict[str, Any]
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

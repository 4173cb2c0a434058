"""Reply shapes of ads, for the documentation; tests compare the replies with them."""

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict

from callsheet.state.ads.brief import Brief
from callsheet.state.ads.timeline import Timeline
from callsheet.state.workflow import DraftMade


class MusicMix(TypedDict):
    """Levels and fades of the music."""

    volumeDb: float
    duckingDb: float
    """Change while a voice speaks."""
    fadeInSeconds: float
    fadeOutSeconds: float


class SfxMix(TypedDict):
    """Level of the effects."""

    volumeDb: float


class Mixer(TypedDict):
    """The mixer (A35)."""

    voices: dict[str, float]
    """Gain in decibels by track id."""
    music: MusicMix
    sfx: SfxMix


class ToolCall(TypedDict):
    """A tool call of the turn (A76)."""

    id: str
    name: str
    arguments: dict[str, Any]
    status: str
    """`completed`, `error`, `blocked` or `cancelled`."""
    result: dict[str, Any]
    """The version made, how many were found, or the error."""
    durationSeconds: float


class Usage(TypedDict):
    """Tokens of the whole conversation (A66)."""

    inputTokens: int
    outputTokens: int
    cachedTokens: int
    modelCalls: int


class AdTurn(TypedDict):
    """The reply of generate and chat (A53, A56)."""

    conversationId: str
    adId: str
    drafts: dict[str, str]
    """Newest version of each stream this turn changed."""
    created: list[DraftMade]
    """Every version this turn made, in order."""
    message: str
    timeline: Timeline
    mixer: Mixer
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: Usage


class VersionSummary(TypedDict):
    """A version without its data (A31)."""

    id: str
    status: Literal["draft", "frozen", "active"]
    createdAt: str
    createdBy: str
    """`llm`, or the owner who made it by hand."""
    parent: str | None
    summary: str


class Version(VersionSummary):
    """A version with its data, both under `data` and flat (A30)."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's way to say so

    data: dict[str, Any]


class VersionList(TypedDict):
    """The versions of a stream."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None


class VersionData(VersionSummary):
    """A version with its data."""

    data: dict[str, Any]


class StreamView(TypedDict):
    """A stream's newest and active version."""

    newest: VersionData | None
    active: VersionData | None
    count: int


class Streams(TypedDict):
    """The streams of an ad."""

    voices: StreamView
    music: StreamView
    sfx: StreamView


class VersionWritten(TypedDict):
    """The reply to a write."""

    stream: str
    versionId: str
    status: Literal["draft", "frozen", "active"]
    timeline: Timeline
    mixer: Mixer


class VersionActivated(VersionWritten):
    """The reply to an activation."""

    active: str


class AdSummary(TypedDict):
    """An ad in a list; times are null before its first version."""

    adId: str
    createdAt: str | None
    updatedAt: str | None
    language: str | None
    market: str | None
    spotSeconds: float | None


class AdList(TypedDict):
    """A page of the owner's ads."""

    ads: list[AdSummary]
    next: str | None
    """Send it as `after` for the next page; null at the end."""


class StreamLock(TypedDict):
    """A locked stream."""

    stream: str
    by: str
    at: str | None


class StreamLocks(TypedDict):
    """All locks of an ad."""

    locks: list[StreamLock]


class AdView(AdSummary):
    """An ad with its streams, timeline and mixer."""

    brief: Brief | None
    streams: Streams
    timeline: Timeline
    mixer: Mixer
    locks: list[StreamLock]
    conversationId: str
    provider: str
    providerReason: str


class Function(TypedDict):
    """The function of a tool call."""

    name: str
    arguments: str
    """JSON."""


class Call(TypedDict):
    """A tool call in a message."""

    id: str
    type: Literal["function"]
    function: Function


class Message(TypedDict):
    """A message (A37)."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[list[Call]]
    tool_call_id: NotRequired[str]
    cached: NotRequired[bool]


class Conversation(TypedDict):
    """A conversation in order."""

    conversationId: str
    messages: list[Message]


class ToolHealth(TypedDict):
    """Availability of the tools (C56)."""

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
    """`storage`, `memory`, `persistence`, `workers`."""


class ImportedThread(TypedDict):
    """An imported thread."""

    threadId: str
    graph: str
    artefact: str | None
    """`kind:id` of its artefact."""


class ToolBreaker(TypedDict):
    """State of a tool's circuit breaker (C46)."""

    state: Literal["closed", "open", "half-open"]
    failures: int
    """Consecutive failures."""
    retryAfterSeconds: float


class ToolLimits(TypedDict):
    """Limits of a tool's calls (C-R4)."""

    timeoutSeconds: float
    calls: int
    """Calls of one owner in `windowSeconds`; 0 for no limit."""
    windowSeconds: float
    rateLimitKey: str
    tries: int
    cacheSeconds: float
    outputBytes: int


class ToolView(TypedDict):
    """A tool (C1)."""

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
    limits: ToolLimits


class ToolList(TypedDict):
    """All tools."""

    tools: list[ToolView]


class ToolExecution(TypedDict):
    """The record of one call (C29)."""

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

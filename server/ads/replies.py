"""Reply shapes of ads, for the documentation; tests compare the replies with them."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import (
    ApprovalQuestion,
    ModelUse,
    ToolCall,
    UsageReply,
    VersionSummary,
)
from callsheet.server.http.requests import Number
from callsheet.state.ads.brief import Brief
from callsheet.state.ads.timeline import Timeline
from callsheet.state.workflow import DraftMade

Gain = Annotated[Number, Field(ge=-60, le=12, description="Decibels")]
Ducking = Annotated[Number, Field(ge=-60, le=0, description="Decibels while a voice speaks")]
Fade = Annotated[Number, Field(ge=0, le=30, description="Seconds")]


class MusicMix(TypedDict):
    """Levels and fades of the music."""

    volumeDb: Gain
    duckingDb: Ducking
    fadeInSeconds: Fade
    fadeOutSeconds: Fade


class SfxMix(TypedDict):
    """Level of the effects."""

    volumeDb: Gain


class Mixer(TypedDict):
    """The mixer."""

    voices: dict[str, Gain]
    """Gain by track id."""
    music: MusicMix
    sfx: SfxMix


class AdTurn(TypedDict):
    """The reply of generate and chat."""

    conversationId: str
    adId: str
    drafts: dict[str, str]
    """Newest version of each stream this turn changed."""
    created: list[DraftMade]
    """Every version this turn made, in order."""
    message: str
    """The model's words, or the text of `question`."""
    question: ApprovalQuestion | None
    timeline: Timeline
    mixer: Mixer
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: UsageReply
    turnUsage: ModelUse


class VersionReply(VersionSummary):
    """A version with its data, both under `data` and flat."""

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


class MessageToolCall(TypedDict):
    """A tool call in a message."""

    id: str
    type: Literal["function"]
    function: Function


class Message(TypedDict):
    """A message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[list[MessageToolCall]]
    tool_call_id: NotRequired[str]
    cached: NotRequired[bool]


class Conversation(TypedDict):
    """A conversation in order."""

    conversationId: str
    messages: list[Message]

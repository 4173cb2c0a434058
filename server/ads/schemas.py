"""Requests and replies of ads."""

from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import (
    ApprovalQuestion,
    ModelUse,
    Outcome,
    ToolCall,
    UsageReply,
    VersionSummary,
)
from callsheet.server.http.requests import ModelChoice, Number
from callsheet.state.ads.ad import StoredMusic, StoredSfx, StoredVoices
from callsheet.state.ads.brief import Brief
from callsheet.state.ads.timeline import Timeline
from callsheet.state.receipts import Receipt
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
    outcome: Outcome
    drafts: dict[str, str]
    """Newest version of each stream this turn changed."""
    created: list[DraftMade]
    """Every version this turn made, in order."""
    message: str
    """The model's words, or the text of `question`; with the line of `receipt` where that must be read."""
    question: ApprovalQuestion | None
    timeline: Timeline
    mixer: Mixer
    receipt: Receipt | None
    """Effects of the turn, by its versions and errors; null while a question waits."""
    truncated: bool
    """True if the turn ended at its limit of rounds."""
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: UsageReply
    turnUsage: ModelUse


class VoicesReply(VersionSummary, StoredVoices):
    """A version of the voices, with its data both under `data` and flat."""

    data: StoredVoices


class MusicReply(VersionSummary, StoredMusic):
    """A version of the music, with its data both under `data` and flat."""

    data: StoredMusic


class SfxReply(VersionSummary, StoredSfx):
    """A version of the sound effects, with its data both under `data` and flat."""

    data: StoredSfx


VersionReply = VoicesReply | MusicReply | SfxReply
"""A version of a stream."""


class VersionList(TypedDict):
    """The versions of a stream."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None
    before: str | None
    """Send it as `before` for older versions; null if there are none."""


class VoicesVersion(VersionSummary):
    """A version of the voices."""

    data: StoredVoices


class MusicVersion(VersionSummary):
    """A version of the music."""

    data: StoredMusic


class SfxVersion(VersionSummary):
    """A version of the sound effects."""

    data: StoredSfx


class _StreamView(TypedDict):
    count: int
    """Versions."""


class VoicesStream(_StreamView):
    """The newest and the active version of the voices."""

    newest: VoicesVersion | None
    active: VoicesVersion | None


class MusicStream(_StreamView):
    """The newest and the active version of the music."""

    newest: MusicVersion | None
    active: MusicVersion | None


class SfxStream(_StreamView):
    """The newest and the active version of the sound effects."""

    newest: SfxVersion | None
    active: SfxVersion | None


class Streams(TypedDict):
    """The streams of an ad."""

    voices: VoicesStream
    music: MusicStream
    sfx: SfxStream


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


class ListedAd(AdSummary):
    """An ad in a list."""

    title: str
    """Title that a person gave its conversation, else the name in its brief."""


class AdList(TypedDict):
    """A page of the owner's ads."""

    ads: list[ListedAd]
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


class AdView(ListedAd):
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


_BRIEF: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Further fields, and other names of these, are read too",
    "properties": {
        **{name: {"type": "string"} for name in Brief.__annotations__},
        "duration": {"anyOf": [{"type": "number"}, {"type": "string"}]},
    },
    "additionalProperties": True,
}
BriefInput = Annotated[
    Annotated[str, Tag("text")] | Annotated[dict[str, Any], WithJsonSchema(_BRIEF), Tag("object")],
    Discriminator(
        lambda value: {str: "text", dict: "object"}.get(type(value)),
        custom_error_type="brief_type",
        custom_error_message="Input should be text or an object",
    ),
]
"""A brief, text or object; the discriminator gives one error instead of one per shape."""


class _AdFields(ModelChoice):
    model_config = ConfigDict(extra="forbid")

    conversationId: str | None = Field(None, description="The ad's conversation; its own id unless chosen")
    language: str | None = Field(None, description="Name, ISO-639-1 code, BCP-47 tag or native name")
    market: str | None = Field(None, max_length=200, description="Where it will air, such as US")
    budget: str | None = Field(None, max_length=80, description="premium or cost-effective")
    complexity: str | None = Field(None, max_length=80, description="simple or complex")


class AdGenerate(_AdFields):
    """A brief for a new ad."""

    adId: str = Field(description="1 to 255 printable characters; an existing ad is restarted")
    brief: BriefInput = Field(
        description="A sentence, or {clientDescription, targetAudience, format, duration, market, language, "
        "additionalContext}"
    )
    duration: Number | None = Field(None, description="The spot's length in seconds; wins over the brief's")
    useToolCalling: bool | None = Field(None, description="Accepted; tools are always used")


class AdFromCampaigns(_AdFields):
    """A new ad from campaigns of the library."""

    campaignIds: list[Annotated[str, Field(min_length=1, max_length=255)]] = Field(
        min_length=1, max_length=10, description="Campaigns whose offers the ad is to say"
    )
    adId: str | None = Field(None, min_length=1, max_length=255, description="Made if left out")
    client: str | None = Field(
        None, max_length=2_000, description="Who the ad is for; needed where the campaigns are of several"
    )
    wish: str = Field("", max_length=4_000, description="Whatever else the ad shall say or be")
    duration: Number | None = Field(None, description="The spot's length in seconds")


class AdChat(_AdFields):
    """A message about an ad."""

    message: str
    duration: Number | None = Field(None, description="The spot's length in seconds from now on")


class _AdBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MusicChange(_AdBody):
    """Changes of the music's levels and fades."""

    volumeDb: Gain | None = None
    duckingDb: Ducking | None = None
    fadeInSeconds: Fade | None = None
    fadeOutSeconds: Fade | None = None


class SfxChange(_AdBody):
    """Change of the effects' level."""

    volumeDb: Gain | None = None


class MixerUpdate(_AdBody):
    """Changes of the mixer."""

    voices: dict[str, Gain] = Field(default_factory=dict, description="Gain by track id")
    music: MusicChange = Field(default_factory=MusicChange)
    sfx: SfxChange = Field(default_factory=SfxChange)

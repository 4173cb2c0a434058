"""Request bodies of ads."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from callsheet.server.ads.replies import Ducking, Fade, Gain
from callsheet.server.http.requests import ModelChoice, Number

BriefInput = Annotated[
    Annotated[str, Tag("text")] | Annotated[dict[str, Any], Tag("object")],
    Discriminator(
        lambda value: {str: "text", dict: "object"}.get(type(value)),
        custom_error_type="brief_type",
        custom_error_message="Input should be text or an object",
    ),
]
"""A brief, text or object; the discriminator gives one error instead of one per shape."""


class _AdFields(ModelChoice):
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

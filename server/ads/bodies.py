"""Request bodies of ads."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from callsheet.server.http.requests import ModelChoice, Number

Brief = Annotated[
    Annotated[str, Tag("text")] | Annotated[dict[str, Any], Tag("object")],
    Discriminator(
        lambda value: {str: "text", dict: "object"}.get(type(value)),
        custom_error_type="brief_type",
        custom_error_message="Input should be text or an object",
    ),
]
"""A brief, text or object (A-R15); the discriminator gives one error instead of one per shape."""
_Db = Field(None, ge=-60, le=12)


class _AdFields(ModelChoice):
    conversationId: str | None = Field(None, description="The ad's conversation; its own id unless chosen")
    language: str | None = Field(None, description="Name, ISO-639-1 code, BCP-47 tag or native name")
    market: str | None = Field(None, max_length=200, description="Where it will air, such as US")
    budget: str | None = Field(None, max_length=80, description="premium or cost-effective")
    complexity: str | None = Field(None, max_length=80, description="simple or complex")


class AdGenerate(_AdFields):
    """A brief for a new ad (A50)."""

    adId: str = Field(description="1 to 255 printable characters; an existing ad is restarted")
    brief: Brief = Field(
        description="A sentence, or {clientDescription, targetAudience, format, duration, market, language, "
        "additionalContext} (A51)"
    )
    duration: Number | None = Field(None, description="The spot's length in seconds; wins over the brief's")
    useToolCalling: bool | None = Field(None, description="Accepted; tools are always used")


class AdChat(_AdFields):
    """A message about an ad (A55)."""

    message: str
    duration: Number | None = Field(None, description="The spot's length in seconds from now on")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MusicMix(_Strict):
    """Levels and fades of the music."""

    volumeDb: Number | None = _Db
    duckingDb: Number | None = Field(None, ge=-60, le=0, description="Change while a voice speaks")
    fadeInSeconds: Number | None = Field(None, ge=0, le=30)
    fadeOutSeconds: Number | None = Field(None, ge=0, le=30)


class SfxMix(_Strict):
    """Level of the effects."""

    volumeDb: Number | None = _Db


class MixerUpdate(_Strict):
    """Changes of the mixer, in decibels and, for fades, seconds (A35)."""

    voices: dict[str, Annotated[Number, Field(ge=-60, le=12)]] = Field(
        default_factory=dict, description="Gain by track id, -60 to 12"
    )
    music: MusicMix = Field(default_factory=MusicMix)
    sfx: SfxMix = Field(default_factory=SfxMix)

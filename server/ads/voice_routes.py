"""The voice catalogue over REST: list, search, one voice."""

from typing import Annotated, Any, NotRequired

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, with_policy
from callsheet.server.http.requests import api_router
from callsheet.state.errors import Missing
from callsheet.tools.ads import voices
from callsheet.tools.ads.voices import Voice

router = api_router("/api/voices", "voices")
_READ = (400, 403, 500, 503, 504)
_Text = Annotated[str | None, Field(min_length=1, max_length=80)]


class VoiceQuery(BaseModel):
    """Filters of voices, and a page of the matches."""

    model_config = ConfigDict(extra="forbid")

    language: _Text = Field(None, description="Name, ISO-639 code or BCP-47 tag, such as pt-BR")
    gender: _Text = Field(None, description="female, male or neutral")
    accent: _Text = Field(None, description="Accent, country or locale, such as British")
    style: _Text = Field(None, description="Part of a style or a use, such as cheerful")
    name: _Text = Field(None, description="Part of the name")
    after: int = Field(0, ge=0, le=1_000_000, description="`next` of the page before")
    limit: int = Field(50, ge=1, le=200)


class VoiceView(TypedDict):
    """A voice; what its provider does not publish is left out."""

    id: str
    """The `voiceId` of a track."""
    name: str
    provider: str
    language: str
    """English name in lower case."""
    multilingual: bool
    """True if the voice speaks several languages; each has an id of its own."""
    locale: NotRequired[str]
    """BCP-47 tag."""
    gender: NotRequired[str]
    accent: NotRequired[str]
    style: NotRequired[str]
    useCase: NotRequired[str]


class VoiceList(TypedDict):
    """A page of the matching voices."""

    voices: list[VoiceView]
    total: int
    next: int | None
    """Send it as `after` for the next page; null at the end."""


@router.get("", responses=documented_responses(*_READ, 422, reply=VoiceList))
@with_policy(API_READ)
async def list_voices(query: Annotated[VoiceQuery, Query()]) -> dict[str, Any]:
    """List the voices that ads may use; filters can be combined. `…/{id}/preview` speaks a sentence."""
    matches = voices.bundled_catalogue().select(**query.model_dump(exclude={"after", "limit"}))
    end = query.after + query.limit
    return {
        "voices": [_view(voice) for voice in matches[query.after : end]],
        "total": len(matches),
        "next": end if end < len(matches) else None,
    }


@router.get("/{voice_id}", responses=documented_responses(*_READ, 404, reply=VoiceView))
@with_policy(API_READ)
async def get_voice(voice_id: str) -> VoiceView:
    """Show a voice; a slash in its id is sent as %2F."""
    voice = voices.find(voice_id)
    if voice is None:
        raise Missing(f"there is no voice {voice_id[:200]!r}", remedy="list them with GET /api/voices")
    return _view(voice)


def _view(voice: Voice) -> VoiceView:
    shown = VoiceView(
        id=voice.id,
        name=voice.name,
        provider=voice.provider,
        language=voice.language,
        multilingual=voice.multilingual,
    )
    published = {
        "locale": voice.locale,
        "gender": voice.gender,
        "accent": voice.accent,
        "style": voice.style,
        "useCase": voice.use_case,
    }
    return shown | {key: value for key, value in published.items() if value}  # type: ignore[return-value]

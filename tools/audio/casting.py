"""Casting: the speaker that an engine has for each voice of the catalogue, and a notice of other voices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.providers.speech import REMEDY, Line, Speech
from callsheet.providers.speech.local import LANGUAGE, SPEAKERS
from callsheet.state.errors import Conflict
from callsheet.tools.ads import voices
from callsheet.tools.ads.voices import Voice

_ENDPOINT_SPEAKERS: Final[Mapping[str, Sequence[str]]] = {
    "female": ("coral", "nova", "shimmer", "marin", "sage"),
    "male": ("ash", "onyx", "echo", "verse", "cedar"),
    "": ("alloy", "coral", "ash", "nova", "onyx"),
}
"""OpenAI's voices by gender as heard, for voices of other providers."""
_DIRECTIONS: Final = "Speak as in a radio advertisement."
_NARRATOR: Final = "sage"
_NARRATION: Final = "Narrate a lesson to a child, warmly and clearly."


@dataclass(frozen=True)
class CastLine:
    """A line with its speaker."""

    id: str
    """Id of the track."""
    line: Line
    notice: str
    """Sentence on the other voice that speaks; empty if it is the one that was cast."""


def cast(tracks: Sequence[Mapping[str, Any]], language: str, speech: Speech) -> list[CastLine]:
    """Return the tracks with their speakers.

    A voice keeps its speaker, and two voices have two as long as there are enough. Raises `Conflict` for a
    language that no engine speaks.
    """
    speakers: dict[str, str] = {}
    lines = []
    for track in tracks:
        voice = voices.find(str(track["voiceId"]))
        voice_language = voice.language if voice else language
        _require_language(voice_language, speech)
        name = str(track["voiceId"])
        if name not in speakers:
            speakers[name] = _speaker(voice, speech, [*speakers.values()])
        speed = float(track.get("speed") or 1.0)
        direction = "" if speech.is_local else _DIRECTIONS
        line = Line(str(track["text"]), speakers[name], voice_language, speed, direction)
        lines.append(CastLine(str(track["id"]), line, _notice(voice, name, line.speaker)))
    return lines


def narrator_lines(texts: Sequence[str], language: str, speech: Speech) -> list[Line]:
    """Return the texts as lines of one speaker; raises `Conflict` for a language that it does not speak."""
    _require_language(language, speech)
    speaker = next(iter(SPEAKERS)) if speech.is_local else _NARRATOR
    direction = "" if speech.is_local else _NARRATION
    return [Line(text, speaker, language, 1.0, direction) for text in texts]


def _require_language(language: str, speech: Speech) -> None:
    if speech.is_local and language != LANGUAGE:
        raise Conflict(
            f"nothing speaks {language.title()} here: the local voices speak English only",
            remedy=f"{REMEDY}; then render again",
        )


def _speaker(voice: Voice | None, speech: Speech, taken: Sequence[str]) -> str:
    if not speech.is_local and voice and voice.provider == "openai":
        return _own_name(voice)
    gender = voice.gender if voice and voice.gender in {"female", "male"} else ""
    known = (
        [name for name, (sounds, _) in SPEAKERS.items() if gender in {"", sounds}]
        if speech.is_local
        else _ENDPOINT_SPEAKERS[gender]
    )
    return next((name for name in known if name not in taken), known[len(taken) % len(known)])


def _own_name(voice: Voice) -> str:
    return voice.id.partition("/")[2].partition("@")[0]


def _notice(voice: Voice | None, name: str, speaker: str) -> str:
    if voice and voice.provider == "openai" and _own_name(voice) == speaker:
        return ""
    return f"{voice.name if voice else name} is not available here; {speaker} speaks"

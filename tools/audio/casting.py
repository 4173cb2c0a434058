"""Casting: the speaker that an engine has for each voice of the catalogue, and a notice of other voices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.providers.speech import LOCAL, REMEDY, Line, Speech, SpeechEngines
from callsheet.providers.speech.local import LANGUAGE, SPEAKERS
from callsheet.state.errors import Conflict
from callsheet.tools.ads import voices
from callsheet.tools.ads.voices import Voice, bundled_catalogue

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


def cast(tracks: Sequence[Mapping[str, Any]], language: str, speech: SpeechEngines) -> list[CastLine]:
    """Return the tracks with their speakers.

    A voice is spoken by the engine that has it, else by the first one that speaks its language. It keeps its
    speaker, and two voices have two as long as there are enough. Raises `Conflict` for a language that no
    engine speaks.
    """
    speakers: dict[str, tuple[Speech, str]] = {}
    lines = []
    for track in tracks:
        name = str(track["voiceId"])
        voice = voices.find(name)
        voice_language = voice.language if voice else language
        if name not in speakers:
            engine = _engine(voice, voice_language, speech)
            speakers[name] = (
                engine,
                _speaker(voice, voice_language, engine, [one for _, one in speakers.values()]),
            )
        engine, speaker = speakers[name]
        speed = float(track.get("speed") or 1.0)
        direction = "" if engine.provider == LOCAL else _DIRECTIONS
        line = Line(str(track["text"]), speaker, voice_language, speed, direction, engine.provider)
        lines.append(CastLine(str(track["id"]), line, _notice(voice, name, line)))
    return lines


def narrator_lines(texts: Sequence[str], language: str, speech: SpeechEngines) -> list[Line]:
    """Return the texts as lines of one speaker; raises `Conflict` for a language that nothing speaks."""
    engine = _engine(None, language, speech)
    speaker = _NARRATOR if engine.provider == "openai" else _speaker(None, language, engine, [])
    direction = "" if engine.provider == LOCAL else _NARRATION
    return [Line(text, speaker, language, 1.0, direction, engine.provider) for text in texts]


def _engine(voice: Voice | None, language: str, speech: SpeechEngines) -> Speech:
    """Return the engine of a voice, else the first one that speaks the language."""
    own = next((one for one in speech.engines if voice and one.provider == voice.provider), None)
    if engine := own or next((one for one in speech.engines if _speaks(one.provider, language)), None):
        return engine
    reason = "the local voices speak English only" if speech.is_local else "no engine has a voice of it"
    raise Conflict(f"nothing speaks {language.title()} here: {reason}", remedy=f"{REMEDY}; then render again")


def _speaks(provider: str, language: str) -> bool:
    if provider in {LOCAL, "openai"}:
        return provider == "openai" or language == LANGUAGE
    return bool(_catalogue(provider, language))


def _catalogue(provider: str, language: str) -> list[Voice]:
    """Return the voices of a provider for a language, those that are native to it first."""
    own = [one for one in bundled_catalogue().voices if (one.provider, one.language) == (provider, language)]
    return sorted(own, key=lambda one: (not one.native, one.rank))


def _speaker(voice: Voice | None, language: str, engine: Speech, taken: Sequence[str]) -> str:
    if voice and voice.provider == engine.provider:
        return _own_name(voice)
    gender = voice.gender if voice and voice.gender in {"female", "male"} else ""
    if engine.provider == LOCAL:
        known = [name for name, (sounds, _) in SPEAKERS.items() if gender in {"", sounds}]
    elif engine.provider == "openai":
        known = [*_ENDPOINT_SPEAKERS[gender]]
    else:
        offered = _catalogue(engine.provider, language)
        # Voices of one vendor's services may share their names, such as Kore.
        namesakes = [one for one in offered if voice and one.name == voice.name]
        fitting = [one for one in offered if gender in {"", one.gender}] or offered
        known = [_own_name(one) for one in (*namesakes, *fitting)]
    return next((name for name in known if name not in taken), known[len(taken) % len(known)])


def _own_name(voice: Voice) -> str:
    return voice.id.partition("/")[2].partition("@")[0]


def _notice(voice: Voice | None, name: str, line: Line) -> str:
    if voice and voice.provider == line.engine and _own_name(voice) == line.speaker:
        return ""
    return f"{voice.name if voice else name} is not available here; {line.speaker} speaks"

"""Timeline of an ad: start and end of every track, effect and the music.

Times are seconds from the first sound. A track starts at the end of the track it plays after, minus its
`overlap`, and never before 0; a negative overlap leaves a gap. `playAfter` is "start" or an earlier
track. An effect's position is its `placement`.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from callsheet.state.ads.profiles import SILENCE_S
from callsheet.state.errors import Invalid
from callsheet.state.languages import LANGUAGES, Language, find
from callsheet.state.read_aloud import text_aloud
from callsheet.state.sentences import sentence_spans

PAUSE_S = 0.25
"""Pause after each sentence or line break within a track."""
ROUNDING_S = 0.05
"""Seconds by which an ad may exceed its spot."""
EDGES_S: Final = 2 * SILENCE_S
"""Silence at both ends of a file, which is part of the spot."""
SHORT_SHARE = 0.5
"""Part of its spot below which an ad is short."""
_PAUSE = re.compile(r"[;:](?=\s+\S)|[；：](?=.)")
"""Pause within a sentence."""
_ENGLISH: Language = LANGUAGES[0]
_ESTIMATED: Final[Mapping[str, float]] = MappingProxyType({})
_WIDE = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_PLACEMENTS: Final[Mapping[str, str]] = {
    "start": "at the start",
    "end": "at the end",
    "beforeVoices": "before the voices",
    "withFirstVoice": "with the first voice",
}


class Span(TypedDict):
    """A start and an end."""

    start: float
    end: float


class VoiceSpan(Span):
    """Times of one voice track."""

    id: str
    voiceId: str


class SfxSpan(Span):
    """Times of one effect."""

    description: str


class Timeline(TypedDict):
    """Times of all parts of an ad."""

    spotSeconds: float
    """Requested length."""
    durationSeconds: float
    """Actual length: the end of the last voice or effect."""
    fits: bool
    """True if the actual length, with half a second of silence at both ends, is within 0.05 s of the spot or
    shorter: nothing is cut, and a rendered file is no longer than the spot."""
    overSeconds: float
    """Seconds by which it is longer, silence included; 0 if it fits."""
    short: bool
    """True when a script fills less than half of the requested length."""
    timing: Literal["estimated", "measured"]
    """`measured` if every voice track has the length of its rendered speech."""
    voices: list[VoiceSpan]
    sfx: list[SfxSpan]
    music: NotRequired[Span]


def placement_words(placement: Mapping[str, Any]) -> str:
    """Return when an effect is heard, in words."""
    return _PLACEMENTS.get(placement["type"], f"after voice {(placement.get('index') or 0) + 1}")


def speaking_time_s(text: str, language: str, speed: float = 1.0) -> float:
    """Return the seconds it takes to speak `text`, including pauses between sentences.

    Numbers, initialisms and other signs count as they are read aloud. Scripts without spaces count
    characters, other scripts words; foreign words within the former count as English. An unknown language is
    timed as English.
    """
    spec = find(language) or _ENGLISH
    units_s = _units_s(text_aloud(text, spec.name), spec)
    if not units_s:
        return 0.0
    breaths = max(0, len(sentence_spans(text, spec.name)) - 1) + len(_PAUSE.findall(text))
    return round((units_s + breaths * PAUSE_S) / speed, 3)


def words_that_fit(
    language: str, seconds: float, effects: Sequence[Mapping[str, Any]] = ()
) -> tuple[int, str]:
    """Return how many words, or characters, of a language can be spoken in `seconds`, and their unit.

    The silence at both ends, and effects before the first voice and after the last one, take their time. A
    sentence of twelve words is assumed between pauses; an unknown language counts as English.
    """
    seconds -= EDGES_S + sum(
        _duration(effect) for effect in effects if _placement(effect) in {"start", "end"}
    )
    spec = find(language) or _ENGLISH
    sentence = 12 if spec.unit == "word" else 12 * spec.rate / _ENGLISH.rate
    return int(max(0.0, seconds) / (1 / spec.rate + PAUSE_S / sentence)), f"{spec.unit}s"


def _units_s(text: str, spec: Language) -> float:
    if spec.unit == "word":
        return sum(_word_units(word) for word in text.split()) / spec.rate
    wide = sum(1 for char in text if _WIDE.match(char) and not unicodedata.category(char).startswith("M"))
    foreign = _WIDE.sub(" ", text).split()
    return wide / spec.rate + sum(_word_units(word) for word in foreign) / _ENGLISH.rate


def _word_units(word: str) -> float:
    characters = [char for char in word if char.isalnum()]
    if not characters:
        return 0.0
    digits = sum(char.isdigit() for char in characters)
    letters = len(characters) - digits
    # A digit that is not read out adds about one word; a long compound takes longer than a word.
    return digits * 0.8 + (max(1.0, letters / 12) if letters else 0.0)


def build_timeline(
    tracks: Sequence[Mapping[str, Any]],
    effects: Sequence[Mapping[str, Any]],
    *,
    language: str,
    spot_s: float,
    music: Mapping[str, Any] | None = None,
    speech_s: Mapping[str, float] = _ESTIMATED,
) -> Timeline:
    """Return the timeline of stored tracks, effects and music.

    `speech_s` has the seconds of rendered speech by track; the others are estimated. Raises `Invalid` for a
    `playAfter` that is not "start" or an earlier track.
    """
    lead = sum(_duration(effect) for effect in effects if _placement(effect) == "start")
    lengths = {
        str(track["id"]): speaking_time_s(str(track["text"]), language, float(track.get("speed") or 1.0))
        for track in tracks
        if track["id"] not in speech_s
    }
    voices = _place_voices(tracks, {**speech_s, **lengths}, lead)
    sfx = _place_sfx(effects, voices, lead)
    end = max([span["end"] for span in (*voices, *sfx)], default=0.0)
    over_s = end + EDGES_S - spot_s
    fits = over_s <= ROUNDING_S
    result = Timeline(
        spotSeconds=spot_s,
        durationSeconds=round(end, 2),
        fits=fits,
        overSeconds=0.0 if fits else round(over_s, 2),
        short=bool(voices) and end < spot_s * SHORT_SHARE,
        timing="estimated" if lengths or not tracks else "measured",
        voices=voices,
        sfx=sfx,
    )
    if music is not None:
        result["music"] = Span(start=0.0, end=round(float(music.get("duration") or max(spot_s, end)), 2))
    return result


def _place_voices(
    tracks: Sequence[Mapping[str, Any]], lengths: Mapping[str, float], lead: float
) -> list[VoiceSpan]:
    ends: dict[str, float] = {"start": lead}
    spans: list[VoiceSpan] = []
    for track in tracks:
        after = str(track["playAfter"])
        if after not in ends:
            known = ", ".join(repr(name) for name in ends)
            raise Invalid(
                f"track {track['id']!r} plays after {after!r}, which is not 'start' or an earlier track",
                remedy=f"use one of {known}",
            )
        start = max(0.0, ends[after] - float(track.get("overlap") or 0.0))
        end = start + lengths[str(track["id"])]
        ends[str(track["id"])] = end
        spans.append(
            VoiceSpan(
                id=str(track["id"]), voiceId=str(track["voiceId"]), start=round(start, 2), end=round(end, 2)
            )
        )
    return spans


def _place_sfx(
    effects: Sequence[Mapping[str, Any]], voices: Sequence[VoiceSpan], lead: float
) -> list[SfxSpan]:
    voices_end = max((span["end"] for span in voices), default=lead)
    cursor = {"start": 0.0, "end": voices_end}
    spans: list[SfxSpan] = []
    for effect in effects:
        kind = _placement(effect)
        start = _after_voice(effect, voices, lead) if kind == "afterVoice" else cursor.get(kind, lead)
        start = max(0.0, start - float(effect.get("overlap") or 0.0))
        end = start + _duration(effect)
        if kind in cursor:
            cursor[kind] = end
        spans.append(
            SfxSpan(description=str(effect["description"]), start=round(start, 2), end=round(end, 2))
        )
    return spans


def _after_voice(effect: Mapping[str, Any], voices: Sequence[VoiceSpan], lead: float) -> float:
    # Streams have separate versions: if the effect's track no longer exists, it plays after the last one.
    index = min(int(effect["placement"]["index"]), len(voices) - 1)
    return voices[index]["end"] if voices else lead


def _placement(effect: Mapping[str, Any]) -> str:
    kind = str((effect.get("placement") or {}).get("type", "end"))
    return "start" if kind == "beforeVoices" else kind


def _duration(effect: Mapping[str, Any]) -> float:
    return float(effect.get("duration") or 0.0)

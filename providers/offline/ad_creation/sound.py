"""Music prompts and sound effects for a brief, in the English that generators read."""

from collections.abc import Mapping
from typing import Any

from providers.offline.ad_creation.brief import Brief
from providers.offline.ad_creation.phrasebook import pick
from providers.offline.ad_creation.wording import data, folded

_QUIET = "very soft minimal ambient bed, barely audible, no melody, no drums"
_FEW_S, _SOME_S = 10.0, 20.0
"""Below the first a spot gets one effect under the voice; below the second one at the start."""
_END_SHARE = 0.07
"""An effect after the last word may take this share of the spot; the rest is spoken."""
_START_SHARE = 0.1
"""What all effects before the first word may take together."""
_MIN_S = 0.5
_WISHED_S = 1.5


def _seed(brief: Brief) -> str:
    return f"{brief.client}\n{brief.context}"


def _table(brief: Brief, key: str) -> list[Any]:
    sounds = data("cues/sounds")
    own: Mapping[str, Any] = sounds["kinds"].get(brief.kind.name, {})
    return list(own.get(key) or sounds["categories"][brief.kind.category][key])


def music_prompt(brief: Brief, tone: str, *, seconds: float | None = None, variant: int = 0) -> str:
    """Return a generator's prompt: what was wished, else what suits the client, with mood and tempo."""
    if brief.wishes.music_level:
        return _QUIET
    genres, moods = _table(brief, "music"), data("cues/sounds")["tones"][tone]
    mood = moods[pick(_seed(brief), "mood", len(moods), variant)]
    genre = brief.wishes.music or genres[pick(_seed(brief), "genre", len(genres), variant)]
    group = data("cues/sounds")["groups"].get(brief.group, "")
    local = "" if brief.wishes.music else data("cues/sounds")["markets"].get(folded(brief.market), "")
    length = f"about {seconds:g} seconds" if seconds else ""
    parts = [genre, mood, group, local, "instrumental, no vocals, leaves room for a voice-over", length]
    return ", ".join(part for part in parts if part)


def effects(brief: Brief, seconds: float) -> list[dict[str, Any]]:
    """Return one to three effects for the client as `create_sfx_draft` takes them, or none if so wished."""
    if brief.wishes.no_effects:
        return []
    planned = [_wished(name) for name in brief.wishes.effects] or [
        _usual(*row) for row in _table(brief, "effects")
    ]
    if seconds < _FEW_S:
        return [
            {
                **planned[0],
                "placement": {"type": "withFirstVoice"},
                "duration": min(1.0, planned[0]["duration"]),
            }
        ]
    if seconds < _SOME_S and not brief.wishes.effects:
        planned = planned[:1]
    share = _START_SHARE / max(1, sum(one["placement"]["type"] == "start" for one in planned))
    return [_fitted(one, seconds, share) for one in planned]


def _usual(description: str, placement: str, duration: float) -> dict[str, Any]:
    return {"description": description, "placement": {"type": placement}, "duration": duration}


def _wished(name: str) -> dict[str, Any]:
    words = folded(name)
    ending = next((tail for tail in _ENDINGS if words.endswith(tail)), "")
    start = any(words.endswith(tail) for tail in _STARTS)
    bare = name[: len(name) - len(ending)] if ending else name
    for tail in _STARTS:
        bare = bare.removesuffix(tail)
    return _usual(bare.strip() or name, "end" if ending and not start else "start", _WISHED_S)


_ENDINGS = (" at the end", " at the finish", " in the end", " to finish", " to close")
_STARTS = (" at the start", " at the beginning", " in the beginning", " to start", " to open", " first")


def _fitted(effect: dict[str, Any], seconds: float, start_share: float) -> dict[str, Any]:
    longest = seconds * (_END_SHARE if effect["placement"]["type"] == "end" else start_share)
    return {**effect, "duration": max(_MIN_S, round(min(float(effect["duration"]), longest), 1))}


def lead_s(planned: list[dict[str, Any]]) -> float:
    """Return the seconds of the effects that come before the first word."""
    return sum(
        float(one["duration"]) for one in planned if one["placement"]["type"] in {"start", "beforeVoices"}
    )

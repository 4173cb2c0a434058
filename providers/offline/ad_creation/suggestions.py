"""One idea after a change (A78), worded so that "yes" can be read as if the person had said it."""

import re
from collections.abc import Sequence

from providers.offline.ad_creation.conversation import Turn
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.replies import phrase
from providers.offline.ad_creation.script import duration_s, fits
from providers.offline.ad_creation.tracks_after import edited
from state.ad import Stream

_QUESTION = re.compile(r"[^.!?\n。！？]{4,160}[?？]|[^\n]{4,160}$")


def suggestion(before: Ad, after: Ad, streams: Sequence[Stream], language: str, said: str = "") -> str:
    """Return one thing to try next that `said` does not suggest yet; or empty."""
    if not after.tracks:
        return ""
    if duration_s(after, after.tracks) > after.spot_s + 0.05:
        return phrase("suggest.shorten", language)
    ideas = {
        "voices": [*_slower(before, after, language), phrase("suggest.recast", language, {"track": "1"})],
        "sfx": _about_music(after, language),
        "music": _about_effects(after, language),
    }
    order = sorted(ideas, key=lambda stream: stream not in streams)
    options = [idea for stream in order for idea in ideas[stream]] + [phrase("suggest.variations", language)]
    return next((idea for idea in options if idea not in said), "")


def _slower(before: Ad, after: Ad, language: str) -> list[str]:
    last = len(after.tracks) - 1
    slower = edited(after, [last], speed=float(after.tracks[last].get("speed") or 1.0) * 0.93)
    same_pace = [track.get("speed") for track in before.tracks] == [
        track.get("speed") for track in after.tracks
    ]
    suits = same_pace and fits(after, slower)
    return [phrase("suggest.slower", language, {"track": str(last + 1)})] if suits else []


def _about_music(after: Ad, language: str) -> list[str]:
    if not after.music:
        return []
    prompt = str(after.music.get("musicPrompt", "")).lower()
    return [phrase("suggest.calmer" if "upbeat" in prompt else "suggest.upbeat", language)]


def _about_effects(after: Ad, language: str) -> list[str]:
    whooshing = any("whoosh" in str(one.get("description", "")).lower() for one in after.effects)
    return [] if whooshing else [phrase("suggest.whoosh", language)]


def suggested(turns: Sequence[Turn]) -> str:
    """Return what the last reply suggested as a question, or empty."""
    for turn in reversed(turns):
        said = next(
            (step.text for step in reversed(turn.steps) if step.text.strip() and not step.exchanges), ""
        )
        if said:
            last = said.strip().splitlines()[-1]
            found = _QUESTION.findall(last)
            return found[-1].strip() if found else ""
    return ""

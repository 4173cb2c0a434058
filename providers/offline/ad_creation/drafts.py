"""The calls that write an ad's streams, and what to do when one fails."""

from collections.abc import Mapping, Sequence
from typing import Any

from providers.offline.ad_creation.history import TOOL_OF, Ad
from providers.offline.answer import Request
from providers.offline.exchange import Exchange
from state.ad import Stream

ATTEMPTS = 3
"""Times a draft or a look at the ad is tried before the failure is told."""
_TRACK = ("voiceId", "text", "playAfter", "overlap", "speed")
_EFFECT = ("description", "placement", "duration")


def request(ad_id: str, stream: Stream, ad: Ad) -> Request:
    """Return the call that writes a stream as it stands: whole, for a version holds everything."""
    if stream == "voices":
        return Request(TOOL_OF[stream], {"adId": ad_id, "tracks": [_given(one, _TRACK) for one in ad.tracks]})
    if stream == "sfx":
        return Request(
            TOOL_OF[stream], {"adId": ad_id, "prompts": [_given(one, _EFFECT) for one in ad.effects]}
        )
    music = ad.music or {}
    args: dict[str, Any] = {
        "adId": ad_id,
        "prompt": music.get("musicPrompt", ""),
        "provider": music.get("musicProvider") or "loudly",
    }
    return Request(TOOL_OF[stream], args | ({"duration": music["duration"]} if music.get("duration") else {}))


def _given(data: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: data[key] for key in keys if data.get(key) is not None}


def failures(drafted: Sequence[Exchange]) -> list[Exchange]:
    """Return the drafts whose last attempt failed."""
    last = {one.name: one for one in drafted}
    return [one for one in last.values() if one.version is None]


def corrected(failed: Exchange, drafted: Sequence[Exchange]) -> Request | None:
    """Return a failed draft to try again: as it was, or with effects that fit the tracks.

    None when it was tried often enough, or nothing else is to be tried.
    """
    tries = [one for one in drafted if one.name == failed.name and one.failed]
    if len(tries) >= ATTEMPTS:
        return None
    if (failed.result or {}).get("retryable"):
        return Request(failed.name, dict(failed.args))
    prompts = failed.args.get("prompts", ())
    if not any("index" in (one.get("placement") or {}) for one in prompts):
        return None
    return Request(failed.name, {**failed.args, "prompts": [_at_end(one) for one in prompts]})


def _at_end(prompt: Mapping[str, Any]) -> dict[str, Any]:
    placed = "index" in (prompt.get("placement") or {})
    return {**prompt, "placement": {"type": "end"}} if placed else dict(prompt)

"""The hand-off of an ad: script, cue sheet, checks, the sound, and VAST."""

import json
from collections.abc import Mapping
from typing import Any

from callsheet.server.ads import audio
from callsheet.server.ads.audio import AdScore
from callsheet.state.ads import handoff
from callsheet.state.ads.ad import TITLES
from callsheet.state.ads.profiles import PROFILES
from callsheet.state.ads.timeline import SfxSpan, Span, Timeline
from callsheet.storage.artefacts import recordings
from callsheet.tools.ads import voices


async def handoff_files(score: AdScore, title: str, media_url: str | None) -> dict[str, bytes]:
    """Return the files by name; raise `Missing` if the ad was not rendered.

    The title heads them. `media_url` is the address at which the sound will be served; without it there is no
    VAST document.
    """
    record = await audio.find_rendering(score)
    if record is None:
        raise audio.missing_rendering(score)
    ref, details = score.ref, record["details"]
    timeline, name = _rendered_timeline(details), ref.artefact.id
    versions = ", ".join(f"{TITLES[stream]} {version}" for stream, version in score.versions.items())
    about = [f"Ad {name}: {versions}.", *score.activation]
    report = await audio.preflight_view(score, score.request.profile)
    pieces = recordings.read(ref.storage, ref.artefact, score.digest, 0, record["size"])
    streams = _with_voice_names(score.streams)
    files = {
        "script.md": handoff.script(title, about, streams, timeline).encode(),
        # The mark by which spreadsheets know UTF-8.
        "cues.csv": handoff.cue_sheet(streams, timeline, score.mixer).encode("utf-8-sig"),
        "preflight.json": json.dumps(report, ensure_ascii=False, indent=2).encode(),
        f"ad.{score.request.format}": b"".join([piece async for piece in pieces]),
    }
    if media_url:
        files["vast.xml"] = handoff.vast(name, title, media_url, record["type"], details["seconds"]).encode()
    return files


def _with_voice_names(streams: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Return the streams with the name of each voice before its id, by which a producer finds it."""
    data = streams.get("voices", {})
    tracks = [{**one, "voiceId": _voice_words(one["voiceId"])} for one in data.get("voiceTracks", ())]
    return {**streams, "voices": {**data, "voiceTracks": tracks}} if tracks else streams


def _voice_words(voice_id: str) -> str:
    voice = voices.find(voice_id)
    return f"{voice.words()} ({voice_id})" if voice else voice_id


def _rendered_timeline(details: Mapping[str, Any]) -> Timeline:
    """Return the timeline of a rendered file, with music and effects that end where the file's sound ends."""
    timeline: Timeline = details["timeline"]
    end = round(details["seconds"] - 2 * PROFILES[details["profile"]].silence_s, 2)
    sfx = [
        SfxSpan(description=one["description"], start=min(one["start"], end), end=min(one["end"], end))
        for one in timeline["sfx"]
    ]
    result = Timeline(**{**timeline, "sfx": sfx})
    if "music" in timeline:
        result["music"] = Span(start=0.0, end=min(timeline["music"]["end"], end))
    return result

"""The ad as the look-up tool shows it, the calls that write it, and what their receipts say."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from callsheet.providers.offline.conversation import Call, Request, Turn

Data = Mapping[str, Any]
LOOK: Final = "get_current_state"
WRITERS: Final = {"voices": "create_voice_draft", "music": "create_music_draft", "sfx": "create_sfx_draft"}
TITLES: Final = {"voices": "voices", "music": "music", "sfx": "sound effects"}
_STORED: Final = {
    "voices": {"tracks": "voiceTracks"},
    "music": {"prompt": "musicPrompt", "provider": "musicProvider", "duration": "duration"},
    "sfx": {"prompts": "soundFxPrompts"},
}
"""By stream, the keys under which the arguments of its tool are stored."""
_FIELDS: Final = {
    "tracks": ("voiceId", "text", "playAfter", "overlap", "speed"),
    "prompts": ("description", "placement", "duration"),
}
"""By argument, the fields of each item that the tool takes."""
_PLACES: Final = {"start": "at the start", "end": "at the end", "afterVoice": "after voice {}"}


class Unable(Exception):
    """A request that was understood and cannot be met; the text says why."""


@dataclass(frozen=True)
class Ad:
    """An ad with what its streams hold."""

    streams: Mapping[str, Data]
    """Newest data by stream; a stream without a version is absent."""
    versions: Mapping[str, Mapping[str, Data | None]]
    """By stream and version; None for data that is no longer shown."""
    language: str
    spot_s: float

    @property
    def tracks(self) -> list[Data]:
        """Spoken tracks in order."""
        return list(self.streams.get("voices", {}).get("voiceTracks", ()))

    @property
    def effects(self) -> list[Data]:
        """Sound effects in order."""
        return list(self.streams.get("sfx", {}).get("soundFxPrompts", ()))

    def having(self, stream: str, **data: Any) -> "Ad":
        """Return the ad with other data in one stream; keys that are not given stay."""
        return replace(self, streams={**self.streams, stream: {**self.streams.get(stream, {}), **data}})

    def with_track(self, index: int, **changes: Any) -> "Ad":
        """Return the ad with one track changed."""
        tracks = [{**one, **changes} if i == index else one for i, one in enumerate(self.tracks)]
        return self.having("voices", voiceTracks=tracks)


def shown(state: Data) -> Ad:
    """Return the ad in a result of `get_current_state`; raises `Unable` where there is none."""
    streams = {name: state[name] for name in WRITERS if name in state}
    if not streams:
        raise Unable(str(state.get("error", "There is no ad yet; describe the client first.")))
    versions = {
        name: {one["versionId"]: one.get("data") for one in streams[name]["versions"]} for name in streams
    }
    newest = {name: stream["data"] for name, stream in streams.items()}
    return Ad(newest, versions, state["ad"]["language"], state["ad"]["spotSeconds"])


def ad_id(system: str) -> str:
    """Return the ad's id, which the system prompt names."""
    found = re.search(r'^Ad id: (".*")$', system, re.MULTILINE)
    return str(json.loads(found[1])) if found else ""


def writes(before: Ad, after: Ad, name: str) -> list[Request]:
    """Return the calls that write the streams that differ."""
    changed = [one for one in after.streams if after.streams[one] != before.streams.get(one)]
    return [Request(WRITERS[one], {"adId": name, **_arguments(one, after.streams[one])}) for one in changed]


def _arguments(stream: str, data: Data) -> dict[str, Any]:
    given = {argument: data[key] for argument, key in _STORED[stream].items()}
    for name in given.keys() & _FIELDS:
        given[name] = [{key: one[key] for key in _FIELDS[name] if key in one} for one in given[name]]
    return given


def written(turn: Turn) -> list[tuple[str, Call]]:
    """Return the answered calls that write, each with its stream."""
    return [(stream, call) for stream, tool in WRITERS.items() for call in turn.answered(tool)]


def problems(turn: Turn) -> list[str]:
    """Return sentences on what was not written, and on a length that does not fit."""
    results = [(stream, call.result or {}) for stream, call in written(turn)]
    said = [f"No new {TITLES[name]}: {one['error']}." for name, one in results if "error" in one]
    made = {name: one for name, one in results if "error" not in one}
    if notes := made.get("voices", {}).get("tightened"):
        said.append(f"To fit the spot, the voice tool {' and '.join(notes)}.")
    # Effects are written after the voices they may follow; music changes no length.
    newest: Data = next((made[one] for one in ("sfx", "voices", "music") if one in made), {})
    time = newest.get("timeline", {"fits": True})
    if not time["fits"]:
        said.append(f"The ad runs {time['durationSeconds']:g} s and the spot has {time['spotSeconds']:g} s.")
        said.append("Should I make the script shorter?")
    return said


def described(ad: Ad, versions: Mapping[str, str | None], before: Ad | None = None) -> str:
    """Return streams in words, each with its version; of the voices, the tracks that are not as `before`."""
    known = before.tracks if before else []
    words = {
        "voices": (
            f"voice {i + 1} ({one['voiceId']}, pace {one['speed']:g}) says “{one['text']}”"
            for i, one in enumerate(ad.tracks)
            if one not in known[i : i + 1]
        ),
        "music": [f"“{ad.streams.get('music', {}).get('musicPrompt')}”"],
        "sfx": (f"“{one['description']}” {_place(one['placement'])}" for one in ad.effects),
    }
    heads = {stream: f"{TITLES[stream].capitalize()} {version}" for stream, version in versions.items()}
    return "\n".join(f"{head}: {', '.join(words[stream]) or 'none'}" for stream, head in heads.items())


def _place(placement: Data) -> str:
    return _PLACES.get(placement["type"], "with the first voice").format(placement.get("index", 0) + 1)

"""The ad in the result of the look-up tool, the calls that write it, and the report of their results."""

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
_ARGUMENTS: Final = {
    "voices": {"tracks": "voiceTracks"},
    "music": {"prompt": "musicPrompt", "provider": "musicProvider", "duration": "duration"},
    "sfx": {"prompts": "soundFxPrompts"},
}
"""By stream: each argument of its tool, and the key that stores it."""
_ITEM_KEYS: Final = {
    "tracks": ("voiceId", "text", "playAfter", "overlap", "speed"),
    "prompts": ("description", "placement", "duration"),
}
"""By argument: the keys of an item that the tool takes."""


class Unable(Exception):
    """A request that was understood but cannot be done; the text gives the reason."""


@dataclass(frozen=True)
class Ad:
    """An ad with the data of its streams."""

    streams: Mapping[str, Data]
    """Newest data by stream; a stream without a version is absent."""
    language: str
    spot_s: float

    @property
    def tracks(self) -> list[Data]:
        """Voice tracks in order."""
        return list(self.streams.get("voices", {}).get("voiceTracks", ()))

    @property
    def effects(self) -> list[Data]:
        """Sound effects in order."""
        return list(self.streams.get("sfx", {}).get("soundFxPrompts", ()))

    def with_data(self, stream: str, **data: Any) -> "Ad":
        """Return the ad with these keys changed in one stream."""
        return replace(self, streams={**self.streams, stream: {**self.streams.get(stream, {}), **data}})

    def with_track(self, index: int, **changes: Any) -> "Ad":
        """Return the ad with one track changed."""
        tracks = self.tracks
        tracks[index] = {**tracks[index], **changes}
        return self.with_data("voices", voiceTracks=tracks)


def read(result: Data) -> Ad:
    """Return the ad in a result of `get_current_state`; raise `Unable` if there is none."""
    streams = {name: result[name] for name in WRITERS if name in result}
    if not streams:
        raise Unable(str(result.get("error", "There is no ad yet; describe the client first.")))
    newest = {name: stream["data"] for name, stream in streams.items()}
    return Ad(newest, result["ad"]["language"], result["ad"]["spotSeconds"])


def ad_id(system: str) -> str:
    """Return the ad's id from the system prompt."""
    line = re.search(r'^Ad id: (".*")$', system, re.MULTILINE)
    return str(json.loads(line[1])) if line else ""


def writes(before: Ad, after: Ad, name: str) -> list[Request]:
    """Return the calls that write the streams that differ."""
    changed = [each for each in after.streams if after.streams[each] != before.streams.get(each)]
    return [
        Request(WRITERS[stream], {"adId": name, **_arguments(stream, after.streams[stream])})
        for stream in changed
    ]


def _arguments(stream: str, data: Data) -> dict[str, Any]:
    arguments = {argument: data[key] for argument, key in _ARGUMENTS[stream].items()}
    for name in arguments.keys() & _ITEM_KEYS:
        arguments[name] = [
            {key: item[key] for key in _ITEM_KEYS[name] if key in item} for item in arguments[name]
        ]
    return arguments


def write_calls(turn: Turn) -> list[tuple[str, Call]]:
    """Return the answered calls that write, each with its stream."""
    return [(stream, call) for stream, tool in WRITERS.items() for call in turn.calls_to(tool)]


def problems(turn: Turn) -> list[str]:
    """Return sentences about failed writes and about a length that does not fit."""
    results = {stream: call.result or {} for stream, call in write_calls(turn)}
    lines = [f"No new {TITLES[each]}: {data['error']}." for each, data in results.items() if "error" in data]
    if notes := results.get("voices", {}).get("tightened"):
        lines.append(f"To fit the spot, the voice tool {' and '.join(notes)}.")
    # Effects are written after the voices they may follow; music changes no length.
    timelines = [results[each].get("timeline") for each in ("voices", "sfx") if each in results]
    if (time := [each for each in timelines if each][-1:]) and not time[0]["fits"]:
        lines += [
            f"The ad runs {time[0]['durationSeconds']:g} s and the spot has {time[0]['spotSeconds']:g} s.",
            "Should I make the script shorter?",
        ]
    return lines

"""The ad in the result of the look-up tool, the calls that write it, and the report of their results."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from callsheet.providers.offline.conversation import PastCall, PastTurn, PlannedCall
from callsheet.state.ads.ad import TITLES

Data = Mapping[str, Any]
LOOK, UNDO = "get_current_state", "undo_change"
WRITERS: Final = {"voices": "create_voice_draft", "music": "create_music_draft", "sfx": "create_sfx_draft"}
_ARGUMENTS: Final = {  # by stream: each argument of its tool, and the key that stores it
    "voices": {"tracks": "voiceTracks"},
    "music": {"prompt": "musicPrompt", "provider": "musicProvider", "duration": "duration"},
    "sfx": {"prompts": "soundFxPrompts"},
}
_ITEM_KEYS: Final = {  # by argument: the keys of an item that the tool takes
    "tracks": ("voiceId", "text", "playAfter", "overlap", "speed"),
    "prompts": ("description", "placement", "duration"),
}


class Unable(Exception):
    """A request that was understood but cannot be done; the text gives the reason."""


@dataclass(frozen=True)
class Ad:
    """An ad with the data of its streams."""

    streams: Mapping[str, Data]
    """Newest data by stream; a stream without a version is absent."""
    language: str
    genders: Mapping[str, str]  # of its voices by id

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


def read_ad(result: Data) -> Ad:
    """Return the ad in a result of `get_current_state`; raise `Unable` if there is none."""
    streams = {name: result[name] for name in WRITERS if name in result}
    if not streams:
        raise Unable(str(result.get("error", "There is no ad yet; describe the client first.")))
    newest = {name: stream["data"] for name, stream in streams.items()}
    return Ad(newest, result["ad"]["language"], result["ad"].get("genders", {}))


def writes(before: Ad, after: Ad) -> list[PlannedCall]:
    """Return the calls that write the streams that differ."""
    return [
        PlannedCall(WRITERS[stream], _arguments(stream, data))
        for stream, data in after.streams.items()
        if data != before.streams.get(stream)
    ]


def _arguments(stream: str, data: Data) -> dict[str, Any]:
    arguments = {argument: data[key] for argument, key in _ARGUMENTS[stream].items()}
    for name in arguments.keys() & _ITEM_KEYS:
        arguments[name] = [
            {key: item[key] for key in _ITEM_KEYS[name] if key in item} for item in arguments[name]
        ]
    return arguments


def write_calls(turn: PastTurn) -> list[tuple[str, PastCall]]:
    """Return the answered calls that write, each with its stream."""
    return [(stream, call) for stream, tool in WRITERS.items() for call in turn.calls_to(tool)]


def report(turn: PastTurn) -> list[str]:
    """Return sentences about the new versions of a turn, and its problems."""
    versions = [f"{TITLES[stream]} {call.version}" for stream, call in write_calls(turn) if call.version]
    casts = [(call.result or {}).get("castChanges", ()) for call in turn.calls_to(WRITERS["voices"])]
    cast = casts[0] if len(casts) == 1 else ()  # variations have other voices anyway
    return [*([f"Ready to review: {', '.join(versions)}."] if versions else []), *cast, *problems(turn)]


def problems(turn: PastTurn) -> list[str]:
    """Return sentences about failed writes and about a length that does not fit."""
    results = {stream: call.result or {} for stream, call in write_calls(turn)}
    lines = [f"No new {TITLES[each]}: {data['error']}." for each, data in results.items() if "error" in data]
    # Effects are written after the voices they may follow; music changes no length.
    timelines = [results[each].get("timeline") for each in ("sfx", "voices") if each in results]
    time = next(filter(None, timelines), {"fits": True})
    if not time["fits"]:
        runs, spot = time["durationSeconds"], time["spotSeconds"]
        lines.append(f"The ad runs {runs:g} s and a second of silence, and the spot has {spot:g} s.")
        lines.append("Should I make the script shorter?")
    return lines

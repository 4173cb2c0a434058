"""An ad in a few lines, as the planner's model reads it with every message."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.state.ads.timeline import Timeline, words_that_fit
from callsheet.state.versions import Version, created_by_model

MAX_SCRIPT: Final = 2_400
"""Characters of a script that are shown in full; of a longer one the beginning of each track."""
_BEGINNING: Final = 80


def heading(spot_s: float, language: str, market: str) -> str:
    """Return the ad's length, language and market, and the words that fit."""
    count, unit = words_that_fit(language, spot_s)
    return f"Spot: {spot_s:g} s, {language}, market {market}. About {count} {unit} fit, without effects."


def stream_lines(
    newest: Mapping[str, Version], active: Mapping[str, str | None], locked: frozenset[str]
) -> list[str]:
    """Return the newest version of each stream, with a line for each track and effect."""
    lines: list[str] = []
    for name, version in newest.items():
        notes = [
            *([] if created_by_model(version) else ["made by the person"]),
            *(["active"] if active.get(name) == version.id else []),
            *(["locked"] if name in locked else []),
        ]
        lines.append(f"{name} {version.id}{_in_brackets(notes)}:{_short(name, version)}")
        lines += _parts(name, version.data)
    return lines


def length_line(timeline: Timeline) -> str:
    """Return the ad's length beside its spot."""
    over = round(timeline["durationSeconds"] - timeline["spotSeconds"], 1)
    verdict = "fits" if timeline["fits"] else f"too long by {over:g} s"
    return f"Length: {timeline['durationSeconds']:g} s of {timeline['spotSeconds']:g} s, {verdict}."


def _short(stream: str, version: Version) -> str:
    data = version.data
    return (
        f" {data['musicProvider']}, {data.get('duration', 0):g} s, {data['musicPrompt']}"
        if stream == "music"
        else ""
    )


def _parts(stream: str, data: Mapping[str, Any]) -> Iterator[str]:
    if stream == "voices":
        yield from _tracks(data["voiceTracks"])
    elif stream == "sfx":
        for effect in data["soundFxPrompts"]:
            place = effect["placement"]
            at = f"{place['type']} {place['index']}" if "index" in place else place["type"]
            yield f"- {at}, {effect['duration']:g} s: {effect['description']}"


def _tracks(tracks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    is_short = sum(len(track["text"]) for track in tracks) <= MAX_SCRIPT
    before = "start"
    for track in tracks:
        extras = [
            *([f"after {track['playAfter']}"] if track["playAfter"] != before else []),
            *([f"overlap {track['overlap']:g} s"] if track["overlap"] else []),
            *([f"speed {track['speed']:g}"] if track["speed"] != 1 else []),
        ]
        before = track["id"]
        text = track["text"] if is_short else f"{track['text'][:_BEGINNING]}… (get_current_state has it all)"
        yield f"- {track['id']} {track['voiceId']}{_in_brackets(extras)}: {text}"


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""

"""An ad in a few lines, as the planner's model reads it with every message."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.state.ads.timeline import Timeline, words_that_fit
from callsheet.state.state_block import NEEDED, StateLine
from callsheet.state.versions import Version, created_by_model

_CUT: Final = "… (get_current_state has it all)"


def heading(spot_s: float, language: str, market: str) -> str:
    """Return the ad's length, language and market, and the words that fit."""
    count, unit = words_that_fit(language, spot_s)
    return f"Spot: {spot_s:g} s, {language}, market {market}. About {count} {unit} fit, without effects."


def stream_lines(
    newest: Mapping[str, Version], active: Mapping[str, str | None], locked: frozenset[str]
) -> list[StateLine]:
    """Return the newest version of each stream, with a line for each track and effect."""
    lines: list[StateLine] = []
    for name, version in newest.items():
        notes = [
            *([] if created_by_model(version) else ["made by the person"]),
            *(["active"] if active.get(name) == version.id else []),
            *(["locked"] if name in locked else []),
        ]
        about = _about(version.data) if name == "music" else ""
        lines.append(StateLine(f"{name} {version.id}{_in_brackets(notes)}:", about))
        lines += _parts(name, version.data)
    return lines


def length_line(timeline: Timeline) -> str:
    """Return the ad's length beside its spot."""
    over = round(timeline["durationSeconds"] - timeline["spotSeconds"], 1)
    verdict = "fits" if timeline["fits"] else f"too long by {over:g} s"
    return f"Length: {timeline['durationSeconds']:g} s of {timeline['spotSeconds']:g} s, {verdict}."


def _about(music: Mapping[str, Any]) -> str:
    return f" {music['musicProvider']}, {music.get('duration', 0):g} s, {music['musicPrompt']}"


def _parts(stream: str, data: Mapping[str, Any]) -> Iterator[StateLine]:
    if stream == "voices":
        yield from _tracks(data["voiceTracks"])
    elif stream == "sfx":
        for effect in data["soundFxPrompts"]:
            place = effect["placement"]
            at = f"{place['type']} {place['index']}" if "index" in place else place["type"]
            yield StateLine(f"- {at}, {effect['duration']:g} s: ", effect["description"], more="effects")


def _tracks(tracks: Sequence[Mapping[str, Any]]) -> Iterator[StateLine]:
    before = "start"
    for track in tracks:
        extras = [
            *([f"after {track['playAfter']}"] if track["playAfter"] != before else []),
            *([f"overlap {track['overlap']:g} s"] if track["overlap"] else []),
            *([f"speed {track['speed']:g}"] if track["speed"] != 1 else []),
        ]
        before = track["id"]
        head = f"- {track['id']} {track['voiceId']}{_in_brackets(extras)}: "
        yield StateLine(head, track["text"], need=NEEDED, more="tracks", mark=_CUT)


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""

"""An audio ad: the data of its three streams, the state of its workflow, and its lines for the model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from callsheet.state.ads.brief import Brief, parse
from callsheet.state.ads.timeline import Timeline, build_timeline, words_that_fit
from callsheet.state.cards import Card, headline, texts
from callsheet.state.errors import Invalid
from callsheet.state.state_block import NEEDED, StateLine
from callsheet.state.versions import Version, created_by_model
from callsheet.state.workflow import Workflow

Stream = Literal["voices", "music", "sfx"]
STREAMS: Final[tuple[Stream, ...]] = ("voices", "music", "sfx")
TITLES: Final[Mapping[str, str]] = {"voices": "voices", "music": "music", "sfx": "sound effects"}
"""Names of the streams for people."""
DEFAULT_SFX_S: Final = 3.0
"""Default length of an effect."""
MAX_SFX_S: Final = 30.0
"""Maximum length of an effect."""


class VoiceTrack(TypedDict):
    """One spoken track."""

    id: str
    """`track-{i}`, counted from 0."""
    voiceId: str
    text: str
    playAfter: str
    """`start` or the id of an earlier track."""
    overlap: float
    """Seconds it starts before that track's end; a negative value leaves a gap."""
    speed: float
    """Factor; 1.0 is the voice's natural pace."""


class Placement(TypedDict):
    """Position of an effect; `playAfter` is derived from it."""

    type: Literal["start", "end", "afterVoice", "beforeVoices", "withFirstVoice"]
    index: NotRequired[int]
    """Track counted from 0, for `afterVoice` only."""


class SoundEffect(TypedDict):
    """One effect."""

    description: str
    placement: Placement
    duration: float
    """Seconds."""
    overlap: float
    """Seconds."""
    playAfter: str
    """Derived from `placement`."""


class StoredVoices(TypedDict):
    """Data of a version of the voices."""

    voiceTracks: list[VoiceTrack]
    language: NotRequired[str]
    """Of the script, if it was stated; English name."""


class StoredMusic(TypedDict):
    """Data of a version of the music."""

    musicPrompt: str
    musicProvider: str
    provider: str
    """The same."""
    duration: float
    """Seconds."""


class StoredSfx(TypedDict):
    """Data of a version of the sound effects."""

    soundFxPrompts: list[SoundEffect]


class AdState(Workflow):
    """State of the `ad_creation` workflow."""

    ad_id: NotRequired[str]
    """Id of the ad; the thread's id by default."""
    brief: NotRequired[Brief]
    """The most recent brief."""
    language: NotRequired[str]
    """English name of the language the ad is written in."""
    market: NotRequired[str]


def track_list(tracks: Sequence[Mapping[str, Any]]) -> list[VoiceTrack]:
    """Return tracks in stored form; `playAfter` defaults to the previous track."""
    return [
        VoiceTrack(
            id=f"track-{i}",
            voiceId=track["voiceId"],
            text=track["text"],
            playAfter=track.get("playAfter") or ("start" if i == 0 else f"track-{i - 1}"),
            overlap=float(track.get("overlap") or 0),
            speed=float(track.get("speed") or 1.0),
        )
        for i, track in enumerate(tracks)
    ]


def voices_data(tracks: Sequence[VoiceTrack], language: str | None) -> dict[str, Any]:
    """Return voices in stored form, with the script's language if it was stated."""
    return {"voiceTracks": list(tracks)} | ({"language": language} if language else {})


def effect_list(prompts: Sequence[Mapping[str, Any]], track_count: int) -> list[SoundEffect]:
    """Return effects in stored form; raises `Invalid` for an `afterVoice` index out of range."""
    return [_effect(prompt, track_count) for prompt in prompts]


def _effect(prompt: Mapping[str, Any], track_count: int) -> SoundEffect:
    placement = cast("Placement", prompt.get("placement") or {"type": "end"})
    duration = prompt.get("duration")
    return SoundEffect(
        description=prompt["description"],
        placement=placement,
        duration=DEFAULT_SFX_S if duration is None else float(duration),
        overlap=float(prompt.get("overlap") or 0),
        playAfter=_play_after(placement, prompt["description"], track_count),
    )


def _play_after(placement: Placement, description: str, track_count: int) -> str:
    if placement["type"] == "end":
        return "end"
    if placement["type"] != "afterVoice":
        return "start"
    index = placement.get("index")
    if index is None or not 0 <= index < track_count:
        valid = f"0 to {track_count - 1}" if track_count else "empty: there are no voice tracks yet"
        raise Invalid(
            f"effect {description!r} is placed after voice {index!r}, and the valid range is {valid}",
            remedy="give `index` of an existing track counted from 0, or place it at 'start' or 'end'",
        )
    return f"track-{index}"


def music_bed(prompt: str, provider: str, duration_s: float) -> dict[str, Any]:
    """Return music in stored form, with the provider under both names."""
    return {"musicPrompt": prompt, "musicProvider": provider, "provider": provider, "duration": duration_s}


def summary(stream: str, data: Mapping[str, Any]) -> str:
    """Return a one-line summary of a stream's data."""
    if stream == "voices":
        return f"{len(data['voiceTracks'])} voice tracks"
    if stream == "music":
        return f'{data["musicProvider"]} - "{data["musicPrompt"][:50]}..."'
    return f"{len(data['soundFxPrompts'])} sound effects"


def timeline(
    streams: Mapping[str, Mapping[str, Any]],
    *,
    language: str,
    spot_s: float,
    speech_s: Mapping[str, float] = MappingProxyType({}),
) -> Timeline:
    """Return the ad's timeline from the data of its streams; absent streams are silent.

    `speech_s` has the seconds of rendered speech by track.
    """
    return build_timeline(
        streams.get("voices", {}).get("voiceTracks", ()),
        streams.get("sfx", {}).get("soundFxPrompts", ()),
        language=language,
        spot_s=spot_s,
        music=streams.get("music"),
        speech_s=speech_s,
    )


def mixer(
    streams: Mapping[str, Mapping[str, Any]], previous: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the mixer settings: gains in decibels, music ducking and fades.

    Settings in `previous` are preserved for existing tracks; new tracks get 0 dB.
    """
    previous = previous or {}
    tracks = streams.get("voices", {}).get("voiceTracks", ())
    gains = previous.get("voices", {})
    return {
        "voices": {track["id"]: gains.get(track["id"], 0.0) for track in tracks},
        "music": {"volumeDb": -12.0, "duckingDb": -9.0, "fadeInSeconds": 0.5, "fadeOutSeconds": 1.5}
        | previous.get("music", {}),
        "sfx": {"volumeDb": -3.0} | previous.get("sfx", {}),
    }


_CUT: Final = "… (get_current_state has it all)"


def heading(spot_s: float, language: str, market: str, effects: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the ad's length, language and market, and the words that fit beside its effects."""
    count, unit = words_that_fit(language, spot_s, effects)
    condition = "beside its effects" if effects else "without effects"
    return f"Spot: {spot_s:g} s, {language}, market {market}. About {count} {unit} fit, {condition}."


def stream_lines(
    newest: Mapping[str, Version],
    active: Mapping[str, str | None],
    locked: frozenset[str],
    cast: Mapping[str, str] = MappingProxyType({}),
) -> list[StateLine]:
    """Return the newest version of each stream, with a line for each track and effect.

    `cast` describes voices by id. The version that is the newest of all is marked.
    """
    times = sorted(one.created_ms for one in newest.values())
    lines: list[StateLine] = []
    for name, version in newest.items():
        notes = [
            *([] if created_by_model(version) else ["made by the person"]),
            *(["changed last"] if times[-2:-1] and version.created_ms > times[-2] else []),
            *(["active"] if active.get(name) == version.id else []),
            *(["locked"] if name in locked else []),
        ]
        about = _about(version.data) if name == "music" else ""
        lines.append(StateLine(f"{name} {version.id}{_in_brackets(notes)}:", about))
        lines += _parts(name, version.data, cast)
    return lines


def casting_lines(cast: Mapping[str, str], language: str) -> list[StateLine]:
    """Return the voices to choose from, described by id."""
    listed = [StateLine(f"- {name}: {words}", more="voices") for name, words in cast.items()]
    return [StateLine(f"Voices for {language}, others by search_voices:"), *listed] if cast else []


def length_line(timeline: Timeline) -> str:
    """Return the ad's length beside its spot."""
    over = round(timeline["durationSeconds"] - timeline["spotSeconds"], 1)
    verdict = "fits" if timeline["fits"] else f"too long by {over:g} s"
    if timeline["short"]:
        verdict = f"fills {filled_percent(timeline)} % of the spot"
    timed = "" if timeline["timing"] == "estimated" else " Measured on the rendered speech."
    return f"Length: {timeline['durationSeconds']:g} s of {timeline['spotSeconds']:g} s, {verdict}.{timed}"


def filled_percent(timeline: Timeline) -> int:
    """Return the part of its spot that an ad fills, in percent."""
    return round(100 * timeline["durationSeconds"] / timeline["spotSeconds"])


def _about(music: Mapping[str, Any]) -> str:
    return f" {music['musicProvider']}, {music.get('duration', 0):g} s, {music['musicPrompt']}"


def _parts(stream: str, data: Mapping[str, Any], cast: Mapping[str, str]) -> Iterator[StateLine]:
    if stream == "voices":
        yield from _tracks(data["voiceTracks"], cast)
    elif stream == "sfx":
        for effect in data["soundFxPrompts"]:
            place = effect["placement"]
            at = f"{place['type']} {place['index']}" if "index" in place else place["type"]
            yield StateLine(f"- {at}, {effect['duration']:g} s: ", effect["description"], more="effects")


def _tracks(tracks: Sequence[Mapping[str, Any]], cast: Mapping[str, str]) -> Iterator[StateLine]:
    before = "start"
    for track in tracks:
        extras = [
            *([cast[track["voiceId"]]] if track["voiceId"] in cast else []),
            *([f"after {track['playAfter']}"] if track["playAfter"] != before else []),
            *([f"overlap {track['overlap']:g} s"] if track["overlap"] else []),
            *([f"speed {track['speed']:g}"] if track["speed"] != 1 else []),
        ]
        before = track["id"]
        head = f"- {track['id']} {track['voiceId']}{_in_brackets(extras)}: "
        yield StateLine(head, track["text"], need=NEEDED, more="tracks", mark=_CUT)


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""


def card(state: AdState, newest: Mapping[str, Mapping[str, Any]]) -> Card:
    """Return the ad's name and its texts: those of the brief and of the newest drafts."""
    known: Mapping[str, Any] = {}
    # A client may have written any brief into the state.
    with suppress(Invalid):
        known = parse(state["brief"]) if state.get("brief") else {}
    return Card(
        known.get("displayName") or headline(known.get("clientDescription", "")),
        texts(
            [track.get("text") for track in newest.get("voices", {}).get("voiceTracks", ())],
            *(known.get(name) for name in ("clientDescription", "targetAudience", "additionalContext")),
            newest.get("music", {}).get("musicPrompt"),
            [one.get("description") for one in newest.get("sfx", {}).get("soundFxPrompts", ())],
        ),
    )

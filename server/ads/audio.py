"""The sound of an ad: rendered from versions and mixer, and kept by the digest of all that it is made of."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.providers.speech import SpeechEngines
from callsheet.server.ads import edits, service
from callsheet.server.ads.edits import AdRef, ChosenVersions
from callsheet.server.artefacts.recordings import Details, Mix, Report, find_or_render
from callsheet.server.artefacts.speech import digest_of, find_speech, require_audio, speech_of
from callsheet.state.ads import ad
from callsheet.state.ads.preflight import Measured, RuleCheck, preflight
from callsheet.state.ads.profiles import PROFILES
from callsheet.state.ads.timeline import Timeline
from callsheet.state.errors import Conflict, Missing, TooLarge
from callsheet.state.pronunciations import respell
from callsheet.state.versions import Version
from callsheet.storage import pronunciations
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Stream
from callsheet.storage.artefacts.recordings import RecordingRecord
from callsheet.tools.audio.casting import CastLine, cast
from callsheet.tools.guard.sandbox import SandboxTask, TaskLimits

AudioFormat = Literal["mp3", "ogg", "wav"]
ProfileName = Literal["spotify", "ebu-r128", "atsc-a85", "podcast", "plain"]
PRONUNCIATIONS: Final = "pronunciations"
"""Field of an ad's record."""
MAX_S: Final = 180.0
"""Longest ad that is rendered."""
_VERSION: Final = 4
"""Version of the rendering: another one makes every ad again."""
_LIMITS: Final = TaskLimits(memory_bytes=2**30, cpu_s=90.0, output_bytes=60_000_000)


class RenderRequest(BaseModel):
    """Choice of a rendering."""

    model_config = ConfigDict(extra="forbid")

    versions: ChosenVersions = Field("newest", description="Which version stands for its stream")
    voices: str = Field("", max_length=80, description="Version of the voices in place of the chosen one")
    music: str = Field("", max_length=80, description="Version of the music in place of the chosen one")
    sfx: str = Field("", max_length=80, description="Version of the effects in place of the chosen one")
    format: AudioFormat = "mp3"
    profile: ProfileName = Field("spotify", description="Place of delivery: loudness, peaks, silence")
    track: str = Field(
        "", max_length=80, description="A track such as track-0, or voices, music or sfx, to hear it alone"
    )


class Rendering(TypedDict):
    """A rendered file."""

    adId: str
    url: str
    """Path of the file, for a day."""
    versions: dict[str, str]
    """Version of each stream that was rendered."""
    format: AudioFormat
    profile: str
    track: str
    size: int
    seconds: float
    leadSeconds: float
    """Silence in the file before the timeline begins."""
    loudnessLufs: float | None
    """Measured on the file; null for silence."""
    truePeakDbtp: float | None
    notices: list[str]
    """Sentences on what is heard in place of what the ad describes, and beside which active versions."""
    timeline: Timeline
    """With the measured lengths of the speech."""


@dataclass(frozen=True)
class AdScore:
    """Everything that the sound of an ad is made of."""

    ref: AdRef
    request: RenderRequest
    streams: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    mixer: Mapping[str, Any]
    language: str
    spot_s: float
    lines: list[CastLine]
    speech: SpeechEngines
    music_before: Mapping[str, str] | None
    """Version and description of the music before this one; None for the first."""
    activation: list[str]
    """A sentence for each stream that is not rendered as a person activated it."""
    title: str = ""
    """Title in the file; the ad's id when left out. Another title alone is not rendered again."""

    @property
    def digest(self) -> str:
        """Name of the rendered file: the same score has the same."""
        parts = [_VERSION, self.request.model_dump(), self.streams, self.mixer, self.language, self.spot_s]
        speech = [self.speech.model, [asdict(one) for one in self.lines], self.music_before]
        return digest_of(*parts, *speech)


async def read_score(ref: AdRef, request: RenderRequest) -> AdScore:
    """Return what is to be rendered; write nothing.

    Raises `Conflict` for an ad with nothing to hear, or in a language that nothing here speaks, `Missing` for
    an unknown track, `TooLarge` for one that is too long, `NotInstalled`, and as `Artefact.version`.
    """
    require_audio()
    stored = await ref.artefact.newest_of(ad.STREAMS)
    chosen = edits.chosen_versions(stored, request.versions)
    for name in ad.STREAMS:
        if version_id := str(getattr(request, name)):
            chosen[name] = await ref.artefact.version(name, version_id)
    streams = {name: version.data for name, version in chosen.items()}
    tracks = streams.get("voices", {}).get("voiceTracks", ())
    timeline = service.timeline_of(ref.thread, ref.facts, streams)
    _require_playable(ref, request, timeline, streams)
    language, spot_s = service.language_and_length(ref.thread, ref.facts, streams)
    speech = find_speech()
    own, of_owner = await ad_pronunciations(ref)
    written = [{**track, "text": respell(track["text"], of_owner | own)} for track in tracks]
    return AdScore(
        ref=ref,
        request=request,
        streams=streams,
        versions={name: version.id for name, version in chosen.items()},
        mixer=ad.mixer(streams, await ref.artefact.mixer()),
        language=language,
        spot_s=spot_s,
        lines=cast(written, language, speech),
        speech=speech,
        music_before=await _music_before(ref, chosen.get("music")),
        activation=_activation(stored, chosen),
    )


def _activation(stored: Mapping[str, Stream], chosen: Mapping[str, Version]) -> list[str]:
    active = [
        f"Of the {ad.TITLES[name]} {version.id} is rendered; {stored[name].active} is active."
        for name, version in chosen.items()
        if stored[name].active not in (None, version.id)
    ]
    absent = [name for name, stream in stored.items() if stream.newest() and name not in chosen]
    return active + [f"The {ad.TITLES[name]}: no version is active, so none is rendered." for name in absent]


async def _music_before(ref: AdRef, chosen: Version | None) -> Mapping[str, str] | None:
    earlier = (await ref.artefact.older("music", chosen.id, 1)).versions if chosen else ()
    return {"version": earlier[0].id, "prompt": str(earlier[0].data["musicPrompt"])} if earlier else None


async def ad_pronunciations(ref: AdRef) -> tuple[dict[str, str], dict[str, str]]:
    """Return the pronunciations of an ad, which win, and those of its owner."""
    own: dict[str, str] = json.loads((await ref.artefact.meta()).get(PRONUNCIATIONS, "{}"))
    return own, await pronunciations.read(ref.storage, ref.thread.owner)


def _require_playable(
    ref: AdRef, request: RenderRequest, timeline: Timeline, streams: Mapping[str, Any]
) -> None:
    if not streams:
        rule = f"ad {ref.artefact.id!r} has no {request.versions} version to render"
        raise Conflict(rule, remedy="make it with POST /api/ai/generate, or activate a version")
    parts = ["", *streams, *(span["id"] for span in timeline["voices"])]
    if request.track not in parts:
        known = ", ".join(repr(part) for part in parts[1:])
        raise Missing(f"the ad has no track {request.track!r}", remedy=f"use one of {known}")
    length_s = max(timeline["durationSeconds"], timeline.get("music", {"end": 0.0})["end"])
    if length_s > MAX_S:
        rule = f"the ad lasts {length_s:g} s, and at most {MAX_S:g} s are rendered"
        raise TooLarge(rule, remedy="shorten the script or the music")


async def find_rendering(score: AdScore) -> RecordingRecord | None:
    """Return the record of the rendered file, or None."""
    return await recordings.find(score.ref.storage, score.ref.artefact, score.digest)


async def render(score: AdScore, report: Report) -> Rendering:
    """Render the ad, unless its file is kept already, and return its view.

    An owner's renderings take turns. Raises what the engine of speech raises, and `TooLarge`.
    """
    record = await find_or_render(
        score.ref.thread.owner, partial(find_rendering, score), partial(_render, score, report), "shorten it"
    )
    return view(score, record)


async def _render(score: AdScore, report: Report) -> RecordingRecord:
    ref, lines = score.ref, [one.line for one in score.lines]
    report("speech", 0, len(lines))
    async with speech_of(ref.storage, ref.thread.owner, score.speech, lines) as sounds:
        report("speech", len(lines), len(lines))
        notices = list(dict.fromkeys(one.notice for one in score.lines if one.notice))
        arguments = {
            "clips": {one.id: len(sound) for one, sound in zip(score.lines, sounds, strict=True)},
            "streams": score.streams,
            "mixer": score.mixer,
            "options": _options(score, notices),
        }
        task = SandboxTask("the mix", "callsheet.tools.audio.mixing", "mix_ad", arguments, b"".join(sounds))
        details = partial(_details, score, notices)
        return await Mix(ref.storage, ref.artefact, score.digest, task, _LIMITS, details).store(report)


def _details(score: AdScore, notices: list[str], mixed: dict[str, Any]) -> Details:
    tracks = score.streams.get("voices", {}).get("voiceTracks", ())
    words = sum(len(track["text"].split()) for track in tracks)
    request = score.request.model_dump(include={"profile", "track", "format"})
    kept = {**request, "words": words, "versions": dict(score.versions)}
    return {**mixed, "notices": [*notices, *mixed.pop("notes")], **kept}


def _options(score: AdScore, notices: list[str]) -> dict[str, Any]:
    versions = ", ".join(f"{stream} {version}" for stream, version in score.versions.items())
    return {
        "language": score.language,
        "spotSeconds": score.spot_s,
        "only": score.request.track,
        "musicBefore": score.music_before,
        "format": score.request.format,
        "profile": asdict(PROFILES[score.request.profile]),
        "tags": {
            "title": score.title or score.ref.artefact.id,
            "comment": ". ".join([f"From {versions}", *notices]),
        },
    }


class PreflightReport(TypedDict):
    """A rendered file beside the rules of a place of delivery."""

    adId: str
    profile: str
    title: str
    source: str
    verdict: Literal["pass", "warn", "fail"]
    """The worst of its checks."""
    checks: list[RuleCheck]


async def preflight_view(score: AdScore, profile: ProfileName) -> PreflightReport:
    """Return the checks of a rendered file; raise `Missing` if it was not rendered."""
    record = await find_rendering(score)
    if record is None:
        raise missing_rendering(score)
    rules = PROFILES[profile]
    measured = Measured.of_rendering(record["details"], record["size"])
    checks = preflight(rules, measured)
    verdicts = {check["verdict"] for check in checks}
    return PreflightReport(
        adId=score.ref.artefact.id,
        profile=profile,
        title=rules.title,
        source=rules.source,
        verdict="fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "pass",
        checks=checks,
    )


def missing_rendering(score: AdScore) -> Missing:
    """Return the error for a file that is not kept."""
    ad_id = score.ref.artefact.id
    return Missing(
        f"ad {ad_id!r} as it is now was not rendered, or more than a day ago",
        remedy=f"render it: POST /api/ads/{quote(ad_id, safe='')}/render with the same fields",
    )


def view(score: AdScore, record: RecordingRecord) -> Rendering:
    """Return the view of a rendered file."""
    request, details, ad_id = score.request, record["details"], score.ref.artefact.id
    query = {name: value for name, value in request.model_dump().items() if value}
    return Rendering(
        adId=ad_id,
        url=f"{_path(ad_id)}?{urlencode(query)}",
        versions=details["versions"],
        format=request.format,
        profile=request.profile,
        track=request.track,
        size=record["size"],
        seconds=details["seconds"],
        leadSeconds=PROFILES[request.profile].silence_s,
        loudnessLufs=details["loudnessLufs"],
        truePeakDbtp=details["truePeakDbtp"],
        notices=[*score.activation, *details["notices"]],
        timeline=details["timeline"],
    )


def _path(ad_id: str) -> str:
    return f"/api/ads/{quote(ad_id, safe='')}/audio"

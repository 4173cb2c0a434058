"""A person's own edits of an ad: held to the rules of the tools, written as versions like theirs (A33, A35).

A script a person wrote is never shortened; the reply's timeline says whether it fits.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import BaseModel, ConfigDict, Field

from callsheet.server.ads import service as jobs
from callsheet.server.artefacts.turns import identifier
from callsheet.state.ads import ad
from callsheet.state.errors import Invalid, Missing
from callsheet.state.versions import Version
from callsheet.storage.artefacts import mixer as mixers
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.artefacts.receipts import Done, receipt_name
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import execute_all
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.ads import voices
from callsheet.tools.ads.drafts import EffectPrompt, Track

_MAX_PARTS: Final = 40
"""Tracks or effects of one version, as for the tools."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TrackEdit(Track):
    """A track as a person sends it: as the tools take it, or as it is stored."""

    id: str | None = Field(None, max_length=80, description="Only names the track for others' `playAfter`")


class EffectEdit(EffectPrompt):
    """An effect as a person sends it: as the tools take it, or as it is stored."""

    overlap: float | None = Field(None, ge=-60, le=60, description="Seconds it starts earlier")
    playAfter: str | None = Field(None, description="Derived from `placement`; accepted and ignored")


class VoicesData(_Strict):
    """A whole version of the voices (A14)."""

    voiceTracks: list[TrackEdit] = Field(min_length=1, max_length=_MAX_PARTS)


class MusicData(_Strict):
    """A whole version of the music (A15)."""

    musicPrompt: str = Field(min_length=1, max_length=2_000)
    musicProvider: str | None = Field(None, pattern="^(loudly|mubert)$")
    provider: str | None = Field(None, pattern="^(loudly|mubert)$", description="The same by its other name")
    duration: float | None = Field(None, gt=0, le=600, description="Seconds; the spot's when left out")


class SfxData(_Strict):
    """A whole version of the sound effects (A17)."""

    soundFxPrompts: list[EffectEdit] = Field(max_length=_MAX_PARTS)


@dataclass(frozen=True)
class Ad:
    """An ad that is there, and who asks about it."""

    storage: Storage
    artefact: Artefact
    thread: Thread
    meta: Mapping[str, str]

    @property
    def facts(self) -> dict[str, str]:
        """What timing needs to know of it."""
        return {name: self.meta[name] for name in ("language", "market", "spotSeconds") if name in self.meta}


async def find_ad(storage: Storage, name: str, owner: str) -> Ad:
    """Return the owner's ad of this id, or whose conversation has it (X5).

    Raises `Missing` when there is none, or it is another's.
    """
    artefact = Artefact(storage, jobs.KIND, identifier(name, "adId"), owner)
    meta = await artefact.meta()
    known = None if meta else await _conversation(storage, name, owner)
    # A thread that only the wire has used names nothing yet: its ad has its own id.
    if known and known.artefact not in {"", f"{jobs.KIND}:{name}"}:
        return await find_ad(storage, jobs.ADS.artefact_id(known), owner)
    if meta.get("owner") != owner and not known:
        raise Missing(f"there is no ad {name!r}", remedy="make it with POST /api/ai/generate")
    thread = Thread(meta.get("thread") or name, owner, jobs.GRAPH, f"{jobs.KIND}:{name}")
    return Ad(storage, artefact, thread, meta)


async def resolve_ad_id(storage: Storage, name: str, owner: str) -> str:
    """Return the id of the ad that `find` finds, or `name` itself where there is none."""
    try:
        return (await find_ad(storage, name, owner)).artefact.id
    except Missing:
        return name


def require_stream(stream: str) -> str:
    """Return the name of a stream that ads have; raises `Missing` for any other."""
    if stream not in ad.STREAMS:
        raise Missing(f"an ad has no stream {stream[:80]!r}", remedy=f"use one of {', '.join(ad.STREAMS)}")
    return stream


async def write_version(found: Ad, stream: str, raw: Mapping[str, Any], *, parent: str | None = None) -> str:
    """Make a version of `stream` by hand and return its id; raises what `normal` raises."""
    streams = await found.artefact.streams(ad.STREAMS)
    newest = {name: one.data for name, versions in streams.items() if (one := versions.newest())}
    data = normalize(stream, raw, newest, found.facts)
    jobs.timeline_of(found.thread, found.facts, newest | {stream: data})
    owner, request = found.thread.owner, str(uuid.uuid4())
    # With a fence, a write that is sent again after a lost connection is one version all the same.
    fence = await found.artefact.claim(
        receipt_name(found.thread.id, "by hand", request),
        epoch=0,
        owner=owner,
        thread=found.thread.id,
        facts=found.facts,
    )
    new = NewVersion(stream, data, owner, request, parent, {"status": "draft"})
    made = fence.result if isinstance(fence, Done) else await found.artefact.create_version(new, fence)
    await execute_all(found.storage.redis, found.artefact.index_calls(owner, found.thread.id))
    return str(made["versionId"])


def normalize(
    stream: str, raw: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]], facts: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a person sent as it is stored.

    `others` are the newest data of the ad's streams. Raises `Invalid`, or pydantic's error, for what the
    tools would refuse too.
    """
    if stream == "voices":
        return {"voiceTracks": _tracks(VoicesData.model_validate(raw).voiceTracks)}
    if stream == "music":
        return _music(MusicData.model_validate(raw), float(facts.get("spotSeconds", 30.0)))
    count = len(others.get("voices", {}).get("voiceTracks", ()))
    effects = SfxData.model_validate(raw).soundFxPrompts
    return {"soundFxPrompts": ad.effect_list([one.model_dump(exclude_none=True) for one in effects], count)}


def apply_patch(version: Version, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of `version` with a partial change.

    A list replaces the whole list. An object in a list's place changes single entries: tracks by their id,
    effects by their place counted from 0. Raises `Invalid` for an entry that is not there.
    """
    if not patch:
        raise Invalid("there is nothing to change", remedy="send the fields that shall be different")
    data = dict(version.data)
    if version.stream == "music":
        return {**_one_provider(data, patch), **patch}
    for name, value in patch.items():
        data[name] = _entries(name, data.get(name), value) if isinstance(value, Mapping) else value
    return data


def _entries(name: str, entries: Any, changes: Mapping[str, Any]) -> list[Any]:
    known = {str(entry.get("id", i)): dict(entry) for i, entry in enumerate(entries or ())}
    for key, change in changes.items():
        if key not in known or not isinstance(change, Mapping):
            raise Invalid(
                f"{name} has no entry {key!r} to change into {change!r:.80}",
                remedy=f"use one of {', '.join(map(repr, known))} with an object, or send the whole list",
            )
        known[key] |= change
    return list(known.values())


def _one_provider(data: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    # Both names hold the same, so a change of one leaves the other out.
    changed = {"musicProvider", "provider"} & patch.keys()
    return {
        name: value for name, value in data.items() if not (changed and name in {"musicProvider", "provider"})
    }


def _music(given: MusicData, spot_s: float) -> dict[str, Any]:
    named = {given.musicProvider, given.provider} - {None}
    if len(named) > 1:
        raise Invalid(
            f"musicProvider {given.musicProvider!r} and provider {given.provider!r} differ",
            remedy="send one of them",
        )
    return ad.music_bed(given.musicPrompt, str(next(iter(named), "loudly")), given.duration or spot_s)


def _tracks(given: Sequence[TrackEdit]) -> list[ad.VoiceTrack]:
    for track in given:
        if voices.find(track.voiceId) is None:
            raise Invalid(
                f"voice {track.voiceId!r} is not in the catalogue",
                remedy="use the id of a voice a search returned",
            )
    sent = [track.model_dump(exclude_none=True, exclude={"id"}) for track in given]
    return ad.track_list([track | after for track, after in zip(sent, _followed(given), strict=True)])


def _followed(given: Sequence[TrackEdit]) -> list[dict[str, str]]:
    """Stored tracks are named by their place; where the sender named them, `playAfter` follows the names."""
    ids = [track.id for track in given if track.id]
    if len(set(ids)) < len(ids):
        raise Invalid(f"two tracks have one id among {ids}", remedy="give each its own, or none")
    if len(ids) < len(given):
        return [{} for _ in given]
    places = {"start": "start"} | {name: f"track-{i}" for i, name in enumerate(ids)}
    for track in given:
        if track.playAfter and track.playAfter not in places:
            raise Invalid(
                f"track {track.id!r} plays after {track.playAfter!r}, which is not among the tracks sent",
                remedy=f"use one of {', '.join(map(repr, places))}",
            )
    return [{"playAfter": places[track.playAfter]} if track.playAfter else {} for track in given]


async def _conversation(storage: Storage, name: str, owner: str) -> Thread | None:
    """The owner's conversation of this id about an ad, though nothing may have been made yet."""
    try:
        known = await threads.get(storage, name, owner)
    except Missing:
        return None
    return known if known.graph == jobs.GRAPH else None


async def update_mixer(found: Ad, wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Set at the mixer what `wanted` names and return all of it; `Invalid` for a track that is not there."""
    streams = await found.artefact.streams(ad.STREAMS)
    data = {name: one.data for name, versions in streams.items() if (one := versions.newest())}
    tracks = ad.mixer(data)["voices"]
    if unknown := sorted(wanted.get("voices", {}).keys() - tracks.keys()):
        raise Invalid(
            f"the mixer has no voice track {unknown[0]!r}",
            remedy=f"use one of {', '.join(map(repr, tracks))}",
        )
    kept = await mixers.change(
        found.storage,
        jobs.KIND,
        found.artefact.stored_id,
        lambda before: {
            part: before.get(part, {}) | wanted.get(part, {}) for part in ("voices", "music", "sfx")
        },
    )
    return ad.mixer(data, kept)


async def clear_conversation(found: Ad, saver: BaseCheckpointSaver[int]) -> None:
    """Take the ad's conversation away; its versions stay. Raises `Busy` while a run is at it."""
    async with thread_records.hold(found.storage, found.thread.id, found.thread.owner):
        await saver.adelete_thread(found.thread.id)

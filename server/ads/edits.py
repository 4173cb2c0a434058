"""Audio ads as people see and edit them; a person's script is never shortened."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import BaseModel, ConfigDict, Field

from callsheet.graphs import ad_creation
from callsheet.server.ads import service
from callsheet.server.artefacts import views
from callsheet.server.artefacts.titles import titles
from callsheet.server.http.context import AppContext
from callsheet.server.http.requests import identifier
from callsheet.state import conversation
from callsheet.state.ads import ad
from callsheet.state.ads.brief import language_name
from callsheet.state.ads.timeline import Timeline
from callsheet.state.errors import Invalid, Missing
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Origin, Version, origin, status
from callsheet.storage import indexes
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, Stream, StreamHead
from callsheet.storage.artefacts.receipts import RecordedResult, receipt_name
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.ads import voices
from callsheet.tools.ads.drafts import EffectPrompt, Track

_SPEC: Final = ad_creation.WORKFLOW.artefact
_MAX_PARTS: Final = 40
"""Tracks or effects of one version, as for the tools."""


class _TrackBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TrackEdit(Track):
    """A track in the form of the tools or in its stored form."""

    id: str | None = Field(None, max_length=80, description="Only names the track for others' `playAfter`")


class EffectEdit(EffectPrompt):
    """An effect in the form of the tools or in its stored form."""

    overlap: float | None = Field(None, ge=-60, le=60, description="Seconds it starts earlier")
    playAfter: str | None = Field(None, description="Derived from `placement`; accepted and ignored")


class VoicesData(_TrackBody):
    """Complete data of a voices version."""

    voiceTracks: list[TrackEdit] = Field(min_length=1, max_length=_MAX_PARTS)
    language: str | None = Field(None, max_length=80, description="The script's; the cast's when left out")


class TrackPatch(_TrackBody):
    """Changes of one track."""

    version: str | None = Field(None, max_length=80, description="Newest voices version; or send If-Match")
    text: str | None = Field(None, min_length=1, max_length=10_000, description="The words to speak")
    voiceId: str | None = Field(None, min_length=1, max_length=200)
    playAfter: str | None = Field(None, max_length=80)
    overlap: float | None = Field(None, ge=-60, le=60)
    speed: float | None = Field(None, ge=0.5, le=2)

    def changes(self) -> dict[str, Any]:
        """Return the fields to change."""
        return self.model_dump(exclude_none=True, exclude={"version"})


class MusicData(_TrackBody):
    """Complete data of a music version."""

    musicPrompt: str = Field(min_length=1, max_length=2_000)
    musicProvider: str | None = Field(None, pattern="^(loudly|mubert)$")
    provider: str | None = Field(None, pattern="^(loudly|mubert)$", description="Alias of musicProvider")
    duration: float | None = Field(None, gt=0, le=600, description="Seconds; the spot's when left out")


class SfxData(_TrackBody):
    """Complete data of a sound effects version."""

    soundFxPrompts: list[EffectEdit] = Field(max_length=_MAX_PARTS)


@dataclass(frozen=True)
class AdRef:
    """An existing ad and its thread."""

    storage: Storage
    artefact: Artefact
    thread: Thread
    meta: Mapping[str, str]

    @property
    def facts(self) -> dict[str, str]:
        """Facts that the timeline depends on."""
        return {name: self.meta[name] for name in ("language", "market", "spotSeconds") if name in self.meta}


async def find_ad(storage: Storage, name: str, owner: str) -> AdRef:
    """Return the owner's ad whose id, or whose conversation's id, is `name`.

    Raises `Missing` if there is none, or it is another owner's.
    """
    artefact = Artefact(storage, service.KIND, identifier(name, "adId"), owner)
    meta = await artefact.meta()
    thread = None if meta else await _conversation(storage, name, owner)
    # A thread that only the LangGraph API has used has no artefact yet: its ad will have the thread's id.
    if thread and thread.artefact not in {"", f"{service.KIND}:{name}"}:
        return await find_ad(storage, service.ADS.artefact_id(thread), owner)
    if meta.get("owner") != owner and not thread:
        raise Missing(f"there is no ad {name!r}", remedy="make it with POST /api/ai/generate")
    thread = Thread(meta.get("thread") or name, owner, service.GRAPH, f"{service.KIND}:{name}")
    return AdRef(storage, artefact, thread, meta)


def require_stream(stream: str) -> str:
    """Return the stream's name; raise `Missing` if ads have no such stream."""
    if stream not in ad.STREAMS:
        raise Missing(f"an ad has no stream {stream[:80]!r}", remedy=f"use one of {', '.join(ad.STREAMS)}")
    return stream


async def edit_track(ref: AdRef, track_id: str, changes: Mapping[str, Any], version: str) -> str:
    """Create a voices version with one changed track and return its id.

    Raises `Missing` for an unknown track, and `Conflict` if `version` is not the newest one.
    """
    head = await ref.artefact.stream_head("voices")
    views.require_newest(head, version, "voices")
    newest = cast("Version", head.newest)
    known = [str(track["id"]) for track in newest.data["voiceTracks"]]
    if track_id not in known:
        raise Missing(f"there is no track {track_id[:80]!r}", remedy=f"use one of {', '.join(known)}")
    if not changes:
        raise Invalid("there is nothing to change", remedy="send the fields to change")
    data = apply_patch(newest, {"voiceTracks": {track_id: changes}})
    source = origin("person", f"{track_id} edited by hand")
    return await write_version(ref, "voices", data, source, expected_head=head)


async def write_version(
    ref: AdRef,
    stream: str,
    raw: Mapping[str, Any],
    source: Origin,
    *,
    parent: str | None = None,
    expected_head: StreamHead | None = None,
) -> str:
    """Create a version by hand and return its id; raise what `normalize` raises.

    Raises `Conflict` if the stream has another head than the expected one.
    """
    streams = await ref.artefact.newest_of(ad.STREAMS)
    newest = {name: version.data for name, versions in streams.items() if (version := versions.newest())}
    data = normalize(stream, raw, newest, ref.facts)
    service.timeline_of(ref.thread, ref.facts, newest | {stream: data})
    owner, request = ref.thread.owner, str(uuid.uuid4())
    # The fence keeps a write that is repeated after a lost connection from creating a second version.
    fence = await ref.artefact.claim(
        receipt_name(ref.thread.id, "by hand", request),
        epoch=0,
        owner=owner,
        thread=ref.thread.id,
        facts=ref.facts,
        by_hand="owner" in ref.meta,
    )
    new = NewVersion(stream, data, owner, request, parent, {"status": "draft"}, expected_head, source)
    result = (
        fence.result if isinstance(fence, RecordedResult) else await ref.artefact.create_version(new, fence)
    )
    await ref.artefact.touch(owner, ref.thread.id)
    return str(result["versionId"])


def normalize(
    stream: str, raw: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]], facts: Mapping[str, str]
) -> dict[str, Any]:
    """Return a person's data in its stored form.

    `others` are the newest data of the ad's streams. Raises `Invalid`, or pydantic's error, for data that the
    tools would refuse, too.
    """
    if stream == "voices":
        voices = VoicesData.model_validate(raw)
        return ad.voices_data(
            _tracks(voices.voiceTracks), language_name(voices.language) if voices.language else None
        )
    if stream == "music":
        return _music(MusicData.model_validate(raw), float(facts.get("spotSeconds", 30.0)))
    count = len(others.get("voices", {}).get("voiceTracks", ()))
    effects = SfxData.model_validate(raw).soundFxPrompts
    return {"soundFxPrompts": ad.effect_list([one.model_dump(exclude_none=True) for one in effects], count)}


def apply_patch(version: Version, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of `version` with a partial change.

    A list replaces the whole list. An object in place of a list changes single entries: tracks by id, effects
    by their index from 0. Raises `Invalid` for an unknown entry.
    """
    if not patch:
        raise Invalid("there is nothing to change", remedy="send the fields to change")
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
    # The two names are aliases, so a change of one drops the other.
    changed = {"musicProvider", "provider"} & patch.keys()
    return {
        name: value for name, value in data.items() if not (changed and name in {"musicProvider", "provider"})
    }


def _music(edit: MusicData, spot_s: float) -> dict[str, Any]:
    providers = {edit.musicProvider, edit.provider} - {None}
    if len(providers) > 1:
        raise Invalid(
            f"musicProvider {edit.musicProvider!r} and provider {edit.provider!r} differ",
            remedy="send one of them",
        )
    return ad.music_bed(edit.musicPrompt, str(next(iter(providers), "loudly")), edit.duration or spot_s)


def _tracks(edits: Sequence[TrackEdit]) -> list[ad.VoiceTrack]:
    for track in edits:
        if voices.find(track.voiceId) is None:
            raise Invalid(
                f"voice {track.voiceId!r} is not in the catalogue",
                remedy="use the id of a voice of GET /api/voices",
            )
    tracks = [track.model_dump(exclude_none=True, exclude={"id"}) for track in edits]
    return ad.track_list([track | after for track, after in zip(tracks, _play_after(edits), strict=True)])


def _play_after(edits: Sequence[TrackEdit]) -> list[dict[str, str]]:
    """Return `playAfter` with the stored ids, which count positions, in place of the sender's ids."""
    ids = [track.id for track in edits if track.id]
    if len(set(ids)) < len(ids):
        raise Invalid(f"two tracks have one id among {ids}", remedy="give each its own, or none")
    if len(ids) < len(edits):
        return [{} for _ in edits]
    positions = {"start": "start"} | {name: f"track-{i}" for i, name in enumerate(ids)}
    for track in edits:
        if track.playAfter and track.playAfter not in positions:
            raise Invalid(
                f"track {track.id!r} plays after {track.playAfter!r}, which is not among the tracks sent",
                remedy=f"use one of {', '.join(map(repr, positions))}",
            )
    return [{"playAfter": positions[track.playAfter]} if track.playAfter else {} for track in edits]


async def _conversation(storage: Storage, name: str, owner: str) -> Thread | None:
    """Return the thread of this id if it is about an ad, which need not have a version yet."""
    try:
        thread = await threads.get(storage, name, owner)
    except Missing:
        return None
    return thread if thread.graph == service.GRAPH else None


async def update_mixer(ref: AdRef, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Apply the changes to the mixer and return it; raise `Invalid` for an unknown track."""
    streams = await ref.artefact.newest_of(ad.STREAMS)
    data = {name: version.data for name, stream in streams.items() if (version := stream.newest())}
    tracks = ad.mixer(data)["voices"]
    if unknown := sorted(changes.get("voices", {}).keys() - tracks.keys()):
        raise Invalid(
            f"the mixer has no voice track {unknown[0]!r}",
            remedy=f"use one of {', '.join(map(repr, tracks))}",
        )
    stored = await ref.artefact.change_mixer(
        lambda before: {
            part: before.get(part, {}) | changes.get(part, {}) for part in ("voices", "music", "sfx")
        },
    )
    return ad.mixer(data, stored)


async def clear_conversation(ref: AdRef, saver: BaseCheckpointSaver[int]) -> None:
    """Delete the ad's conversation but not its versions; raise `Busy` while a run has the thread."""
    async with threads.hold(ref.storage, ref.thread.id, ref.thread.owner):
        await saver.adelete_thread(ref.thread.id)


ChosenVersions = Literal["newest", "active"]
"""Selection of one version per stream; a stream without an active version gives no data."""


async def ad_list(ctx: AppContext, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the owner's ads, newest change first: `{ads, next}`."""
    page = await indexes.list_owned(ctx.storage, owner, service.KIND, after=after, limit=limit)
    metas = await asyncio.gather(
        *(Artefact(ctx.storage, service.KIND, ad_id, owner).meta() for ad_id in page.ids)
    )
    named = zip(page.ids, metas, strict=True)
    known = [(ad_id, meta) for ad_id, meta in named if meta.get("owner") == owner]
    of_thread = await titles(ctx, owner, [meta.get("thread", ad_id) for ad_id, meta in known])
    shown = [
        _summary(ad_id, meta) | {"title": of_thread.get(meta.get("thread", ad_id), ad_id)}
        for ad_id, meta in known
    ]
    return {"ads": shown, "next": page.next}


async def ad_view(ref: AdRef, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ad: record, brief, streams, timeline, mixer, locks and conversation.

    `state` is the state of its conversation.
    """
    streams = await ref.artefact.newest_of(ad.STREAMS)
    data = stream_data(streams)
    shown = await asyncio.gather(*(_stream_view(ref.artefact, stream) for stream in streams.values()))
    return _summary(ref.artefact.id, ref.meta) | {
        "brief": state.get("brief"),
        "streams": dict(zip(streams, shown, strict=True)),
        "timeline": await timeline_view(ref, "newest"),
        "mixer": ad.mixer(data, await ref.artefact.mixer()),
        "locks": await views.locks_view(ref.artefact, "stream"),
        "conversationId": ref.thread.id,
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
    }


def conversation_view(ref: AdRef, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conversation; without messages if there is none."""
    messages = state.get("messages", ())
    prompt = ad_creation.WORKFLOW.prompt if messages else ""
    return {
        "conversationId": ref.thread.id,
        "messages": conversation.message_entries(prompt, messages) if messages else [],
    }


async def timeline_view(ref: AdRef, chosen: ChosenVersions) -> Timeline:
    """Return the timeline of the selected versions, with the lengths of speech that was rendered."""
    versions = chosen_versions(await ref.artefact.newest_of(ad.STREAMS), chosen)
    data = {name: version.data for name, version in versions.items()}
    return service.timeline_of(ref.thread, ref.facts, data, await speech_seconds(ref, versions.get("voices")))


async def speech_seconds(ref: AdRef, voices_version: Version | None) -> dict[str, float]:
    """Return the measured seconds of each track of a voices version, if it was rendered within a day."""
    if voices_version is not None:
        for record in await recordings.newest(ref.storage, ref.artefact):
            if record["details"]["versions"].get("voices") == voices_version.id:
                return dict(record["details"]["speechSeconds"])
    return {}


async def mixer_view(ref: AdRef) -> dict[str, Any]:
    """Return the mixer; unset tracks are at 0 dB."""
    data = stream_data(await ref.artefact.newest_of(ad.STREAMS))
    return ad.mixer(data, await ref.artefact.mixer())


async def versions_view(ref: AdRef, stream: str, page: views.VersionPage) -> dict[str, Any]:
    """Return versions of a stream, newest last, and the active one."""
    return await views.version_list(_SPEC, ref.artefact, stream, page)


async def version_view(ref: AdRef, stream: str, version_id: str) -> dict[str, Any]:
    """Return one version with its data, both under `data` and flat."""
    version, newest = await find_version(ref, stream, version_id)
    shown = await views.version_view(_SPEC, ref.artefact, version, newest)
    return {**version.data, **shown, "data": version.data}


async def diff_view(ref: AdRef, stream: str, old: str, new: str) -> dict[str, Any]:
    """Return the differences from one version of a stream to another."""
    return await views.diff_view(_SPEC, ref.artefact, stream, old, new)


async def find_version(ref: AdRef, stream: str, version_id: str) -> tuple[Version, Version]:
    """Return a version and the newest of its stream; raise `Missing` for an unknown id."""
    version, head = await asyncio.gather(
        ref.artefact.version(stream, version_id), ref.artefact.stream_head(stream)
    )
    return version, head.newest or version


async def write_reply(ref: AdRef, stream: str, version_id: str) -> dict[str, Any]:
    """Return the reply to a write: the version, the timeline and the mixer."""
    version, newest = await find_version(ref, stream, version_id)
    written = {"stream": stream, "versionId": version.id, "status": status(version, newest)}
    return written | await service.timing(ref.storage, ref.thread, ref.facts)


def stream_data(
    streams: Mapping[str, Stream], chosen: ChosenVersions = "newest"
) -> dict[str, Mapping[str, Any]]:
    """Return the data of each stream's selected version, if it has one."""
    return {name: version.data for name, version in chosen_versions(streams, chosen).items()}


def chosen_versions(streams: Mapping[str, Stream], chosen: ChosenVersions) -> dict[str, Version]:
    """Return each stream's selected version, if it has one."""
    versions = {
        name: stream.newest() if chosen == "newest" else stream.active_version
        for name, stream in streams.items()
    }
    return {name: version for name, version in versions.items() if version}


def _summary(ad_id: str, meta: Mapping[str, str]) -> dict[str, Any]:
    return {
        "adId": ad_id,
        "createdAt": iso_time_or_none(meta.get("createdMs")),
        "updatedAt": iso_time_or_none(meta.get("updatedMs") or meta.get("createdMs")),
        "language": meta.get("language"),
        "market": meta.get("market"),
        "spotSeconds": float(meta["spotSeconds"]) if "spotSeconds" in meta else None,
    }


async def _stream_view(artefact: Artefact, stream: Stream) -> dict[str, Any]:
    newest = stream.newest()
    shown: dict[str, Any] = {"newest": None, "active": None, "count": stream.count}
    for key, version in (("newest", newest), ("active", stream.active_version)):
        if newest and version:
            view = await views.version_view(_SPEC, artefact, version, newest)
            shown[key] = {**view, "data": version.data}
    return shown

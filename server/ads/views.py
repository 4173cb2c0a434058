"""Replies about an ad, built from storage and state."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from callsheet.graphs import ad_creation
from callsheet.server.ads import service
from callsheet.server.ads.edits import AdRef
from callsheet.server.artefacts import views
from callsheet.state import conversation
from callsheet.state.ads import ad
from callsheet.state.ads.timeline import Timeline
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Version, status, version_fields
from callsheet.storage import indexes
from callsheet.storage.artefacts import artefacts as mixers
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.redis.connection import Storage

ChosenVersions = Literal["newest", "active"]
"""Selection of one version per stream; a stream without an active version gives no data."""


async def ad_list(storage: Storage, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the owner's ads, newest change first: `{ads, next}`."""
    page = await indexes.list_owned(storage, owner, service.KIND, after=after, limit=limit)
    metas = await asyncio.gather(
        *(Artefact(storage, service.KIND, ad_id, owner).meta() for ad_id in page.ids)
    )
    shown = [
        _summary(ad_id, meta)
        for ad_id, meta in zip(page.ids, metas, strict=True)
        if meta.get("owner") == owner
    ]
    return {"ads": shown, "next": page.next}


async def ad_view(ref: AdRef, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ad: record, brief, streams, timeline, mixer, locks and conversation.

    `state` is the state of its conversation.
    """
    streams = await ref.artefact.streams(ad.STREAMS)
    data = stream_data(streams)
    return _summary(ref.artefact.id, ref.meta) | {
        "brief": state.get("brief"),
        "streams": {name: _stream_view(stream) for name, stream in streams.items()},
        "timeline": service.timeline_of(ref.thread, ref.facts, data),
        "mixer": ad.mixer(data, await mixers.read_mixer(ref.storage, service.KIND, ref.artefact.stored_id)),
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
    """Return the timeline of the selected versions."""
    streams = await ref.artefact.streams(ad.STREAMS)
    return service.timeline_of(ref.thread, ref.facts, stream_data(streams, chosen))


async def mixer_view(ref: AdRef) -> dict[str, Any]:
    """Return the mixer; unset tracks are at 0 dB."""
    data = stream_data(await ref.artefact.streams(ad.STREAMS))
    return ad.mixer(data, await mixers.read_mixer(ref.storage, service.KIND, ref.artefact.stored_id))


async def versions_view(ref: AdRef, stream: str) -> dict[str, Any]:
    """Return the versions of a stream, newest last, and the active one."""
    stored_stream = await ref.artefact.stream(stream)
    return {
        "versions": [
            _version_summary(version, stored_stream.versions[-1]) for version in stored_stream.versions
        ],
        "active": stored_stream.active,
    }


async def version_view(ref: AdRef, stream: str, version_id: str) -> dict[str, Any]:
    """Return one version with its data, both under `data` and flat."""
    version, newest = await find_version(ref, stream, version_id)
    return {**version.data, **_version_summary(version, newest), "data": version.data}


async def find_version(ref: AdRef, stream: str, version_id: str) -> tuple[Version, Version]:
    """Return a version and the newest of its stream; raise `Missing` for an unknown id."""
    stored_stream = await ref.artefact.stream(stream)
    version, newest = stored_stream.find(version_id), stored_stream.newest()
    if version is None or newest is None:
        raise ref.artefact.missing_version(stream, version_id)
    return version, newest


async def write_reply(ref: AdRef, stream: str, version_id: str) -> dict[str, Any]:
    """Return the reply to a write: the version, the timeline and the mixer."""
    version, newest = await find_version(ref, stream, version_id)
    written = {"stream": stream, "versionId": version.id, "status": status(version, newest)}
    return written | await service.timing(ref.storage, ref.thread, ref.facts)


def stream_data(
    streams: Mapping[str, Stream], chosen: ChosenVersions = "newest"
) -> dict[str, Mapping[str, Any]]:
    """Return the data of each stream's selected version, if it has one."""
    versions = {
        name: stream.newest() if chosen == "newest" else stream.find(stream.active or "")
        for name, stream in streams.items()
    }
    return {name: version.data for name, version in versions.items() if version}


def _summary(ad_id: str, meta: Mapping[str, str]) -> dict[str, Any]:
    return {
        "adId": ad_id,
        "createdAt": iso_time_or_none(meta.get("createdMs")),
        "updatedAt": iso_time_or_none(meta.get("updatedMs") or meta.get("createdMs")),
        "language": meta.get("language"),
        "market": meta.get("market"),
        "spotSeconds": float(meta["spotSeconds"]) if "spotSeconds" in meta else None,
    }


def _stream_view(stream: Stream) -> dict[str, Any]:
    newest = stream.newest()
    active = stream.find(stream.active or "")
    shown = {"newest": newest, "active": active}
    return {
        key: {**_version_summary(version, newest), "data": version.data} if version and newest else None
        for key, version in shown.items()
    } | {"count": len(stream.versions)}


def _version_summary(version: Version, newest: Version) -> dict[str, Any]:
    return version_fields(version, newest) | {"summary": ad.summary(version.stream, version.data)}

"""What callers are shown of an ad: storage and state to reply shapes."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from callsheet.graphs import ad_creation
from callsheet.server.ads import service as jobs
from callsheet.server.ads.edits import Ad
from callsheet.server.artefacts import views
from callsheet.server.artefacts.views import iso
from callsheet.state import conversation
from callsheet.state.ads import ad
from callsheet.state.ads.timeline import Timeline
from callsheet.state.versions import Version, status, version_fields
from callsheet.storage import indexes
from callsheet.storage.artefacts import mixer as mixers
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.redis.connection import Storage

ChosenVersions = Literal["newest", "active"]
"""Which version stands for its stream; a stream of which none is active is silent."""


async def ad_list(storage: Storage, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the owner's ads, newest change first: `{ads, next}`."""
    page = await indexes.list_owned(storage, owner, jobs.KIND, after=after, limit=limit)
    metas = await asyncio.gather(*(Artefact(storage, jobs.KIND, ad_id, owner).meta() for ad_id in page.ids))
    shown = [
        _head(ad_id, meta) for ad_id, meta in zip(page.ids, metas, strict=True) if meta.get("owner") == owner
    ]
    return {"ads": shown, "next": page.next}


async def ad_view(found: Ad, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ad as a panel shows it: record, brief, streams, times, mixer and conversation.

    `known` is the state of its conversation.
    """
    streams = await found.artefact.streams(ad.STREAMS)
    data = stream_data(streams)
    return _head(found.artefact.id, found.meta) | {
        "brief": known.get("brief"),
        "streams": {name: _stream(stream) for name, stream in streams.items()},
        "timeline": jobs.timeline_of(found.thread, found.facts, data),
        "mixer": ad.mixer(data, await mixers.read(found.storage, jobs.KIND, found.artefact.stored_id)),
        "locks": await views.locks_view(found.artefact, "stream"),
        "conversationId": found.thread.id,
        "provider": known.get("provider", ""),
        "providerReason": known.get("provider_reason", ""),
    }


def conversation_view(found: Ad, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conversation (A36, A37); no messages where none was begun."""
    messages = known.get("messages", ())
    prompt = ad_creation.WORKFLOW.prompt(known, found.artefact.id) if messages else ""  # type: ignore[arg-type]  # a snapshot's values
    return {
        "conversationId": found.thread.id,
        "messages": conversation.rendered(prompt, messages) if messages else [],
    }


async def timeline_view(found: Ad, chosen: ChosenVersions) -> Timeline:
    """Return when everything in the ad plays."""
    streams = await found.artefact.streams(ad.STREAMS)
    return jobs.timeline_of(found.thread, found.facts, stream_data(streams, chosen))


async def mixer_view(found: Ad) -> dict[str, Any]:
    """Return the mixer as it is set, tracks that nobody set at 0 dB."""
    data = stream_data(await found.artefact.streams(ad.STREAMS))
    return ad.mixer(data, await mixers.read(found.storage, jobs.KIND, found.artefact.stored_id))


async def versions_view(found: Ad, stream: str) -> dict[str, Any]:
    """Return the versions of a stream, newest last, and which is active."""
    kept = await found.artefact.stream(stream)
    return {
        "versions": [_line(version, kept.versions[-1]) for version in kept.versions],
        "active": kept.active,
    }


async def version_view(found: Ad, stream: str, version_id: str) -> dict[str, Any]:
    """Return one version: what is known of it, its data, and the same data flat beside it (A30)."""
    one, newest = await find_version(found, stream, version_id)
    return {**one.data, **_line(one, newest), "data": one.data}


async def find_version(found: Ad, stream: str, version_id: str) -> tuple[Version, Version]:
    """Return a version and the newest of its stream; raises `Missing` when there is none of that id."""
    all_kept = await found.artefact.stream(stream)
    one, newest = all_kept.find(version_id), all_kept.newest()
    if one is None or newest is None:
        raise found.artefact.missing_version(stream, version_id)
    return one, newest


async def written_view(found: Ad, stream: str, version_id: str) -> dict[str, Any]:
    """Return what a writer is told: the version, when everything plays now, and the mixer."""
    one, newest = await find_version(found, stream, version_id)
    told = {"stream": stream, "versionId": one.id, "status": status(one, newest)}
    return told | await jobs.timing(found.storage, found.thread, found.facts)


def stream_data(
    streams: Mapping[str, Stream], chosen: ChosenVersions = "newest"
) -> dict[str, Mapping[str, Any]]:
    """Return the data of the version that stands for each stream, where there is one."""
    found = {
        name: stream.newest() if chosen == "newest" else stream.find(stream.active or "")
        for name, stream in streams.items()
    }
    return {name: one.data for name, one in found.items() if one}


def _head(ad_id: str, meta: Mapping[str, str]) -> dict[str, Any]:
    return {
        "adId": ad_id,
        "createdAt": iso(meta.get("createdMs")),
        "updatedAt": iso(meta.get("updatedMs") or meta.get("createdMs")),
        "language": meta.get("language"),
        "market": meta.get("market"),
        "spotSeconds": float(meta["spotSeconds"]) if "spotSeconds" in meta else None,
    }


def _stream(stream: Stream) -> dict[str, Any]:
    newest = stream.newest()
    active = stream.find(stream.active or "")
    shown = {"newest": newest, "active": active}
    return {
        key: {**_line(one, newest), "data": one.data} if one and newest else None
        for key, one in shown.items()
    } | {"count": len(stream.versions)}


def _line(version: Version, newest: Version) -> dict[str, Any]:
    return version_fields(version, newest) | {"summary": ad.summary(version.stream, version.data)}

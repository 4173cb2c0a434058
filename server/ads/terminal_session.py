"""One turn about an ad in this process, on the server's storage: `callsheet ad`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.graphs import ad_creation
from callsheet.server.ads import service
from callsheet.server.ads.schemas import AdChat, AdGenerate
from callsheet.server.ads.service import ADS
from callsheet.server.artefacts.service import RequestContext, thread_of
from callsheet.server.engine.worker import OnProgress, Worker
from callsheet.server.http.requests import identifier
from callsheet.server.processes.worker import local_worker
from callsheet.server.settings.settings import Settings
from callsheet.state.ads import ad
from callsheet.state.ads.timeline import Timeline
from callsheet.state.context import Context
from callsheet.state.errors import Conflict, Missing
from callsheet.state.owners import LOCAL
from callsheet.state.versions import Version
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


@dataclass(frozen=True)
class AdCliRequest:
    """A turn requested in the terminal."""

    content: Any
    """The brief, a text or an object; with `thread` the message."""
    ad_id: str = ""
    """Id of the new ad; empty with `thread`."""
    thread: str = ""
    """Id of the conversation, or the ad, to continue; empty for a new ad."""
    language: str | None = None
    market: str | None = None
    duration_s: float | None = None
    context: Context = field(default_factory=Context)


@dataclass(frozen=True)
class VersionChange:
    """A version that the turn made."""

    stream: str
    version: Version
    before: Version | None
    """The previous version of the stream."""
    timeline: Timeline
    """The ad's timeline with this version."""


@dataclass(frozen=True)
class AdCliTurn:
    """The result of a turn."""

    reply: Mapping[str, Any]
    """The REST API's reply."""
    changes: tuple[VersionChange, ...]
    """In the order of the streams, then of creation."""
    unchanged: Mapping[str, str]
    """Id of the newest version of each stream that the turn did not change."""


async def run(request: AdCliRequest, settings: Settings, report: OnProgress) -> AdCliTurn:
    """Execute the turn and return its result; raise what the REST API raises."""
    async with local_worker(settings, {service.GRAPH: ad_creation.graph}) as (worker, storage):
        run_request = await _run_request(worker, request)
        reply, ack = await service.run(worker, run_request, report)
        await ack()
        return await _turn(worker, storage, thread_of(run_request), reply)


async def _run_request(worker: Worker, request: AdCliRequest) -> RunRequest:
    caller = RequestContext(context=request.context)
    settings: dict[str, Any] = {
        "language": request.language,
        "market": request.market,
        "duration": request.duration_s,
    }
    if not request.thread:
        brief = AdGenerate.model_construct(adId=request.ad_id, brief=request.content, **settings)
        return await service.generate_run(worker.storage, brief, caller)
    ad_id, thread_id = await _ids(worker.storage, request.thread)
    message = AdChat.model_construct(message=str(request.content), conversationId=thread_id, **settings)
    return await service.chat_run(worker, ad_id, message, caller)


async def _ids(storage: Storage, name: str) -> tuple[str, str]:
    """Return the ids of the ad and its conversation; `name` is either of them."""
    name = identifier(name, "thread")
    try:
        thread = await threads.get(storage, name, owner=LOCAL)
    except Missing:
        meta = await Artefact(storage, service.KIND, name, LOCAL).meta()
        if meta.get("owner") != LOCAL:
            raise Missing(
                f"there is no conversation or ad {name!r}",
                remedy='check the id, or start with: callsheet ad "who the ad is for and what it should say"',
            ) from None
        return name, meta["thread"]
    if thread.graph != service.GRAPH:
        raise Conflict(
            f"conversation {name!r} is about {thread.artefact!r}, not about an ad", remedy="use an ad's id"
        )
    return ADS.artefact_id(thread), thread.id


async def _turn(worker: Worker, storage: Storage, thread: Thread, reply: Mapping[str, Any]) -> AdCliTurn:
    facts = service.ad_facts((await worker.state(thread)).values)
    streams = await ADS.artefact(storage, thread).streams(ad.STREAMS)
    newest = {name: version for name, stream in streams.items() if (version := stream.newest())}
    changes = []
    for draft in reply["created"]:
        name, version = draft["stream"], streams[draft["stream"]].find(draft["versionId"])
        # Somebody may have deleted the draft meanwhile.
        if version:
            data = {other: one.data for other, one in newest.items()} | {name: version.data}
            timeline = service.timeline_of(thread, facts, data)
            before = _previous(streams[name], version)
            changes.append(VersionChange(name, version, before, timeline))
    changed = {change.stream for change in changes}
    return AdCliTurn(
        reply,
        tuple(sorted(changes, key=lambda change: ad.STREAMS.index(change.stream))),
        {name: version.id for name, version in newest.items() if name not in changed},
    )


def _previous(stream: Stream, version: Version) -> Version | None:
    index = stream.versions.index(version)
    return stream.versions[index - 1] if index else None

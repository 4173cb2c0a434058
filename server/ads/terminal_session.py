"""An ad made or refined in this process, on the storage that the server uses: what `callsheet ad` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.graphs import ad_creation
from callsheet.server.ads import service as jobs
from callsheet.server.ads.service import ChatRequest, GenerateRequest
from callsheet.server.artefacts.turns import identifier
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import OnProgress, Worker
from callsheet.server.runtime.worker_process import local_worker
from callsheet.server.settings import Settings
from callsheet.state.ads import ad
from callsheet.state.ads.timeline import Timeline
from callsheet.state.context import Context
from callsheet.state.errors import Conflict, Missing
from callsheet.state.owners import LOCAL
from callsheet.state.versions import Version
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


@dataclass(frozen=True)
class CliRequest:
    """What a person asks for in the terminal."""

    said: object
    """The brief, in any of its shapes; or, where `thread` is given, the message."""
    ad_id: str = ""
    """Of the ad to make; empty where `thread` is given."""
    thread: str = ""
    """Conversation, or ad, to go on with; empty for a new ad."""
    language: str | None = None
    market: str | None = None
    duration_s: float | None = None
    context: Context = field(default_factory=Context)


@dataclass(frozen=True)
class VersionChange:
    """A version this turn made, and where it belongs."""

    stream: str
    version: Version
    before: Version | None
    """The version that was the newest until then."""
    timeline: Timeline
    """The ad in time with this version in it."""
    notes: tuple[str, ...] = ()
    """What was shortened so that the script fits."""


@dataclass(frozen=True)
class CliTurn:
    """What came of a wish."""

    reply: Mapping[str, Any]
    """The reply of the REST endpoints."""
    takes: tuple[VersionChange, ...]
    """In the order of the streams, then of their making."""
    kept: Mapping[str, str]
    """The newest version of every stream this turn left alone."""


async def run(wish: CliRequest, settings: Settings, report: OnProgress) -> CliTurn:
    """Do what was asked and return what came of it; raises what the REST endpoints raise."""
    async with local_worker(settings, {jobs.GRAPH: ad_creation.graph}) as (worker, opened):
        job = await _job(worker, opened, wish)
        reply = await jobs.run_and_ack(worker, opened, job, report)
        return await _turn(worker, opened, job.thread, reply)


async def _job(worker: Worker, opened: Storage, wish: CliRequest) -> DomainRun:
    if not wish.thread:
        asked = GenerateRequest(
            wish.ad_id,
            wish.said,
            wish.language,
            wish.market,
            duration=wish.duration_s,
            context=wish.context,
        )
        return await jobs.generate_run(opened, asked)
    ad_id, thread_id = await _subject(opened, wish.thread)
    chat = ChatRequest(
        ad_id, str(wish.said), thread_id, wish.language, wish.market, wish.duration_s, context=wish.context
    )
    return await jobs.chat_run(worker, opened, chat)


async def _subject(opened: Storage, name: str) -> tuple[str, str]:
    """Return the ad and the conversation that `name`, which may be either's id, stands for."""
    name = identifier(name, "thread")
    try:
        thread = await threads.get(opened, name, owner=LOCAL)
    except Missing:
        meta = await Artefact(opened, jobs.KIND, name, LOCAL).meta()
        if meta.get("owner") != LOCAL:
            raise Missing(
                f"there is no conversation or ad {name!r}",
                remedy='check the id, or start with: callsheet ad "who the ad is for and what it should say"',
            ) from None
        return name, meta["thread"]
    if thread.graph != jobs.GRAPH:
        raise Conflict(
            f"conversation {name!r} is about {thread.artefact!r}, not about an ad", remedy="use an ad's id"
        )
    return jobs.ADS.artefact_id(thread), thread.id


async def _turn(worker: Worker, opened: Storage, thread: Thread, reply: Mapping[str, Any]) -> CliTurn:
    facts = jobs.ad_facts((await worker.state(thread)).values)
    streams = await jobs.ADS.artefact(opened, thread).streams(ad.STREAMS)
    newest = {name: version for name, stream in streams.items() if (version := stream.newest())}
    notes = {call["id"]: tuple(call["result"].get("tightened", ())) for call in reply["toolCalls"]}
    takes = []
    for made in reply["created"]:
        name, version = made["stream"], streams[made["stream"]].find(made["versionId"])
        # Somebody else may have deleted the draft meanwhile.
        if version:
            whole = {other: one.data for other, one in newest.items()} | {name: version.data}
            before = _before(streams[name], version)
            takes.append(
                VersionChange(
                    name,
                    version,
                    before,
                    jobs.timeline_of(thread, facts, whole),
                    notes.get(made["toolCallId"], ()),
                )
            )
    changed = {take.stream for take in takes}
    return CliTurn(
        reply,
        tuple(sorted(takes, key=lambda take: ad.STREAMS.index(take.stream))),
        {name: version.id for name, version in newest.items() if name not in changed},
    )


def _before(stream: Stream, version: Version) -> Version | None:
    index = stream.versions.index(version)
    return stream.versions[index - 1] if index else None

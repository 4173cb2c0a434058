"""An ad made or refined in this process, on the storage that the server uses: what `callsheet ad` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphs import ad_creation
from server import jobs
from server.command_worker import at_hand
from server.jobs import Chat, Generate
from server.requested import Job
from server.settings import Settings
from server.turns import identifier
from server.worker import Report, Worker
from state import ad
from state.context import Context
from state.errors import Conflict, Missing
from state.owners import LOCAL
from state.timeline import Timeline
from state.versions import Version
from storage import threads
from storage.artefacts import Artefact, Stream
from storage.connection import Storage
from storage.threads import Thread


@dataclass(frozen=True)
class Wish:
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
class Take:
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
class Turn:
    """What came of a wish."""

    reply: Mapping[str, Any]
    """The reply of the REST endpoints."""
    takes: tuple[Take, ...]
    """In the order of the streams, then of their making."""
    kept: Mapping[str, str]
    """The newest version of every stream this turn left alone."""


async def carried_out(wish: Wish, settings: Settings, report: Report) -> Turn:
    """Do what was asked and return what came of it; raises what the REST endpoints raise."""
    async with at_hand(settings, {jobs.GRAPH: ad_creation.graph}) as (worker, opened):
        job = await _job(worker, opened, wish)
        reply = await jobs.carried_out(worker, opened, job, report)
        return await _turn(worker, opened, job.thread, reply)


async def _job(worker: Worker, opened: Storage, wish: Wish) -> Job:
    if not wish.thread:
        asked = Generate(
            wish.ad_id,
            wish.said,
            wish.language,
            wish.market,
            duration=wish.duration_s,
            context=wish.context,
        )
        return await jobs.generate_job(opened, asked)
    ad_id, thread_id = await _subject(opened, wish.thread)
    chat = Chat(
        ad_id, str(wish.said), thread_id, wish.language, wish.market, wish.duration_s, context=wish.context
    )
    return await jobs.chat_job(worker, opened, chat)


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
    return jobs.DESK.subject(thread), thread.id


async def _turn(worker: Worker, opened: Storage, thread: Thread, reply: Mapping[str, Any]) -> Turn:
    facts = jobs.ad_facts((await worker.state(thread)).values)
    streams = await jobs.DESK.artefact_of(opened, thread).streams(ad.STREAMS)
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
                Take(
                    name,
                    version,
                    before,
                    jobs.placed(thread, facts, whole),
                    notes.get(made["toolCallId"], ()),
                )
            )
    changed = {take.stream for take in takes}
    return Turn(
        reply,
        tuple(sorted(takes, key=lambda take: ad.STREAMS.index(take.stream))),
        {name: version.id for name, version in newest.items() if name not in changed},
    )


def _before(stream: Stream, version: Version) -> Version | None:
    index = stream.versions.index(version)
    return stream.versions[index - 1] if index else None

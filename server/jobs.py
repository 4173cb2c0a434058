"""Requests about audio ads as jobs for the worker, and what came of them as replies (A50–A57).

The REST endpoints and the command line build the same jobs and give the same replies, so that an ad begun in
one is continued in the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from graphs import ad_creation
from server import lesson_jobs, page_jobs
from server.desk import Asked, Desk
from server.execution import Reply
from server.requested import Job
from server.turns import last_word, message, said, tool_calls, usage
from server.worker import Report, Terms, Told, Worker
from state import ad, brief
from state.ad import AdState
from state.errors import Invalid
from state.timeline import Timeline
from storage import mixers, threads
from storage.connection import Storage
from storage.run_records import Run
from storage.threads import Thread
from tools.audio import spoken_language, spot_s
from tools.call import Scope

GRAPH: Final = "ad_creation"
KIND: Final = "ad"
DESK: Final = Desk(GRAPH, KIND, "adId")
GENERATE: Final = "generate"
"""What a brief asks for, in a job's body."""
NO_CONVERSATION: Final = "No conversation found. Generate initial ad first."
"""What a chat about an ad without a conversation is told (A57)."""


@dataclass(frozen=True)
class Generate(Asked):
    """A brief that is to become an ad (A50)."""

    ad_id: str
    brief: object
    """In either shape, or a sentence; not checked yet."""
    language: str | None = None
    """Wins over the brief's."""
    market: str | None = None
    """Wins over the brief's."""
    conversation_id: str | None = None
    duration: float | None = None
    """Seconds of the spot; wins over the brief's."""


@dataclass(frozen=True)
class Chat(Asked):
    """What a person says about an ad that is there (A55)."""

    ad_id: str
    message: str
    conversation_id: str | None = None
    language: str | None = None
    """The ad's language from now on."""
    market: str | None = None
    """The ad's market from now on."""
    duration: object = None
    """The spot's seconds from now on; not checked yet."""


async def generate_job(storage: Storage, asked: Generate) -> Job:
    """Return the job that makes an ad, or begins an existing one anew from another brief.

    Writes nothing. Raises `Invalid` for what breaks a rule, and `Missing` for a conversation that is not
    this ad's.
    """
    wanted = brief.parsed(asked.brief, language=asked.language, market=asked.market, duration=asked.duration)
    thread = await DESK.thread(storage, asked.ad_id, asked.owner, asked.conversation_id)
    given: dict[str, Any] = {
        "ad_id": asked.ad_id,
        "brief": wanted,
        "language": wanted["language"],
        "market": wanted["market"],
        "messages": [said(brief.message(wanted))],
    }
    return asked.job(thread, {"ask": GENERATE, "brief": wanted}, input=given)


async def chat_job(worker: Worker, storage: Storage, asked: Chat) -> Job:
    """Return the job that carries a conversation on; what changed of the ad is added to the message.

    Writes nothing. Raises `Invalid` where the ad has no conversation yet (A57) or a value breaks a rule,
    `Busy` while its first run has come to nothing yet, and `Missing` for a conversation that is not this
    ad's (A-R14).
    """
    text = message(asked.message)
    thread = await DESK.thread(storage, asked.ad_id, asked.owner, asked.conversation_id)
    known: Mapping[str, Any] = (await worker.state(thread)).values
    if not known.get("messages"):
        await worker.runs.require_idle(thread.id)
        raise Invalid(NO_CONVERSATION, remedy="send a brief to POST /api/ai/generate first")
    changes, notes = _changes(known, asked)
    return asked.job(
        thread,
        {
            "ask": "chat",
            "message": text,
            "language": asked.language,
            "market": asked.market,
            "duration": asked.duration,
        },
        input={"ad_id": asked.ad_id, **changes, "messages": [said("\n".join((text, *notes)))]},
    )


async def carried_out(
    worker: Worker, storage: Storage, job: Job, report: Report | None = None
) -> dict[str, Any]:
    """Carry a job of this module out and return the reply, as `answered` does, which has arrived by that."""
    reply, told = await answered(worker, storage, job, report)
    await told()
    return reply


async def answered(
    worker: Worker, storage: Storage, job: Job, report: Report | None = None
) -> tuple[dict[str, Any], Told]:
    """Carry a job of this module out and return its `answer`, with `timeline` and `mixer`, and `Told`.

    The ad is its owner's, and on the owner's list, before anything is made of it: a first turn that fails
    leaves an ad whose conversation can go on. Raises `Missing` where another conversation is about the ad.
    """
    facts = ad_facts(job.input) if job.body["ask"] == GENERATE else {}
    await DESK.opened(storage, job.thread, facts)
    return await (worker.answer(job, report) if report else worker.answer(job))


def terms(storage: Storage, lease_s: float, timeout_s: float = 3600.0) -> Terms:
    """Return what runs are held to where jobs of this module, and of the other workflows, are carried out."""
    replies = {
        GRAPH: replying(storage),
        lesson_jobs.GRAPH: lesson_jobs.replying(storage),
        page_jobs.GRAPH: page_jobs.replying(storage),
    }
    return Terms(lease_s, timeout_s, replies=replies)


def replying(storage: Storage) -> Reply:
    """Return what makes the whole reply to a job, having noted what the conversation knows of the ad.

    All of it happens while the run still holds its thread, so that the last thing a run does is to end.
    """

    async def reply(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread = await threads.get(storage, run.thread, run.owner)
        facts = ad_facts(state)
        await DESK.artefact_of(storage, thread).describe(facts)
        return answer(thread, state) | await in_time(storage, thread, facts)

    return reply


def ad_facts(state: Mapping[str, Any]) -> dict[str, str]:
    """Return what a conversation's state says of its ad: `language`, `market`, `spotSeconds`."""
    return ad_creation.facts(cast("AdState", state))


async def in_time(storage: Storage, thread: Thread, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the `timeline` and the `mixer` of an ad's newest versions."""
    artefact = DESK.artefact_of(storage, thread)
    streams = await artefact.streams(ad.STREAMS)
    data = {name: newest.data for name, stream in streams.items() if (newest := stream.newest())}
    kept = await mixers.read(storage, artefact.stored_id)
    return {"timeline": placed(thread, facts, data), "mixer": ad.mixer(data, kept)}


def placed(thread: Thread, facts: Mapping[str, str], data: Mapping[str, Mapping[str, Any]]) -> Timeline:
    """Return an ad in time: what its streams hold, spoken as fast as the cast's language is."""
    about = (thread.owner, thread.id, KIND, DESK.subject(thread))
    scope = Scope(*about, run="", task="", plan="", epoch=0, facts=facts)
    language = spoken_language(data.get("voices", {}).get("voiceTracks", ()), scope)
    return ad.timeline(data, language=language, spot_s=spot_s(scope))


def answer(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn made and said, from the state it ended in; JSON.

    `drafts` names the streams this turn changed and no others (A56), `created` every version with the tool
    call that made it (A-R9), `toolCalls` the turn's calls in order (A76), `usage` the tokens of the whole
    conversation (A66).
    """
    return {
        "conversationId": thread.id,
        "adId": DESK.subject(thread),
        "drafts": dict(state.get("drafts", {})),
        "created": [dict(made) for made in state.get("created", ())],
        "message": last_word(state),
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, _in_short),
        "usage": usage(state),
    }


def _changes(known: Mapping[str, Any], asked: Chat) -> tuple[dict[str, Any], list[str]]:
    """Return what a request changes of the state, and what the model is told of it."""
    changes: dict[str, Any] = {}
    notes: list[str] = []
    old = ad_facts(known)
    if asked.language and (language := brief.language_name(asked.language)) != old["language"]:
        changes["language"] = language
        notes.append(f"(Ad language now: {language})")
    if asked.market and asked.market.strip() != old["market"]:
        changes["market"] = asked.market.strip()
    if (
        asked.duration is not None
        and f"{(length_s := brief.seconds(asked.duration)):g}" != old["spotSeconds"]
    ):
        before = ad_creation.brief_of(cast("AdState", known)) or brief.parsed(known["messages"][0].text)
        changes["brief"] = {**before, "duration": length_s}
        notes.append(f"(Spot now: {length_s:g} s)")
    return changes, notes


def _in_short(output: Mapping[str, Any]) -> dict[str, Any]:
    told = ("versionId", "count", "timeline", "tightened", "error", "suggestion", "type")
    # A search has `voices` too, and there they are a list.
    looked_at = {name: output[name]["versionId"] for name in ad.STREAMS if isinstance(output.get(name), dict)}
    return {name: output[name] for name in told if name in output and not looked_at} | looked_at

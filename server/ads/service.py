"""Requests about audio ads as jobs for the worker, and what came of them as replies (A50–A57).

The REST endpoints and the command line build the same jobs and give the same replies, so that an ad begun in
one is continued in the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from callsheet.graphs import ad_creation
from callsheet.server.artefacts.service import ArtefactService, RequestOptions
from callsheet.server.artefacts.turns import clean_message, human_message, last_message, tool_calls, usage
from callsheet.server.runtime.execution import BuildReply
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Ack, OnProgress, Worker
from callsheet.state.ads import ad, brief
from callsheet.state.ads.ad import AdState
from callsheet.state.ads.timeline import Timeline
from callsheet.state.errors import Invalid
from callsheet.storage.artefacts import mixer as mixers
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.ads.drafts import script_language, spot_s
from callsheet.tools.guard.call import Scope

GRAPH: Final = "ad_creation"
KIND: Final = "ad"
ADS: Final = ArtefactService(GRAPH, KIND, "adId")
GENERATE_ACTION: Final = "generate"
"""What a brief asks for, in a job's body."""
NO_CONVERSATION: Final = "No conversation found. Generate initial ad first."
"""What a chat about an ad without a conversation is told (A57)."""


@dataclass(frozen=True)
class GenerateRequest(RequestOptions):
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
class ChatRequest(RequestOptions):
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


async def generate_run(storage: Storage, asked: GenerateRequest) -> DomainRun:
    """Return the job that makes an ad, or begins an existing one anew from another brief.

    Writes nothing. Raises `Invalid` for what breaks a rule, and `Missing` for a conversation that is not
    this ad's.
    """
    wanted = brief.parse(asked.brief, language=asked.language, market=asked.market, duration=asked.duration)
    thread = await ADS.find_thread(storage, asked.ad_id, asked.owner, asked.conversation_id)
    given: dict[str, Any] = {
        "ad_id": asked.ad_id,
        "brief": wanted,
        "language": wanted["language"],
        "market": wanted["market"],
        "messages": [human_message(brief.message(wanted))],
    }
    return asked.domain_run(thread, {"ask": GENERATE_ACTION, "brief": wanted}, input=given)


async def chat_run(worker: Worker, storage: Storage, asked: ChatRequest) -> DomainRun:
    """Return the job that carries a conversation on; what changed of the ad is added to the message.

    Writes nothing. Raises `Invalid` where the ad has no conversation yet (A57) or a value breaks a rule,
    `Busy` while its first run has come to nothing yet, and `Missing` for a conversation that is not this
    ad's (A-R14).
    """
    text = clean_message(asked.message)
    thread = await ADS.find_thread(storage, asked.ad_id, asked.owner, asked.conversation_id)
    known: Mapping[str, Any] = (await worker.state(thread)).values
    if not known.get("messages"):
        await worker.runs.require_idle(thread.id)
        raise Invalid(NO_CONVERSATION, remedy="send a brief to POST /api/ai/generate first")
    changes, notes = _changes(known, asked)
    return asked.domain_run(
        thread,
        {
            "ask": "chat",
            "message": text,
            "language": asked.language,
            "market": asked.market,
            "duration": asked.duration,
        },
        input={"ad_id": asked.ad_id, **changes, "messages": [human_message("\n".join((text, *notes)))]},
    )


async def run_and_ack(
    worker: Worker, storage: Storage, job: DomainRun, report: OnProgress | None = None
) -> dict[str, Any]:
    """Carry a job of this module out and return the reply, as `answered` does, which has arrived by that."""
    reply, told = await run(worker, storage, job, report)
    await told()
    return reply


async def run(
    worker: Worker, storage: Storage, job: DomainRun, report: OnProgress | None = None
) -> tuple[dict[str, Any], Ack]:
    """Carry a job of this module out and return its `answer`, with `timeline` and `mixer`, and `Told`.

    The ad is its owner's, and on the owner's list, before anything is made of it: a first turn that fails
    leaves an ad whose conversation can go on. Raises `Missing` where another conversation is about the ad.
    """
    facts = ad_facts(job.input) if job.body["ask"] == GENERATE_ACTION else {}
    await ADS.claim(storage, job.thread, facts)
    return await (worker.run(job, report) if report else worker.run(job))


def reply_builder(storage: Storage) -> BuildReply:
    """Return what makes the whole reply to a job, having noted what the conversation knows of the ad.

    All of it happens while the run still holds its thread, so that the last thing a run does is to end.
    """

    async def reply(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread = await threads.get(storage, run.thread, run.owner)
        facts = ad_facts(state)
        await ADS.artefact(storage, thread).describe(facts)
        return turn_view(thread, state) | await timing(storage, thread, facts)

    return reply


def ad_facts(state: Mapping[str, Any]) -> dict[str, str]:
    """Return what a conversation's state says of its ad: `language`, `market`, `spotSeconds`."""
    return dict(ad_creation.WORKFLOW.facts(cast("AdState", state)))


async def timing(storage: Storage, thread: Thread, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the `timeline` and the `mixer` of an ad's newest versions."""
    artefact = ADS.artefact(storage, thread)
    streams = await artefact.streams(ad.STREAMS)
    data = {name: newest.data for name, stream in streams.items() if (newest := stream.newest())}
    kept = await mixers.read(storage, KIND, artefact.stored_id)
    return {"timeline": timeline_of(thread, facts, data), "mixer": ad.mixer(data, kept)}


def timeline_of(thread: Thread, facts: Mapping[str, str], data: Mapping[str, Mapping[str, Any]]) -> Timeline:
    """Return an ad in time: what its streams hold, spoken as fast as the cast's language is."""
    about = (thread.owner, thread.id, KIND, ADS.artefact_id(thread))
    scope = Scope(*about, run="", task="", plan="", epoch=0, facts=facts)
    language = script_language(data.get("voices", {}).get("voiceTracks", ()), scope)
    return ad.timeline(data, language=language, spot_s=spot_s(scope))


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn made and said, from the state it ended in; JSON.

    `drafts` names the streams this turn changed and no others (A56), `created` every version with the tool
    call that made it (A-R9), `toolCalls` the turn's calls in order (A76), `usage` the tokens of the whole
    conversation (A66).
    """
    return {
        "conversationId": thread.id,
        "adId": ADS.artefact_id(thread),
        "drafts": dict(state.get("drafts", {})),
        "created": [dict(made) for made in state.get("created", ())],
        "message": last_message(state),
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, _in_short),
        "usage": usage(state),
    }


def _changes(known: Mapping[str, Any], asked: ChatRequest) -> tuple[dict[str, Any], list[str]]:
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
        before = ad_creation.brief_of(cast("AdState", known)) or brief.parse(known["messages"][0].text)
        changes["brief"] = {**before, "duration": length_s}
        notes.append(f"(Spot now: {length_s:g} s)")
    return changes, notes


def _in_short(output: Mapping[str, Any]) -> dict[str, Any]:
    told = ("versionId", "count", "timeline", "tightened", "error", "suggestion", "type")
    # A search has `voices` too, and there they are a list.
    looked_at = {name: output[name]["versionId"] for name in ad.STREAMS if isinstance(output.get(name), dict)}
    return {name: output[name] for name in told if name in output and not looked_at} | looked_at

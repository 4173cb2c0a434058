"""Requests about audio ads as runs for the worker, and their replies (A50–A57).

REST and the command line build the same runs, so each can continue the other's ads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from callsheet.graphs import ad_creation
from callsheet.server.artefacts.service import ArtefactService, RequestOptions, answer_in_words, question_view
from callsheet.server.artefacts.turn_view import turn_fields
from callsheet.server.artefacts.turns import clean_message, human_message, last_message, turn_use
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
"""Value of `ask` in the body of a run that makes an ad."""
NO_CONVERSATION: Final = "No conversation found. Generate initial ad first."
"""Error of a chat about an ad without a conversation (A57)."""


@dataclass(frozen=True)
class GenerateRequest(RequestOptions):
    """A brief for a new ad (A50)."""

    ad_id: str
    brief: object
    """A text or an object; not validated yet."""
    language: str | None = None
    """Overrides the brief's."""
    market: str | None = None
    """Overrides the brief's."""
    conversation_id: str | None = None
    duration: float | None = None
    """Length of the spot in seconds; overrides the brief's."""


@dataclass(frozen=True)
class ChatRequest(RequestOptions):
    """A message about an existing ad (A55)."""

    ad_id: str
    message: str
    conversation_id: str | None = None
    language: str | None = None
    """New language of the ad."""
    market: str | None = None
    """New market of the ad."""
    duration: object = None
    """New length of the spot in seconds; not validated yet."""


async def generate_run(storage: Storage, request: GenerateRequest) -> DomainRun:
    """Return the run that makes an ad, or restarts an existing one from another brief; write nothing.

    Raises `Invalid` for an invalid brief, and `Missing` for another ad's conversation.
    """
    parsed_brief = brief.parse(
        request.brief, language=request.language, market=request.market, duration=request.duration
    )
    thread = await ADS.find_thread(storage, request.ad_id, request.owner, request.conversation_id)
    graph_input: dict[str, Any] = {
        "ad_id": request.ad_id,
        "brief": parsed_brief,
        "language": parsed_brief["language"],
        "market": parsed_brief["market"],
        "messages": [human_message(brief.message(parsed_brief))],
    }
    return request.domain_run(thread, {"ask": GENERATE_ACTION, "brief": parsed_brief}, input=graph_input)


async def chat_run(worker: Worker, storage: Storage, request: ChatRequest) -> DomainRun:
    """Return the run that continues a conversation; changed settings are added to the message as notes.

    A plain yes or no answers a pending question.
    Writes nothing. Raises `Invalid` for an ad without a conversation (A57) and for invalid values, `Busy`
    during its first run, and `Missing` for another ad's conversation (A-R14).
    """
    text = clean_message(request.message)
    thread = await ADS.find_thread(storage, request.ad_id, request.owner, request.conversation_id)
    values: Mapping[str, Any] = (await worker.state(thread)).values
    if not values.get("messages"):
        await worker.runs.require_idle(thread.id)
        raise Invalid(NO_CONVERSATION, remedy="send a brief to POST /api/ai/generate first")
    if answer_run := await answer_in_words(worker, request, thread, text):
        return answer_run
    changes, notes = _changes(values, request)
    return request.domain_run(
        thread,
        {
            "ask": "chat",
            "message": text,
            "language": request.language,
            "market": request.market,
            "duration": request.duration,
        },
        input={"ad_id": request.ad_id, **changes, "messages": [human_message("\n".join((text, *notes)))]},
    )


async def run_and_ack(
    worker: Worker, storage: Storage, domain_run: DomainRun, report: OnProgress | None = None
) -> dict[str, Any]:
    """Execute and acknowledge a run; return the reply as `run` does."""
    reply, ack = await run(worker, storage, domain_run, report)
    await ack()
    return reply


async def claim(storage: Storage, domain_run: DomainRun) -> None:
    """Record the ad as its owner's, so that its conversation can continue after a failed first turn.

    Raises `Missing` if the ad has another conversation.
    """
    facts = ad_facts(domain_run.input) if domain_run.body["ask"] == GENERATE_ACTION else {}
    await ADS.claim(storage, domain_run.thread, facts)


async def run(
    worker: Worker, storage: Storage, domain_run: DomainRun, report: OnProgress | None = None
) -> tuple[dict[str, Any], Ack]:
    """Claim the ad and execute a run; return its reply, with `timeline` and `mixer`, and its acknowledgement.

    Raises what `claim` raises.
    """
    await claim(storage, domain_run)
    return await (worker.run(domain_run, report) if report else worker.run(domain_run))


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that stores the ad's facts and builds the reply to a run.

    It is called while the run still holds its thread.
    """

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread = await threads.get(storage, run.thread, run.owner)
        facts = ad_facts(state)
        await ADS.artefact(storage, thread).set_facts(facts)
        used = await turn_use(storage, run.owner, run.thread, state)
        return turn_view(thread, state) | used | await timing(storage, thread, facts)

    return build


def ad_facts(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the ad's facts in a conversation's state: `language`, `market`, `spotSeconds`."""
    return dict(ad_creation.WORKFLOW.facts(cast("AdState", state)))


async def timing(storage: Storage, thread: Thread, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the `timeline` and the `mixer` of the newest versions of an ad."""
    artefact = ADS.artefact(storage, thread)
    streams = await artefact.streams(ad.STREAMS)
    data = {name: newest.data for name, stream in streams.items() if (newest := stream.newest())}
    stored = await mixers.read(storage, KIND, artefact.stored_id)
    return {"timeline": timeline_of(thread, facts, data), "mixer": ad.mixer(data, stored)}


def timeline_of(thread: Thread, facts: Mapping[str, str], data: Mapping[str, Mapping[str, Any]]) -> Timeline:
    """Return the timeline of the streams' data, at the speaking rate of the voices' language."""
    ids = (thread.owner, thread.id, KIND, ADS.artefact_id(thread))
    scope = Scope(*ids, run="", task="", plan="", epoch=0, facts=facts)
    language = script_language(data.get("voices", {}), scope)
    return ad.timeline(data, language=language, spot_s=spot_s(scope))


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's versions and message, from the state it ended in; JSON.

    `drafts` has only the streams that the turn changed (A56), `created` every version with the tool call that
    made it (A-R9), `question` the pending one, `toolCalls` the calls in order (A76), `usage` the tokens of
    the whole conversation (A66).
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "adId": ADS.artefact_id(thread),
        "drafts": dict(state.get("drafts", {})),
        "message": "" if interrupts else last_message(state),
        "question": question_view(interrupts[0].id, interrupts[0].value) if interrupts else None,
        **turn_fields(state, _shorten),
    }


def _changes(values: Mapping[str, Any], request: ChatRequest) -> tuple[dict[str, Any], list[str]]:
    """Return the state keys that a request changes, and notes on the changes for the model."""
    changes: dict[str, Any] = {}
    notes: list[str] = []
    old = ad_facts(values)
    if request.language and (language := brief.language_name(request.language)) != old["language"]:
        changes["language"] = language
        notes.append(f"(Ad language now: {language})")
    if request.market and request.market.strip() != old["market"]:
        changes["market"] = request.market.strip()
    if (
        request.duration is not None
        and f"{(length_s := brief.seconds(request.duration)):g}" != old["spotSeconds"]
    ):
        old_brief = ad_creation.brief_of(cast("AdState", values)) or brief.parse(values["messages"][0].text)
        changes["brief"] = {**old_brief, "duration": length_s}
        notes.append(f"(Spot now: {length_s:g} s)")
    return changes, notes


def _shorten(output: Mapping[str, Any]) -> dict[str, Any]:
    # The output of a search has a list under `voices`, too.
    drafts = [name for name in ad.STREAMS if isinstance(output.get(name), dict)]
    if drafts:
        return {name: output[name]["versionId"] for name in drafts}
    fields = ("versionId", "count", "timeline", "overBySeconds", "error", "suggestion", "type")
    return {name: output[name] for name in fields if name in output}

"""Requests about audio ads as runs for the worker, and their replies.

REST and the command line build the same runs, so each can continue the other's ads.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, cast

from callsheet.graphs import ad_creation
from callsheet.server.ads.schemas import AdChat, AdFromCampaigns, AdGenerate
from callsheet.server.artefacts import service as artefact_service
from callsheet.server.artefacts import sources
from callsheet.server.artefacts.schemas import ArtefactSource
from callsheet.server.artefacts.service import (
    ArtefactService,
    RequestContext,
    answer_in_words,
    clean_message,
    human_message,
    question_view,
    require_not_paused,
    run_request,
)
from callsheet.server.artefacts.views import turn_fields, turn_message, turn_use
from callsheet.server.engine.execution import BuildReply, pending_interrupts
from callsheet.server.engine.worker import Ack, Worker
from callsheet.state.ads import ad, brief
from callsheet.state.ads.ad import AdState
from callsheet.state.ads.timeline import Timeline
from callsheet.state.campaigns.offers import campaign_brief, offer_of
from callsheet.state.entered import form_fields
from callsheet.state.errors import Missing, Refused
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.campaigns import library as libraries
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Created, Run, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.ads.drafts import script_language, spot_s
from callsheet.tools.call import Scope

GRAPH: Final = "ad_creation"
KIND: Final = "ad"
ADS: Final = ArtefactService(GRAPH, KIND, "adId")
NO_CONVERSATION: Final = "No conversation found. Generate initial ad first."
"""Error of a chat about an ad without a conversation."""


async def generate_run(
    storage: Storage, body: AdGenerate, caller: RequestContext, form: Mapping[str, Any] | None = None
) -> RunRequest:
    """Return the run that makes an ad, or restarts an existing one from another brief; write nothing.

    `form` has what the person entered, if it was no brief.
    Raises `Invalid` for an invalid brief, and `Missing` for another ad's conversation.
    """
    parsed_brief = brief.parse(body.brief, language=body.language, market=body.market, duration=body.duration)
    thread = await ADS.find_thread(storage, body.adId, caller.owner, body.conversationId)
    options = {"language": body.language, "market": body.market, "duration": body.duration}
    shown = form_fields(body.brief if form is None else form, options)
    graph_input: dict[str, Any] = {
        "ad_id": body.adId,
        "brief": parsed_brief,
        "language": parsed_brief["language"],
        "market": parsed_brief["market"],
        "messages": [human_message(brief.message(parsed_brief), shown)],
    }
    request = run_request(thread, caller, {"ask": "generate", "brief": parsed_brief}, input=graph_input)
    # The claim stores the brief's facts where there are none.
    return replace(request, precondition=None)


async def campaign_run(
    storage: Storage, body: AdFromCampaigns, caller: RequestContext
) -> tuple[RunRequest, dict[str, str]]:
    """Return the run that makes an ad of campaigns' offers, and the sources for its record; write nothing.

    Raises `Missing` for an unknown campaign, `Invalid` for campaigns that no brief follows from, and
    `Conflict` if there is such an ad of another request.
    """
    owner = caller.owner
    ids = list(dict.fromkeys(body.campaignIds))
    campaigns = await (await libraries.library(storage, owner)).get(ids)
    if missing := [one for one in ids if one not in {campaign.id for campaign in campaigns}]:
        raise Missing(f"there is no campaign {missing[0]!r}", remedy="list them with GET /api/campaigns")
    offers = campaign_brief(campaigns, body.client or "", body.wish)
    taken: list[ArtefactSource] = [
        {"kind": "campaign", "id": one.id, "text": offer_of(one)} for one in campaigns
    ]
    fact = sources.sources_fact(taken, caller.idempotency_key, body)
    ad_id = await sources.new_id(storage, KIND, owner, body.adId, caller.idempotency_key)
    artefact = Artefact(storage, KIND, ad_id, owner)
    sources.require_unused(artefact, await artefact.meta(), fact, caller.idempotency_key)
    fields = body.model_dump(exclude={"campaignIds", "adId", "client", "wish"}, exclude_none=True)
    offers_of = [f"{one.company}: {offer_of(one)}" for one in campaigns]
    form = {"campaigns": offers_of, "client": body.client, "wish": body.wish}
    generate = AdGenerate(adId=ad_id, brief=offers, **fields)
    return await generate_run(storage, generate, caller, form), fact


async def chat_run(worker: Worker, ad_id: str, body: AdChat, caller: RequestContext) -> RunRequest:
    """Return the run that continues a conversation; changed settings are added to the message as notes.

    `ad_id` may be the conversation's id. A plain yes or no answers a pending question. Writes nothing.
    Raises `Refused` for an ad without a conversation, `Invalid` for invalid values, `Busy` during its first
    run, and `Missing` for another ad's conversation.
    """
    text = clean_message(body.message)
    thread = await _find_thread(worker.storage, ad_id, caller.owner, body.conversationId)
    state = await worker.state(thread)
    values: Mapping[str, Any] = state.values
    if not values.get("messages"):
        await worker.runs.require_idle(thread.id)
        raise Refused(NO_CONVERSATION, remedy="send a brief to POST /api/ai/generate first")
    what = {
        "ask": "chat",
        "message": text,
        "language": body.language,
        "market": body.market,
        "duration": body.duration,
    }
    if answer_run := answer_in_words(pending_interrupts(state), caller, thread, text, what):
        return answer_run
    await require_not_paused(worker, thread, caller)
    changes, notes = _changes(values, body)
    graph_input = {
        "ad_id": ADS.artefact_id(thread),
        **changes,
        "messages": [human_message("\n".join((text, *notes)))],
    }
    return run_request(thread, caller, what, input=graph_input)


async def _find_thread(storage: Storage, name: str, owner: str, conversation_id: str | None) -> Thread:
    """Return the thread of the ad that is called `name`, or whose conversation is."""
    thread, named = await asyncio.gather(
        ADS.find_thread(storage, name, owner, conversation_id), threads.find(storage, name, owner)
    )
    if thread.is_stored or not named or named.graph != GRAPH or named.artefact in {"", f"{KIND}:{name}"}:
        return thread
    return await ADS.find_thread(storage, ADS.artefact_id(named), owner, conversation_id, named)


async def submit(
    worker: Worker, request: RunRequest, more: Mapping[str, str] = MappingProxyType({})
) -> Created:
    """Record a run, and before it the ad as its owner's, whose conversation can continue after a failed turn.

    `more` are further facts of a new ad. Raises `Missing` if the ad has another conversation.
    """
    graph_input = request.request["input"] or {}
    facts = ad_facts(graph_input) if "brief" in graph_input else {}
    return await artefact_service.submit(worker, request, {**facts, **more})


async def run(worker: Worker, request: RunRequest) -> tuple[dict[str, Any], Ack]:
    """Execute a run and return its reply, with `timeline` and `mixer`, and its acknowledgement.

    Raises what `submit` raises.
    """
    return await worker.follow(request.thread, await submit(worker, request))


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that stores the ad's facts and builds the reply to a run.

    It is called while the run still holds its thread.
    """

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        facts = ad_facts(state)
        ad_id = ad_creation.WORKFLOW.artefact.id_of(cast("AdState", state), run.thread)
        thread = Thread(run.thread, run.owner, GRAPH, f"{KIND}:{ad_id}")
        _, used, timed = await asyncio.gather(
            ADS.artefact(storage, thread).set_facts(facts),
            turn_use(storage, run.owner, run.thread, state),
            timing(storage, thread, facts),
        )
        reply: dict[str, Any] = turn_view(thread, state) | used | timed
        return reply

    return build


def ad_facts(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the ad's facts in a conversation's state: `language`, `market`, `spotSeconds`."""
    return dict(ad_creation.WORKFLOW.view.facts(cast("AdState", state)))


async def timing(storage: Storage, thread: Thread, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the `timeline` and the `mixer` of the newest versions of an ad."""
    artefact = ADS.artefact(storage, thread)
    streams, stored = await asyncio.gather(artefact.newest_of(ad.STREAMS), artefact.mixer())
    data = {name: newest.data for name, stream in streams.items() if (newest := stream.newest())}
    return {"timeline": timeline_of(thread, facts, data), "mixer": ad.mixer(data, stored)}


def timeline_of(
    thread: Thread,
    facts: Mapping[str, str],
    data: Mapping[str, Mapping[str, Any]],
    speech_s: Mapping[str, float] = MappingProxyType({}),
) -> Timeline:
    """Return the timeline of the streams' data, at the speaking rate of the voices' language.

    `speech_s` has the seconds of rendered speech by track.
    """
    language, length_s = language_and_length(thread, facts, data)
    return ad.timeline(data, language=language, spot_s=length_s, speech_s=speech_s)


def language_and_length(
    thread: Thread, facts: Mapping[str, str], data: Mapping[str, Mapping[str, Any]]
) -> tuple[str, float]:
    """Return the language of the ad's script, and the spot's length in seconds."""
    ids = (thread.owner, thread.id, KIND, ADS.artefact_id(thread))
    scope = Scope(*ids, run="", task="", plan="", epoch=0, facts=facts)
    return script_language(data.get("voices", {}), scope), spot_s(scope)


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's versions and message, from the state it ended in; JSON.

    `drafts` has only the streams that the turn changed, `created` every version with the tool call that
    made it, `question` the pending one, whose words are the `message`, `toolCalls` the calls in order,
    `usage` the tokens of the whole conversation.
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "adId": ADS.artefact_id(thread),
        "drafts": {draft["stream"]: draft["versionId"] for draft in state.get("created", ())},
        "message": turn_message(state),
        "question": question_view(interrupts[0].id, interrupts[0].value) if interrupts else None,
        **turn_fields(state, _shorten),
    }


def _changes(values: Mapping[str, Any], body: AdChat) -> tuple[dict[str, Any], list[str]]:
    """Return the state keys that a message changes, and notes on the changes for the model."""
    changes: dict[str, Any] = {}
    notes: list[str] = []
    old = ad_facts(values)
    if body.language and (language := brief.language_name(body.language)) != old["language"]:
        changes["language"] = language
        notes.append(f"(Ad language now: {language})")
    if body.market and body.market.strip() != old["market"]:
        changes["market"] = body.market.strip()
    if body.duration is not None and f"{(length_s := brief.seconds(body.duration)):g}" != old["spotSeconds"]:
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

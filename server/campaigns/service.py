"""Questions about campaigns as runs, and their replies."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from typing import IO, Any, Final

from callsheet.server.artefacts.service import (
    CHAT,
    RequestContext,
    answer_in_words,
    clean_message,
    human_message,
    new_thread_id,
    pending_questions,
    question_view,
    require_not_paused,
    run_request,
)
from callsheet.server.artefacts.views import last_answer, tool_calls, turn_outcome, turn_use, usage
from callsheet.server.campaigns.schemas import CampaignChat
from callsheet.server.engine.execution import BuildReply
from callsheet.server.engine.worker import Worker
from callsheet.server.http.requests import identifier
from callsheet.state.approvals import consent
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.reading import LooseFilters
from callsheet.state.campaigns.workflow import EARLIER_SOURCES, EXTENT, LastResult
from callsheet.state.errors import Conflict, Invalid, Missing, Refused
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.campaigns.file_reading import FileRequest, read_file
from callsheet.tools.campaigns.libraries import library, resolve, sample_notes
from callsheet.tools.campaigns.results import for_model
from callsheet.tools.campaigns.search import search_again

GRAPH: Final = "campaign_search"
MAX_RANKED: Final = 10_000
"""Campaigns that an export of a ranked result has at most, since ranking holds them all in memory."""


async def question_run(worker: Worker, body: CampaignChat, caller: RequestContext) -> RunRequest:
    """Return the run for a question about the owner's library; write nothing.

    A plain yes or no answers the question that the conversation waits with.
    Raises `Invalid` for a message or a filter that does not fit, `Missing` for an unknown conversation, and
    `Conflict` for another workflow's.
    """
    text, storage = clean_message(body.message), worker.storage
    thread = await find_thread(storage, caller.owner, body.conversationId, caller.idempotency_key)
    base: dict[str, Any] = {}
    if body.applyFiltersToQuery is not False and body.activeFilters not in (None, LooseFilters()):
        index = await library(storage, caller.owner)
        resolved = await resolve(index, body.activeFilters)
        base = resolved.filters.model_dump(mode="json")
    graph_input = {
        "base_filters": base,
        "aggregation": None,
        "detected_filters": {},
        "suggestions": [],
        "truncated": False,
        "checks": 0,
        "merge": body.merge,
        "messages": [human_message(text)],
    }
    merge = {"merge": True} if body.merge else {}
    what: dict[str, Any] = {"ask": "question", "message": text, "filters": base, **merge}
    pending = (
        await pending_questions(worker, thread) if thread.is_stored and consent(text) is not None else ()
    )
    if answer_run := answer_in_words(pending, caller, thread, text, what):
        return answer_run
    await require_not_paused(worker, thread, caller)
    repeatable = caller.idempotency_key is None
    return run_request(thread, caller, what, repeatable=repeatable, input=graph_input, stream_mode=[*CHAT])


async def find_thread(
    storage: Storage, owner: str, conversation_id: str | None, key: str | None = None
) -> Thread:
    """Return the owner's conversation; without an id a new one, whose id follows from the idempotency key."""
    if conversation_id is None:
        return Thread(await new_thread_id(storage, GRAPH, owner, key), owner, GRAPH, "")
    thread = await threads.get(storage, identifier(conversation_id, "conversationId"), owner)
    if thread.graph != GRAPH:
        raise Conflict(
            f"conversation {conversation_id!r} runs {thread.graph!r}, not {GRAPH!r}",
            remedy="leave conversationId out to begin another",
        )
    return thread


async def result_pages(
    index: CampaignIndex, result: LastResult | None
) -> tuple[AsyncIterator[list[Campaign]], dict[str, str]]:
    """Return a conversation's last result as pages of campaigns, with headers that have its counts.

    A result of which the conversation has only the first campaigns is searched again, in the library as it
    is now. One by words has at most `MAX_RANKED`; one by meaning is the campaigns that were shown.
    """
    if result and result["total"] > len(result["campaigns"]) and "filters" in result:
        if result["source"] == "filter":
            return index.export(Filters.model_validate(result["filters"])), {}
        matches, total = await search_again(index, result, MAX_RANKED)
        campaigns = [match.campaign for match in matches]
    else:
        total, shown = (result["total"], result["campaigns"]) if result else (0, [])
        campaigns = await index.get([one["id"] for one in shown])
    counts = {"X-Total-Count": str(total), "X-Left-Out": str(max(0, total - len(campaigns)))}
    return _one_page(campaigns), counts


async def _one_page(campaigns: list[Campaign]) -> AsyncIterator[list[Campaign]]:
    yield campaigns


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        begins = sum(one.type == "human" for one in state.get("messages", ())) == 1
        notes = await sample_notes(storage, run.owner) if begins else []
        view = {**turn_view(run.thread, state), "notes": notes}
        return view | await turn_use(storage, run.owner, run.thread, state)

    return build


def turn_view(thread_id: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a question."""
    interrupts = state.get("__interrupt__") or ()
    question = question_view(interrupts[0].id, interrupts[0].value) if interrupts else None
    shown, answer = _shown_campaigns(state), last_answer(state)
    return {
        "conversationId": thread_id,
        "response": question["actions"][0]["description"] if question else answer.text,
        "outcome": turn_outcome(state),
        "question": question,
        **shown,
        "aggregation": state.get("aggregation"),
        "detectedFilters": state.get("detected_filters") or {},
        "suggestions": state.get("suggestions") or [],
        "truncated": bool(state.get("truncated")),
        "searchExtent": None if question else answer.additional_kwargs.get(EXTENT),
        "steps": tool_calls(state, lambda output: for_model(dict(output))),
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "usage": usage(state),
    }


def _shown_campaigns(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the campaigns of the turn, the kind of search that returned them, and how many there are.

    The nearest in meaning have no total.
    """
    searches = [one for one in state.get("results", ()) if one["output"].get("count")]
    if not searches:
        return {"campaigns": [], "campaignsSource": None, "total": 0}
    if state.get("merge"):
        by_id = {campaign["id"]: campaign for one in searches for campaign in one["output"]["campaigns"]}
        # A turn that an earlier version began names the tool alone.
        sources = dict.fromkeys(
            one["output"].get("by") or EARLIER_SOURCES.get(one["tool"], one["tool"]) for one in searches
        )
        return {
            "campaigns": [*by_id.values()],
            "campaignsSource": ", ".join(sources),
            "total": len(by_id),
        }
    result = state.get("result") or {}
    return {
        "campaigns": result.get("campaigns", []),
        "campaignsSource": result.get("source"),
        "total": None if result.get("source") == "meaning" else result.get("total", 0),
    }


def missing_campaign(name: str) -> Missing:
    """Return the error for a campaign that does not exist."""
    return Missing(f"there is no campaign {name!r}", remedy="list them with GET /api/campaigns")


def undeletable_campaign(name: str, *, in_sample: bool) -> Refused:
    """Return the error for a campaign that is not in the owner's own library."""
    if not in_sample:
        return missing_campaign(name)
    return Conflict(
        f"campaign {name!r} is part of the sample library, and its campaigns cannot be deleted",
        remedy="import your own campaigns with POST /api/campaigns/import; they replace the sample library",
    )


_AT_ONCE: Final = 1_000
"""Campaigns that are stored together."""
_AT_ONCE_BYTES: Final = 4_000_000
Report = Callable[[int, int], None]
"""Receives the number of stored campaigns and of all of them."""


async def import_campaigns(
    index: CampaignIndex,
    source: IO[bytes],
    request: FileRequest,
    *,
    all_or_nothing: bool = False,
    report: Report = lambda _done, _all: None,
) -> dict[str, Any]:
    """Import an open file into a library, and return what was imported, refused, left out and read otherwise.

    A campaign whose id is known is updated. Raises `Invalid` for a file that cannot be read, and with
    `all_or_nothing` for one with a refused row; then nothing is imported.
    """
    with await asyncio.to_thread(tempfile.TemporaryFile) as target:
        read = await read_file(source, target, request)
        if read.refused_count and all_or_nothing:
            line, reason = read.refused[0]
            raise Invalid(
                f"{read.refused_count} of {read.refused_count + read.campaigns} rows are refused; "
                f"line {line}: {reason}",
                remedy="correct them, or import without allOrNothing",
            )
        new = await _store(index, target, read.campaigns, report)
    return {
        "imported": read.campaigns,
        "new": new,
        "refused": [{"line": line, "reason": reason} for line, reason in read.refused],
        "refusedCount": read.refused_count,
        "warnings": [{"line": line, "reason": reason} for line, reason in read.warnings],
        "warningCount": read.warning_count,
        "notes": read.notes,
        "columns": read.columns,
        "ignoredColumns": read.ignored_columns,
    }


async def _store(index: CampaignIndex, target: IO[bytes], count: int, report: Report) -> int:
    """Store the campaigns that were read, some at a time; return how many were new."""
    new = done = 0
    await asyncio.to_thread(target.seek, 0)
    while campaigns := await asyncio.to_thread(_next_campaigns, target):
        done += len(campaigns)
        new += await index.put(campaigns, more=done < count)
        report(done, count)
    return new


def _next_campaigns(target: IO[bytes]) -> list[Campaign]:
    campaigns, size = list[Campaign](), 0
    while len(campaigns) < _AT_ONCE and size < _AT_ONCE_BYTES and (line := target.readline()):
        campaigns.append(Campaign.model_validate_json(line))
        size += len(line)
    return campaigns

"""The work of an owner: runs in progress with what they have done, and the latest conversations."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from callsheet.server.artefacts.titles import message_title, read_cards
from callsheet.server.console.questions import thread_fields
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.threads import newest_values
from callsheet.state.cards import Card
from callsheet.state.conversation import turn_id
from callsheet.state.errors import CallsheetError
from callsheet.state.live_plan import Execution, is_over
from callsheet.state.times import iso_time_or_none
from callsheet.storage import spending
from callsheet.storage.artefacts.cards import ThreadCard
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.runs.records import Run
from callsheet.storage.spending import Account, ModelUsage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

MAX_RUNNING: Final = 100
"""Most runs in progress that are listed."""
MAX_SEARCHED: Final = 500
"""Most conversations that a search looks at, newest first."""
_log = logging.getLogger(__name__)
_CHUNK: Final = 20
_OPEN: Final = frozenset({"pending", "in-progress"})


async def list_running(ctx: AppContext, owner: str) -> list[dict[str, Any]]:
    """Return the owner's runs that wait or run, oldest first, `MAX_RUNNING` at most."""
    runs = await ctx.worker.runs.list_open(owner, MAX_RUNNING)
    records = await threads.get_many(ctx.storage, [run.thread for run in runs], owner)
    views = (_running_view(ctx, run, record) for run, record in zip(runs, records, strict=True))
    return list(await asyncio.gather(*views))


async def _running_view(ctx: AppContext, run: Run, record: Thread | None) -> dict[str, Any]:
    thread = record or Thread(run.thread, run.owner, run.graph)
    values, progress = await asyncio.gather(newest_values(ctx, thread), _progress(ctx, thread))
    title = _request_title(ctx, run) or message_title(values, newest=True)
    return {
        **thread_fields(thread),
        "run": run.id,
        "title": title or run.graph,
        "startedAt": iso_time_or_none(run.created_ms),
        "status": run.status,
        "progress": progress,
        "costUsd": await _cost(ctx, thread, values),
    }


async def _cost(ctx: AppContext, thread: Thread, values: Any) -> float | None:
    """Return the cost of the newest turn in US dollars; None without calls, or with an unknown price."""
    messages = values.get("messages") if isinstance(values, Mapping) else None
    if not messages:
        return None
    account = Account(thread.owner, thread.id, turn_id(messages))
    used = await spending.read_usage(ctx.storage, account, "turn")
    total = sum(used.values(), ModelUsage())
    return None if total.unpriced or not total.calls else round(total.cost, 9)


async def _progress(ctx: AppContext, thread: Thread) -> dict[str, int] | None:
    """Return the steps of the thread's plan that have ended, and all; None without a plan in progress."""
    spec = ctx.workflows.specs.get(thread.graph)
    name = thread.artefact.partition(":")[2]
    if spec is None or not name:
        return None
    executions = Executions(ctx.storage, spec.artefact.kind, name, thread.owner, spec.turn.plan_rules)
    newest: Sequence[Execution] = await executions.newest(1)
    if not newest or is_over(newest[0]):
        return None
    statuses = [one["status"] for one in newest[0]["steps"]]
    return {"done": sum(status not in _OPEN for status in statuses), "total": len(statuses)}


def _request_title(ctx: AppContext, run: Run) -> str:
    """Return the request of a run in one line; a brief by the name of what it is about."""
    given, spec = run.request.get("input"), ctx.workflows.specs.get(run.graph)
    card = Card()
    if spec and isinstance(given, Mapping):
        try:
            card = spec.artefact.card(given, {})
        except (CallsheetError, ArithmeticError, LookupError, TypeError, ValueError):
            # The input is checked when the run starts; one that cannot be read leaves the others listed.
            _log.warning("no title of run %s: its input cannot be read", run.id, exc_info=True)
    return card.title or message_title(given, newest=True)


async def list_recent(
    ctx: AppContext, owner: str, words: str, limit: int, has_left: Callable[[], Awaitable[bool]]
) -> list[dict[str, Any]]:
    """Return the latest conversations in which all `words` occur, in any case.

    They are looked for in titles, ids, workflows, what was made and what people wrote. The search ends once
    the client `has_left`.
    """
    views: list[dict[str, Any]] = []
    for start in range(0, MAX_SEARCHED, _CHUNK):
        page = await threads.list_newest(ctx.storage, owner, start, _CHUNK)
        shown = await read_cards(ctx, page, with_words=bool(words))
        views += [
            _recent_view(thread, card)
            for thread, card in zip(page, shown, strict=True)
            if _has_all(words.casefold().split(), thread, card)
        ]
        if len(views) >= limit or not page or await has_left():
            break
    return views[:limit]


async def get_recent(ctx: AppContext, owner: str, thread: str) -> list[dict[str, Any]]:
    """Return the conversation with this id; nothing for another owner's."""
    records = [one for one in await threads.get_many(ctx.storage, [thread], owner) if one]
    shown = await read_cards(ctx, records, with_words=False)
    return [_recent_view(record, card) for record, card in zip(records, shown, strict=True)]


def _recent_view(thread: Thread, card: ThreadCard) -> dict[str, Any]:
    return {
        **thread_fields(thread),
        "title": card.title,
        "updatedAt": iso_time_or_none(thread.updated_ms),
        "status": thread.status,
    }


def _has_all(words: Sequence[str], thread: Thread, card: ThreadCard) -> bool:
    name = thread.artefact.partition(":")[2]
    text = f"{card.title}\n{thread.id}\n{thread.graph}\n{name}".casefold()
    return all(word in text or word in card.words for word in words)

"""Events of runs and threads as LangGraph's clients read them, named by stream mode."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Literal

import orjson
from langchain_core.runnables import RunnableConfig

from callsheet.server.engine.encoding import MODES
from callsheet.server.engine.graph_states import build_history
from callsheet.server.engine.json_values import dumps
from callsheet.server.http import events
from callsheet.server.http.context import AppContext
from callsheet.server.http.events import LANGGRAPH, Events, ServerEvent, StreamingReply
from callsheet.server.langgraph.shapes import past_state_view
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.langgraph.updates import graph_of_thread
from callsheet.state.errors import Gone, Invalid
from callsheet.storage.runs.events import (
    END,
    GAP,
    PROTOCOL_PREFIX,
    START_ID,
    STATE_UPDATED,
    Event,
    begins_run,
    first_after_gap,
    gap_before,
    id_before,
    is_event_id,
    order_of,
)
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

BEGINNING: Final = "-1"
"""Last-Event-ID that asks for all stored events."""
ENDED: Final = frozenset({"success", "error", "interrupted", "timeout"})
"""Statuses of a run that has ended."""
_EXECUTED: Final = ENDED - {"interrupted"}
"""Statuses of a run that has ended and had events; one that was interrupted may not have begun."""
_ALL_MODES: Final = frozenset({"metadata", "error"})
"""Events that belong to every mode."""

Source = AsyncGenerator[Event | None, None]
"""Events, and None after each silence of the heartbeat's length."""
ThreadMode = Literal["run_modes", "lifecycle", "state_update"]
"""Events of a thread: all of its runs; only their starts and ends; updates of the state by clients."""


def event_stream_reply(source: Events, path: str = "") -> StreamingReply:
    """Return the reply that streams events; `path` is that of their run."""
    location = {"Location": f"{path}/stream", "Content-Location": path} if path else {}
    return events.event_stream_reply(source, LANGGRAPH, location)


def stream_run(
    ctx: AppContext,
    started: StartedRun,
    modes: Collection[str] = (),
    beginning_of: Run | None = None,
) -> Events:
    """Return a run's events after `started.since` until it ends; no modes are all modes.

    `beginning_of` is the run if its events are read from their beginning; `GAP` says that it is lost.
    """
    stored = follow_run(ctx, started)
    stored = _from_beginning(stored, beginning_of) if beginning_of else stored
    return _run_events(ctx, stored, started, modes)


def _run_events(ctx: AppContext, source: Source, started: StartedRun, modes: Collection[str]) -> Events:
    async def translate(event: Event) -> list[ServerEvent]:
        if event.name == GAP:
            return [_gap_event(event)]
        if event.name == END or not matches_modes(event.name, modes):
            return []
        return [ServerEvent(event.name, event.data, event.id if started.resumable else None)]

    return ctx.worker.events.translate(source, translate)


async def stream_thread(ctx: AppContext, record: Thread, after: str, modes: Collection[ThreadMode]) -> Events:
    """Yield a thread's events after the id `after`, until the thread is gone or has another owner.

    From the beginning, `GAP` comes first if that is not stored any more.
    """

    async def translate(event: Event) -> list[ServerEvent]:
        sent = await _thread_event(ctx, record, event, modes)
        return [sent] if sent else []

    bus = ctx.worker.events
    is_readable = partial(threads.find, ctx.storage, record.id, record.owner)
    if after == START_ID and (first := await first_after_gap(ctx.storage, record.id, after)) is not None:
        yield _gap_event(gap_before(first))
    async with aclosing(bus.translate(bus.follow(record.id, after, is_readable), translate)) as source:
        async for event in source:
            yield event


async def _thread_event(
    ctx: AppContext, record: Thread, event: Event, modes: Collection[ThreadMode]
) -> ServerEvent | None:
    """Return an event of a thread as it is sent; None if the modes exclude it."""
    if event.name == GAP:
        return _gap_event(event)
    if event.name == STATE_UPDATED:
        return await _state_event(ctx, record, event) if "state_update" in modes else None
    data = dumps({"status": "run_done", "run_id": event.run}) if event.name == END else event.data
    if event.name in {END, "metadata"}:
        return ServerEvent("metadata", data, event.id) if modes != {"state_update"} else None
    included = "run_modes" in modes and matches_modes(event.name, ())
    return ServerEvent(event.name, data, event.id) if included else None


async def _state_event(ctx: AppContext, record: Thread, event: Event) -> ServerEvent | None:
    """Return the event of a state update with the state; None if its checkpoint is gone."""
    newest = await threads.get(ctx.storage, record.id, record.owner)
    config: RunnableConfig = {"configurable": {"thread_id": record.id, **orjson.loads(event.data)}}
    async with aclosing(build_history(graph_of_thread(ctx, newest), config, limit=1)) as states:
        async for state, reason in states:
            view = past_state_view(state, reason)
            return ServerEvent(STATE_UPDATED, dumps({"state": view, "thread_id": record.id}), event.id)
    return None


def _gap_event(event: Event) -> ServerEvent:
    """Return the event that says what is not stored any more; without an id, because none asks for more."""
    return ServerEvent(GAP, event.data)


async def _from_beginning(source: Source, run: Run) -> Source:
    """Yield the events of a run from its beginning on, and `GAP` first if that is not stored any more."""
    is_first = True
    async with aclosing(source):
        async for event in source:
            if event and is_first and event.name != GAP and not begins_run(event):
                yield gap_before(event.id)
            is_first = is_first and event is None
            yield event
    if is_first and run.status in _EXECUTED:
        yield gap_before("")


def follow_run(ctx: AppContext, started: StartedRun) -> Source:
    """Return a run's events after `started.since`, including its end."""
    return ctx.worker.events.follow_run(started.thread, started.run, started.since)


def stored_run_events(ctx: AppContext, started: StartedRun) -> AsyncGenerator[Event, None]:
    """Return the stored events of an ended run after `started.since`."""
    return ctx.worker.events.stored_events(started.thread, started.run, started.since)


def replay_run(
    ctx: AppContext, started: StartedRun, modes: Collection[str], beginning_of: Run | None
) -> Events:
    """Return the stored events of an ended run, as `stream_run` yields them."""
    stored: Source = stored_run_events(ctx, started)
    stored = _from_beginning(stored, beginning_of) if beginning_of else stored
    return _run_events(ctx, stored, started, modes)


async def empty_stream() -> Events:
    """Yield nothing."""
    empty: tuple[ServerEvent, ...] = ()
    for event in empty:
        yield event


async def resume_id(ctx: AppContext, header: str | None, record: Run) -> str | None:
    """Return the id after which a Last-Event-ID asks for a run's events; None without one.

    `id_before_run` stands for all ids before the run. Raises `Invalid` and `Gone` as `resumed_position`.
    """
    if not header:
        return None
    beginning = id_before_run(record)
    if header == BEGINNING or order_of(checked_event_id(header)) <= order_of(beginning):
        return beginning
    return await resumed_position(ctx, record.thread, header)


async def resumed_position(ctx: AppContext, thread: str, header: str) -> str:
    """Return a Last-Event-ID if all later events are stored.

    Raises `Invalid` for a malformed one, and `Gone` if events after it may be lost.
    """
    first = await first_after_gap(ctx.storage, thread, checked_event_id(header))
    if first is None:
        return header
    stored = f"the first one stored is {first!r}" if first else "none is stored"
    raise Gone(
        f"event {header!r} is not kept any more, and later ones may be lost; {stored}",
        remedy="read the thread's state, then stream without Last-Event-ID, "
        f"or with {BEGINNING} for all that is stored",
    )


def checked_event_id(header: str) -> str:
    """Return a Last-Event-ID unchanged; raises `Invalid` if it is malformed."""
    if not is_event_id(header):
        raise Invalid(
            f"Last-Event-ID {header[:40]!r} is not an event id",
            remedy=f"send the id of the last event you got, or {BEGINNING} for all",
        )
    return header


def id_before_run(record: Run) -> str:
    """Return an id before the run's first event; ids and creation times come from the same clock."""
    return id_before(f"{record.created_ms}-0")


def matches_modes(name: str, modes: Collection[str]) -> bool:
    """Return whether an event, of any subgraph, has one of the modes; no modes are all modes.

    Events of the Agent Streaming Protocol never match.
    """
    if name.startswith(PROTOCOL_PREFIX):
        return False
    mode = name.partition("|")[0].partition("/")[0]
    if not modes or mode in _ALL_MODES:
        return True
    return mode in modes or (mode == "messages" and "messages-tuple" in modes)


def parse_modes(query: Sequence[str] | None) -> list[str]:
    """Return the stream modes of a query, without empty ones; raises `Invalid`."""
    modes = [mode for mode in expand_query(query) or () if mode]
    for mode in modes:
        if mode not in MODES:
            raise Invalid(f"there is no stream mode {mode[:40]!r}", remedy=f"use one of {', '.join(MODES)}")
    return modes


def expand_query(values: Sequence[str] | None) -> list[str] | None:
    """Return the values of a repeated query parameter; LangGraph's JavaScript SDK sends one JSON array."""
    if values is None:
        return None
    expanded: list[str] = []
    for value in values:
        try:
            items = orjson.loads(value) if value.startswith("[") else None
        except orjson.JSONDecodeError:
            items = None
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            expanded += items
        else:
            expanded.append(value)
    return expanded

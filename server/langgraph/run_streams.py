"""Events of runs and threads as LangGraph's clients read them, named by stream mode."""

from collections.abc import AsyncGenerator, Collection, Sequence
from functools import partial
from typing import Final, Literal

import orjson
from langchain_core.runnables import RunnableConfig

from callsheet.server.context import AppContext
from callsheet.server.http import events
from callsheet.server.http.events import LANGGRAPH, Events, ServerEvent, StreamingReply
from callsheet.server.http.json_replies import dumps
from callsheet.server.langgraph.shapes import state_view
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.langgraph.updates import graph_of_thread
from callsheet.server.runtime.encoding import MODES
from callsheet.state.errors import Invalid
from callsheet.storage.runs.events import END, PROTOCOL_PREFIX, STATE_UPDATED, Event, id_before, is_event_id
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

BEGINNING: Final = "-1"
"""Last-Event-ID that asks for all stored events."""
ENDED: Final = frozenset({"success", "error", "interrupted", "timeout"})
"""Statuses of a run that has ended."""
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


def stream_run(ctx: AppContext, started: StartedRun, modes: Collection[str] = ()) -> Events:
    """Return a run's events after `started.since` until it ends; no modes are all modes."""
    return _run_events(ctx, follow_run(ctx, started), started, modes)


def _run_events(ctx: AppContext, source: Source, started: StartedRun, modes: Collection[str]) -> Events:
    async def translate(event: Event) -> list[ServerEvent]:
        if event.name == END or not matches_modes(event.name, modes):
            return []
        return [ServerEvent(event.name, event.data, event.id if started.resumable else None)]

    return ctx.worker.events.translate(source, translate)


def stream_thread(ctx: AppContext, record: Thread, after: str, modes: Collection[ThreadMode]) -> Events:
    """Return a thread's events after the id `after`, until the thread is gone or has another owner."""

    async def translate(event: Event) -> list[ServerEvent]:
        sent = await _thread_event(ctx, record, event, modes)
        return [sent] if sent else []

    bus = ctx.worker.events
    is_readable = partial(threads.find, ctx.storage, record.id, record.owner)
    return bus.translate(bus.follow(record.id, after, is_readable), translate)


async def _thread_event(
    ctx: AppContext, record: Thread, event: Event, modes: Collection[ThreadMode]
) -> ServerEvent | None:
    """Return an event of a thread as it is sent; None if the modes exclude it."""
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
    state = await graph_of_thread(ctx, newest).aget_state(config)
    data = dumps({"state": state_view(state), "thread_id": record.id})
    return ServerEvent(STATE_UPDATED, data, event.id) if state.created_at else None


def follow_run(ctx: AppContext, started: StartedRun) -> Source:
    """Return a run's events after `started.since`, including its end."""
    return ctx.worker.events.follow_run(started.thread, started.run, started.since)


def stored_run_events(ctx: AppContext, started: StartedRun) -> AsyncGenerator[Event, None]:
    """Return the stored events of an ended run after `started.since`."""
    return ctx.worker.events.stored_events(started.thread, started.run, started.since)


def replay_run(ctx: AppContext, started: StartedRun, modes: Collection[str]) -> Events:
    """Return the stored events of an ended run, as `stream_run` yields them."""
    return _run_events(ctx, stored_run_events(ctx, started), started, modes)


async def empty_stream() -> Events:
    """Yield nothing."""
    empty: tuple[ServerEvent, ...] = ()
    for event in empty:
        yield event


def resume_id(header: str | None, record: Run) -> str | None:
    """Return the event id that a Last-Event-ID names; None without one. Raises `Invalid`."""
    if not header:
        return None
    if header == BEGINNING:
        return id_before_run(record)
    return checked_event_id(header)


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

"""Events of runs and threads as LangGraph's clients read them: server-sent, named by stream mode."""

import re
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Final, Literal

import orjson
from langchain_core.runnables import RunnableConfig

from callsheet.server.context import AppContext
from callsheet.server.http.json_replies import dumps
from callsheet.server.http.streaming import StreamingReply
from callsheet.server.langgraph.shapes import state_view
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.langgraph.updates import graph_of_thread
from callsheet.server.runtime.encoding import MODES
from callsheet.state.errors import Invalid
from callsheet.storage.runs.events import ATTEMPT_STARTED, END, PROTOCOL_PREFIX, STATE_UPDATED, Event
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord

HEARTBEAT_S: Final = 5.0
"""Seconds of silence after which a comment is sent, so that no proxy closes the connection."""
BEGINNING: Final = "-1"
"""Last-Event-ID that asks for all stored events."""
ENDED: Final = frozenset({"success", "error", "interrupted", "timeout"})
"""Statuses of a run that has ended."""
HEARTBEAT: Final = b": heartbeat\r\n\r\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ID: Final = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
_ALL_MODES: Final = frozenset({"metadata", "error"})
"""Events that belong to every mode."""
_MAX_COUNTER: Final = "18446744073709551615"

Source = AsyncGenerator[Event | None, None]
"""Events, and None after each silence of the heartbeat's length."""
ThreadMode = Literal["run_modes", "lifecycle", "state_update"]
"""Events of a thread: all of its runs; only their starts and ends; updates of the state by clients."""


def event_stream_reply(lines: AsyncGenerator[bytes, None], path: str = "") -> StreamingReply:
    """Return the reply that streams events; `path` is that of their run."""
    location = {"Location": f"{path}/stream", "Content-Location": path} if path else {}
    return StreamingReply(lines, media_type="text/event-stream", headers=_HEADERS | location)


async def stream_run(
    ctx: AppContext,
    started: StartedRun,
    *,
    modes: Collection[str] = (),
    on_disconnect: Callable[[], None] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield a run's events after `started.since` until it ends; no modes are all modes."""
    try:
        async with aclosing(_lines(follow_run(ctx, started), started, modes)) as lines:
            async for line in lines:
                yield line
    except BaseException:
        if on_disconnect:
            on_disconnect()
        raise


async def _lines(source: Source, started: StartedRun, modes: Collection[str]) -> AsyncGenerator[bytes, None]:
    async with aclosing(source):
        async for event in source:
            if event is None:
                yield HEARTBEAT
            elif event.name != END and matches_modes(event.name, modes):
                yield event_line(event.name, event.data, event.id if started.resumable else None)


async def stream_thread(
    ctx: AppContext, record: ThreadRecord, after: str, modes: Collection[ThreadMode]
) -> AsyncGenerator[bytes, None]:
    """Yield a thread's events after the id `after`, until the thread is gone or has another owner."""
    async with aclosing(ctx.worker.events.follow(record.id, after, heartbeat_s=HEARTBEAT_S)) as source:
        async for event in source:
            # A deleted thread may have been created again by another owner.
            check = event is None or event.name in {ATTEMPT_STARTED, STATE_UPDATED}
            if check and not await thread_records.find(ctx.storage, record.id, record.owner):
                return
            if event is None:
                yield HEARTBEAT
            elif line := await _thread_line(ctx, record, event, modes):
                yield line


async def _thread_line(
    ctx: AppContext, record: ThreadRecord, event: Event, modes: Collection[ThreadMode]
) -> bytes | None:
    """Return an event of a thread as it is sent; None if the modes exclude it."""
    if event.name == STATE_UPDATED:
        return await _state_line(ctx, record, event) if "state_update" in modes else None
    data = dumps({"status": "run_done", "run_id": event.run}) if event.name == END else event.data
    if event.name in {END, "metadata"}:
        return event_line("metadata", data, event.id) if modes != {"state_update"} else None
    included = "run_modes" in modes and matches_modes(event.name, ())
    return event_line(event.name, data, event.id) if included else None


async def _state_line(ctx: AppContext, record: ThreadRecord, event: Event) -> bytes | None:
    """Return the event of a state update with the state; None if its checkpoint is gone."""
    newest = await thread_records.get(ctx.storage, record.id, record.owner)
    config: RunnableConfig = {"configurable": {"thread_id": record.id, **orjson.loads(event.data)}}
    state = await graph_of_thread(ctx, newest).aget_state(config)
    data = dumps({"state": state_view(state), "thread_id": record.id})
    return event_line(STATE_UPDATED, data, event.id) if state.created_at else None


def follow_run(ctx: AppContext, started: StartedRun, heartbeat_s: float = HEARTBEAT_S) -> Source:
    """Return a run's events after `started.since`, including its end."""
    hub = ctx.worker.events
    return hub.follow_run(started.thread, started.run, started.since, heartbeat_s=heartbeat_s)


def stored_run_events(ctx: AppContext, started: StartedRun) -> AsyncGenerator[Event, None]:
    """Return the stored events of an ended run after `started.since`."""
    return ctx.worker.events.stored_events(started.thread, started.run, started.since)


def replay_run(ctx: AppContext, started: StartedRun, modes: Collection[str]) -> AsyncGenerator[bytes, None]:
    """Return the stored events of an ended run, as `stream_run` yields them."""
    return _lines(stored_run_events(ctx, started), started, modes)


async def empty_stream() -> AsyncGenerator[bytes, None]:
    """Yield nothing."""
    empty: tuple[bytes, ...] = ()
    for line in empty:
        yield line


def resume_id(header: str | None, record: Run) -> str | None:
    """Return the event id that a Last-Event-ID names; None without one. Raises `Invalid`."""
    if not header:
        return None
    if header == BEGINNING:
        return id_before_run(record)
    return checked_event_id(header)


def checked_event_id(header: str) -> str:
    """Return a Last-Event-ID unchanged; raises `Invalid` if it is malformed."""
    if not _ID.fullmatch(header):
        raise Invalid(
            f"Last-Event-ID {header[:40]!r} is not an event id",
            remedy=f"send the id of the last event you got, or {BEGINNING} for all",
        )
    return header


def id_before_run(record: Run) -> str:
    """Return an id before the run's first event; ids and creation times come from the same clock."""
    return f"{record.created_ms - 1}-{_MAX_COUNTER}"


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


def event_line(name: str, data: bytes, event_id: str | None) -> bytes:
    """Return one server-sent event."""
    event = b"event: %s\r\ndata: %s\r\n" % (name.encode(), data)
    return event + (b"id: %s\r\n\r\n" % event_id.encode() if event_id else b"\r\n")

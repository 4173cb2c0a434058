"""Events of runs as LangGraph's clients read them: server-sent, named by stream mode, numbered if wanted."""

import re
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Final, Literal

import orjson
from langchain_core.runnables import RunnableConfig

from callsheet.server.context import AppContext
from callsheet.server.http.streaming import StreamingReply
from callsheet.server.langgraph.shapes import state_view
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.langgraph.updates import graph_of_thread
from callsheet.server.runtime.encoding import MODES, dumps
from callsheet.state.errors import Invalid
from callsheet.storage.runs.events import BEGUN, END, PROTOCOL, STATE, Event
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord

HEARTBEAT_S: Final = 5.0
"""Silence after which something meaningless is sent, so that nothing in between gives the connection up."""
BEGINNING: Final = "-1"
"""What clients send as Last-Event-ID for all there is."""
ENDED: Final = frozenset({"success", "error", "interrupted", "timeout"})
"""Statuses of a run that has ended."""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ID: Final = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
_ALWAYS: Final = frozenset({"metadata", "error"})
_LAST: Final = "18446744073709551615"

Source = AsyncGenerator[Event | None, None]
ThreadMode = Literal["run_modes", "lifecycle", "state_update"]
"""What one is told of a thread: all that its runs tell; when they begin and end; changes made by hand."""


def event_stream_reply(lines: AsyncGenerator[bytes, None], place: str = "") -> StreamingReply:
    """Return the reply that streams events; `place` is the path of the run they are of."""
    where = {"Location": f"{place}/stream", "Content-Location": place} if place else {}
    return StreamingReply(lines, media_type="text/event-stream", headers=_HEADERS | where)


async def stream_run(
    here: AppContext,
    started: StartedRun,
    *,
    modes: Collection[str] = (),
    leave: Callable[[], None] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield a run's events after `started.since`, until it ends; `leave` is called if the reader goes."""
    over = False
    try:
        async with aclosing(_lines(follow_run(here, started), started, modes)) as lines:
            async for each in lines:
                yield each
        over = True
    finally:
        if not over and leave:
            leave()


async def _lines(source: Source, started: StartedRun, modes: Collection[str]) -> AsyncGenerator[bytes, None]:
    async with aclosing(source):
        async for event in source:
            if event is None:
                yield b": heartbeat\r\n\r\n"
            elif event.name != END and matches_modes(event.name, modes):
                yield event_line(event.name, event.data, event.id if started.resumable else None)


async def stream_thread(
    here: AppContext, record: ThreadRecord, after: str, modes: Collection[ThreadMode]
) -> AsyncGenerator[bytes, None]:
    """Yield what happens on a thread after the event `after`, as long as it is its owner's."""
    async with aclosing(here.worker.events.follow(record.id, after, heartbeat_s=HEARTBEAT_S)) as source:
        async for event in source:
            # One that was taken away may have been made again, by somebody else.
            look = event is None or event.name in {BEGUN, STATE}
            if look and not await thread_records.find(here.storage, record.id, record.owner):
                return
            if event is None:
                yield b": heartbeat\r\n\r\n"
            elif told := await _told(here, record, event, modes):
                yield told


async def _told(
    here: AppContext, record: ThreadRecord, event: Event, modes: Collection[ThreadMode]
) -> bytes | None:
    """What an event of a thread is in these modes; None where it is nothing."""
    if event.name == STATE:
        return await _changed(here, record, event) if "state_update" in modes else None
    data = dumps({"status": "run_done", "run_id": event.run}) if event.name == END else event.data
    if event.name in {END, "metadata"}:
        return event_line("metadata", data, event.id) if modes != {"state_update"} else None
    return (
        event_line(event.name, data, event.id)
        if "run_modes" in modes and matches_modes(event.name, ())
        else None
    )


async def _changed(here: AppContext, record: ThreadRecord, event: Event) -> bytes | None:
    """What a thread's state was changed to by hand; None where that is not kept any more."""
    newest = await thread_records.get(here.storage, record.id, record.owner)
    place: RunnableConfig = {"configurable": {"thread_id": record.id, **orjson.loads(event.data)}}
    found = await graph_of_thread(here, newest).aget_state(place)
    told = dumps({"state": state_view(found), "thread_id": record.id})
    return event_line(STATE, told, event.id) if found.created_at else None


def follow_run(here: AppContext, started: StartedRun, heartbeat_s: float = HEARTBEAT_S) -> Source:
    """Return a run's events that follow `started.since`, its end too, and None after a silence."""
    hub = here.worker.events
    return hub.follow_run(started.thread, started.run, started.since, heartbeat_s=heartbeat_s)


async def stored_run_events(here: AppContext, started: StartedRun) -> Source:
    """Yield what is still kept of an ended run's events after `started.since`."""
    async for event in here.worker.events.stored_events(started.thread, started.run, started.since):
        yield event


async def replay_run(
    here: AppContext, started: StartedRun, modes: Collection[str]
) -> AsyncGenerator[bytes, None]:
    """Yield what is still kept of an ended run's events, as `of_run` does."""
    async for each in _lines(stored_run_events(here, started), started, modes):
        yield each


async def empty_stream() -> AsyncGenerator[bytes, None]:
    """Yield nothing."""
    empty: tuple[bytes, ...] = ()
    for each in empty:
        yield each


def resume_id(header: str | None, record: Run) -> str | None:
    """Return the event id a client's Last-Event-ID stands for; None without one. Raises `Invalid`."""
    if not header:
        return None
    if header == BEGINNING:
        return id_before_run(record)
    return checked_event_id(header)


def checked_event_id(header: str) -> str:
    """Return a Last-Event-ID that can be one; raises `Invalid`."""
    if not _ID.fullmatch(header):
        raise Invalid(
            f"Last-Event-ID {header[:40]!r} is the id of no event",
            remedy=f"send the id of the last event you got, or {BEGINNING} for all",
        )
    return header


def id_before_run(record: Run) -> str:
    """Return an event id before the run's first; ids are times, by the clock that its creation is told by."""
    return f"{record.created_ms - 1}-{_LAST}"


def matches_modes(name: str, modes: Collection[str]) -> bool:
    """Return whether an event is this wire's, and of one of the modes, in whichever subgraph it happened."""
    if name.startswith(PROTOCOL):
        return False
    kind = name.partition("|")[0].partition("/")[0]
    if not modes or kind in _ALWAYS:
        return True
    return kind in modes or (kind == "messages" and "messages-tuple" in modes)


def parse_modes(asked: Sequence[str] | None) -> list[str]:
    """Return the stream modes of a query, in which an empty one is none; raises `Invalid`."""
    named = [mode for mode in asked or () if mode]
    for mode in named:
        if mode not in MODES:
            raise Invalid(f"there is no stream mode {mode[:40]!r}", remedy=f"use one of {', '.join(MODES)}")
    return named


def event_line(name: str, data: bytes, event_id: str | None) -> bytes:
    """Return one event as it is sent."""
    told = b"event: %s\r\ndata: %s\r\n" % (name.encode(), data)
    return told + (b"id: %s\r\n\r\n" % event_id.encode() if event_id else b"\r\n")

"""Events and results of runs, and events of threads, as LangGraph's clients read them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot
from starlette.types import Message, Send

from callsheet.server.engine.encoding import MODES
from callsheet.server.engine.errors import error_message
from callsheet.server.engine.execution import run_result
from callsheet.server.engine.graph_states import build_history, build_state
from callsheet.server.engine.json_values import dumps
from callsheet.server.http import replies
from callsheet.server.http.context import AppContext
from callsheet.server.http.replies import LANGGRAPH, Events, ServerEvent, StreamingReply
from callsheet.server.langgraph.schemas import past_state_view
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.langgraph.states import graph_of_thread
from callsheet.state.errors import Gone, Invalid, Malformed, Missing, UnbuildableState
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
    newest_of_run,
    order_of,
)
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

BEGINNING: Final = "-1"
"""Last-Event-ID that asks for all stored events."""
BEGINNINGS: Final = frozenset({BEGINNING, "0"})
"""The same, and as others write it."""
ENDED: Final = frozenset({"success", "error", "interrupted", "timeout"})
"""Statuses of a run that has ended."""
_EXECUTED: Final = ENDED - {"interrupted"}
"""Statuses of a run that has ended and had events; one that was interrupted may not have begun."""
_CHECK_EVERY_S: Final = 30.0
"""Seconds of silence after which a stream checks that its thread exists, though nobody announced its end."""
_ALL_MODES: Final = frozenset({"metadata", "error"})
"""Events that belong to every mode."""

Source = AsyncGenerator[Event | None, None]
"""Events, and None after each silence of the heartbeat's length."""
ThreadMode = Literal["run_modes", "lifecycle", "state_update"]
"""Events of a thread: all of its runs; only their starts and ends; updates of the state by clients."""


def event_stream_reply(source: Events, path: str = "") -> StreamingReply:
    """Return the reply that streams events; `path` is that of their run."""
    location = {"Location": f"{path}/stream", "Content-Location": path} if path else {}
    return replies.event_stream_reply(source, LANGGRAPH, location)


def stream_run(
    ctx: AppContext,
    started: StartedRun,
    modes: Collection[str] = (),
    beginning_of: Run | None = None,
) -> Events:
    """Return a run's events after `started.since` until it ends; no modes are all modes.

    `beginning_of` is the run if its events are read from their beginning; `GAP` says that it is lost.
    """
    stored = ctx.worker.events.follow_run(started.thread, started.run, started.since)
    stored = _from_beginning(stored, beginning_of) if beginning_of else stored
    return _run_events(ctx, stored, started, modes)


def _run_events(ctx: AppContext, source: Source, started: StartedRun, modes: Collection[str]) -> Events:
    is_behind_gap = False

    async def translate(event: Event) -> list[ServerEvent]:
        nonlocal is_behind_gap
        if event.name == GAP:
            return [_gap_event(event)]
        if event.name == END or not matches_modes(event.name, modes):
            return []
        data = await ctx.worker.values.read(started.thread, event)
        if data is None:
            # One gap stands for all values that follow each other.
            gap, is_behind_gap = [] if is_behind_gap else [_gap_event(gap_before(event.id))], True
            return gap
        is_behind_gap = False
        return [ServerEvent(event.name, data, event.id if started.resumable else None)]

    return ctx.worker.events.translate(source, translate)


async def stream_thread(ctx: AppContext, record: Thread, after: str, modes: Collection[ThreadMode]) -> Events:
    """Yield a thread's events after the id `after`, until the thread is gone or has another owner.

    From the beginning, `GAP` comes first if that is not stored any more.
    """

    async def translate(event: Event) -> list[ServerEvent]:
        sent = await _thread_event(ctx, record, event, modes)
        return [sent] if sent else []

    bus = ctx.worker.events
    is_readable = partial(threads.belongs_to, ctx.storage, record.id, record.owner)
    if after == START_ID and (first := await first_after_gap(ctx.storage, record.id, after)) is not None:
        yield _gap_event(gap_before(first))
    async with aclosing(
        bus.translate(bus.follow(record.id, after, is_readable, _CHECK_EVERY_S), translate)
    ) as source:
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
    if event.name in {END, "metadata"}:
        data = dumps({"status": "run_done", "run_id": event.run}) if event.name == END else event.data
        return ServerEvent("metadata", data, event.id) if modes != {"state_update"} else None
    if "run_modes" not in modes or not matches_modes(event.name, ()):
        return None
    values = await ctx.worker.values.read(record.id, event)
    return _gap_event(gap_before(event.id)) if values is None else ServerEvent(event.name, values, event.id)


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


def replay_run(
    ctx: AppContext, started: StartedRun, modes: Collection[str], beginning_of: Run | None
) -> Events:
    """Return the stored events of an ended run, as `stream_run` yields them."""
    stored: Source = ctx.worker.events.stored_events(started.thread, started.run, started.since)
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
    if header in BEGINNINGS or order_of(checked_event_id(header)) <= order_of(beginning):
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
    """Return a Last-Event-ID unchanged; raises `Malformed` if it is none."""
    if not is_event_id(header):
        raise Malformed(
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


_WHITESPACE: Final = b"\n"
"""Sent while the result is unknown; JSON may begin with it."""
_CANCELLED: Final = {"error": "UserInterrupt", "message": "the run was cancelled"}
_ROLLED_BACK: Final = {"error": "UserRollback", "message": "the run was cancelled and rolled back"}
_TAIL: Final = 16
"""Newest events of a thread, searched first for a run's last ones."""

OnSilence = Callable[[], Awaitable[None]]
"""Called after each silence of the heartbeat's length."""
ReadResult = Callable[[OnSilence], Awaitable[bytes]]


class LongPollReply(StreamingReply):
    """Reply with a run's result: headers at once, white space while the run lasts, then the JSON."""

    def __init__(self, read_result: ReadResult, path: str) -> None:
        """`path` is that of the run."""
        headers = {"Location": f"{path}/join", "Content-Location": path}
        super().__init__((), media_type="application/json", headers=headers)
        self._read_result = read_result

    async def stream_response(self, send: Send) -> None:
        """Send the reply; the body ends with the result."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        result = await self._read_result(lambda: send(_body(_WHITESPACE, more=True)))
        await send(_body(result, more=False))


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def wait_for_result(ctx: AppContext, started: StartedRun, on_silence: OnSilence) -> bytes:
    """Wait for a run's end and return its result."""
    return await _result(ctx, started, await _wait_for_end(ctx, started, on_silence))


async def result_of_ended_run(ctx: AppContext, started: StartedRun, on_silence: OnSilence) -> bytes:
    """Return the result of a run that has ended."""
    del on_silence  # there is nothing to wait for
    return await _result(ctx, started, await _last_events(ctx, started) or {})


async def _wait_for_end(ctx: AppContext, started: StartedRun, on_silence: OnSilence) -> Mapping[str, Event]:
    """Wait for a run's end and return its last events by name."""
    async with aclosing(ctx.worker.events.run_ends(started.thread)) as ends:
        while True:
            if not await anext(ends):
                await on_silence()
            elif (last := await _last_events(ctx, started)) is not None:
                return last


async def _last_events(ctx: AppContext, started: StartedRun) -> Mapping[str, Event] | None:
    """Return an ended run's last events by name; None if the run has not ended."""
    last = await newest_of_run(ctx.storage, started.thread, started.run, _TAIL)
    if END in last and ("values" in last or "error" in last):
        return last
    if not await ctx.worker.runs.has_ended(started.thread, started.run):
        return None
    stored = ctx.worker.events.stored_events(started.thread, started.run, started.since)
    return {event.name: event async for event in stored}


async def _result(ctx: AppContext, started: StartedRun, last: Mapping[str, Event]) -> bytes:
    if "error" in last:
        return b'{"__error__":%s}' % last["error"].data
    values = await ctx.worker.values.read(started.thread, last["values"]) if "values" in last else None
    if values is not None and last[END].data == b"success":
        return values
    return await _result_by_status(ctx, started, values)


async def _result_by_status(ctx: AppContext, started: StartedRun, values: bytes | None) -> bytes:
    try:
        record = await ctx.worker.runs.get(started.thread, started.run)
    except Missing:
        return dumps({"__error__": _ROLLED_BACK})
    if record.status != "success":
        error = record.error or _CANCELLED
        return dumps({"__error__": {"error": error["error"], "message": error["message"]}})
    # A "values" event holds one interrupt at most; add all interrupts of the run's last state.
    try:
        state = await _last_state(ctx, started, record.graph)
    except UnbuildableState as error:
        return dumps({"__error__": {"error": type(error).__name__, "message": error_message(error)}})
    # A state of the history lacks what the tasks beside an interrupted one have written.
    streamed = orjson.loads(values) if values else {}
    return dumps(run_result(ctx.worker.graphs[record.graph], state, streamed))


async def _last_state(ctx: AppContext, started: StartedRun, graph: str) -> StateSnapshot:
    """Return a run's last state, or the thread's newest if the run has no checkpoint."""
    config: Any = {"configurable": {"thread_id": started.thread}}
    states = build_history(ctx.worker.graphs[graph], config, metadata={"run_id": started.run}, limit=1)
    async with aclosing(states):
        async for state, reason in states:
            if reason:
                raise UnbuildableState(reason)
            return state
    return await build_state(ctx.worker.graphs[graph], config)

"""Events of a thread in the Agent Streaming Protocol, whichever wire their run was created on.

Every stream begins with the thread's stored history. An event's `event_id` is the same on every stream. Its
`seq` is derived from the id it is stored under, so `since` means the same on every stream, whatever the
stream's filter and however much of the history is gone.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Request
from langgraph.types import StateSnapshot
from pydantic import BaseModel, Field
from starlette.responses import Response

from callsheet.server.engine.execution import output_values, pending_interrupts
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.policy import LANGGRAPH_READ_STREAM, with_policy
from callsheet.server.http.replies import Events, ServerEvent
from callsheet.server.http.requests import Integer, StrictRoute
from callsheet.server.langgraph.protocol.encoding import without_empty_fields
from callsheet.server.langgraph.reply_schemas import PROTOCOL_EVENTS
from callsheet.server.langgraph.run_streams import event_stream_reply
from callsheet.server.langgraph.schemas import JsonObject
from callsheet.server.langgraph.states import find_state
from callsheet.state.errors import Missing
from callsheet.storage.runs import events
from callsheet.storage.runs.events import GAP, PROTOCOL_PREFIX, START_ID, Event
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads

_EPOCH_MS: Final = 1_767_225_600_000
"""Start of 2026. Numbers count from there, and stay below 2 ** 53 until 2095."""
_COUNTER_BITS: Final = 12
_MAX_COUNTER: Final = (1 << _COUNTER_BITS) - 1
MAX_SEQ: Final = (1 << 53) - 1
_MESSAGE_FIELDS: Final = frozenset({"type", "content", "additional_kwargs", "response_metadata"})
_SHARED_MODES: Final = frozenset({"updates", "custom"})
"""Modes whose events are the same on both wires."""
_CANCELLED: Final = frozenset({b"interrupted", b"rolled-back"})
"""Endings of a run that was cancelled."""
_ENDINGS: Final[Mapping[bytes, str]] = {b"success": "completed", b"error": "failed", b"timeout": "failed"}


@dataclass(frozen=True, slots=True)
class ProtocolFrame:
    """Event as it is sent."""

    event_id: str
    seq: int
    method: str
    namespace: Sequence[str]
    params: bytes
    """JSON."""

    def encode(self) -> bytes:
        """Return the frame as JSON."""
        parts = (dumps(self.event_id), self.seq, dumps(self.method), self.params)
        return b'{"type":"event","event_id":%b,"seq":%d,"method":%b,"params":%b}' % parts


def protocol_frame(
    event_id: str, seq: int, method: str, namespace: Sequence[str], timestamp_ms: int, data: object
) -> ProtocolFrame:
    """Return the frame of an event with this data."""
    params = {"namespace": namespace, "timestamp": timestamp_ms, "data": data}
    return ProtocolFrame(event_id, seq, method, namespace, dumps(params))


def seq_of(event_id: str) -> int:
    """Return the number of a stored event; 0 for the id before the first."""
    ms, _, counter = event_id.partition("-")
    return max(0, (int(ms) - _EPOCH_MS) << _COUNTER_BITS) + min(int(counter), _MAX_COUNTER)


def id_of(seq: int) -> str:
    """Return the id of a stored event by its number."""
    return f"{(seq >> _COUNTER_BITS) + _EPOCH_MS}-{seq & _MAX_COUNTER}" if seq else START_ID


def without_empty_message_fields(value: Any) -> Any:
    """Return JSON with the empty optional fields of all messages removed."""
    if isinstance(value, list):
        return [without_empty_message_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: without_empty_message_fields(item) for name, item in value.items()}
    return without_empty_fields(fields) if fields.keys() >= _MESSAGE_FIELDS else fields


def interrupt_frames(
    run: str, seq: int, timestamp_ms: int, interrupts: Iterable[tuple[str, Any]]
) -> list[ProtocolFrame]:
    """Return the frames of a root graph's interrupts, given as (id, value)."""
    return [
        protocol_frame(
            f"synth:{run}:input||{name}",
            seq,
            "input.requested",
            (),
            timestamp_ms,
            {"interrupt_id": name, "payload": value},
        )
        for name, value in interrupts
    ]


def gap_frame(seq: int, first: str | None) -> ProtocolFrame:
    """Return the custom event `gap`: what comes before the event `first`, if any, is not stored any more."""
    data = {"name": GAP, "payload": {"first": seq_of(first) if first else None}}
    return protocol_frame(f"gap:{first or ''}", seq, "custom", (), 0, data)


class ThreadView:
    """View of a thread for one reader; it remembers which lifecycle events the reader has got."""

    def __init__(self, ctx: AppContext, thread: str, owner: str) -> None:
        self.ctx = ctx
        self.thread = thread
        self._owner = owner
        self.graph = ""
        """Name of the thread's graph."""
        self.readable = False
        """True if the thread existed and belonged to the reader when it was last read."""
        self._sent_lifecycles: set[tuple[str, str]] = set()

    async def refresh(self) -> bool:
        """Read the thread's graph, and return whether the thread exists and belongs to the reader."""
        record = await threads.find(self.ctx.storage, self.thread, self._owner)
        self.graph = record.graph if record else ""
        self.readable = record is not None
        return self.readable

    async def frames(self, event: Event) -> list[ProtocolFrame]:
        """Return the frames of a stored event; none for an event that has no meaning in the protocol."""
        if event.name.startswith(PROTOCOL_PREFIX):
            return self._native_frames(event)
        kind, *namespace = event.name.split("|")
        match kind:
            case "metadata":
                return self._lifecycle(event, "running")
            case "values":
                return await self._values_frames(event, namespace)
            case "end":
                return await self._end_frames(event)
            case _ if kind in _SHARED_MODES and b'"__interrupt__"' not in event.data:
                data = without_empty_message_fields(orjson.loads(event.data))
                return [protocol_frame(event.id, seq_of(event.id), kind, namespace, _ms(event), data)]
        return []

    async def _end_frames(self, event: Event) -> list[ProtocolFrame]:
        if event.data == b"paused" and await self._is_protocol_run(event.run):
            return []
        # The protocol has no event for a cancelled run; it counts as interrupted.
        state = _ENDINGS.get(event.data, "interrupted")
        frames = self._lifecycle(event, state, await self._error(event.run) if state == "failed" else "")
        if event.data in _CANCELLED:
            # LangGraph's Python client waits after `interrupted`, for an answer.
            frames += self._lifecycle(event, "completed")
        return frames

    def _native_frames(self, event: Event) -> list[ProtocolFrame]:
        method, *namespace = event.name.removeprefix(PROTOCOL_PREFIX).split("|")
        event_id, path = event.id, "|".join(namespace)
        if method == "input.requested":
            name = orjson.loads(event.data)["data"]["interrupt_id"]
            event_id = f"synth:{event.run}:input|{path}|{name}"
        if method == "lifecycle":
            state = orjson.loads(event.data)["data"]["event"]
            if not namespace:
                return self._lifecycle(event, state)
            event_id = f"synth:{event.run}:lc|{path}|{state}"
        return [ProtocolFrame(event_id, seq_of(event.id), method, namespace, event.data)]

    async def _values_frames(self, event: Event, namespace: Sequence[str]) -> list[ProtocolFrame]:
        stored = await self.ctx.worker.values.read(self.thread, event)
        if stored is None:
            return [gap_frame(seq_of(event.id), event.id)]
        values = orjson.loads(stored)
        interrupts: list[JsonObject] = values.pop("__interrupt__", []) if isinstance(values, dict) else []
        if interrupts and await self._is_protocol_run(event.run):
            interrupts = []
        seq, ms = seq_of(event.id), _ms(event)
        data = without_empty_message_fields(values)
        return [
            *interrupt_frames(event.run, seq, ms, ((item["id"], item["value"]) for item in interrupts)),
            protocol_frame(event.id, seq, "values", namespace, ms, data),
        ]

    def _lifecycle(self, event: Event, state: str, error: str = "") -> list[ProtocolFrame]:
        """Return the lifecycle event of a run, once: a later attempt at the run repeats none."""
        if (event.run, state) in self._sent_lifecycles:
            return []
        self._sent_lifecycles.add((event.run, state))
        data = {"event": state, "graph_name": self.graph} | ({"error": error} if error else {})
        event_id = f"synth:{event.run}:lc||{state}"
        return [protocol_frame(event_id, seq_of(event.id), "lifecycle", (), _ms(event), data)]

    async def _error(self, run: str) -> str:
        record = await self._record(run)
        return str((record.error or {}).get("message", "")) if record else ""

    async def _is_protocol_run(self, run: str) -> bool:
        """Return whether a run stores its own interrupt and lifecycle events."""
        record = await self._record(run)
        return bool(record and record.request.get("protocol"))

    async def _record(self, run: str) -> Run | None:
        try:
            return await self.ctx.worker.runs.get(self.thread, run)
        except Missing:
            return None


def _ms(event: Event) -> int:
    return int(event.id.partition("-")[0])


router = APIRouter(route_class=StrictRoute, tags=["protocol"])
_STREAM: Final = documented_wire_responses(403, 404, 413, 422, 500, 503, 504, reply=None) | {
    200: PROTOCOL_EVENTS
}
_CHANNELS: Final = {"input.requested": "input", "input.answered": "input"}
"""Method to channel, where their names differ."""
_FIRST: Final = 20
"""Events read to find the first one of a run; events of the thread itself may come before it."""
_Name = Annotated[str, Field(max_length=255)]


class Subscription(BaseModel):
    """Filter for the events of a thread."""

    channels: list[_Name] = Field(max_length=100, description="An unknown channel has no events")
    namespaces: list[list[_Name]] | None = Field(
        None, max_length=1_000, description="Namespaces to include with those below; all by default"
    )
    depth: Integer | None = Field(None, ge=0, description="Levels below `namespaces`; all by default")
    since: Integer | None = Field(None, ge=0, le=MAX_SEQ, description="Only events with a higher `seq`")

    def matches(self, event: ProtocolFrame) -> bool:
        """Return whether an event passes the filter, `since` aside."""
        channel = _CHANNELS.get(event.method, event.method)
        if channel not in self.channels and not (channel == "custom" and self._matches_custom(event)):
            return False
        return not self.namespaces or any(self._is_below(event.namespace, item) for item in self.namespaces)

    def _matches_custom(self, event: ProtocolFrame) -> bool:
        names = [channel.partition(":")[2] for channel in self.channels if channel.startswith("custom:")]
        if not names:
            return False
        data = orjson.loads(event.params)["data"]
        return isinstance(data, dict) and data.get("name") in names

    def _is_below(self, namespace: Sequence[str], prefix: Sequence[str]) -> bool:
        max_depth = len(prefix) + (MAX_SEQ if self.depth is None else self.depth)
        if not len(prefix) <= len(namespace) <= max_depth:
            return False
        # A part is a node and the id of its task, `child:2470…`; a prefix may leave out the id.
        parts = zip(prefix, namespace, strict=False)
        return all(expected in {part, part.partition(":")[0]} for expected, part in parts)


@router.post("/threads/{thread_id}/stream/events", responses=_STREAM)
@with_policy(LANGGRAPH_READ_STREAM)
async def stream_thread_events(thread_id: str, body: Subscription, request: Request) -> Response:
    """Stream a thread's events. Stored ones come first, then new ones, of all runs.

    The custom event `gap` and the newest state stand for events after `since` that are not kept any more.
    """
    ctx, owner = app_context(request), current_owner(request)
    await threads.get(ctx.storage, thread_id, owner)
    return event_stream_reply(_server_events(ThreadView(ctx, thread_id, owner), body))


async def _server_events(view: ThreadView, subscription: Subscription) -> Events:
    async with aclosing(follow_thread(view, subscription)) as source:
        async for event in source:
            yield ServerEvent(event.method, event.encode(), str(event.seq)) if event else None


async def follow_thread(
    view: ThreadView, subscription: Subscription, on_seq: Callable[[int], None] | None = None
) -> AsyncGenerator[ProtocolFrame | None, None]:
    """Yield a thread's matching events, and None after each silence, until the thread is gone.

    `on_seq` gets the number of every stored event, matching or not, before it is yielded. With it, a thread
    that does not exist yet is waited for.
    """
    since = subscription.since or 0
    lost = await _replacement_of_lost(view, since) if await view.refresh() else []
    for event in filter(subscription.matches, lost):
        yield event

    async def translate(stored: Event) -> list[ProtocolFrame]:
        if stored.name == events.GAP:
            frames = [gap_frame(seq_of(stored.id), orjson.loads(stored.data)["first"])]
        else:
            frames = await view.frames(stored)
        return [*filter(subscription.matches, frames)]

    source = view.ctx.worker.events.translate(_stored_events(view, id_of(since), on_seq), translate)
    async with aclosing(source):
        async for frame in source:
            yield frame


async def _stored_events(
    view: ThreadView, after: str, on_seq: Callable[[int], None] | None
) -> AsyncGenerator[Event | None, None]:
    """Yield the events after the id `after`, as long as the thread is the reader's."""

    async def is_readable() -> bool:
        return await view.refresh() or on_seq is not None

    bus = view.ctx.worker.events
    async with aclosing(bus.follow(view.thread, after, is_readable)) as source:
        async for stored in source:
            if stored and on_seq:
                on_seq(seq_of(stored.id))
            if stored is None or view.readable or await view.refresh():
                yield stored


async def _replacement_of_lost(view: ThreadView, since: int) -> list[ProtocolFrame]:
    """Return what stands for the part of the history after `since` that is gone: the newest state.

    Before it, a `gap` says so; a state that was only written by clients never had events.
    """
    graph = view.ctx.worker.graphs.get(view.graph)
    if await _is_complete(view, since):
        return []
    state = await find_state(graph, view.thread) if graph else None
    # A run stores its first event before it changes the state, so a run that began meanwhile shows here.
    first = await events.first_after_gap(view.ctx.storage, view.thread, id_of(since))
    has_run = await _has_run_events(view)
    if first is None and has_run:
        return []
    gap = [] if first is None else [gap_frame(0, first or None)]
    if not graph or not state or not state.created_at:
        return gap
    shown = state._replace(values=output_values(graph, state.values))
    return gap + _state_frames(view, shown, idle=not has_run)


async def _is_complete(view: ThreadView, since: int) -> bool:
    """Return whether the thread has events of runs, and none after `since` is missing."""
    if await events.first_after_gap(view.ctx.storage, view.thread, id_of(since)) is not None:
        return False
    return await _has_run_events(view)


async def _has_run_events(view: ThreadView) -> bool:
    """Return whether an event of a run is among the first that are stored."""
    first = await events.read_after(view.ctx.storage, view.thread, events.START_ID, limit=_FIRST)
    return any(event.run for event in first)


def _state_frames(view: ThreadView, state: StateSnapshot, *, idle: bool) -> list[ProtocolFrame]:
    run = str((state.metadata or {}).get("run_id", ""))
    checkpoint = state.config["configurable"]["checkpoint_id"]
    values = without_empty_message_fields(orjson.loads(dumps(state.values)))
    frames = [protocol_frame(f"synth:{run}:values|{checkpoint}", 0, "values", (), 0, values)]
    if not idle or not state.next:
        return frames
    interrupts = [(item.id, item.value) for item in pending_interrupts(state)]
    data = {"event": "interrupted", "graph_name": view.graph}
    lifecycle = protocol_frame(f"synth:{run}:lc||interrupted", 0, "lifecycle", (), 0, data)
    return [*frames, *interrupt_frames(run, 0, 0, interrupts), lifecycle]

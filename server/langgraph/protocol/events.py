"""Stream of a thread's events in the Agent Streaming Protocol: the stored ones, then new ones."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Request
from langgraph.types import StateSnapshot
from pydantic import BaseModel, Field
from starlette.responses import Response

from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.events import Events, ServerEvent
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import LANGGRAPH_READ_STREAM, with_policy
from callsheet.server.http.requests import Integer, StrictRoute
from callsheet.server.langgraph.protocol import views
from callsheet.server.langgraph.protocol.views import MAX_SEQ, ProtocolFrame, ThreadView, id_of, seq_of
from callsheet.server.langgraph.run_streams import event_stream_reply
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.server.langgraph.thread_search import find_state
from callsheet.storage.runs import events
from callsheet.storage.runs.events import Event
from callsheet.storage.threads import threads

router = APIRouter(route_class=StrictRoute, tags=["protocol"])
_STREAM: Final = documented_wire_responses(403, 404, 413, 422, 500, 503, 504, reply=JsonObject) | {
    200: EVENTS
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
            frames = [views.gap_frame(seq_of(stored.id), orjson.loads(stored.data)["first"])]
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
    gap = [] if first is None else [views.gap_frame(0, first or None)]
    return gap + (_state_frames(view, state, idle=not has_run) if state and state.created_at else [])


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
    values = views.without_empty_message_fields(orjson.loads(dumps(state.values)))
    frames = [views.protocol_frame(f"synth:{run}:values|{checkpoint}", 0, "values", (), 0, values)]
    if not idle or not state.next:
        return frames
    interrupts = [(item.id, item.value) for item in pending_interrupts(state)]
    data = {"event": "interrupted", "graph_name": view.graph}
    lifecycle = views.protocol_frame(f"synth:{run}:lc||interrupted", 0, "lifecycle", (), 0, data)
    return [*frames, *views.interrupt_frames(run, 0, 0, interrupts), lifecycle]

"""A thread's events in the Agent Streaming Protocol: all that is kept of what is asked for, and onwards."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Request
from langgraph.types import StateSnapshot
from pydantic import BaseModel, Field
from starlette.responses import Response

from callsheet.server.ads.bodies import StrictRoute, Whole
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph.protocol import views
from callsheet.server.langgraph.protocol.views import MAX_SEQ, ProtocolFrame, ThreadView, id_of, seq_of
from callsheet.server.langgraph.run_streams import HEARTBEAT_S, event_line, event_stream_reply
from callsheet.server.runtime.encoding import dumps
from callsheet.server.runtime.execution import pending_interrupts
from callsheet.storage.runs import events
from callsheet.storage.runs.events import Event
from callsheet.storage.threads import records as thread_records

router = APIRouter(route_class=StrictRoute, tags=["protocol"])
_FOLLOW: Final = documented_wire_responses(403, 404, 413, 422, 500, 503, 504, reply=dict[str, Any]) | {
    200: EVENTS
}
_CHANNELS: Final = {"input.requested": "input", "input.answered": "input"}
"""Channels of the methods that are not named as theirs."""
_FIRST: Final = 20
"""Events among which the first of a run is looked for; before it there may be some of the thread's own."""
_Name = Annotated[str, Field(max_length=255)]


class Subscription(BaseModel):
    """Which events a reader wants."""

    channels: list[_Name] = Field(max_length=100, description="One that is not known has no events")
    namespaces: list[list[_Name]] | None = Field(
        None, max_length=1_000, description="Only events below one of these places; all, unless chosen"
    )
    depth: Whole | None = Field(None, ge=0, description="Levels below those places; all, unless chosen")
    since: Whole | None = Field(None, ge=0, le=MAX_SEQ, description="Only events numbered higher")

    def matches(self, event: ProtocolFrame) -> bool:
        """Return whether the reader wants an event."""
        channel = _CHANNELS.get(event.method, event.method)
        if channel not in self.channels and not (channel == "custom" and self._named(event)):
            return False
        return not self.namespaces or any(self._below(event.place, one) for one in self.namespaces)

    def _named(self, event: ProtocolFrame) -> bool:
        wanted = [one.partition(":")[2] for one in self.channels if one.startswith("custom:")]
        if not wanted:
            return False
        data = orjson.loads(event.params)["data"]
        return isinstance(data, dict) and data.get("name") in wanted

    def _below(self, place: Sequence[str], prefix: Sequence[str]) -> bool:
        if not len(prefix) <= len(place) <= len(prefix) + (MAX_SEQ if self.depth is None else self.depth):
            return False
        # A place is a node and which run of it, `child:2470…`; a prefix may leave the latter open.
        return all(want in {part, part.partition(":")[0]} for want, part in zip(prefix, place, strict=False))


@router.post("/threads/{thread_id}/stream/events", responses=_FOLLOW, response_model=None)
async def stream_thread_events(thread_id: str, body: Subscription, request: Request) -> Response:
    """Stream a thread's events: all that is kept of them, then those to come, of whichever run."""
    here, who = app_context(request), current_owner(request)
    await thread_records.get(here.storage, thread_id, who)
    return event_stream_reply(_lines(here, ThreadView(here, thread_id, who), thread_id, body))


async def _lines(
    here: AppContext, view: ThreadView, thread: str, wanted: Subscription
) -> AsyncGenerator[bytes, None]:
    async with aclosing(follow_thread(here, view, thread, wanted)) as source:
        async for event in source:
            yield (
                event_line(event.method, event.encoded(), str(event.seq)) if event else b": heartbeat\r\n\r\n"
            )


async def follow_thread(
    here: AppContext,
    view: ThreadView,
    thread: str,
    wanted: Subscription,
    reached: Callable[[int], None] | None = None,
) -> AsyncGenerator[ProtocolFrame | None, None]:
    """Yield a thread's events that are wanted, and None after a silence, until the thread is gone.

    A reader that hears of each event, wanted or not, by its number before it is yielded, waits for a thread
    that is not there yet.
    """
    lost = await _lost(here, view, thread, wanted.since or 0) if await view.known() else []
    for event in filter(wanted.matches, lost):
        yield event
    async with aclosing(_stored(here, view, (thread, id_of(wanted.since or 0)), reached)) as source:
        async for stored in source:
            if stored is None:
                yield None
                continue
            for event in filter(wanted.matches, await view.frames(stored)):
                yield event


async def _stored(
    here: AppContext, view: ThreadView, start: tuple[str, str], reached: Callable[[int], None] | None
) -> AsyncGenerator[Event | None, None]:
    """Yield the events that follow (thread, event id), as long as the thread is the reader's."""
    known = False
    async with aclosing(here.worker.events.follow(*start, heartbeat_s=HEARTBEAT_S)) as source:
        async for stored in source:
            if stored and reached:
                reached(seq_of(stored.id))
            # A thread that was deleted may have been made again, by somebody else.
            if stored is None or stored.name == "metadata" or not known:
                known = await view.known()
            if not (known or reached):
                return
            if stored is None or known:
                yield stored


async def _lost(here: AppContext, view: ThreadView, thread: str, since: int) -> list[ProtocolFrame]:
    """What stands for the history that is not kept any more: the thread's newest state."""
    graph = here.worker.graphs.get(view.graph)
    if graph is None or _whole(await _kept(here, thread), since):
        return []
    state = await graph.aget_state({"configurable": {"thread_id": thread}})
    # A run tells that it begins before it changes the state, so this is seen of one that began meanwhile.
    kept = await _kept(here, thread)
    if _whole(kept, since) or not state.created_at:
        return []
    return _standing(view, state, over=not kept)


async def _kept(here: AppContext, thread: str) -> list[Event]:
    """The first of what is kept of what runs told."""
    found = await events.read_after(here.storage, thread, events.BEGINNING, limit=_FIRST)
    return [event for event in found if event.run]


def _whole(kept: Sequence[Event], since: int) -> bool:
    """Whether nothing is missing before what is kept, beyond what its reader knows."""
    return bool(kept) and (kept[0].name == events.BEGUN or seq_of(kept[0].id) <= since)


def _standing(view: ThreadView, state: StateSnapshot, *, over: bool) -> list[ProtocolFrame]:
    run = str((state.metadata or {}).get("run_id", ""))
    checkpoint = state.config["configurable"]["checkpoint_id"]
    values = views.without_empty_message_fields(orjson.loads(dumps(state.values)))
    told = [views.protocol_frame(f"synth:{run}:values|{checkpoint}", 0, "values", (), (0, values))]
    if not over or not state.next:
        return told
    asked = [(one.id, one.value) for one in pending_interrupts(state)]
    said = {"event": "interrupted", "graph_name": view.graph}
    waits = views.protocol_frame(f"synth:{run}:lc||interrupted", 0, "lifecycle", (), (0, said))
    return [*told, *views.interrupt_events(run, 0, 0, asked), waits]

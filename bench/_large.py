"""The graph that `bench.memory` serves: one node that streams large events, or small ones."""

from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class RequestedEvents(TypedDict):
    """Number and size of the events to stream."""

    events: int
    characters: int
    """Characters of each event."""


async def stream(state: RequestedEvents) -> dict[str, Any]:
    """Stream the events."""
    write = get_stream_writer()
    for number in range(state["events"]):
        write({"number": number, "text": "x" * state["characters"]})
    return {}


_builder = StateGraph(RequestedEvents)
_builder.add_node("stream", stream)
_builder.add_edge(START, "stream")
large = _builder.compile(name="large")

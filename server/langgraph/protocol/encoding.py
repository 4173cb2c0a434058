"""What graphs stream, as events of the Agent Streaming Protocol: LangGraph's second wire.

An event is stored under its method and place (`v2/messages|child:…`), so that whoever does not want it need
not read it, with its `params` as JSON. The values of the graph itself are told as on the first wire, for
viewers on either; `callsheet.server.langgraph.protocol.views` gives them their form.
"""

import time
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from langchain_core.language_models._compat_bridge import message_to_events  # what LangGraph itself uses
from langchain_core.messages import BaseMessage, BaseMessageChunk, ToolMessage
from langgraph.prebuilt import ToolCallTransformer
from langgraph.pregel import Pregel
from langgraph.stream import CheckpointsTransformer, CustomTransformer, UpdatesTransformer
from langgraph.types import StateSnapshot

from callsheet.server.runtime.encoding import Event, dumps, to_jsonable
from callsheet.storage.runs.events import PROTOCOL

_TOLD: Final = (UpdatesTransformer, CustomTransformer, CheckpointsTransformer, ToolCallTransformer)
"""What is told beside values, messages and lifecycles, whatever a graph was compiled with."""
_OPTIONAL: Final = frozenset(
    {"name", "additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls", "usage_metadata"}
)
_ENDS: Final = frozenset({"message-finish", "error"})
_Place = tuple[str, ...]


def protocol_event(method: str, place: Sequence[str], data: object, **more: object) -> Event:
    """Return an event of the protocol; `more` is said beside its data."""
    told = {"namespace": place, "timestamp": int(time.time() * 1000), "data": data, **more}
    return "|".join((PROTOCOL + method, *place)), dumps(told, _spare)


def without_empty_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's JSON without what it has nothing in."""
    return {name: one for name, one in message.items() if one or name not in _OPTIONAL}


class ProtocolTranslator:
    """Turns one run's chunks into events of the protocol."""

    finished: Final = False
    """Whether the graph is known to have come to its end: `closing` is for telling."""

    def __init__(self) -> None:
        self._held: dict[_Place, Event] = {}
        self._asked: dict[str, _Place] = {}
        self._speaking: dict[_Place, dict[str, str]] = {}
        """By place, the messages under way there: model call to message id."""

    async def stream(
        self, graph: Pregel[Any, Any], given: Any, config: Any, **options: Any
    ) -> AsyncGenerator[list[Event], None]:
        """Run the graph and yield its events as they come."""
        more = [each for each in _TOLD if each not in graph.stream_transformers]
        with warnings.catch_warnings():
            # Nothing is awaited in here, so nobody else's warnings are kept quiet.
            warnings.filterwarnings("ignore", message="The v3 streaming protocol")
            run = await graph.astream_events(given, config, version="v3", transformers=more, **options)
        async with run:
            async for event in run:
                yield self.events(event)
        yield self._released()

    def events(self, event: Mapping[str, Any]) -> list[Event]:
        """Return the events of one of LangGraph's; values wait until their checkpoint is there."""
        params = event["params"]
        place, method = tuple(params["namespace"]), event["method"]
        if method == "values":
            return [*self._released(), *self._values(place, params)]
        if method == "checkpoints":
            values = self._held.pop(place, None)
            return [protocol_event(method, place, _checkpoint(params["data"])), *([values] if values else [])]
        return [*self._released(), *self._others(place, method, params["data"])]

    def closing_events(self, state: StateSnapshot) -> list[Event]:
        """Return what is told once the graph has stopped: its questions, and that it waits for answers."""
        if not state.next:
            return []
        asked = [one for task in state.tasks if task.result is None for one in task.interrupts]
        questions = [
            protocol_event(
                "input.requested",
                self._asked.get(one.id, ()),
                {"interrupt_id": one.id, "payload": one.value},
            )
            for one in asked
        ]
        last = []
        if asked and isinstance(state.values, Mapping):
            last = [("values", dumps({**state.values, "__interrupt__": asked}))]
        return [*questions, protocol_event("lifecycle", (), {"event": "interrupted"}), *last]

    def _values(self, place: _Place, params: Mapping[str, Any]) -> list[Event]:
        asked = params.get("interrupts") or ()
        for one in asked:
            self._asked[one.id] = max(place, self._asked.get(one.id, ()), key=len)
        if place:
            self._held[place] = protocol_event("values", place, params["data"])
        elif not asked:
            self._held[place] = ("values", dumps(params["data"]))
        return []

    def _released(self) -> list[Event]:
        released = [*self._held.values()]
        self._held.clear()
        return released

    def _others(self, place: _Place, method: str, data: Any) -> list[Event]:
        kind, _, name = method.partition(":")
        match kind:
            case "messages":
                return self._messages(place, data)
            case "lifecycle":
                return [_lifecycle(place, data)]
            case "updates" if "__interrupt__" in data:
                return []
        return [protocol_event(kind, place, {"name": name, "payload": data} if name else data)]

    def _messages(self, place: _Place, data: Any) -> list[Event]:
        message, metadata = data
        node = metadata.get("langgraph_node")
        if isinstance(message, BaseMessage):
            if isinstance(message, BaseMessageChunk | ToolMessage):
                # Chunks are the first wire's, and the results of tools are told by `tools`.
                return []
            return [
                protocol_event("messages", place, part, node=node)
                for part in message_to_events(message, message_id=message.id)
            ]
        part = self._part(place, message, str(metadata.get("run_id")))
        return [protocol_event("messages", place, part, node=node)]

    def _part(self, place: _Place, part: Mapping[str, Any], call: str) -> Mapping[str, Any]:
        """Part of a message, with whose it is where a reader could not know: several are under way there."""
        speaking = self._speaking.setdefault(place, {})
        if part["event"] == "message-start":
            speaking[call] = part["id"]
            return {**part, "run_id": call}
        several = len(speaking) > 1 and call in speaking
        said = {"run_id": call, "message_id": speaking[call]} if several else {}
        if part["event"] in _ENDS:
            speaking.pop(call, None)
        return {**part, **said}


def _lifecycle(place: _Place, data: Mapping[str, Any]) -> Event:
    there = tuple(data["namespace"])
    graph = there[-1].partition(":")[0] if there else ""
    return protocol_event("lifecycle", there or place, {"graph_name": graph, **data})


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    """Where one can go back to, without what was there."""
    told = {"id": _id(data["config"]), "step": data["metadata"]["step"], "source": data["metadata"]["source"]}
    parent = _id(data.get("parent_config"))
    return told | ({"parent_id": parent} if parent else {})


def _id(config: Mapping[str, Any] | None) -> str | None:
    found: str | None = (config or {}).get("configurable", {}).get("checkpoint_id")
    return found


def _spare(value: Any) -> Any:
    return without_empty_fields(value.model_dump()) if isinstance(value, BaseMessage) else to_jsonable(value)

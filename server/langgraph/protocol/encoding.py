"""Chunks of a running graph as events of the Agent Streaming Protocol, LangGraph's second wire.

An event is stored under its method and namespace (`v2/messages|child:…`), so that readers can skip it by
name; its data is the JSON of its `params`. The values of the root graph are stored as on the first wire, for
readers of either; `callsheet.server.langgraph.protocol.events` converts them.
"""

import time
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from langchain_core.messages import BaseMessage, BaseMessageChunk, ToolMessage
from langgraph.prebuilt import ToolCallTransformer
from langgraph.pregel import Pregel
from langgraph.stream import CheckpointsTransformer, CustomTransformer, UpdatesTransformer
from langgraph.types import StateSnapshot

from callsheet.server.engine.encoding import Event, ValuesEvent
from callsheet.server.engine.json_values import dumps, to_jsonable
from callsheet.storage.runs.events import PROTOCOL_PREFIX

_LATE: Final = frozenset({"args", "data", "output", "transcript", "value"})
"""Fields of a block that may be large, so that only its later parts have them."""
_EMPTY: Final[Mapping[str, Mapping[str, Any]]] = {
    "tool_call": {"args": {}},
    "server_tool_call": {"args": {}},
    "non_standard": {"value": {}},
}
"""Late fields that the first part of a block must have nevertheless, by its type."""


def message_parts(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """Yield the parts of a message that no model streamed."""
    metadata, usage = message.response_metadata, getattr(message, "usage_metadata", None)
    names = {"provider": metadata.get("model_provider"), "model": metadata.get("model_name")}
    about = _without_none(names)
    yield {
        "event": "message-start",
        "role": "ai",
        "id": message.id or "",
        **({"metadata": about} if about else {}),
    }
    for index, block in enumerate(_blocks(message)):
        for event, content in _block_parts(block):
            yield {"event": f"content-block-{event}", "index": index, **content}
    yield {
        "event": "message-finish",
        **({"usage": usage} if usage else {}),
        **({"metadata": metadata} if metadata else {}),
    }


def _blocks(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    # LangChain fails to read some malformed contents; then the message has no blocks.
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        yield from message.content_blocks
    for call in getattr(message, "invalid_tool_calls", ()):
        yield {**_without_none(call), "type": "invalid_tool_call"}


def _block_parts(block: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = block["type"]
    late, empty, delta = _LATE, _EMPTY.get(kind, {}), _data_delta(block)
    if kind in {"text", "reasoning"}:
        late, empty = frozenset({kind, "index", "annotations"}), {kind: ""}
        delta = {"type": f"{kind}-delta", kind: block[kind]} if block.get(kind) else None
    yield "start", {"content": {name: block[name] for name in block if name not in late} | dict(empty)}
    if delta:
        yield "delta", {"delta": delta}
    yield "finish", {"content": dict(block)}


def _data_delta(block: Mapping[str, Any]) -> dict[str, Any] | None:
    if not block.get("data"):
        return None
    encoding = {"encoding": "base64"} if block.get("encoding") == "base64" else {}
    return {"type": "data-delta", "data": block["data"], **encoding}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_TRANSFORMERS: Final = (UpdatesTransformer, CustomTransformer, CheckpointsTransformer, ToolCallTransformer)
"""Transformers added to every graph; LangGraph has those of values, messages and lifecycles by default."""
_OPTIONAL: Final = frozenset(
    {"name", "additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls", "usage_metadata"}
)
_LAST_PARTS: Final = frozenset({"message-finish", "error"})
_Namespace = tuple[str, ...]


def protocol_event(method: str, namespace: Sequence[str], data: object, **params: object) -> Event:
    """Return an event of the protocol; `params` are further fields beside its data."""
    body = {"namespace": namespace, "timestamp": int(time.time() * 1000), "data": data, **params}
    return "|".join((PROTOCOL_PREFIX + method, *namespace)), dumps(body, _jsonable)


def without_empty_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's JSON without empty optional fields."""
    return {name: value for name, value in message.items() if value or name not in _OPTIONAL}


class ProtocolTranslator:
    """Translator of one run's chunks to events of the protocol."""

    finished = False
    """Always False: the state must be read after the run, for `closing_events`."""

    def __init__(self) -> None:
        self._pending_values: dict[_Namespace, Event] = {}
        """Values that wait for the event of their checkpoint."""
        self._interrupts: dict[str, _Namespace] = {}
        """Interrupt id to the deepest namespace that reported it."""
        self._open_messages: dict[_Namespace, dict[str, str]] = {}
        """Messages being streamed, by namespace: model call to message id."""
        self._last_values: Mapping[str, Any] = {}
        """Values that the root graph streamed last."""

    async def stream(
        self, graph: Pregel[Any, Any], given: Any, config: Any, **options: Any
    ) -> AsyncGenerator[list[Event], None]:
        """Run the graph and yield its events as they come."""
        added = [each for each in _TRANSFORMERS if each not in graph.stream_transformers]
        with warnings.catch_warnings():
            # The filter is global, but the call never suspends: no warning of another task is lost.
            warnings.filterwarnings("ignore", message="The v3 streaming protocol")
            run = await graph.astream_events(given, config, version="v3", transformers=added, **options)
        async with run:
            async for event in run:
                yield self.events(event)
        yield self._release_values()

    def events(self, event: Mapping[str, Any]) -> list[Event]:
        """Return the events for one of LangGraph's; values are held back until their checkpoint's event."""
        params = event["params"]
        namespace, method = tuple(params["namespace"]), event["method"]
        if method == "checkpoints":
            values = self._pending_values.pop(namespace, None)
            checkpoint = protocol_event(method, namespace, _checkpoint(params["data"]))
            return [checkpoint, *([values] if values else [])]
        released = self._release_values()
        if method == "values":
            self._hold_values(namespace, params)
            return released
        return [*released, *self._other_events(namespace, method, params["data"])]

    def closing_events(self, state: StateSnapshot) -> list[Event]:
        """Return the events after the graph has stopped: pending interrupts and the interrupted lifecycle."""
        if not state.next:
            return []
        pending = [item for task in state.tasks if task.result is None for item in task.interrupts]
        requests = [
            protocol_event(
                "input.requested",
                self._interrupts.get(item.id, ()),
                {"interrupt_id": item.id, "payload": item.value},
            )
            for item in pending
        ]
        values: list[Event] = []
        if pending and isinstance(state.values, Mapping):
            values = [ValuesEvent("values", {**state.values, **self._last_values, "__interrupt__": pending})]
        return [*requests, protocol_event("lifecycle", (), {"event": "interrupted"}), *values]

    def _hold_values(self, namespace: _Namespace, params: Mapping[str, Any]) -> None:
        interrupts = params.get("interrupts") or ()
        for item in interrupts:
            self._interrupts[item.id] = max(namespace, self._interrupts.get(item.id, ()), key=len)
        if namespace:
            self._pending_values[namespace] = protocol_event("values", namespace, params["data"])
        elif not interrupts:
            self._last_values = params["data"] if isinstance(params["data"], Mapping) else {}
            self._pending_values[namespace] = (
                ValuesEvent("values", self._last_values)
                if self._last_values
                else ("values", dumps(params["data"]))
            )

    def _release_values(self) -> list[Event]:
        released = [*self._pending_values.values()]
        self._pending_values.clear()
        return released

    def _other_events(self, namespace: _Namespace, method: str, data: Any) -> list[Event]:
        kind, _, name = method.partition(":")
        match kind:
            case "messages":
                return self._message_events(namespace, data)
            case "lifecycle":
                return [_lifecycle(namespace, data)]
            case "updates" if "__interrupt__" in data:
                return []
        return [protocol_event(kind, namespace, {"name": name, "payload": data} if name else data)]

    def _message_events(self, namespace: _Namespace, data: Any) -> list[Event]:
        message, metadata = data
        node = metadata.get("langgraph_node")
        if not isinstance(message, BaseMessage):
            part = self._message_part(namespace, message, str(metadata.get("run_id")))
            return [protocol_event("messages", namespace, part, node=node)]
        if isinstance(message, BaseMessageChunk | ToolMessage) or not message.text:
            # Chunks belong to the first wire, `tools` events hold the results of tools, and LangGraph's own
            # server leaves out a message without text that no model streamed.
            return []
        return [protocol_event("messages", namespace, part, node=node) for part in message_parts(message)]

    def _message_part(self, namespace: _Namespace, part: Mapping[str, Any], call: str) -> Mapping[str, Any]:
        """Return a part of a message; it names the message if several are streamed in the namespace."""
        messages = self._open_messages.setdefault(namespace, {})
        if part["event"] == "message-start":
            messages[call] = part["id"]
            return {**part, "run_id": call}
        ambiguous = len(messages) > 1 and call in messages
        ids = {"run_id": call, "message_id": messages[call]} if ambiguous else {}
        if part["event"] in _LAST_PARTS:
            messages.pop(call, None)
        return {**part, **ids}


def _lifecycle(namespace: _Namespace, data: Mapping[str, Any]) -> Event:
    own = tuple(data["namespace"])
    graph = own[-1].partition(":")[0] if own else ""
    return protocol_event("lifecycle", own or namespace, {"graph_name": graph, **data})


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's ids, step and source, without its values."""
    metadata, parent = data["metadata"], _checkpoint_id(data.get("parent_config"))
    checkpoint = {
        "id": _checkpoint_id(data["config"]),
        "step": metadata["step"],
        "source": metadata["source"],
    }
    return checkpoint | ({"parent_id": parent} if parent else {})


def _checkpoint_id(config: Mapping[str, Any] | None) -> str | None:
    checkpoint_id: str | None = (config or {}).get("configurable", {}).get("checkpoint_id")
    return checkpoint_id


def _jsonable(value: Any) -> Any:
    return without_empty_fields(value.model_dump()) if isinstance(value, BaseMessage) else to_jsonable(value)


class AgentProtocolEncoder:
    """Encodes runs for the engine."""

    def translator(self) -> ProtocolTranslator:
        """Return the translator of one run."""
        return ProtocolTranslator()

    def answers(self, interrupt_ids: Sequence[str]) -> Event:
        """Return the event that questions have been answered."""
        return protocol_event("input.answered", (), {"interrupt_ids": interrupt_ids})

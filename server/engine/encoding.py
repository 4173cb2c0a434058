"""Events of LangGraph's REST API made from the chunks that graphs stream."""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, Self

from langchain_core.messages import (
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START, TAG_HIDDEN, TAG_NOSTREAM
from langgraph.pregel import Pregel
from langgraph.types import Interrupt, Send, StateSnapshot

from callsheet.providers.tool_calls import merge_messages
from callsheet.server.engine.json_values import dumps, to_jsonable

MODES: Final = (
    *("values", "updates", "custom", "messages", "messages-tuple"),
    *("events", "debug", "tasks", "checkpoints", "tools"),
)
"""Stream modes that a client may request."""
_TOOL_EVENTS: Final = {
    "tool-started": ("on_tool_start", "input", "input"),
    "tool-output-delta": ("on_tool_event", "delta", "data"),
    "tool-finished": ("on_tool_end", "output", "output"),
    "tool-error": ("on_tool_error", "message", "error"),
}
"""LangGraph's tool events: the clients' event name, the clients' field, LangGraph's field."""
_UPDATES: Final = "updates"
Event = tuple[str, bytes]
"""Name and JSON."""


class ValuesEvent(Event):
    """Event of a graph's values, which are not copied: they may be those of a checkpoint."""

    values: Mapping[str, Any]

    def __new__(cls, name: str, values: Mapping[str, Any]) -> Self:
        """Return the event, with the values as JSON."""
        event = super().__new__(cls, (name, dumps(values)))
        event.values = values
        return event


def sha256_of(value: object) -> str:
    """Return the SHA-256 of the value's JSON, in hex."""
    return hashlib.sha256(dumps(value)).hexdigest()


@to_jsonable.register
def _(value: Interrupt) -> Any:
    return {"value": value.value, "id": value.id, "response_schema": getattr(value, "response_schema", None)}


@to_jsonable.register
def _(value: Send) -> Any:
    return {"node": value.node, "input": value.arg}


class StreamTranslator(Protocol):
    """Translator of one run's chunks to events."""

    finished: bool
    """True if the graph is known to have ended without an interrupt."""

    def stream(
        self, graph: Pregel[Any, Any], given: Any, config: Any, **options: Any
    ) -> AsyncGenerator[list[Event], None]:
        """Run the graph, and yield its events in batches."""
        ...

    def closing_events(self, state: StateSnapshot) -> list[Event]:
        """Return the events that end the run, made from its last state."""
        ...


class ProtocolEncoder(Protocol):
    """Encoder of LangGraph's second wire, whose format the engine does not know."""

    def translator(self) -> StreamTranslator:
        """Return the translator of one run."""
        ...

    def answers(self, interrupt_ids: Sequence[str]) -> Event:
        """Return the event that questions have been answered."""
        ...


class EventTranslator:
    """Translates the chunks of one run into events; accumulates the messages that are streamed."""

    def __init__(self, modes: Sequence[str], *, subgraphs: bool) -> None:
        self._requested = tuple(dict.fromkeys(modes))
        self._subgraphs = subgraphs
        self._messages: dict[str, BaseMessage] = {}
        self._metadata: dict[str, Mapping[str, Any]] = {}
        """Metadata of the streamed messages by id."""
        self._tools: dict[str, str] = {}
        """Names of tools by call id."""
        self._last_values: Mapping[str, Any] = {}
        """Values that the graph streamed last."""
        self.finished = False
        """True if the graph is known to have ended without an interrupt."""

    @property
    def modes(self) -> list[str]:
        """Modes to request from LangGraph; `updates` shows every interrupt."""
        requested = ["messages" if mode == "messages-tuple" else mode for mode in self._requested]
        return [mode for mode in dict.fromkeys([*requested, _UPDATES]) if mode != "events"]

    def events(self, chunk: Any) -> list[Event]:
        """Return the events of one chunk, `(namespace, mode, data)`."""
        namespace, mode, data = chunk if self._subgraphs else ((), *chunk)
        if mode == "messages":
            named = self._message(data)
        elif mode == "tools":
            named = [("tools", self._tool_event(data))]
        elif mode in self._requested:
            if mode == "values" and not namespace and isinstance(data, Mapping):
                self._last_values = data
            named = [(mode, _public_checkpoint(data) if mode in {"debug", "checkpoints"} else data)]
        else:
            named = []
        if mode == _UPDATES:
            named = [*self._removals(data), *named]
        place = "|".join(("", *namespace))
        # As LangGraph's server: accumulated messages are named without their namespace.
        return [
            ValuesEvent(name + place, value)
            if mode == name == "values" and isinstance(value, Mapping)
            else (name if "/" in name else name + place, dumps(value))
            for name, value in named
        ]

    async def stream(
        self, graph: Any, given: Any, config: Any, **options: Any
    ) -> AsyncGenerator[list[Event], None]:
        """Run the graph and yield its events."""
        options |= {"stream_mode": self.modes, "subgraphs": self._subgraphs}
        if "events" not in self._requested:
            paused = False
            async for chunk in graph.astream(given, config, **options):
                paused = paused or _is_pause(chunk)
                yield self.events(chunk)
            self.finished = not paused and not _may_interrupt_silently(graph, config)
            return
        root = None
        async for item in graph.astream_events(given, config, version="v2", **options):
            root = root or item["run_id"]
            if item["event"] == "on_chain_stream" and item["run_id"] == root:
                yield self.events(item["data"]["chunk"])
            elif TAG_NOSTREAM not in item.get("tags", ()):
                # LangGraph keeps a hidden call's words out of messages alone.
                yield [("events", dumps(item))]

    def closing_events(self, state: StateSnapshot) -> list[Event]:
        """Return the values with the pending interrupts, if the graph's last values had none.

        LangGraph ends a run with plain values if a task of its last step has ended and others wait.
        """
        pending = [each for task in state.tasks if task.result is None for each in task.interrupts]
        if not pending or "__interrupt__" in self._last_values or "values" not in self._requested:
            return []
        # The state may lack what the tasks beside an interrupted one have written.
        values = {**(state.values if isinstance(state.values, Mapping) else {}), **self._last_values}
        return [ValuesEvent("values", {**values, "__interrupt__": pending})]

    def _tool_event(self, data: Mapping[str, Any]) -> dict[str, Any]:
        call = data["tool_call_id"]
        name = self._tools.setdefault(call, data.get("tool_name", ""))
        event, field, target = _TOOL_EVENTS[data["event"]]
        return {"event": event, "toolCallId": call, "name": name, target: data.get(field)}

    def _message(self, data: tuple[BaseMessage, dict[str, Any]]) -> list[tuple[str, Any]]:
        message, metadata = data
        identity = message.id or ""
        self._metadata[identity] = metadata
        if "messages-tuple" in self._requested:
            return [("messages", [message, metadata])]
        before = self._messages.get(identity)
        named: list[tuple[str, Any]] = []
        if before is None:
            named.append(("messages/metadata", {identity: {"metadata": metadata}}))
        if not isinstance(message, BaseMessageChunk):
            self._messages[identity] = message
            return [*named, ("messages/complete", [message])]
        merged = _merge(before, message)
        self._messages[identity] = merged
        return [*named, ("messages/partial", [message_chunk_to_message(merged)])]

    def _removals(self, update: Any) -> Iterator[tuple[str, Any]]:
        """Yield the messages that a node removes of those streamed: LangGraph streams each id once."""
        of_nodes = update.values() if isinstance(update, Mapping) else ()
        messages = [
            each for one in of_nodes if isinstance(one, Mapping) for each in one.get("messages") or ()
        ]
        for one in messages:
            if isinstance(one, RemoveMessage) and (metadata := self._metadata.pop(str(one.id), None)):
                if "messages-tuple" in self._requested:
                    yield "messages", [one, metadata]
                else:
                    yield "messages/complete", [one]


def _merge(before: BaseMessage | None, piece: BaseMessageChunk) -> BaseMessage:
    """Return a streamed message with its next piece, whose calls LangChain would read again and again."""
    if isinstance(before, AIMessageChunk) and isinstance(piece, AIMessageChunk):
        return merge_messages(before, piece)
    return before + piece if isinstance(before, BaseMessageChunk) else piece


def _is_pause(chunk: tuple[Any, ...]) -> bool:
    """Return True if a chunk, `(mode, data)` with or without a namespace, is an interrupt."""
    mode, data = chunk[-2:]
    return mode == _UPDATES and "__interrupt__" in data


def _may_interrupt_silently(graph: Pregel[Any, Any], config: RunnableConfig) -> bool:
    """Return True if a hidden node may interrupt: LangGraph does not stream that."""
    hidden = (node.tags or () for name, node in graph.nodes.items() if name != START)
    return any(TAG_HIDDEN in tags for tags in (config.get("tags") or (), *hidden))


def _public_checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a debug chunk with public configs and checkpoint references, without internal keys."""
    if "payload" in data:
        return (
            {**data, "payload": _with_task_checkpoints(_public_checkpoint(data["payload"]))}
            if data.get("type") == "checkpoint"
            else dict(data)
        )
    config, parent = data.get("config"), data.get("parent_config")
    return {
        **data,
        "config": public_config(config),
        "parent_config": public_config(parent),
        "checkpoint": _checkpoint_ref(config),
        "parent_checkpoint": _checkpoint_ref(parent),
    }


def _with_task_checkpoints(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's payload with the checkpoints of its tasks' subgraphs instead of their configs."""
    tasks = []
    for task in payload.get("tasks", ()):
        chosen = (task.get("state") or {}).get("configurable")
        named = {name: one for name, one in task.items() if name != "state" or not chosen}
        tasks.append(named | ({"checkpoint": chosen} if chosen else {}))
    return {**payload, "tasks": tasks}


def public_config(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a config without the keys that start with two underscores."""
    if config is None:
        return None
    chosen = {name: value for name, value in config.get("configurable", {}).items() if name[:2] != "__"}
    return {"configurable": chosen}


def _checkpoint_ref(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    chosen = (config or {}).get("configurable", {})
    if not chosen.get("checkpoint_id"):
        return None
    reference = {
        "checkpoint_id": chosen["checkpoint_id"],
        "thread_id": chosen.get("thread_id"),
        "checkpoint_ns": chosen.get("checkpoint_ns", ""),
    }
    inside = chosen.get("checkpoint_map") if reference["checkpoint_ns"] else None
    return reference | ({"checkpoint_map": inside} if inside else {})

"""What graphs stream, as events of LangGraph's wire: names and JSON."""

import hashlib
import json
from collections import abc
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from enum import Enum
from functools import singledispatch
from typing import Any, Final, cast

import orjson
from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START, TAG_HIDDEN
from langgraph.pregel import Pregel
from langgraph.types import Interrupt, Send, StateSnapshot
from pydantic import BaseModel

MODES: Final = (
    *("values", "updates", "custom", "messages", "messages-tuple"),
    *("events", "debug", "tasks", "checkpoints", "tools"),
)
"""The stream modes a client may ask for."""
_CALLS: Final = {
    "tool-started": ("on_tool_start", "input", "input"),
    "tool-output-delta": ("on_tool_event", "delta", "data"),
    "tool-finished": ("on_tool_end", "output", "output"),
    "tool-error": ("on_tool_error", "message", "error"),
}
"""What LangGraph tells of a call of a tool: as which event its clients know it, and a field by their name."""
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
_UPDATES: Final = "updates"
Event = tuple[str, bytes]
"""Name and JSON."""


def dumps(value: object, unknown: Callable[[Any], Any] | None = None) -> bytes:
    """Return `value` as JSON, broken characters as escapes.

    What JSON has no word for is what `unknown` makes of it; unless given, what stands for it, else text.
    """
    try:
        return orjson.dumps(value, default=unknown or to_jsonable, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=unknown or to_jsonable, skipkeys=True).encode()


def sha256_of(value: object) -> str:
    """Return what tells a value from others: the SHA-256 of its JSON, in hex."""
    return hashlib.sha256(dumps(value)).hexdigest()


@singledispatch
def to_jsonable(value: Any) -> Any:
    """Return what stands for a value that JSON does not know."""
    fields = getattr(value, "__dataclass_fields__", None)
    return {name: getattr(value, name) for name in fields} if fields else str(value)


@to_jsonable.register
def _(value: Interrupt) -> Any:
    return {"value": value.value, "id": value.id, "response_schema": getattr(value, "response_schema", None)}


@to_jsonable.register
def _(value: BaseModel) -> Any:
    return value.model_dump()


@to_jsonable.register
def _(value: Send) -> Any:
    return {"node": value.node, "input": value.arg}


@to_jsonable.register
def _(value: BaseException) -> Any:
    return {"error": type(value).__name__, "message": str(value)}


@to_jsonable.register
def _(value: Enum) -> Any:
    return value.value


@to_jsonable.register
def _(value: bytes) -> Any:
    return value.decode("utf-8", "replace")


# Subclasses, which orjson passes on.


@to_jsonable.register
def _(value: str) -> Any:
    return str.__str__(value)


@to_jsonable.register
def _(value: int) -> Any:
    return int(value)


@to_jsonable.register(abc.Mapping)
def _(value: Mapping[Any, Any]) -> Any:
    return dict(value)


@to_jsonable.register(abc.Set)
@to_jsonable.register(abc.Sequence)
def _(value: abc.Collection[Any]) -> Any:
    return list(value)


class EventTranslator:
    """Turns one run's chunks into events; remembers the messages it saw the beginning of."""

    def __init__(self, modes: Sequence[str], *, subgraphs: bool) -> None:
        self._asked = tuple(dict.fromkeys(modes))
        self._subgraphs = subgraphs
        self._messages: dict[str, BaseMessage] = {}
        self._tools: dict[str, str] = {}
        """Names by the ids of the calls that have begun."""
        self.finished = False
        """Whether the graph is known to have come to its end, and to ask nothing."""

    @property
    def modes(self) -> list[str]:
        """The modes to ask LangGraph for; `updates` tell of every pause."""
        asked = ["messages" if mode == "messages-tuple" else mode for mode in self._asked]
        return [mode for mode in dict.fromkeys([*asked, _UPDATES]) if mode != "events"]

    def events(self, chunk: Any) -> list[Event]:
        """Return the events of one chunk, `(namespace, mode, data)`."""
        namespace, mode, data = chunk if self._subgraphs else ((), *chunk)
        if mode == "messages":
            named = self._message(data)
        elif mode == "tools":
            named = [("tools", self._call(data))]
        elif mode in self._asked:
            named = [(mode, _public(data) if mode in {"debug", "checkpoints"} else data)]
        else:
            named = []
        place = "|".join(("", *namespace))
        return [(name + place, dumps(value)) for name, value in named]

    async def stream(
        self, graph: Any, given: Any, config: Any, **options: Any
    ) -> AsyncGenerator[list[Event], None]:
        """Run the graph and yield its events as they come."""
        options |= {"stream_mode": self.modes, "subgraphs": self._subgraphs}
        if "events" not in self._asked:
            paused = False
            async for chunk in graph.astream(given, config, **options):
                paused = paused or _pauses(chunk)
                yield self.events(chunk)
            self.finished = not paused and not _hides(graph, config)
            return
        root = None
        async for item in graph.astream_events(given, config, version="v2", **options):
            root = root or item["run_id"]
            if item["event"] == "on_chain_stream" and item["run_id"] == root:
                yield self.events(item["data"]["chunk"])
            else:
                yield [("events", dumps(item))]

    def closing_events(self, state: StateSnapshot) -> list[Event]:
        """Return what is told once the graph has stopped: nothing more."""
        del self, state
        return []

    def _call(self, data: Mapping[str, Any]) -> dict[str, Any]:
        call = data["tool_call_id"]
        name = self._tools.setdefault(call, data.get("tool_name", ""))
        event, field, told = _CALLS[data["event"]]
        return {"event": event, "toolCallId": call, "name": name, told: data.get(field)}

    def _message(self, data: tuple[BaseMessage, dict[str, Any]]) -> list[tuple[str, Any]]:
        message, metadata = data
        if "messages-tuple" in self._asked:
            return [("messages", [message, metadata])]
        identity = message.id or ""
        before = self._messages.get(identity)
        named: list[tuple[str, Any]] = []
        if before is None:
            named.append(("messages/metadata", {identity: {"metadata": metadata}}))
        if not isinstance(message, BaseMessageChunk):
            self._messages[identity] = message
            return [*named, ("messages/complete", [message])]
        whole = before + message if isinstance(before, BaseMessageChunk) else message
        self._messages[identity] = cast("BaseMessage", whole)
        return [*named, ("messages/partial", [message_chunk_to_message(whole)])]


def _pauses(chunk: tuple[Any, ...]) -> bool:
    """Whether a chunk, `(mode, data)` or with its namespace first, tells of a stop before the end."""
    mode, data = chunk[-2:]
    return mode == _UPDATES and "__interrupt__" in data


def _hides(graph: Pregel[Any, Any], config: RunnableConfig) -> bool:
    """Whether the graph may stop without telling: what is hidden may ask a person, and nobody is told."""
    hidden = (node.tags or () for name, node in graph.nodes.items() if name != START)
    return any(TAG_HIDDEN in tags for tags in (config.get("tags") or (), *hidden))


def _public(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a debugger is told of a checkpoint: where it is in LangGraph's words too, and nothing internal."""
    if "payload" in data:
        return (
            {**data, "payload": _public(data["payload"])} if data.get("type") == "checkpoint" else dict(data)
        )
    config, parent = data.get("config"), data.get("parent_config")
    return {
        **data,
        "config": public_config(config),
        "parent_config": public_config(parent),
        "checkpoint": _place(config),
        "parent_checkpoint": _place(parent),
    }


def public_config(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a config without what is between the server and its nodes."""
    if config is None:
        return None
    chosen = {name: value for name, value in config.get("configurable", {}).items() if name[:2] != "__"}
    return {"configurable": chosen}


def _place(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    chosen = (config or {}).get("configurable", {})
    if not chosen.get("checkpoint_id"):
        return None
    return {
        "checkpoint_id": chosen["checkpoint_id"],
        "thread_id": chosen.get("thread_id"),
        "checkpoint_ns": chosen.get("checkpoint_ns", ""),
    }

"""LangGraph's objects as JSON: messages, states, threads, runs and assistants, as its clients expect them."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt, PregelTask, StateSnapshot
from starlette.responses import Response

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY
from callsheet.storage.assistants import Assistant
from callsheet.storage.checkpoints.maintenance import Size
from callsheet.storage.runs.records import Run
from callsheet.storage.threads.records import ThreadRecord

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS
_POINTER: Final = ("checkpoint_id", "thread_id", "checkpoint_ns", "checkpoint_map")
_INTERNAL: Final = frozenset({OWNER_KEY, EPOCH_KEY})


class WireJsonReply(Response):
    """JSON; whatever a state may hold has a form."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON text; a number JSON has no word for becomes null."""
        return encode_wire_json(content)


def encode_wire_json(value: Any) -> bytes:
    """Return any value as JSON; what several places of it share is spelt once.

    In a thread's history every state has the messages of all before it.
    """
    spelt: dict[int, tuple[Any, orjson.Fragment]] = {}

    def shared(one: Any) -> Any:
        if not isinstance(one, BaseMessage):
            return _plain(one)
        if id(one) not in spelt:
            text = orjson.dumps(one.model_dump(), _plain, _OPTIONS)
            # The message is kept with its text, so that no other gets its identity meanwhile.
            spelt[id(one)] = (one, orjson.Fragment(text))
        return spelt[id(one)][1]

    try:
        return orjson.dumps(value, shared, _OPTIONS)
    except TypeError:
        # Integers beyond 64 bits, half a surrogate pair, or hundreds of levels.
        return json.dumps(_tree(value)).encode()


def to_json_value(value: Any) -> Any:
    """Return a value as a reader of its JSON has it."""
    return json.loads(encode_wire_json(value))


def _plain(value: Any) -> Any:
    """What orjson does not know by itself, in terms of what it does."""
    for attribute in ("model_dump", "to_dict"):
        if callable(method := getattr(value, attribute, None)) and not isinstance(value, type):
            return method()
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value)}
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _tree(value: Any) -> Any:
    """The same in objects, lists, texts, numbers and nothing else."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _tree(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_tree(one) for one in value]
    try:
        # What orjson has a word of its own for: times, identities, data classes.
        return orjson.loads(orjson.dumps(value, option=_OPTIONS))
    except TypeError:
        return _tree(_plain(value))


def iso_time(ms: int) -> str:
    """Return milliseconds of the epoch as the wire writes times."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="microseconds")


def select_fields(told: Mapping[str, Any], names: Sequence[str] | None) -> Mapping[str, Any]:
    """Return what a caller selected of an object; `values.messages` is one value; nothing chosen is all."""
    if not names:
        return told
    found: dict[str, Any] = {}
    for name in names:
        whole, _, part = name.partition(".")
        if whole not in told:
            continue
        if not part:
            found[whole] = told[whole]
        elif isinstance(told[whole], Mapping) and part in told[whole]:
            found.setdefault(whole, {})[part] = told[whole][part]
    return found


def assistant_view(one: Assistant) -> dict[str, Any]:
    """Return an assistant."""
    names = ("assistant_id", "graph_id", "config", "context", "metadata", "name")
    told = {name: getattr(one, name) for name in names}
    return told | {
        "created_at": one.created_at,
        "updated_at": one.updated_at,
        "version": one.version,
        "description": one.description,
    }


def thread_view(record: ThreadRecord, values: Any) -> dict[str, Any]:
    """Return a thread with the values of its newest state."""
    return {
        "thread_id": record.id,
        "created_at": iso_time(record.created_ms),
        "updated_at": iso_time(record.updated_ms),
        "state_updated_at": iso_time(record.state_updated_ms),
        "metadata": record.metadata,
        "status": record.status,
        "config": record.config,
        "values": values,
        "error": record.error,
        "interrupts": record.interrupts,
    }


def lifetime_view(record: ThreadRecord) -> dict[str, Any] | None:
    """Return how long a thread has, or None for one that stays."""
    if not record.ttl or record.expires_ms is None:
        return None
    return {
        "strategy": record.ttl["strategy"],
        "ttl_minutes": record.ttl["ttl"],
        "expires_at": iso_time(record.expires_ms),
    }


def size_view(thread_id: str, found: Size) -> dict[str, Any]:
    """Return what a thread takes up."""
    channels = {name: {"versions": n, "bytes": taken} for name, (n, taken) in found.channels.items()}
    versions = sum(one["versions"] for one in channels.values())
    values = found.elements + sum(one["bytes"] for one in channels.values())
    return {
        "thread_id": thread_id,
        "total_bytes": found.checkpoints[1] + values + found.writes[1],
        "checkpoints": {"count": found.checkpoints[0], "bytes": found.checkpoints[1]},
        "channel_values": {"count": versions, "bytes": values, "by_channel": channels},
        "pending_writes": {"count": found.writes[0], "bytes": found.writes[1]},
    }


def state_view(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return a state; what a thread without one has is nulls and empty lists."""
    here = _pointer(snapshot.config) if snapshot.created_at else None
    parent = _pointer(snapshot.parent_config)
    metadata = snapshot.metadata and {k: v for k, v in snapshot.metadata.items() if k not in _INTERNAL}
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "tasks": [_task(one) for one in snapshot.tasks],
        "metadata": metadata,
        "created_at": snapshot.created_at,
        "checkpoint": here,
        "parent_checkpoint": parent,
        "interrupts": [interrupt_view(one) for one in snapshot.interrupts],
        "checkpoint_id": here and here.get("checkpoint_id"),
        "parent_checkpoint_id": parent and parent.get("checkpoint_id"),
    }


def interrupt_view(one: Interrupt[Any]) -> dict[str, Any]:
    """Return a question to a person."""
    told = {"id": one.id, "value": one.value}
    return told if one.response_schema is None else told | {"response_schema": one.response_schema}


def interrupts_view(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return the questions of a state by task id, as a thread shows them."""
    asked = {task.id: [interrupt_view(one) for one in task.interrupts] for task in snapshot.tasks}
    return {name: found for name, found in asked.items() if found}


def _task(task: PregelTask) -> dict[str, Any]:
    nested = isinstance(task.state, StateSnapshot)
    return {
        "id": task.id,
        "name": task.name,
        "path": task.path,
        "error": None if task.error is None else str(task.error),
        "interrupts": [interrupt_view(one) for one in task.interrupts],
        "checkpoint": None if nested else _pointer(task.state),
        "state": state_view(task.state) if isinstance(task.state, StateSnapshot) else None,
        "result": task.result,
    }


def _pointer(config: Any) -> dict[str, Any] | None:
    """The checkpoint a config names."""
    chosen = config.get("configurable", {}) if config else None
    return chosen and {name: chosen[name] for name in _POINTER if name in chosen}


_SAME: Final = (
    *("input", "command", "stream_mode", "interrupt_before", "interrupt_after"),
    *("webhook", "subgraphs", "resumable"),
)


def run_view(run: Run) -> dict[str, Any]:
    """Return a run."""
    return {
        "run_id": run.id,
        "thread_id": run.thread,
        "assistant_id": run.assistant,
        "metadata": run.metadata,
        "status": run.status,
        "kwargs": _asked(run),
        "multitask_strategy": run.strategy,
        "created_at": iso_time(run.created_ms),
        "updated_at": iso_time(run.updated_ms),
        "langsmith_session_name": None,
    }


def _asked(run: Run) -> dict[str, Any]:
    asked = run.request
    named = {
        "run_id": run.id,
        "thread_id": run.thread,
        "graph_id": run.graph,
        "assistant_id": run.assistant,
    }
    config = {**asked["config"], "metadata": run.metadata}
    config["configurable"] = {**config.get("configurable", {}), **(asked["checkpoint"] or {}), **named}
    return {name: asked[name] for name in _SAME} | {
        "config": config,
        "context": asked["context"] or {},
        "feedback_keys": asked.get("feedback_keys"),
        "temporary": run.is_stateless,
        "checkpoint_during": True,
        "durability": "sync",
    }

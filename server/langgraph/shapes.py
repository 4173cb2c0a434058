"""JSON views of LangGraph's objects (states, threads, runs, assistants), as its clients expect them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY
from callsheet.server.engine.json_values import dumps, to_jsonable
from callsheet.state.times import iso_time
from callsheet.storage.assistants import Assistant
from callsheet.storage.checkpoints.maintenance import Size
from callsheet.storage.runs.records import Run
from callsheet.storage.threads.threads import Thread

JsonObject = dict[str, Any]
_CHECKPOINT_FIELDS: Final = ("checkpoint_id", "thread_id", "checkpoint_ns", "checkpoint_map")
_INTERNAL: Final = frozenset({OWNER_KEY, EPOCH_KEY})


class MessageEncoder:
    """Converts values that JSON lacks, each message once: a state of a history repeats those before it."""

    def __init__(self) -> None:
        self._encoded: dict[int, tuple[BaseMessage, orjson.Fragment]] = {}
        """Messages with their JSON, by their `id()`: the reference keeps any other object from that id."""

    def __call__(self, value: Any) -> Any:
        """Return what stands for the value."""
        if not isinstance(value, BaseMessage):
            return to_jsonable(value)
        if id(value) not in self._encoded:
            self._encoded[id(value)] = (value, orjson.Fragment(dumps(value.model_dump())))
        return self._encoded[id(value)][1]


def to_json_value(value: Any) -> Any:
    """Return a value as a client has it after decoding its JSON."""
    return json.loads(dumps(value))


def wire_time(ms: int) -> str:
    """Return milliseconds since 1970 in the wire's time format."""
    return iso_time(ms, "microseconds")


def select_fields(view: Mapping[str, Any], names: Sequence[str] | None) -> Mapping[str, Any]:
    """Return the chosen fields of a view; `values.messages` chooses one value, no names choose all."""
    if not names:
        return view
    selected: JsonObject = {}
    for name in names:
        field, _, part = name.partition(".")
        if field not in view:
            continue
        if not part:
            selected[field] = view[field]
        elif isinstance(view[field], Mapping) and part in view[field]:
            selected.setdefault(field, {})[part] = view[field][part]
    return selected


def assistant_view(assistant: Assistant) -> JsonObject:
    """Return the JSON view of an assistant."""
    names = (
        *("assistant_id", "graph_id", "config", "context", "metadata", "name"),
        *("created_at", "updated_at", "version", "description"),
    )
    return {name: getattr(assistant, name) for name in names}


def thread_view(record: Thread, values: Any) -> JsonObject:
    """Return the JSON view of a thread with the values of its newest state."""
    return {
        "thread_id": record.id,
        "created_at": wire_time(record.created_ms),
        "updated_at": wire_time(record.updated_ms),
        "state_updated_at": wire_time(record.state_updated_ms),
        "metadata": record.metadata,
        "status": record.status,
        "config": record.config,
        "values": values,
        "error": record.error,
        "interrupts": record.interrupts,
    }


def lifetime_view(record: Thread) -> JsonObject | None:
    """Return the JSON view of a thread's time to live; None for a thread that never expires."""
    if not record.ttl or record.expires_ms is None:
        return None
    return {
        "strategy": record.ttl["strategy"],
        "ttl_minutes": record.ttl["ttl"],
        "expires_at": wire_time(record.expires_ms),
    }


def size_view(thread_id: str, size: Size) -> JsonObject:
    """Return the JSON view of a thread's size in storage."""
    channels = {name: {"versions": n, "bytes": n_bytes} for name, (n, n_bytes) in size.channels.items()}
    values = size.elements + sum(channel["bytes"] for channel in channels.values())
    versions = sum(channel["versions"] for channel in channels.values())
    return {
        "thread_id": thread_id,
        "total_bytes": size.checkpoints[1] + values + size.writes[1],
        "checkpoints": {"count": size.checkpoints[0], "bytes": size.checkpoints[1]},
        "channel_values": {"count": versions, "bytes": values, "by_channel": channels},
        "pending_writes": {"count": size.writes[0], "bytes": size.writes[1]},
    }


def state_view(snapshot: StateSnapshot) -> JsonObject:
    """Return the JSON view of a state; a thread without one has nulls and empty lists."""
    checkpoint = _checkpoint_view(snapshot.config) if snapshot.created_at else None
    parent = _checkpoint_view(snapshot.parent_config)
    metadata = snapshot.metadata and {k: v for k, v in snapshot.metadata.items() if k not in _INTERNAL}
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "tasks": [_task_view(task) for task in snapshot.tasks],
        "metadata": metadata,
        "created_at": snapshot.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [interrupt_view(interrupt) for interrupt in snapshot.interrupts],
        "checkpoint_id": checkpoint and checkpoint.get("checkpoint_id"),
        "parent_checkpoint_id": parent and parent.get("checkpoint_id"),
    }


def past_state_view(
    snapshot: StateSnapshot, reason: str, names: Sequence[str] | None = None
) -> Mapping[str, Any]:
    """Return the chosen fields of a state, and `error` with the reason if it cannot be built."""
    view = select_fields(state_view(snapshot), names)
    return {**view, "error": reason} if reason else view


def interrupt_view(interrupt: Interrupt[Any]) -> JsonObject:
    """Return the JSON view of an interrupt."""
    view = {"id": interrupt.id, "value": interrupt.value}
    schema = interrupt.response_schema
    return view if schema is None else view | {"response_schema": schema}


def interrupts_view(snapshot: StateSnapshot) -> JsonObject:
    """Return the interrupts of a state by task id."""
    return {
        task.id: [interrupt_view(interrupt) for interrupt in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }


def _task_view(task: PregelTask) -> JsonObject:
    nested = isinstance(task.state, StateSnapshot)
    return {
        "id": task.id,
        "name": task.name,
        "path": task.path,
        "error": None if task.error is None else str(task.error),
        "interrupts": [interrupt_view(interrupt) for interrupt in task.interrupts],
        "checkpoint": None if nested else _checkpoint_view(task.state),
        "state": state_view(task.state) if isinstance(task.state, StateSnapshot) else None,
        "result": task.result,
    }


def _checkpoint_view(config: Any) -> JsonObject | None:
    configurable = config.get("configurable", {}) if config else None
    return configurable and {name: configurable[name] for name in _CHECKPOINT_FIELDS if name in configurable}


_REQUEST_FIELDS: Final = (
    *("input", "command", "stream_mode", "interrupt_before", "interrupt_after"),
    *("webhook", "subgraphs", "resumable"),
)


RUN_FIELDS: Final = (
    *("run_id", "thread_id", "assistant_id", "metadata", "status", "kwargs"),
    *("multitask_strategy", "created_at", "updated_at", "langsmith_session_name"),
)
"""Fields of a run's view."""


def run_view(run: Run) -> JsonObject:
    """Return the JSON view of a run."""
    return {
        "run_id": run.id,
        "thread_id": run.thread,
        "assistant_id": run.assistant,
        "metadata": run.metadata,
        "status": run.status,
        "kwargs": _run_kwargs(run),
        "multitask_strategy": run.strategy,
        "created_at": wire_time(run.created_ms),
        "updated_at": wire_time(run.updated_ms),
        "langsmith_session_name": None,
    }


def _run_kwargs(run: Run) -> JsonObject:
    request = run.request
    ids = {"run_id": run.id, "thread_id": run.thread, "graph_id": run.graph, "assistant_id": run.assistant}
    config = {**request["config"], "metadata": run.metadata}
    config["configurable"] = {**config.get("configurable", {}), **(request["checkpoint"] or {}), **ids}
    return {name: request[name] for name in _REQUEST_FIELDS} | {
        "config": config,
        "context": request["context"] or {},
        "feedback_keys": request.get("feedback_keys"),
        "temporary": run.is_stateless,
        "checkpoint_during": True,
        "durability": "sync",
    }

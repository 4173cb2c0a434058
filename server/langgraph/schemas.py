"""Requests and replies of the LangGraph wire."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from urllib.parse import urlsplit

import orjson
from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt, PregelTask, StateSnapshot
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from typing_extensions import TypeAliasType

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY, RESUMES_KEY
from callsheet.server.engine.json_values import dumps, to_jsonable
from callsheet.server.http.auth import public_config
from callsheet.server.http.configurable_headers import passed_headers
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import Flag, Integer, Number
from callsheet.state.errors import Invalid, Refused
from callsheet.state.times import iso_time
from callsheet.storage.assistants import Assistant
from callsheet.storage.checkpoints.maintenance import Size
from callsheet.storage.runs.records import Run, RunRequest, Strategy, request_fields
from callsheet.storage.threads.threads import Thread

_CONFIG: Final[dict[str, Any]] = {
    "type": "object",
    "description": "LangGraph's config. `configurable` and `metadata` are free, and so are further fields",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string"}},
        "recursion_limit": {"type": "integer"},
        "max_concurrency": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "configurable": {"type": "object", "additionalProperties": True},
        "metadata": {"type": "object", "additionalProperties": True},
    },
    "additionalProperties": True,
}
_CHECKPOINT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Names a checkpoint; further fields are ignored",
    "properties": {
        "checkpoint_id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "checkpoint_ns": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "checkpoint_map": {
            "anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "null"}]
        },
    },
    "additionalProperties": True,
}
JsonObject = dict[str, Any]
Config = TypeAliasType("Config", Annotated[JsonObject, WithJsonSchema(_CONFIG)])
"""LangGraph's config, with fields of its own."""
CheckpointName = TypeAliasType("CheckpointName", Annotated[JsonObject, WithJsonSchema(_CHECKPOINT)])
"""Fields that name a checkpoint; further ones are ignored."""
_CHECKPOINT_FIELDS: Final = ("checkpoint_id", "thread_id", "checkpoint_ns", "checkpoint_map")
_INTERNAL: Final = frozenset({OWNER_KEY, EPOCH_KEY, RESUMES_KEY})


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
    thread = {"thread_id": snapshot.config["configurable"].get("thread_id")} if snapshot.created_at else {}
    metadata = snapshot.metadata and {
        **{name: value for name, value in snapshot.metadata.items() if name not in _INTERNAL},
        **thread,
    }
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


_Item = TypeVar("_Item")
Responses = dict[int | str, JsonObject]
_NULL: Final = {"type": "null"}
CHECKPOINT_FIELDS: Final = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
_MOVED: Final = ("title", "description", "default")


def read_responses(reply: object, *errors: int) -> Responses:
    """Return the OpenAPI responses of a route that reads: its reply, the usual errors, and `errors`."""
    return documented_wire_responses(403, 404, 422, 500, 503, 504, *errors, reply=reply)


def write_responses(reply: object) -> Responses:
    """Return the OpenAPI responses of a route that writes; a reply of None is status 204."""
    errors = (400, 403, 404, 409, 413, 422, 500, 503, 504)
    return documented_wire_responses(*errors, reply=reply, status=204 if reply is None else 200)


def _allow_null(schema: JsonObject) -> None:
    """Document that every optional field may be null."""
    for name, one in schema.get("properties", {}).items():
        if name not in schema.get("required", ()) and _NULL not in one.get("anyOf", ()):
            notes = {key: one.pop(key) for key in _MOVED if key in one}
            schema["properties"][name] = {"anyOf": [one, _NULL], **notes}


class Body(BaseModel):
    """Request body in which null means the same as a missing field. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_allow_null)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


class ListPage(Body):
    """Part of a list."""

    limit: Integer = Field(10, ge=1, le=1_000)
    offset: Integer = Field(0, ge=0, le=10_000_000)

    def cut(self, items: Sequence[_Item]) -> Sequence[_Item]:
        """Return the items of this page, and one more if there is a next page."""
        return items[self.offset : self.offset + self.limit + 1]


def checkpoint_fields(checkpoint: Any) -> JsonObject:
    """Return the fields that name a checkpoint, without other fields and empty ones; raises `Invalid`."""
    if not isinstance(checkpoint, Mapping):
        raise Invalid(f"checkpoint {checkpoint!r:.40} is not an object", remedy="send its checkpoint_id")
    fields = {name: checkpoint[name] for name in CHECKPOINT_FIELDS if checkpoint.get(name)}
    branches = fields.get("checkpoint_map", {})
    names = [fields.get(name, "") for name in CHECKPOINT_FIELDS[:2]]
    if not isinstance(branches, Mapping) or not all(
        isinstance(name, str) for name in (*names, *branches.values())
    ):
        raise Invalid("ids in 'checkpoint' must be strings", remedy="send its checkpoint_id")
    return fields


def page_reply(items: Sequence[Any], page: ListPage) -> JsonReply:
    """Return the reply with a page; `items` are as `Page.cut` returns them.

    `X-Pagination-Total` is, as in LangGraph's server, the number of items known so far: one more than those
    returned until now if there are more.
    """
    headers = {"X-Pagination-Total": str(page.offset + len(items))}
    if len(items) > page.limit:
        headers["X-Pagination-Next"] = str(page.offset + page.limit)
    return JsonReply(items[: page.limit], headers=headers)


def contains(value: Any, expected: Any) -> bool:
    """Return whether `value` contains `expected` at every level, like PostgreSQL's `@>`.

    An `expected` of None is contained in everything.
    """
    if expected is None:
        return True
    if not isinstance(expected, Mapping):
        return _matches(value, expected)
    return isinstance(value, Mapping) and all(
        name in value and _matches(value[name], part) for name, part in expected.items()
    )


def _matches(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        return contains(value, expected)
    if isinstance(expected, list):
        return isinstance(value, list) and all(
            any(_matches(item, part) for item in value) for part in expected
        )
    return bool(value == expected)


Mode = Literal[
    "values",
    "updates",
    "custom",
    "messages",
    "messages-tuple",
    "events",
    "debug",
    "tasks",
    "checkpoints",
    "tools",
]
_Nodes = Literal["*"] | list[str]
_MAX_DELAY_S: Final = 366 * 86_400


class RunCommand(BaseModel):
    """Command for a run, instead of an input."""

    model_config = ConfigDict(extra="ignore")

    resume: Any = Field(None, description="Value for the thread's interrupt, or values by interrupt id")
    update: Any = Field(None, description="Values to write first")
    goto: Any = Field(None, description="Next nodes: a name, {node, input}, or a list of those")


class RunCreate(BaseModel):
    """New run."""

    model_config = ConfigDict(extra="ignore")

    protocol: ClassVar[bool] = False
    """Publishes the run's events in the Agent Streaming Protocol."""
    assistant_id: str = Field(
        min_length=1, max_length=255, description="Id of an assistant, or name of a graph"
    )
    input: Any = None
    command: RunCommand | None = Field(None, description="Takes precedence over `input`")
    config: Config | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    stream_mode: Mode | list[Mode] | None = Field(None, description="`values` by default")
    stream_subgraphs: Flag | None = None
    stream_resumable: Flag | None = Field(None, description="Gives events ids to resume the stream from")
    interrupt_before: _Nodes | None = None
    interrupt_after: _Nodes | None = None
    webhook: str | None = Field(None, max_length=2_000, description="URL that gets the run when it ends")
    feedback_keys: list[str] | None = None
    checkpoint: CheckpointName | None = Field(
        None, description="Checkpoint to start from; the newest by default"
    )
    checkpoint_id: str | None = None
    checkpoint_during: Flag | None = Field(None, description="Accepted; every step is stored")
    durability: Literal["sync", "async", "exit"] | None = Field(
        None, description="Accepted; every step is stored before the next begins"
    )
    multitask_strategy: Strategy | None = Field(None, description="`enqueue` by default")
    if_not_exists: Literal["create", "reject"] | None = Field(None, description="`reject` by default")
    on_disconnect: Literal["cancel", "continue"] | None = Field(None, description="`continue` by default")
    on_completion: Literal["delete", "keep"] | None = Field(
        None, description="Deletes or keeps a stateless run's thread; `delete` by default"
    )
    after_seconds: Number | None = Field(None, ge=0, le=_MAX_DELAY_S)
    langsmith_tracer: Any = Field(None, description="Accepted and ignored")
    strict_resume: Flag | None = Field(None, description="Accepted; a resume is always strict")


class BatchRunCreate(RunCreate):
    """New run in a batch."""

    thread_id: str | None = None


@dataclass(frozen=True)
class ResumeValues:
    """Values of a resume, bound to the interrupts that they answer."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """By interrupt id."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Interrupt id to the digest of its value: a node that runs again may interrupt with another value."""


@dataclass(frozen=True)
class RunContext:
    """Parts of a run request that the server adds to the body."""

    thread: str
    run: str
    owner: str
    context_names: Collection[str]
    """Fields of the graph's context."""
    resume: ResumeValues = field(default_factory=ResumeValues)
    temporary: bool = False
    """Deletes the thread when the run ends."""


def run_request(body: RunCreate, assistant: Assistant, server: RunContext) -> RunRequest:
    """Return the request for a run; raises `Invalid` and `Refused`."""
    configurable = {**_configurable(body, assistant), **passed_headers()}
    config = {**public_config(assistant.config), **public_config(body.config or {})}
    metadata = {**assistant.metadata, **config.get("metadata", {}), **(body.metadata or {})}
    # Once more for the merged config: metadata of assistant and run must not name an owner or a run.
    config = public_config({**config, "configurable": configurable, "metadata": metadata})
    metadata = config.pop("metadata")
    modes = body.stream_mode or "values"
    context = {name: value for name, value in configurable.items() if name in server.context_names}
    request = request_fields(
        input=body.input,
        command=body.command.model_dump(exclude_unset=True) if body.command else None,
        answers=server.resume.values,
        questions=server.resume.digests,
        config=config,
        context=context | (body.context or {}),
        checkpoint=checkpoint_of(body) or None,
        stream_mode=[modes] if isinstance(modes, str) else list(modes),
        subgraphs=bool(body.stream_subgraphs),
        protocol=body.protocol,
        interrupt_before=body.interrupt_before,
        interrupt_after=body.interrupt_after,
        temporary=server.temporary,
        webhook=checked_url(body.webhook) if body.webhook else None,
        feedback_keys=body.feedback_keys,
        resumable=bool(body.stream_resumable),
    )
    return RunRequest(
        thread=server.thread,
        id=server.run,
        graph=assistant.graph_id,
        owner=server.owner,
        request=request,
        assistant=assistant.assistant_id,
        metadata=metadata | {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id},
        strategy=body.multitask_strategy or "enqueue",
        questions=tuple(f"{name}:{digest}" for name, digest in server.resume.digests.items()),
        due_ms=int((time.time() + body.after_seconds) * 1000) if body.after_seconds else 0,
    )


def checkpoint_of(body: RunCreate) -> JsonObject:
    """Return the checkpoint that a run starts from; empty for the newest. Raises `Invalid`."""
    checkpoint = checkpoint_fields({**_public_configurable(body.config), **(body.checkpoint or {})})
    return checkpoint | ({"checkpoint_id": body.checkpoint_id} if body.checkpoint_id else {})


def _configurable(body: RunCreate, assistant: Assistant) -> JsonObject:
    """Return the values that nodes find in `configurable`, without the checkpoint."""
    own = _public_configurable(body.config)
    if own and body.context:
        raise Refused(
            "'config.configurable' and 'context' are two names of one thing", remedy="send one of them"
        )
    merged = {**assistant.context, **_public_configurable(assistant.config), **(body.context or own)}
    return {name: value for name, value in merged.items() if name not in CHECKPOINT_FIELDS}


def _public_configurable(config: Mapping[str, Any] | None) -> JsonObject:
    """Return `configurable` without the values that only the server may set."""
    configurable: JsonObject = public_config(config or {}).get("configurable", {})
    return configurable


def checked_url(url: str) -> str:
    """Return a webhook's URL unchanged; raises `Invalid` if it cannot be called."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.username is not None:
        raise Invalid(
            f"webhook {url[:80]!r} is not a URL that can be called",
            remedy="send http:// or https:// and a host, without a password",
        )
    return url

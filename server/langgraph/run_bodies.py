"""Request bodies of runs, and the run requests made of them."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from callsheet.server.http.auth import public_config
from callsheet.server.http.requests import Flag, Number
from callsheet.server.langgraph.bodies import CHECKPOINT_FIELDS, checkpoint_fields
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.server.langgraph.webhooks import checked_url
from callsheet.state.errors import Refused
from callsheet.storage.assistants import Assistant
from callsheet.storage.runs.records import RunRequest, Strategy, request_fields

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
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    stream_mode: Mode | list[Mode] | None = Field(None, description="`values` by default")
    stream_subgraphs: Flag | None = None
    stream_resumable: Flag | None = Field(None, description="Gives events ids to resume the stream from")
    interrupt_before: _Nodes | None = None
    interrupt_after: _Nodes | None = None
    webhook: str | None = Field(None, max_length=2_000, description="URL that gets the run when it ends")
    feedback_keys: list[str] | None = None
    checkpoint: JsonObject | None = Field(None, description="Checkpoint to start from; the newest by default")
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
    configurable = _configurable(body, assistant)
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

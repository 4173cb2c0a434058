"""What callers ask of a run, and what that comes to."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from callsheet.server.ads.bodies import Flag, Number
from callsheet.server.http.auth import public_config
from callsheet.server.langgraph.webhooks import checked_url
from callsheet.server.runtime.run_request import request_fields
from callsheet.state.errors import Invalid, Refused
from callsheet.storage.assistants import Assistant
from callsheet.storage.runs.records import RunRequest, Strategy

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
_Object = dict[str, Any]
_PLACE: Final = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
_LONGEST_WAIT_S: Final = 366 * 86_400


class RunCommand(BaseModel):
    """What is done to a thread beside giving it input."""

    model_config = ConfigDict(extra="ignore")

    resume: Any = Field(None, description="The answer to the thread's question, or answers by question id")
    update: Any = Field(None, description="Values to write first")
    goto: Any = Field(None, description="Nodes to go on with: a name, {node, input}, or a list of those")


class RunCreate(BaseModel):
    """A run."""

    model_config = ConfigDict(extra="ignore")

    protocol: ClassVar[bool] = False
    """Whether the run's events are the second wire's."""
    assistant_id: str = Field(min_length=1, max_length=255, description="An assistant's id, or a graph")
    input: Any = None
    command: RunCommand | None = Field(None, description="Wins over `input`")
    config: _Object | None = None
    context: _Object | None = None
    metadata: _Object | None = None
    stream_mode: Mode | list[Mode] | None = Field(None, description="values, unless chosen")
    stream_subgraphs: Flag | None = None
    stream_resumable: Flag | None = Field(None, description="Whether events have ids to go on after")
    interrupt_before: _Nodes | None = None
    interrupt_after: _Nodes | None = None
    webhook: str | None = Field(None, max_length=2_000, description="Is sent the run when it ends")
    feedback_keys: list[str] | None = None
    checkpoint: _Object | None = Field(None, description="Where to go on from instead of the newest state")
    checkpoint_id: str | None = None
    checkpoint_during: Flag | None = Field(None, description="Accepted; every step is kept")
    durability: Literal["sync", "async", "exit"] | None = Field(
        None, description="Accepted; every step is kept before the next begins"
    )
    multitask_strategy: Strategy | None = Field(None, description="enqueue, unless chosen")
    if_not_exists: Literal["create", "reject"] | None = Field(None, description="reject, unless chosen")
    on_disconnect: Literal["cancel", "continue"] | None = Field(None, description="continue, unless chosen")
    on_completion: Literal["delete", "keep"] | None = Field(None, description="Of a run without a thread")
    after_seconds: Number | None = Field(None, ge=0, le=_LONGEST_WAIT_S)
    langsmith_tracer: Any = Field(None, description="Accepted and ignored")
    strict_resume: Flag | None = Field(None, description="Accepted; a resume is always strict")


class BatchRunCreate(RunCreate):
    """One run of several."""

    thread_id: str | None = None


@dataclass(frozen=True)
class ResumeValues:
    """What a resume says, bound to the questions that are answered."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """By question id."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Question id to the digest of what was asked: a node that runs again may ask something else."""


@dataclass(frozen=True)
class RunContext:
    """What the server adds to a request."""

    run: str
    owner: str
    context_names: Collection[str]
    """What the graph takes as context."""
    answers: ResumeValues = field(default_factory=ResumeValues)
    temporary: bool = False
    """Whether the thread goes with the run."""


def run_request(body: RunCreate, chosen: Assistant, start: RunContext) -> RunRequest:
    """Return the run that the caller wants; raises `Invalid` and `Refused`."""
    configurable, place = _configurable(body, chosen)
    config = {**public_config(chosen.config), **public_config(body.config or {})}
    told = {**chosen.metadata, **config.get("metadata", {}), **(body.metadata or {})}
    # Once more on the whole: an assistant's metadata, and a run's own, name neither owner nor run.
    config = public_config({**config, "configurable": configurable, "metadata": told})
    metadata = config.pop("metadata")
    asked = request_fields(
        input=body.input,
        command=_command(body),
        answers=start.answers.values,
        questions=start.answers.questions,
        config=config,
        context={name: value for name, value in configurable.items() if name in start.context_names}
        | (body.context or {}),
        checkpoint=place or None,
        stream_mode=stream_modes(body),
        subgraphs=bool(body.stream_subgraphs),
        protocol=body.protocol,
        interrupt_before=body.interrupt_before,
        interrupt_after=body.interrupt_after,
        temporary=start.temporary,
        webhook=checked_url(body.webhook) if body.webhook else None,
        feedback_keys=body.feedback_keys,
        resumable=bool(body.stream_resumable),
    )
    return RunRequest(
        id=start.run,
        graph=chosen.graph_id,
        owner=start.owner,
        request=asked,
        assistant=chosen.assistant_id,
        metadata=metadata | {"graph_id": chosen.graph_id, "assistant_id": chosen.assistant_id},
        strategy=body.multitask_strategy or "enqueue",
        questions=tuple(f"{name}:{digest}" for name, digest in start.answers.questions.items()),
        due_ms=int((time.time() + body.after_seconds) * 1000) if body.after_seconds else 0,
    )


def stream_modes(body: RunCreate) -> list[str]:
    """Return the stream modes that were asked for."""
    asked = body.stream_mode or "values"
    return [asked] if isinstance(asked, str) else list(asked)


def checkpoint_of(body: RunCreate) -> dict[str, Any]:
    """Return the checkpoint a run is to go on from; empty for the newest. Raises `Invalid`."""
    named = {**_public(body.config), **(body.checkpoint or {})}
    place = {name: named[name] for name in _PLACE if named.get(name)}
    if body.checkpoint_id:
        place["checkpoint_id"] = body.checkpoint_id
    if not all(isinstance(place.get(name, ""), str) for name in _PLACE[:2]):
        raise Invalid("'checkpoint' names a checkpoint by text", remedy="send its checkpoint_id")
    return place


def _configurable(body: RunCreate, chosen: Assistant) -> tuple[dict[str, Any], dict[str, Any]]:
    """What nodes find in `configurable`, and the checkpoint to go on from."""
    own = _public(body.config)
    if own and body.context:
        raise Refused(
            "'config.configurable' and 'context' are two names of one thing", remedy="send one of them"
        )
    usual = {**chosen.context, **_public(chosen.config)}
    merged = {**usual, **(body.context or own)}
    return {name: value for name, value in merged.items() if name not in _PLACE}, checkpoint_of(body)


def _public(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a caller may say in `configurable`: nothing that the server says to its nodes."""
    found: dict[str, Any] = public_config(config or {}).get("configurable", {})
    return found


def _command(body: RunCreate) -> dict[str, Any] | None:
    return body.command.model_dump(exclude_unset=True) if body.command else None

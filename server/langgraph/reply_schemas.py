"""Replies of LangGraph's routes, for the OpenAPI document.

Values, inputs and metadata are whatever a graph or a client puts there, so they stay free.
"""

from types import GenericAlias
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.server.http.openapi import event_stream
from callsheet.server.langgraph.schemas import Config, JsonObject, Mode
from callsheet.storage.runs.records import Strategy

Metadata = Annotated[JsonObject, Field(description="Free: whatever clients put there")]
GraphValue = Annotated[Any, Field(description="Free: whatever the graph has there")]
JsonSchema = Annotated[JsonObject | None, Field(description="A JSON Schema; null where there is none")]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]


class CheckpointReply(TypedDict, total=False):
    """Names a checkpoint of a thread."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    checkpoint_map: dict[str, str] | None


class InterruptReply(TypedDict):
    """A question of a graph."""

    id: str
    value: GraphValue
    response_schema: NotRequired[JsonSchema]


class AssistantVersionReply(TypedDict):
    """A version of an assistant."""

    assistant_id: str
    graph_id: str
    config: Config
    context: Metadata
    metadata: Metadata
    name: str
    created_at: str
    version: int
    description: str | None


class AssistantReply(AssistantVersionReply):
    """A graph with a configuration."""

    updated_at: str


class GraphNode(TypedDict):
    """A node of a graph."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's way to say so

    id: str | int


class GraphEdge(TypedDict):
    """An edge of a graph."""

    source: str | int
    target: str | int
    data: NotRequired[Any]
    conditional: NotRequired[bool]


class GraphReply(TypedDict):
    """Nodes and edges."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]


class SubgraphSchemas(TypedDict):
    """The JSON Schemas of a graph."""

    input_schema: JsonSchema
    output_schema: JsonSchema
    state_schema: JsonSchema
    config_schema: JsonSchema
    context_schema: JsonSchema


class GraphSchemas(SubgraphSchemas):
    """The JSON Schemas of an assistant's graph."""

    graph_id: str


class ThreadTtlReply(TypedDict):
    """The time to live of a thread."""

    strategy: Literal["delete", "keep_latest"]
    ttl_minutes: float
    expires_at: str


class ThreadReply(TypedDict):
    """A conversation with a graph."""

    thread_id: str
    created_at: str
    updated_at: str
    state_updated_at: str
    metadata: Metadata
    status: ThreadStatus
    config: Config
    values: GraphValue
    """Values of its newest state; null without one."""
    error: Any
    """Error of its last run; null for none."""
    interrupts: dict[str, list[InterruptReply]]
    """Pending questions by task."""
    ttl: NotRequired[ThreadTtlReply | None]
    extracted: NotRequired[JsonObject]
    """Values by the names of `extract`."""


class SizeReply(TypedDict):
    """Number and bytes of a thread's records."""

    count: int
    bytes: int


class ChannelSize(TypedDict):
    """Versions and bytes of a channel."""

    versions: int
    bytes: int


class ChannelSizes(SizeReply):
    """Size of all channels, and of each."""

    by_channel: dict[str, ChannelSize]


class ThreadSizeReply(TypedDict):
    """The size of a thread in storage."""

    thread_id: str
    total_bytes: int
    checkpoints: SizeReply
    channel_values: ChannelSizes
    pending_writes: SizeReply


class PruneReply(TypedDict):
    """The result of pruning."""

    pruned_count: int


class TaskReply(TypedDict):
    """A task of a state: a node that runs next."""

    id: str
    name: str
    path: list[Any]
    error: str | None
    interrupts: list[InterruptReply]
    checkpoint: CheckpointReply | None
    state: "ThreadStateReply | None"
    result: GraphValue


class ThreadStateReply(TypedDict):
    """The state of a thread at a checkpoint."""

    values: GraphValue
    next: list[str]
    tasks: list[TaskReply]
    metadata: Metadata | None
    created_at: str | None
    checkpoint: CheckpointReply | None
    parent_checkpoint: CheckpointReply | None
    interrupts: list[InterruptReply]
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    error: NotRequired[str]
    """Reason why this state of a history cannot be built."""


class StateUpdated(TypedDict):
    """The checkpoint that an update wrote."""

    checkpoint: CheckpointReply
    configurable: CheckpointReply
    checkpoint_id: str


class RunKwargs(TypedDict):
    """The request of a run, as it is executed."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's way to say so

    input: GraphValue
    command: Any
    config: Config
    context: Metadata
    stream_mode: list[Mode]


class RunReply(TypedDict):
    """An execution of a graph on a thread."""

    run_id: str
    thread_id: str
    assistant_id: str
    metadata: Metadata
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"]
    kwargs: RunKwargs
    multitask_strategy: Strategy
    created_at: str
    updated_at: str
    langsmith_session_name: None


class CronReply(TypedDict):
    """A scheduled run."""

    cron_id: str
    assistant_id: str
    thread_id: str | None
    on_run_completed: str | None
    end_time: str | None
    schedule: str
    timezone: str | None
    created_at: str
    updated_at: str
    user_id: str | None
    payload: Annotated[JsonObject, Field(description="The body of its runs")]
    next_run_date: str | None
    metadata: Metadata
    enabled: bool


class ItemReply(TypedDict):
    """An item of the store."""

    namespace: list[str]
    key: str
    value: Annotated[JsonObject, Field(description="Free: the item itself")]
    created_at: str
    updated_at: str
    score: NotRequired[float | None]


class ItemsReply(TypedDict):
    """Items found."""

    items: list[ItemReply]


class NamespacesReply(TypedDict):
    """Namespaces with items."""

    namespaces: list[list[str]]


class ServerFlags(TypedDict):
    """Features of the server."""

    assistants: bool
    crons: bool
    langsmith: bool
    langsmith_tracing_replicas: bool
    langsmith_tracing_session_on_runs: bool


class ServerHost(TypedDict):
    """The place where the server runs, as LangGraph's clients read it."""

    kind: str
    project_id: None
    host_revision_id: None
    revision_id: None
    tenant_id: None


class ServerName(TypedDict):
    """This server."""

    name: str
    version: str


class InfoReply(TypedDict):
    """Versions and features of the server."""

    version: str
    langgraph_py_version: str
    flags: ServerFlags
    host: ServerHost
    server: ServerName


class RunCancelled(TypedDict):
    """The reply once a cancelled run has ended: an empty object."""


def _or_selection(name: str, reply: Any) -> Any:
    """Return the type of a reply, or of the fields of it that a request selects."""
    # Created at run time, so no type checker can read it.
    selection: Any = TypedDict(name, dict(reply.__annotations__), total=False)  # type: ignore[misc]
    selection.__doc__ = f"The selected fields of a {reply.__name__}."
    return reply | selection


ASSISTANTS: Final = GenericAlias(list, _or_selection("AssistantSelection", AssistantReply))
THREADS: Final = GenericAlias(list, _or_selection("ThreadSelection", ThreadReply))
RUNS: Final = GenericAlias(list, _or_selection("RunSelection", RunReply))
CRONS: Final = GenericAlias(list, _or_selection("CronSelection", CronReply))
STATE: Final = _or_selection("StateSelection", ThreadStateReply)
STATES: Final = GenericAlias(list, STATE)


class RunMetadataEvent(TypedDict):
    """The first event of an attempt."""

    run_id: str
    attempt: int


class RunErrorEvent(TypedDict):
    """The error that ended a run."""

    error: str
    """Its class."""
    message: str


class RunGap(TypedDict):
    """Events at this place are not kept any more: read the state."""

    first: str


class ProtocolEvent(TypedDict):
    """An event of the Agent Streaming Protocol."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's way to say so

    type: Literal["event"]
    method: str
    params: Annotated[JsonObject, Field(description="`namespace`, `timestamp` and `data`, which is free")]


RUN_EVENTS: Final = event_stream(
    {"metadata": RunMetadataEvent, "error": RunErrorEvent, "gap": RunGap, "*": GraphValue},
    "Server-sent events. `*` stands for the stream modes, of a subgraph with `|` and its namespace behind, "
    "whose data is the graph's",
)
"""OpenAPI of the events of a run."""
PROTOCOL_EVENTS: Final = event_stream(
    {"*": ProtocolEvent}, "Server-sent events. The name of an event is its method"
)
"""OpenAPI of the events of a thread, in the Agent Streaming Protocol."""

"""Reply shapes of `/api/artefacts`, and those that domains share."""

from typing import Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict


class ArtefactRef(BaseModel):
    """An artefact in a list."""

    kind: str
    id: str


class ArtefactList(BaseModel):
    """A page of the owner's artefacts of one kind."""

    artefacts: list[ArtefactRef]
    next: str | None = Field(description="Send it as `after` for the next page")


class ArtefactStream(BaseModel):
    """The newest and the active version of a stream."""

    newest: str | None
    active: str | None
    count: int
    updatedAt: str | None = Field(description="Creation time of the newest version, ISO 8601")


class ArtefactView(ArtefactRef):
    """An artefact with its streams."""

    conversationId: str | None
    streams: dict[str, ArtefactStream] = Field(description="By the stream's name")


class ArtefactVersionBase(BaseModel):
    """A version without its data."""

    id: str
    status: Literal["draft", "frozen"]
    createdAt: str
    createdBy: str = Field(description="`llm`, or the owner who made it by hand")
    parent: str | None = Field(description="Version that it was made from")


class ArtefactVersionSummary(ArtefactVersionBase):
    """A version in a list."""

    summary: str


class ArtefactVersionList(BaseModel):
    """The versions of a stream, newest last."""

    versions: list[ArtefactVersionSummary]
    active: str | None


class ArtefactVersion(ArtefactVersionBase):
    """A version with its data."""

    data: dict[str, Any]


class ToolCall(TypedDict):
    """A tool call of the turn."""

    id: str
    name: str
    arguments: dict[str, Any]
    status: str
    """`completed`, `error`, `blocked` or `cancelled`."""
    result: dict[str, Any]
    """The version made, how many were found, or the error."""
    durationSeconds: float


class UsageReply(TypedDict):
    """Tokens of the whole conversation."""

    inputTokens: int
    outputTokens: int
    cachedTokens: int
    modelCalls: int


class ModelUse(TypedDict):
    """Use of models. The offline model is free and not counted."""

    modelCalls: int
    inputTokens: int
    """Cached ones included."""
    cachedTokens: int
    outputTokens: int
    costUsd: float | None
    """US dollars; null if the price of a call is unknown."""


class ApprovalQuestion(TypedDict):
    """A question that waits for a person."""

    id: str
    actions: list[dict[str, Any]]
    """Each `{name, args, description}`."""


class VersionSummary(TypedDict):
    """A version without its data."""

    id: str
    status: Literal["draft", "frozen", "active"]
    createdAt: str
    createdBy: str
    """`llm`, or the owner who made it by hand."""
    parent: str | None
    summary: str


class ImportedThread(TypedDict):
    """An imported thread."""

    threadId: str
    graph: str
    artefact: str | None
    """`kind:id` of its artefact."""


class ExecutionSummary(TypedDict):
    """An execution in a list."""

    id: str
    projectId: str
    """Id of the artefact: of a project, an ad, a page, a lesson."""
    threadId: str
    kind: str
    """`plan`, `undo` or `redo`."""
    request: str
    status: str
    """`planned` (waits for approval), `running`, `paused`, `completed`, `failed` or `cancelled`."""
    success: bool | None
    """Null before the end."""
    counts: dict[str, int]
    """Steps by status."""
    createdAt: str | None
    startedAt: str | None
    completedAt: str | None
    totalTime: float
    """Seconds."""


class ExecutionView(ExecutionSummary):
    """An execution with its plan."""

    plan: dict[str, Any]
    """`{type, totalSteps, estimatedTime, steps, context, reasoning, userFeedback}`."""
    changes: list[dict[str, Any]]
    """Differences between the approved and the executed plan, made by people."""
    approvedPlan: str
    """Digest of the plan as it was approved."""

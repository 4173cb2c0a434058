"""Requests and replies that every kind of artefact shares."""

from typing import Any, Final, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from callsheet.state.differences import Difference
from callsheet.state.versions import Author


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
    by: Author = Field(description="Author: a model, a person, the restoring of a version, or an import")
    model: str = Field(description="`provider/model` that made it; empty for none")
    request: str = Field(description="The person's words, or the action; empty if unknown")
    summary: str
    change: str | None = Field(description="Difference to the parent in one line; null without a parent")


class ArtefactVersionSummary(ArtefactVersionBase):
    """A version in a list."""


class ArtefactVersionList(BaseModel):
    """The versions of a stream, newest last."""

    versions: list[ArtefactVersionSummary]
    active: str | None


class ArtefactVersion(ArtefactVersionBase):
    """A version with its data."""

    data: dict[str, Any]


class ArtefactDeleted(TypedDict):
    """A deleted artefact."""

    deleted: str
    """Its id."""


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
    by: Author
    """Author: a model, a person by hand, the restoring of an earlier version, or an import."""
    model: str
    """`provider/model` that made it; empty for none."""
    request: str
    """The person's words, or the action; empty if unknown."""
    summary: str
    change: str | None
    """Difference to the parent in one line; null without a parent."""


_From = TypedDict("_From", {"from": str})


class VersionDiff(_From):
    """The differences from one version of a stream to another."""

    stream: str
    to: str
    changes: list[Difference]
    text: str
    """The changes in words, a line each; empty for equal versions."""


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
    """Steps by status; `unchanged` are those of the completed ones that changed nothing."""
    createdAt: str | None
    startedAt: str | None
    completedAt: str | None
    totalTime: float
    """Seconds."""


class ExecutionView(ExecutionSummary):
    """An execution with its plan."""

    message: str
    """Words of the question that waits; empty where none does."""
    plan: dict[str, Any]
    """`{type, totalSteps, estimatedTime, steps, context, reasoning, userFeedback}`."""
    changes: list[dict[str, Any]]
    """Differences between the approved and the executed plan, made by people."""
    approvedPlan: str
    """Digest of the plan as it was approved."""


class ActionDecision(BaseModel):
    """A person's decision about an action."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: dict[str, Any] | None = Field(
        None,
        validation_alias=AliasChoices("edited_action", "editedAction"),
        description="{name, args} with other args; of an edit only",
    )

    @model_validator(mode="after")
    def _check_edit(self) -> Self:
        action = self.edited_action
        if self.type == "edit" and not isinstance((action or {}).get("args"), dict):
            raise ValueError("an edit needs edited_action with args, such as {name, args}")
        if self.type != "edit" and action is not None:
            raise ValueError(f"edited_action belongs to the type edit, and the type is {self.type}")
        return self


_EDITED: Final = AliasChoices("edited_action", "editedAction")


class StepPatch(BaseModel):
    """Other parameters of a pending step."""

    model_config = ConfigDict(extra="forbid")

    params: dict[str, Any] = Field(min_length=1, description="`prompt`, `name`, `durationSeconds` …")


class StepCreate(BaseModel):
    """A step to insert."""

    model_config = ConfigDict(extra="forbid")

    step: dict[str, Any] = Field(
        min_length=1,
        description="`tool`, `params`, `after` and `id`; of a video, a step of a submitted plan",
    )


class EditedStep(BaseModel):
    """A step with other parameters."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, max_length=200, description="The step's tool, which cannot be changed")
    args: dict[str, Any] = Field(min_length=1, description="All parameters of the step")


class StepDecision(BaseModel):
    """A person's decision about a step."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject", "edit", "skip"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: EditedStep | None = Field(None, validation_alias=_EDITED, description="Of an edit")

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.type == "edit" and self.edited_action is None:
            raise ValueError("an edit needs edited_action with all args of the step")
        if self.type != "edit" and self.edited_action is not None:
            raise ValueError(f"a decision of type {self.type!r} has no edited_action; send the type 'edit'")
        if self.type != "reject" and self.message:
            raise ValueError(f"a decision of type {self.type!r} has no message; reject to give a reason")
        return self


class PlanDecision(BaseModel):
    """A person's decision about a plan that waits for approval."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[StepDecision] = Field(
        min_length=1,
        max_length=100,
        description="One for each step that writes, or one for all: approve, reject with `message`, edit,"
        " skip",
    )
    leaveOut: list[str] = Field(
        [], max_length=100, description="Ids of steps that are left out while the others are approved"
    )

    def as_answer(self) -> dict[str, Any]:
        """Return the decisions as the answer to a question."""
        decisions = [one.model_dump(exclude_none=True) for one in self.decisions]
        return {"decisions": decisions} | ({"leaveOut": self.leaveOut} if self.leaveOut else {})

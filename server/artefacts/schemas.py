"""Requests and replies that every kind of artefact shares."""

from typing import Annotated, Any, Final, Literal, NotRequired, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from callsheet.state.differences import Difference
from callsheet.state.live_plan import ChangeKind, ExecutionStatus
from callsheet.state.plan import StepStatus
from callsheet.state.versions import Author

JsonSchema = Annotated[dict[str, Any], Field(description="A JSON Schema")]


class ArtefactRef(BaseModel):
    """An artefact in a list."""

    kind: str
    id: str


class ListedArtefact(ArtefactRef):
    """An artefact with the time of its last change, by whomever."""

    updatedAt: str


class ArtefactList(BaseModel):
    """A page of the owner's artefacts of one kind."""

    artefacts: list[ListedArtefact]
    next: str | None = Field(description="Send it as `after` for the next page")


class ArtefactSource(TypedDict):
    """Something that an artefact was made from."""

    kind: str
    """Kind of an artefact, or `campaign`."""
    id: str
    versions: NotRequired[dict[str, str]]
    """Version of each stream that was read."""
    text: NotRequired[str]
    """Words of a campaign that were taken."""


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
    sources: list[ArtefactSource] = Field(description="It was made from these")
    uses: list[ArtefactRef] = Field(description="These were made from it")


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
    before: str | None = Field(description="Send it as `before` for older versions; null if there are none")


class ArtefactVersion(ArtefactVersionBase):
    """A version with its data."""

    data: dict[str, Any] = Field(
        description="Free, because any workflow's versions are read here; the routes of ads, pages, videos"
        " and lessons have it typed"
    )


class ArtefactDeleted(TypedDict):
    """A deleted artefact."""

    deleted: str
    """Its id."""


Arguments = Annotated[
    dict[str, Any],
    Field(description="Arguments of the tool, as its `inputSchema` of `GET /api/tools` describes them"),
]
ToolOutput = Annotated[
    dict[str, Any],
    Field(
        description="Whatever the tool returned, such as `versionId`; `error` and `suggestion` if it failed"
    ),
]


Outcome = Annotated[
    Literal["made", "nothing_made", "refused", "waiting", "over_budget"],
    Field(
        description="`refused`: the model declined; `waiting`: for the answer to a question; `over_budget`: "
        "not finished, and waits for the answer to the question about the budget"
    ),
]
"""Outcome of a turn."""


class ToolCall(TypedDict):
    """A tool call of the turn."""

    id: str
    name: str
    arguments: Arguments
    status: StepStatus
    result: ToolOutput
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
    estimatedCalls: int
    """Calls that were cut while the vendor worked, by a stop or a cancellation; their cost is an estimate."""


class QuestionAction(TypedDict):
    """A proposed action that a question is about."""

    name: str
    """The tool, or the kind of question."""
    args: Arguments
    description: str
    """The question in words."""


class ApprovalQuestion(TypedDict):
    """A question that waits for a person."""

    id: str
    actions: list[QuestionAction]


class ReviewConfig(TypedDict):
    """Decisions that a question allows about an action."""

    action_name: str
    allowed_decisions: list[Literal["approve", "edit", "reject", "respond", "skip"]]
    args_schema: NotRequired[JsonSchema]


class QuestionValue(TypedDict):
    """The value of an interrupt, as every workflow asks."""

    type: NotRequired[str]
    """`select_facts`, `review_narration`, `select_images`, `raise_budget`, `paused` …; none for the approval
    of a plan."""
    message: NotRequired[str]
    """The question in one sentence, where no action has it."""
    action_requests: NotRequired[list[QuestionAction]]
    review_configs: NotRequired[list[ReviewConfig]]
    steps: NotRequired[list[str]]
    """Ids of the steps in question, or of a paused plan what is pending."""
    effect: NotRequired[str]
    """Effect of an answer, for people."""
    problem: NotRequired[str]
    """Error in the last answer; empty if there was none."""
    response_schema: NotRequired[JsonSchema]
    """JSON Schema of the answer."""
    examples: NotRequired[list[Any]]
    """Answers that are right."""


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


class LeftOut(TypedDict):
    """A thread that an export or an import has left out, or all records of a kind."""

    thread: str
    reason: str
    kind: NotRequired[Literal["campaign"]]
    """Kind of the records; absent for a thread."""


class ImportedData(TypedDict):
    """Imported data of an owner."""

    imported: dict[str, int]
    """Number of records by kind; `thread` counts threads, and artefacts whose thread was deleted."""
    leftOut: list[LeftOut]
    """Left out by the export; and the threads whose id was used during the import."""


StepCounts = Annotated[
    dict[StepStatus | Literal["unchanged"], int],
    Field(
        description="Steps by status; a status that no step has may be left out. `unchanged` are completed "
        "ones that changed nothing"
    ),
]


class ExecutionSummary(TypedDict):
    """An execution in a list."""

    id: str
    projectId: str
    """Id of the artefact: of a project, an ad, a page, a lesson."""
    threadId: str
    kind: Literal["plan", "undo", "redo"]
    request: str
    status: ExecutionStatus
    """`planned` waits for approval."""
    success: bool | None
    """Null before the end."""
    counts: StepCounts
    createdAt: str | None
    startedAt: str | None
    completedAt: str | None
    totalTime: float
    """Seconds."""


class StepPreview(TypedDict, total=False):
    """The small part of a step's result."""

    sceneId: str
    versionId: str
    preview: Any
    """As the workflow shows it, such as the address of a picture."""
    differences: Any
    message: str


class _StepState(TypedDict):
    """A step as people see it."""

    name: str
    """Description in words."""
    detail: str | None
    """Its prompt."""
    status: StepStatus
    progress: Annotated[int | None, Field(description="Per cent; null while it runs")]
    preview: StepPreview | None
    canEdit: bool
    canCancel: bool
    stale: bool
    """True if a step that it depends on was done again later."""


class StepView(_StepState):
    """A step in the events of an execution."""

    id: str


class PlanStep(StepView):
    """A step of a plan."""

    toolName: str
    displayName: str
    params: Arguments
    dependencies: list[str]
    """Ids of the steps that must complete before it starts."""
    canParallelize: bool
    contextKeys: list[str]
    reads: list[str]
    """Streams it reads."""
    writes: list[str]
    """Streams it may write."""
    error: str | None
    result: ToolOutput | None


class PlanContext(TypedDict, total=False):
    """Look-ups of the plan of a video; empty for other workflows."""

    needsWebSearch: bool
    searchQueries: list[str]
    sharedStyle: str | None
    referenceSceneId: str | None


class PlanView(TypedDict):
    """A plan, each step with its status."""

    type: Literal["single", "parallel", "sequential", "mixed"]
    totalSteps: int
    estimatedTime: float
    """Seconds."""
    reasoning: str
    userFeedback: str
    """Words for the person."""
    context: PlanContext
    steps: list[PlanStep]


class PlanChangeView(TypedDict):
    """A difference between the approved and the executed plan, made by a person."""

    kind: ChangeKind
    step: str
    """Id of the step; empty for the whole execution."""
    before: Arguments
    after: Arguments
    at: str | None


class ExecutionView(ExecutionSummary):
    """An execution with its plan."""

    message: str
    """Words of the question that waits; empty where none does."""
    plan: PlanView
    changes: list[PlanChangeView]
    approvedPlan: str
    """Digest of the plan as it was approved."""


class EditedAction(TypedDict, total=False):
    """An action with other arguments."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's way to say so

    name: str
    """Its name, which cannot be changed."""
    args: Arguments


class ActionDecision(BaseModel):
    """A person's decision about an action."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: EditedAction | None = Field(
        None,
        validation_alias=AliasChoices("edited_action", "editedAction"),
        description="{name, args} with other args; of an edit only",
    )

    @model_validator(mode="after")
    def _check_edit(self) -> Self:
        action = self.edited_action
        if self.type == "edit" and "args" not in (action or {}):
            raise ValueError("an edit needs edited_action with args, such as {name, args}")
        if self.type != "edit" and action is not None:
            raise ValueError(f"edited_action belongs to the type edit, and the type is {self.type}")
        return self


_EDITED: Final = AliasChoices("edited_action", "editedAction")


class StepPatch(BaseModel):
    """Other parameters of a pending step."""

    model_config = ConfigDict(extra="forbid")

    params: dict[str, Any] = Field(min_length=1, description="`prompt`, `name`, `durationSeconds` …")


class StepMove(BaseModel):
    """Another place of a pending step."""

    model_config = ConfigDict(extra="forbid")

    before: str | None = Field(
        None, max_length=64, description="Id of the pending step that comes after it; null for the end"
    )


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

"""Data of the events of turns and of executions, for the OpenAPI document."""

from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import StepCounts, StepPreview, StepView
from callsheet.server.http.errors import ApiError
from callsheet.server.http.openapi import event_stream
from callsheet.state.live_plan import ExecutionStatus
from callsheet.state.plan import StepStatus
from callsheet.state.receipts import Receipt


class TextChunk(TypedDict):
    """Words of the model, as they come."""

    type: Literal["text"]
    messageId: str | None
    content: str


class TextWithdrawn(TypedDict):
    """A message whose words another answer replaces."""

    type: Literal["withdrawn"]
    messageId: str


class StepProgress(TypedDict):
    """A step that begins, runs or has ended."""

    type: Literal["step"]
    stepId: str
    tool: str
    name: str
    """Description in words."""
    status: StepStatus
    preview: NotRequired[dict[str, Any]]
    """Small part of the result, such as `versionId` or `count`; once it has ended."""
    durationSeconds: NotRequired[float]


class WorkProgress(TypedDict):
    """Progress of a part of the work."""

    type: Literal["progress"]
    name: str
    done: int
    of: int


class PlanProgress(TypedDict):
    """A stage of an execution, with what its own stream says of it, or a plan that waits for approval."""

    type: Literal[
        "plan",
        "execution-started",
        "execution-plan",
        "step-started",
        "step-update",
        "step-completed",
        "version-update",
        "scene-update",
        "execution-complete",
        "execution-completed",
    ]
    executionId: NotRequired[str]
    stepId: NotRequired[str]
    preview: NotRequired[dict[str, Any]]
    totalTime: NotRequired[float]
    """Seconds."""


class StreamError(ApiError):
    """The error that ends a stream."""

    status: int
    """Status that a reply without a stream would have."""


class Gap(TypedDict):
    """Events at this place are not kept any more: read the state."""

    first: str
    """Id of the first event that is kept; empty for none."""


class TurnResult(TypedDict):
    """The reply that the request would have had; the routes of a workflow have it typed."""

    conversationId: str


def turn_events(result: object) -> dict[str, Any]:
    """Return the OpenAPI of the events of a turn with this reply."""
    return event_stream(
        {
            "step": StepProgress | WorkProgress | PlanProgress,
            "drafts": dict[str, str],
            "text": TextChunk,
            "withdrawn": TextWithdrawn,
            "receipt": Receipt,
            "result": result,
            "error": StreamError,
            "gap": Gap,
        }
    )


class ExecutionPlanEvent(TypedDict):
    """The steps of an execution."""

    executionId: str
    status: ExecutionStatus
    steps: list[StepView]
    totalSteps: int
    estimatedTime: float
    """Seconds."""


class StepUpdateEvent(TypedDict):
    """A step that has changed."""

    stepId: str
    name: str
    detail: str | None
    status: StepStatus
    progress: int | None
    """Per cent; null while it runs."""
    preview: StepPreview | None
    canEdit: bool
    canCancel: bool
    stale: bool
    error: str | None


class VersionUpdateEvent(TypedDict):
    """A version that a step made."""

    stepId: str
    stream: str
    versionId: str


class SceneUpdateEvent(TypedDict):
    """A version of a scene that a step made."""

    stepId: str
    sceneId: str
    versionId: str


class ExecutionCompleteEvent(TypedDict):
    """The end of an execution."""

    executionId: str
    status: ExecutionStatus
    success: bool
    totalTime: float
    """Seconds."""
    counts: StepCounts


EXECUTION_EVENTS: Final = event_stream(
    {
        "execution-plan": ExecutionPlanEvent,
        "step-update": StepUpdateEvent,
        "version-update": VersionUpdateEvent,
        "scene-update": SceneUpdateEvent,
        "execution-complete": ExecutionCompleteEvent,
        "gap": Gap,
    }
)
"""OpenAPI of the events of an execution."""

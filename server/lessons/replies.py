"""What callers get about lessons: the shape of every reply, for the documentation."""

from typing import Any, Literal

from typing_extensions import TypedDict

from callsheet.server.ads.replies import ToolCall, Usage, VersionSummary
from callsheet.state.lessons.agents import AgentResult
from callsheet.state.lessons.assets import AssetType
from callsheet.state.lessons.lesson import Status, Step
from callsheet.state.workflow import DraftMade

WaitingFor = Literal["select_facts", "review_narration", "select_images"]


class LessonQuestion(TypedDict):
    """What a person is asked."""

    id: str
    value: dict[str, Any]
    """`action_requests`, `facts`, `topic`, `response_schema`, `examples` (B51)."""


class _Lesson(TypedDict):
    sessionId: str
    status: Status
    workflowStep: Step
    waitsFor: WaitingFor | None
    """The question that waits for an answer."""
    showFactSelectionPrompt: bool
    showNarrationReviewPrompt: bool
    facts: list[dict[str, Any]]
    """Those proposed, each `{id, concept, details, confidence, source}`."""
    confirmedFacts: list[dict[str, Any]]
    narration: dict[str, Any] | None
    topic: str | None
    learningObjective: str | None
    childAge: str | None
    childInterest: str | None
    learningStyle: str | None
    """How the student learns best, as it was said (B64)."""
    warnings: list[str]
    interrupt: LessonQuestion | None


class LessonTurn(_Lesson):
    """What came of a turn (B27, B-R3)."""

    type: Literal["tool-result", "text"]
    output: str | None
    """The last tool's own output, as JSON text; null where no tool was needed."""
    success: bool
    message: str
    created: list[DraftMade]
    toolCalls: list[ToolCall]
    provider: str
    providerReason: str
    usage: Usage
    agents: list[AgentResult]
    """What the turn's agents did, each with cost and duration (B18-B20)."""
    cost: float
    """US dollars of the turn's tools (B58)."""
    duration: float
    """Seconds of the turn's tools."""


class Asset(TypedDict):
    """What is shown beside the words (B40)."""

    id: str
    sessionId: str
    assetType: AssetType
    url: str | None
    metadata: dict[str, Any] | None
    createdAt: str


class AssetList(TypedDict):
    """The assets of a session, oldest first."""

    assets: list[Asset]


class FoundImage(TypedDict):
    """One image that was found."""

    url: str
    title: str
    thumbnail: str | None
    page: str | None
    type: str | None
    credit: str | None


class ImageList(TypedDict):
    """Images to choose from (B62)."""

    sessionId: str
    images: list[FoundImage]


class ToolStatistics(TypedDict):
    """How a tool, or the agent behind it, did."""

    calls: int
    succeeded: int
    failed: int
    successRate: float | None
    """Of the calls that have ended; null before one has."""
    averageSeconds: float | None


class AgentStatistics(ToolStatistics):
    """How an agent did."""

    cost: float
    """US dollars."""


class ConversationStatistics(Usage):
    """What the conversation itself took."""

    cost: float
    """US dollars."""


class SessionStatistics(TypedDict):
    """What a session took (B66)."""

    sessionId: str
    tools: dict[str, ToolStatistics]
    agents: dict[str, AgentStatistics]
    conversation: ConversationStatistics
    cost: float
    """US dollars in all."""


class LessonMessage(TypedDict):
    """One message (B39)."""

    id: str | None
    sessionId: str
    role: Literal["user", "assistant", "system"]
    content: str
    parts: list[dict[str, Any]] | None
    metadata: dict[str, Any] | None
    createdAt: str | None


class SessionView(_Lesson):
    """A session with all that was said and made in it (B38, B43)."""

    session: dict[str, Any]
    messages: list[LessonMessage]
    assets: list[Asset]


class SessionSummary(TypedDict):
    """A session in a list."""

    id: str
    status: Status
    workflowStep: Step
    waitsFor: WaitingFor | None
    topic: str | None
    childAge: str | None
    childInterest: str | None
    createdAt: str
    updatedAt: str


class SessionList(TypedDict):
    """Some sessions, newest change first."""

    sessions: list[SessionSummary]
    next: int
    """What the next page begins after; 0 at the end."""


class SourceSaved(TypedDict):
    """The material of a lesson."""

    sessionId: str
    kind: Literal["text", "pdf", "page"]
    name: str
    characters: int
    pages: int
    """Of a PDF; else 0."""
    url: str | None
    """Where the file, or the page, is."""
    warnings: list[str]


class NarrationSaved(TypedDict):
    """The narration as it is now."""

    sessionId: str
    versionId: str
    narration: dict[str, Any]
    changedSegments: list[str]


class NarrationList(TypedDict):
    """The versions of a narration."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None


class SessionDeleted(TypedDict):
    """What was taken away."""

    deleted: str

"""Reply shapes of lessons, for the documentation."""

from typing import Any, Literal

from typing_extensions import TypedDict

from callsheet.server.artefacts.replies import ModelUse, ToolCall, UsageReply, VersionSummary
from callsheet.state.lessons.images import AssetType
from callsheet.state.lessons.lesson import AgentResult, Status, Step
from callsheet.state.workflow import DraftMade

WaitingFor = Literal["select_facts", "review_narration", "select_images"]


class LessonQuestion(TypedDict):
    """A pending question."""

    id: str
    value: dict[str, Any]
    """`action_requests`, `facts`, `topic`, `response_schema`, `examples`."""


class _Lesson(TypedDict):
    sessionId: str
    status: Status
    workflowStep: Step
    waitsFor: WaitingFor | None
    """Name of the pending question."""
    showFactSelectionPrompt: bool
    showNarrationReviewPrompt: bool
    facts: list[dict[str, Any]]
    """The proposed facts, each `{id, concept, details, confidence, source}`."""
    confirmedFacts: list[dict[str, Any]]
    narration: dict[str, Any] | None
    topic: str | None
    learningObjective: str | None
    childAge: str | None
    childInterest: str | None
    learningStyle: str | None
    """The student's learning style in the user's words."""
    warnings: list[str]
    interrupt: LessonQuestion | None


class LessonTurn(_Lesson):
    """The result of a turn."""

    type: Literal["tool-result", "text"]
    output: str | None
    """The last tool's output as JSON text; null without tool calls."""
    success: bool
    message: str
    created: list[DraftMade]
    toolCalls: list[ToolCall]
    provider: str
    providerReason: str
    usage: UsageReply
    turnUsage: ModelUse
    agents: list[AgentResult]
    """Results of the turn's agents, each with cost and duration."""
    cost: float | None
    """US dollars of the turn's tools; null if a price is unknown."""
    duration: float
    """Seconds of the turn's tools."""


class Asset(TypedDict):
    """An asset of a lesson."""

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
    """An image of a search."""

    url: str
    title: str
    thumbnail: str | None
    page: str | None
    type: str | None
    credit: str | None


class ImageList(TypedDict):
    """Images to choose from."""

    sessionId: str
    images: list[FoundImage]


class ToolStatistics(TypedDict):
    """Statistics of a tool."""

    calls: int
    succeeded: int
    failed: int
    successRate: float | None
    """Share of the finished calls; null without any."""
    averageSeconds: float | None


class AgentStatistics(ToolStatistics):
    """Statistics of an agent."""

    cost: float | None
    """US dollars; null if a price is unknown."""


class ConversationStatistics(UsageReply):
    """Tokens and cost of the conversation itself."""

    cost: float | None
    """US dollars; null if a price is unknown."""


class SessionStatistics(TypedDict):
    """Statistics of a session."""

    sessionId: str
    tools: dict[str, ToolStatistics]
    agents: dict[str, AgentStatistics]
    conversation: ConversationStatistics
    cost: float | None
    """Total in US dollars; null if a price is unknown."""


class LessonMessage(TypedDict):
    """A message."""

    id: str | None
    sessionId: str
    role: Literal["user", "assistant", "system"]
    content: str
    parts: list[dict[str, Any]] | None
    metadata: dict[str, Any] | None
    createdAt: str | None


class SessionView(_Lesson):
    """A session with its messages and assets."""

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
    """A page of sessions, last changed first."""

    sessions: list[SessionSummary]
    next: int
    """Send it as `after` for the next page; 0 at the end."""


class SourceSaved(TypedDict):
    """The material of a lesson."""

    sessionId: str
    kind: Literal["text", "pdf", "page"]
    name: str
    characters: int
    pages: int
    """Pages of a PDF; 0 for others."""
    url: str | None
    """URL of the file or the web page."""
    warnings: list[str]


class NarrationSaved(TypedDict):
    """The saved narration."""

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
    """A deleted session or asset."""

    deleted: str

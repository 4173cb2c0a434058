"""Requests and replies of lessons."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, Strict
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import (
    ActionDecision,
    ModelUse,
    Outcome,
    QuestionValue,
    ToolCall,
    UsageReply,
    VersionSummary,
)
from callsheet.server.http.requests import Flag, ModelChoice
from callsheet.state.errors import Invalid
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.images import AssetType, Picture
from callsheet.state.lessons.lesson import AgentResult, Session, Status, Step
from callsheet.state.lessons.narration import Kind, Narration, SegmentEdit
from callsheet.state.lessons.quiz import MAX_QUESTIONS
from callsheet.state.receipts import Receipt
from callsheet.state.workflow import DraftMade

WaitingFor = Literal["select_facts", "review_narration", "select_images"]


class OfferedFact(TypedDict):
    """A fact to choose."""

    id: str
    concept: str
    details: str
    confidence: float


class OfferedImage(Picture):
    """An image to choose."""

    number: int


class LessonQuestionValue(QuestionValue):
    """The value of a lesson's question."""

    facts: NotRequired[list[OfferedFact]]
    """Of `select_facts`."""
    images: NotRequired[list[OfferedImage]]
    """Of `select_images`."""
    version: NotRequired[str]
    """Version of the stream that is asked about."""
    topic: NotRequired[str]


class LessonQuestion(TypedDict):
    """A pending question."""

    id: str
    value: LessonQuestionValue


class _Lesson(TypedDict):
    sessionId: str
    status: Status
    workflowStep: Step
    waitsFor: WaitingFor | None
    """Name of the pending question."""
    showFactSelectionPrompt: bool
    showNarrationReviewPrompt: bool
    facts: list[Fact]
    """The facts of the newest proposal."""
    earlierFacts: list[Fact]
    """Facts of earlier proposals, and those that the person added; they can be chosen, too."""
    confirmedFacts: list[Fact]
    narration: Narration | None
    speech: str | None
    """Length of the narration in words: as planned, with its speech by estimate; in a session as measured."""
    segmentTimes: list[tuple[float, float]] | None
    """Start and end of each segment in the rendered sound, in seconds; null without one, and in a turn."""
    segmentNotes: dict[str, list[str]]
    """By segment that a person wrote: its sentences that the chosen facts do not prove."""
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
    outcome: Outcome
    message: str
    created: list[DraftMade]
    receipt: Receipt | None
    """Effects of the turn, by its versions and errors; null while a question about it waits."""
    truncated: bool
    """True if the turn ended at its limit of rounds."""
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


Metadata = Annotated[dict[str, Any], Field(description="Free: whatever the client puts there")]


class Asset(TypedDict):
    """An asset of a lesson."""

    id: str
    sessionId: str
    assetType: AssetType
    url: str | None
    metadata: Metadata | None
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


class LessonMessagePart(TypedDict):
    """A text, or a tool call with its result, as UI libraries have them."""

    type: str
    """`text`, or `tool-` with the name of the tool."""
    text: NotRequired[str]
    toolCallId: NotRequired[str]
    input: NotRequired[Any]
    state: NotRequired[Literal["input-available", "output-available"]]
    output: NotRequired[str]


class LessonMessage(TypedDict):
    """A message."""

    id: str | None
    sessionId: str
    role: Literal["user", "assistant", "system"]
    content: str
    parts: list[LessonMessagePart] | None
    """The text and the tool calls of an answer with calls; null for other messages."""
    metadata: None
    createdAt: str | None


class SessionView(_Lesson):
    """A session with its messages and assets."""

    title: str
    """As in a list."""
    session: Session
    messages: list[LessonMessage]
    assets: list[Asset]


class SessionSummary(TypedDict):
    """A session in a list."""

    id: str
    title: str
    """The title that a person gave it, else its topic, else its first message."""
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
    narration: Narration
    changedSegments: list[str]
    segmentNotes: dict[str, list[str]]
    """By segment that a person wrote: its sentences that the chosen facts do not prove; they stay."""


class NarrationList(TypedDict):
    """The versions of a narration."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None
    before: str | None
    """Send it as `before` for older versions; null if there are none."""


class AssetDeleted(TypedDict):
    """A deleted asset."""

    deleted: str


MAX_FACTS = 40
_Session = Annotated[
    str | None,
    Field(max_length=255, description="The session; X-Session-Id overrides it, and it overrides the query"),
]
_Integer = Annotated[int, Strict()]
_Age = Annotated[_Integer, Field(ge=0, le=120)] | Annotated[str, Field(min_length=1, max_length=100)]


class UIMessage(BaseModel):
    """A message of the client's list; only the user's newest one counts."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant", "system"]
    content: str | None = None
    parts: list[dict[str, Any]] | None = Field(
        None, description="Parts of type `text` are read; others are free"
    )

    @property
    def text(self) -> str:
        """The message's text."""
        if self.content:
            return self.content
        texts = (part.get("text") for part in self.parts or () if part.get("type") == "text")
        return "\n".join(str(text) for text in texts if text)


class SelectedFact(BaseModel):
    """A proposed fact, a reworded one, or a new one."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = Field(None, max_length=100)
    concept: str | None = Field(None, max_length=200)
    details: str | None = Field(None, max_length=4_000)
    selected: bool | None = Field(None, description="False leaves it out")

    def to_fact(self) -> dict[str, Any]:
        """Return the given fields."""
        return self.model_dump(exclude_none=True)


class LessonTurnCreate(ModelChoice):
    """A message, or a choice of facts."""

    messages: list[UIMessage] = Field([], max_length=1_000)
    selectedFacts: list[SelectedFact | str | _Integer] | None = Field(
        None,
        max_length=MAX_FACTS,
        description="Facts to narrate, each as an object, id or number; they answer a pending choice",
    )
    decisions: list[ActionDecision] | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="The answer to the pending question, such as an approval",
    )
    answer: Any = Field(None, description="The same in any form of the question's response_schema")
    sessionId: _Session = None
    subject: str | None = Field(
        None, max_length=100, description="The school subject; general when not given"
    )
    review: Flag | None = Field(
        None, description="Whether narrations need approval from now on; false by default"
    )
    images: Flag | None = Field(
        None, description="Whether to search images and ask for a choice from now on; false by default"
    )

    @property
    def requires_question(self) -> bool:
        """True if it answers a question that must be pending."""
        return self.decisions is not None or self.answer is not None

    @property
    def is_answer(self) -> bool:
        """True if it holds an answer or a choice."""
        return self.requires_question or self.selectedFacts is not None

    @property
    def text(self) -> str:
        """The newest message; raises `Invalid` if the body has neither a message nor an answer."""
        message = next((entry.text for entry in reversed(self.messages) if entry.role == "user"), "")
        if not (message.strip() or self.is_answer):
            raise Invalid(
                "the request has no message and no choice",
                remedy='send {"messages": [{"role": "user", "content": "…"}]}, or selectedFacts',
            )
        return message

    @property
    def given_answer(self) -> Any:
        """The answer to the pending question, in any of its forms."""
        if not self.decisions:
            return self.answer
        return {"decisions": [decision.model_dump(exclude_none=True) for decision in self.decisions]}

    @property
    def chosen_facts(self) -> list[Any]:
        """The chosen facts, each as an object or a number."""
        return [_fact_value(fact) for fact in self.selectedFacts or ()]

    @property
    def session_options(self) -> dict[str, Any]:
        """State keys that the request sets for the session."""
        options = {"subject": self.subject or None, "review": self.review, "images": self.images}
        return {name: value for name, value in options.items() if value is not None}


def _fact_value(fact: SelectedFact | str | int) -> dict[str, Any] | int:
    if isinstance(fact, SelectedFact):
        return fact.to_fact()
    return {"id": fact} if isinstance(fact, str) else fact


class _LessonBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SessionUpdate(_LessonBody):
    """Changes of a session."""

    sessionId: _Session = None
    status: Literal["narration_verified", "video_queued", "completed", "failed"] | None = Field(
        None, description="A status that no version implies"
    )
    childAge: _Age | None = Field(
        None, description='Years as a number, or in words: 7, "ten", "12 years old"'
    )
    childInterest: str | None = Field(None, min_length=1, max_length=300, description="One or several")
    learningStyle: str | None = Field(
        None, min_length=1, max_length=200, description="How they learn best: with pictures, by doing"
    )

    def student_update(self) -> tuple[str | None, str | None, str | None]:
        """Return age, interest and learning style; raise `Invalid` if the body changes nothing."""
        age = None if self.childAge is None else str(self.childAge)
        fields = (age, self.childInterest, self.learningStyle)
        if self.status is None and not any(fields):
            raise Invalid("the body changes nothing", remedy="send status, childAge or another field")
        return fields


class SourceCreate(_LessonBody):
    """The lesson's material: a text or the URL of a web page."""

    sessionId: _Session = None
    text: str | None = Field(None, min_length=1, max_length=1_500_000)
    url: str | None = Field(None, min_length=1, max_length=2_000)
    name: str = Field("the text", min_length=1, max_length=200, description="Title of the text")

    def content(self) -> Mapping[str, str]:
        """Return the text or the URL; raise `Invalid` for none or both."""
        content = {key: value for key, value in (("text", self.text), ("url", self.url)) if value}
        if len(content) != 1:
            raise Invalid(f"{len(content)} materials are sent", remedy="send either `text` or `url`")
        return content


class AssetCreate(_LessonBody):
    """A new asset."""

    sessionId: _Session = None
    assetType: AssetType
    url: str | None = Field(None, max_length=2_000)
    metadata: Metadata | None = None


class NarrationEdit(_LessonBody):
    """Edited segments of a narration."""

    sessionId: _Session = None
    segments: list[SegmentEdit] = Field(min_length=1, max_length=4)
    version: str | None = Field(
        None, max_length=80, description="The version that was edited; 409 if there is a newer one"
    )


class NarrationRewrite(ModelChoice):
    """Segments to rewrite or to restore."""

    model_config = ConfigDict(extra="forbid")

    sessionId: _Session = None
    action: Literal["regenerate", "restore"]
    segments: list[Kind] = Field([], max_length=4, description="All when left out")
    guidance: str | None = Field(None, max_length=1_000, description="Changes to make")
    version: str | None = Field(None, max_length=80, description="Version to restore, such as v1")


class QuizCreate(ModelChoice):
    """A quiz to write about the chosen facts."""

    model_config = ConfigDict(extra="forbid")

    sessionId: _Session = None
    count: int | None = Field(None, ge=1, le=MAX_QUESTIONS, description="Questions; one for each fact")

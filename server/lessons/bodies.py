"""What callers send about lessons."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from callsheet.server.ads.bodies import Flag, ModelChoice
from callsheet.server.lessons.service import SessionRef, TurnRequest
from callsheet.server.pages.chat_bodies import ActionDecision
from callsheet.state.errors import Invalid
from callsheet.state.lessons.assets import AssetType
from callsheet.state.lessons.narration import Kind
from callsheet.state.lessons.narration_edits import SegmentEdit

MAX_FACTS = 40
_Session = Annotated[
    str | None,
    Field(max_length=255, description="The session; X-Session-Id goes before it, the query behind it"),
]


class UIMessage(BaseModel):
    """One message of the client's own list; of these the newest of the user counts (B34)."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant", "system"]
    content: str | None = None
    parts: list[dict[str, Any]] | None = Field(None, description="Those of type `text` are read")

    @property
    def text(self) -> str:
        """What it says."""
        if self.content:
            return self.content
        told = (part.get("text") for part in self.parts or () if part.get("type") == "text")
        return "\n".join(str(one) for one in told if one)


class SelectedFact(BaseModel):
    """A fact as it was proposed, with other words, or a new one (B48, B52)."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = Field(None, max_length=100)
    concept: str | None = Field(None, max_length=200)
    details: str | None = Field(None, max_length=4_000)
    selected: bool | None = Field(None, description="False leaves it out")

    def to_fact(self) -> dict[str, Any]:
        """Return what is said of it."""
        return self.model_dump(exclude_none=True)


class LessonTurnCreate(ModelChoice):
    """What a teacher says, or which facts they chose (B24)."""

    messages: list[UIMessage] = Field([], max_length=1_000)
    selectedFacts: list[SelectedFact | str | int] | None = Field(
        None,
        max_length=MAX_FACTS,
        description="Facts to tell, each whole, or its id, or its number: the answer where a choice waits",
    )
    decisions: list[ActionDecision] | None = Field(
        None, min_length=1, max_length=1, description="The answer to whatever waits, such as an approval"
    )
    answer: Any = Field(None, description="The same in any form that the question's response_schema takes")
    sessionId: _Session = None
    subject: str | None = Field(
        None, max_length=100, description="The school subject; general when not given"
    )
    review: Flag | None = Field(
        None, description="Whether to ask if each narration is right, from now on; not unless it is given"
    )
    images: Flag | None = Field(
        None, description="Whether to look for images and ask which are shown, from now on; not unless given"
    )

    @property
    def requires_question(self) -> bool:
        """Whether it answers a question that must be waiting."""
        return self.decisions is not None or self.answer is not None

    @property
    def is_answer(self) -> bool:
        """Whether it says something beside a message."""
        return self.requires_question or self.selectedFacts is not None

    def to_request(self, place: SessionRef, owner: str, idempotency_key: str | None) -> TurnRequest:
        """Return the request as what it asks for; raises `Invalid` where it asks for nothing."""
        said = next((one.text for one in reversed(self.messages) if one.role == "user"), "")
        if not (said.strip() or self.is_answer):
            raise Invalid(
                "nothing was said and nothing chosen",
                remedy='send {"messages": [{"role": "user", "content": "…"}]}, or selectedFacts',
            )
        return TurnRequest(
            place=place,
            message=said,
            chosen=None if self.selectedFacts is None else [_given(one) for one in self.selectedFacts],
            answer=self._decided() if self.decisions else self.answer,
            subject=self.subject,
            review=self.review,
            images=self.images,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )

    def _decided(self) -> dict[str, Any]:
        return {"decisions": [one.model_dump(exclude_none=True) for one in self.decisions or ()]}


def _given(one: SelectedFact | str | int) -> dict[str, Any] | int:
    if isinstance(one, SelectedFact):
        return one.to_fact()
    return {"id": one} if isinstance(one, str) else one


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SessionUpdate(_Strict):
    """What is to be different about a session."""

    sessionId: _Session = None
    status: Literal["narration_verified", "video_queued", "completed", "failed"] | None = Field(
        None, description="What no version tells (B44)"
    )
    childAge: str | None = Field(None, min_length=1, max_length=100, description="7, ten, 12 years old")
    childInterest: str | None = Field(None, min_length=1, max_length=300, description="One or several")
    learningStyle: str | None = Field(
        None, min_length=1, max_length=200, description="How they learn best: with pictures, by doing (B64)"
    )

    def student_update(self) -> tuple[str | None, str | None, str | None]:
        """Return what is said of the student; raises `Invalid` where nothing is to be different."""
        told = (self.childAge, self.childInterest, self.learningStyle)
        if self.status is None and not any(told):
            raise Invalid("nothing is to be different", remedy="send status, childAge or another field")
        return told


class SourceCreate(_Strict):
    """What the lesson is made from: a text, or the address of a page (B4)."""

    sessionId: _Session = None
    text: str | None = Field(None, min_length=1, max_length=1_500_000)
    url: str | None = Field(None, min_length=1, max_length=2_000)
    name: str = Field("the text", min_length=1, max_length=200, description="What people call it")

    def content(self) -> Mapping[str, str]:
        """Return the one thing that is sent; raises `Invalid` for none and both."""
        sent = {key: value for key, value in (("text", self.text), ("url", self.url)) if value}
        if len(sent) != 1:
            raise Invalid(f"{len(sent)} materials are sent", remedy="send either `text` or `url`")
        return sent


class AssetCreate(_Strict):
    """What is to be shown beside the words (B40)."""

    sessionId: _Session = None
    assetType: AssetType
    url: str | None = Field(None, max_length=2_000)
    metadata: dict[str, Any] | None = None


class NarrationEdit(_Strict):
    """Segments that a person wrote again by hand."""

    sessionId: _Session = None
    segments: list[SegmentEdit] = Field(min_length=1, max_length=4)


class NarrationRewrite(ModelChoice):
    """Segments to write again, or to bring back."""

    model_config = ConfigDict(extra="forbid")

    sessionId: _Session = None
    action: Literal["regenerate", "restore"]
    segments: list[Kind] = Field([], max_length=4, description="All when left out")
    guidance: str | None = Field(None, max_length=1_000, description="What should be different")
    version: str | None = Field(None, max_length=80, description="What to bring back from, such as v1")

"""What callers send in a chat about a page, over REST and over the web socket."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, TypeAdapter

from callsheet.server.ads.bodies import ModelChoice
from callsheet.server.pages.service import ChatRequest, DecisionRequest

_Id = Annotated[str, Field(min_length=1, max_length=255)]


class ActionDecision(BaseModel):
    """What a person says to an action."""

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Why not, or what instead")
    edited_action: dict[str, Any] | None = Field(None, description="{name, args} with other args")


class _Said(ModelChoice):
    selectedElementId: str | None = Field(None, max_length=255, description='What "this" means (C26)')


class PageChatCreate(_Said):
    """What a person says about a page."""

    message: str
    conversationId: str | None = Field(None, description="The page's conversation; its own id unless chosen")

    def to_request(self, page_id: str, owner: str, idempotency_key: str | None) -> ChatRequest:
        """Return the request as the job it asks for."""
        return ChatRequest(
            page_id,
            self.message,
            self.conversationId,
            self.selectedElementId,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )


class _Deciding(ModelChoice):
    decisions: list[ActionDecision] = Field(
        min_length=1, max_length=100, description="One an action, or one for all"
    )
    questionId: str | None = Field(None, max_length=255, description="The one that waits when left out")

    def decided(self, page_id: str, owner: str, idempotency_key: str | None = None) -> DecisionRequest:
        """Return the answer as the job it asks for."""
        decisions = [one.model_dump(exclude_none=True) for one in self.decisions]
        return DecisionRequest(
            page_id,
            decisions,
            self.questionId,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )


class DecisionCreate(_Deciding):
    """What a person answers when asked for leave."""


class UserMessage(_Said):
    """A person says something (C13)."""

    type: Literal["userMessage"]
    conversationId: _Id
    content: str
    pageId: str | None = Field(None, max_length=255)
    messageId: str | None = Field(None, max_length=255)
    """The same again within a day is the same message."""


class ApprovalResponse(_Deciding):
    """A person answers a question."""

    type: Literal["approvalResponse"]
    conversationId: _Id


class Join(BaseModel):
    """Be told what happens in a conversation, from an event on."""

    type: Literal["join"]
    conversationId: _Id
    lastEventId: str | None = Field(None, max_length=80)


class Leave(BaseModel):
    """Be told no more of a conversation."""

    type: Literal["leave"]
    conversationId: _Id


class Cancel(BaseModel):
    """End what runs in a conversation."""

    type: Literal["cancel"]
    conversationId: _Id


IncomingMessage = UserMessage | ApprovalResponse | Join | Leave | Cancel
INCOMING: Final[TypeAdapter[IncomingMessage]] = TypeAdapter(
    Annotated[IncomingMessage, Field(discriminator="type")]
)
"""Everything a client may send over the web socket."""

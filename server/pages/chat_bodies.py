"""Request bodies of the chat about a page, over REST and the web socket."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, TypeAdapter

from callsheet.server.http.requests import ModelChoice
from callsheet.server.pages.service import ChatRequest, DecisionRequest

_Id = Annotated[str, Field(min_length=1, max_length=255)]


class ActionDecision(BaseModel):
    """A person's decision about an action."""

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: dict[str, Any] | None = Field(None, description="{name, args} with other args")


class _Message(ModelChoice):
    selectedElementId: str | None = Field(None, max_length=255, description='Element that "this" means (C26)')


class PageChatCreate(_Message):
    """A message about a page."""

    message: str
    conversationId: str | None = Field(None, description="The page's conversation; its own id unless chosen")

    def to_request(self, page_id: str, owner: str, idempotency_key: str | None) -> ChatRequest:
        """Return the body as a request of the service."""
        return ChatRequest(
            page_id,
            self.message,
            self.conversationId,
            self.selectedElementId,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )


class _Decision(ModelChoice):
    decisions: list[ActionDecision] = Field(
        min_length=1, max_length=100, description="One for each action, or one for all"
    )
    questionId: str | None = Field(None, max_length=255, description="The pending question when left out")

    def to_decision(self, page_id: str, owner: str, idempotency_key: str | None = None) -> DecisionRequest:
        """Return the body as a request of the service."""
        decisions = [decision.model_dump(exclude_none=True) for decision in self.decisions]
        return DecisionRequest(
            page_id,
            decisions,
            self.questionId,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )


class DecisionCreate(_Decision):
    """The answer to an approval question."""


class UserMessage(_Message):
    """A message of a person (C13)."""

    type: Literal["userMessage"]
    conversationId: _Id
    content: str
    pageId: str | None = Field(None, max_length=255)
    messageId: str | None = Field(None, max_length=255)
    """The same id within a day is the same message."""


class ApprovalResponse(_Decision):
    """A person's answer to a question."""

    type: Literal["approvalResponse"]
    conversationId: _Id


class Join(BaseModel):
    """Follow a conversation after an event."""

    type: Literal["join"]
    conversationId: _Id
    lastEventId: str | None = Field(None, max_length=80)


class Leave(BaseModel):
    """Stop following a conversation."""

    type: Literal["leave"]
    conversationId: _Id


class Cancel(BaseModel):
    """Cancel the running turn of a conversation."""

    type: Literal["cancel"]
    conversationId: _Id


IncomingMessage = UserMessage | ApprovalResponse | Join | Leave | Cancel
INCOMING: Final[TypeAdapter[IncomingMessage]] = TypeAdapter(
    Annotated[IncomingMessage, Field(discriminator="type")]
)
"""Every message that a client may send over the web socket."""

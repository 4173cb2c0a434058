"""Request bodies of the chat about a page, over REST and the web socket."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from callsheet.server.artefacts.schemas import ActionDecision
from callsheet.server.http.requests import ModelChoice

_Id = Annotated[str, Field(min_length=1, max_length=255)]


class _Message(ModelChoice):
    selectedElementId: str | None = Field(None, max_length=255, description='Element that "this" means')


class PageChatCreate(_Message):
    """A message about a page."""

    message: str
    conversationId: str | None = Field(None, description="The page's conversation; its own id unless chosen")


class DecisionBody(ModelChoice):
    """A person's answer to an approval question."""

    decisions: list[ActionDecision] = Field(
        min_length=1, max_length=100, description="One for each action, or one for all"
    )
    questionId: str | None = Field(None, max_length=255, description="The pending question when left out")


class DecisionCreate(DecisionBody):
    """The answer to an approval question."""


class UserMessage(_Message):
    """A message of a person."""

    type: Literal["userMessage"]
    conversationId: _Id
    content: str
    pageId: str | None = Field(None, max_length=255)
    messageId: str | None = Field(None, max_length=255)
    """In the message's frame; the same id within a day is the same message."""

    def to_chat(self) -> PageChatCreate:
        """Return the message as the body of the same request over REST."""
        fields = self.model_dump(include={"selectedElementId", *ModelChoice.model_fields})
        return PageChatCreate(message=self.content, conversationId=self.conversationId, **fields)


class ApprovalResponse(DecisionBody):
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
INCOMING: Final[Mapping[str, type[IncomingMessage]]] = MappingProxyType(
    {
        "userMessage": UserMessage,
        "approvalResponse": ApprovalResponse,
        "join": Join,
        "leave": Leave,
        "cancel": Cancel,
    }
)
"""Every message that a client may send over the web socket, by its type."""

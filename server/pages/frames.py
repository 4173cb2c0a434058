"""Frames of a conversation about a page, as its streams and its web socket send them; for the document."""

from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from callsheet.server.artefacts.event_schemas import Gap
from callsheet.server.artefacts.schemas import Arguments, QuestionAction, ToolOutput
from callsheet.server.http.openapi import event_stream
from callsheet.state.receipts import Receipt


class _Frame(TypedDict):
    eventId: str
    conversationId: str
    runId: str


class UserMessageFrame(_Frame):
    """A message of a person."""

    type: Literal["userMessage"]
    messageId: str | None
    content: Any
    """Text, or blocks of a message that came over LangGraph's interface."""


class ApprovalResponseFrame(_Frame):
    """The answer of a person to a question."""

    type: Literal["approvalResponse"]
    decisions: list[Any]
    """As they were sent."""
    messageId: NotRequired[str]


class ResponseChunkFrame(_Frame):
    """Words of the model, as they come."""

    type: Literal["aiResponseChunk"]
    messageId: str
    content: str
    isLastChunk: bool


class ResponseWithdrawnFrame(_Frame):
    """A message whose words another answer replaces."""

    type: Literal["aiResponseWithdrawn"]
    messageId: str


class ToolStartFrame(_Frame):
    """A tool call that begins."""

    type: Literal["toolExecutionStart"]
    toolCallId: str
    toolName: str
    input: Arguments
    title: str


class ToolProgressFrame(_Frame):
    """A tool call that runs."""

    type: Literal["toolExecutionProgress"]
    toolCallId: str
    status: Literal["executing"]


class ToolCompleteFrame(_Frame):
    """A tool call that has ended."""

    type: Literal["toolExecutionComplete"]
    toolCallId: str
    status: Literal["completed", "failed", "timeout"]
    output: ToolOutput | None
    error: NotRequired[str]
    errorType: NotRequired[str]
    retryable: NotRequired[bool]
    suggestion: NotRequired[str]
    details: NotRequired[Any]
    durationSeconds: NotRequired[float]


class ApprovalRequestFrame(_Frame):
    """A question that waits for an answer."""

    type: Literal["approvalRequest"]
    id: str
    actions: list[QuestionAction]


class ReceiptFrame(_Frame, Receipt):
    """The effects of a turn."""

    type: Literal["receipt"]


class ErrorDetails(TypedDict):
    """The kind of an error."""

    kind: str


class ErrorFrame(_Frame):
    """The error that ended a turn."""

    type: Literal["error"]
    error: str
    errorType: str
    retryable: bool
    details: ErrorDetails


FRAMES: Final = event_stream(
    {
        "userMessage": UserMessageFrame,
        "approvalResponse": ApprovalResponseFrame,
        "aiResponseChunk": ResponseChunkFrame,
        "aiResponseWithdrawn": ResponseWithdrawnFrame,
        "toolExecutionStart": ToolStartFrame,
        "toolExecutionProgress": ToolProgressFrame,
        "toolExecutionComplete": ToolCompleteFrame,
        "approvalRequest": ApprovalRequestFrame,
        "receipt": ReceiptFrame,
        "error": ErrorFrame,
        "gap": Gap,
    }
)
"""OpenAPI of the events of a conversation about a page."""

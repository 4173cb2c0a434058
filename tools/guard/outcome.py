"""Outcome of a call, in the form that models and callers read: a result or one of six errors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from langchain_core.messages import ToolMessage

from callsheet.state.errors import (
    CallsheetError,
    Forbidden,
    InvalidArguments,
    Limited,
    Missing,
    OutcomeUnknown,
    Oversized,
    Refused,
    TimedOut,
)

ErrorType = Literal[
    "validation_error",
    "permission_denied",
    "execution_error",
    "timeout_error",
    "rate_limit_error",
    "unknown_tool",
]
SUGGESTION: Final = "Retry with different parameters or check argument format"
"""Suggestion for an error without a remedy."""
UNEXPECTED: Final = "An unexpected error occurred during tool execution"
"""Message of an unexpected error."""
UNKNOWN: Final = "outcome_unknown"
"""Detail of the error of a call that may have had its effect."""


class UnknownTool(Missing):
    """The workflow has no tool of that name."""


_KINDS: Final[tuple[tuple[type[CallsheetError], ErrorType, bool], ...]] = (
    (UnknownTool, "unknown_tool", False),
    (Forbidden, "permission_denied", False),
    (InvalidArguments, "validation_error", True),
    (Refused, "validation_error", False),
    (Limited, "rate_limit_error", True),
    (Oversized, "execution_error", False),
    (OutcomeUnknown, "timeout_error", False),
    (TimedOut, "timeout_error", True),
    (CallsheetError, "execution_error", True),
)


class ToolExecutionError(CallsheetError):
    """A call that failed, as callbacks receive it."""

    def __init__(self, tool: str, call_id: str, output: Mapping[str, Any]) -> None:
        super().__init__(output["error"], remedy=output["suggestion"], details=output.get("details"))
        self.tool_name = tool
        self.tool_call_id = call_id
        self.error_type: ErrorType = output["type"]
        self.retryable: bool = output["retryable"]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call."""

    ok: bool
    output: dict[str, Any]
    """The tool's result, or the error as the model reads it."""

    @property
    def label(self) -> str:
        """`ok`, or the type of the error."""
        return "ok" if self.ok else str(self.output["type"])


def failed_outcome(
    kind: ErrorType, message: str, *, suggestion: str = "", retryable: bool = False, **details: object
) -> Outcome:
    """Return a failed outcome in the form models and callers read."""
    output: dict[str, Any] = {
        "error": message,
        "suggestion": suggestion or SUGGESTION,
        "type": kind,
        "retryable": retryable,
    }
    return Outcome(ok=False, output=output | ({"details": details} if details else {}))


def outcome_of_error(error: CallsheetError) -> Outcome:
    """Return the outcome of a `CallsheetError`."""
    kind, retryable = next((name, again) for cls, name, again in _KINDS if isinstance(error, cls))
    details = {**error.details, **({UNKNOWN: True} if isinstance(error, OutcomeUnknown) else {})}
    return failed_outcome(kind, error.message, suggestion=error.remedy, retryable=retryable, **details)


def is_unknown(output: Mapping[str, Any]) -> bool:
    """Return True for the result of a call that may have had its effect."""
    return bool((output.get("details") or {}).get(UNKNOWN))


def tool_message(
    call_id: str, name: str, output: Mapping[str, Any], artifact: Mapping[str, Any] | None = None
) -> ToolMessage:
    """Return the message that answers a tool call: JSON text under the call's own id.

    No model is sent the `artifact`; a page reads it with the thread's state.
    """
    text = json.dumps(output, ensure_ascii=False)
    return ToolMessage(text, tool_call_id=call_id, name=name, artifact=artifact)

"""The record of a call: caller, input, times and outcome."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.state.plan import Step
from callsheet.storage import tool_calls
from callsheet.storage.artefacts.receipts import receipt_name
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import ScriptCall, execute_all
from callsheet.storage.tool_calls import CallFilter
from callsheet.tools.call import Scope
from callsheet.tools.guard.outcome import Outcome
from callsheet.tools.guard.tool_environment import current_tool_environment

MAX_CHARS: Final = 8_000
"""Characters kept of an input or output; a longer one is cut."""
_MAX_NAME: Final = 64
_ANY: Final = json.JSONEncoder(ensure_ascii=False, default=str)
_MAX_OPEN: Final = 100
"""Newest calls of a thread that are searched for open ones."""


@dataclass
class CallRecord:
    """The record of one call, shared by all its attempts.

    Raises `UnicodeEncodeError` for a step with a lone surrogate, which cannot be stored.
    """

    step: Step
    scope: Scope
    name: str = field(init=False)
    """Name of its receipt."""
    call: str = field(init=False)
    """Id, which differs by conversation, message, call and fork."""
    input: str = field(init=False)
    """The model's arguments as JSON."""

    def __post_init__(self) -> None:
        scope, step = self.scope, self.step
        self.name = receipt_name(scope.thread, scope.task, f"{scope.plan}/{step['id']}")
        self.call = hashlib.sha256(self.name.encode()).hexdigest()[:32]
        self.input = truncate({"raw": step["raw"]} if "raw" in step else step["params"])
        (step["tool"] + self.input).encode()

    def waiting_call(self) -> ScriptCall:
        """Return the script that records that the call waits for its limit."""
        return self._write({"status": "pending"}, over=False)

    def started_call(self) -> ScriptCall:
        """Return the script that records that the call is executing."""
        return self._write({"status": "executing", **self._identity()}, over=False)

    def refused_call(self, outcome: Outcome) -> ScriptCall:
        """Return the script that records a call that was refused before it began."""
        return self._write({**self._identity(), **_outcome_fields(outcome, "")}, over=True)

    def ended_call(self, outcome: Outcome, text: str, *, tries: int, cached: bool) -> ScriptCall:
        """Return the script that records the outcome; `text` is the output as JSON if known."""
        counts = {"tries": str(tries), "cached": "true" if cached else "false"}
        return self._write(_outcome_fields(outcome, text) | counts, over=True)

    def _identity(self) -> Mapping[str, str]:
        return {
            "conversationId": self.scope.thread,
            "messageId": self.scope.plan,
            "toolCallId": self.step["id"],
            "toolName": self.step["tool"][:_MAX_NAME],
            "input": self.input,
            "userId": self.scope.owner,
            "runId": self.scope.run,
            "kind": self.scope.kind,
            "artefactId": self.scope.artefact,
        }

    def _write(self, fields: Mapping[str, str], *, over: bool) -> ScriptCall:
        retention = current_tool_environment().kept_calls
        return tool_calls.write_call(
            self.scope.owner, self.scope.thread, self.call, fields, ended=over, retention=retention
        )


async def close(opened: Storage, scope: Scope, outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    """Record the outcomes of calls that a dead attempt left open, by message and call id."""
    for record in await tool_calls.list_calls(
        opened, scope.owner, CallFilter(thread=scope.thread), _MAX_OPEN
    ):
        outcome = outcomes.get((record["messageId"], record["toolCallId"]))
        if outcome and "endMs" not in record:
            fields = _outcome_fields(outcome, "")
            call = tool_calls.write_call(scope.owner, scope.thread, record["id"], fields, ended=True)
            await execute_all(opened.redis, [call])


def truncate(value: Any, text: str = "") -> str:
    """Return the value as JSON; a longer text is replaced by its beginning and its length."""
    text = text or _ANY.encode(value)
    if len(text) <= MAX_CHARS:
        return text
    return json.dumps({"truncated": True, "characters": len(text), "beginning": text[:MAX_CHARS]})


def _outcome_fields(outcome: Outcome, text: str) -> dict[str, str]:
    if outcome.ok:
        return {"status": "completed", "output": truncate(outcome.output, text)}
    kind = outcome.output["type"]
    return {
        "status": "timeout" if kind == "timeout_error" else "failed",
        "error": outcome.output["error"],
        "errorType": kind,
        "retryable": json.dumps(outcome.output["retryable"]),
    }

"""What is written down of a call: by whom, of what, when, and what became of it (C29, C31, C32)."""

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
from callsheet.tools.guard.call import Scope
from callsheet.tools.guard.outcome import Outcome

MAX_CHARS: Final = 8_000
"""Characters of a call's input, and of its output, that are kept; of a longer one its beginning."""
_MAX_NAME: Final = 64
_ANY: Final = json.JSONEncoder(ensure_ascii=False, default=str)
_MAX_OPEN: Final = 100
"""Calls of a thread that are looked through for those that were left."""


@dataclass
class CallRecord:
    """The record of one call, whichever attempt is at it.

    Raises `UnicodeEncodeError` for a step with half a surrogate pair, which cannot be written down.
    """

    step: Step
    scope: Scope
    name: str = field(init=False)
    """What its receipt is filed under."""
    call: str = field(init=False)
    """Its id: another for another conversation, message, call or fork (C-R7)."""
    input: str = field(init=False)
    """What the model asked with, as JSON."""

    def __post_init__(self) -> None:
        scope, step = self.scope, self.step
        self.name = receipt_name(scope.thread, scope.task, f"{scope.plan}/{step['id']}")
        self.call = hashlib.sha256(self.name.encode()).hexdigest()[:32]
        self.input = truncate({"raw": step["raw"]} if "raw" in step else step["params"])
        (step["tool"] + self.input).encode()

    def waiting_call(self) -> ScriptCall:
        """Return the script that records that it waits for its turn."""
        return self._write({"status": "pending"}, over=False)

    def started_call(self) -> ScriptCall:
        """Return the script that records that it is being carried out."""
        return self._write({"status": "executing", **self._identity()}, over=False)

    def refused_call(self, outcome: Outcome) -> ScriptCall:
        """Return the script that records a call that was refused before it began."""
        return self._write({**self._identity(), **_outcome_fields(outcome, "")}, over=True)

    def ended_call(self, outcome: Outcome, text: str, *, tries: int, cached: bool) -> ScriptCall:
        """Return the script that records how a call that began has ended.

        `text` is the output as JSON where that is known, and `cached` says that it was remembered.
        """
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
        return tool_calls.write_call(self.scope.owner, self.scope.thread, self.call, fields, over=over)


async def close(opened: Storage, scope: Scope, outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    """Record how calls ended that an attempt which is gone has left under way; by message and call id."""
    for record in await tool_calls.list_calls(
        opened, scope.owner, CallFilter(thread=scope.thread), _MAX_OPEN
    ):
        outcome = outcomes.get((record["messageId"], record["toolCallId"]))
        if outcome and "endMs" not in record:
            fields = _outcome_fields(outcome, "")
            call = tool_calls.write_call(scope.owner, scope.thread, record["id"], fields, over=True)
            await execute_all(opened.redis, [call])


def truncate(value: Any, text: str = "") -> str:
    """Return JSON that is not too long to keep: of more, the beginning and how long the whole was."""
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

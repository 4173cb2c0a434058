"""The one way a tool is called.

Always in this order: known tool, input schema (one repair), permission and ownership, write set, receipt
lookup with a claim, timeout with fencing, receipt. A failure becomes an answer for the model with one of six
types, exactly: validation_error, permission_denied, execution_error, timeout_error, rate_limit_error,
unknown_tool (C33-C38). Two things are no answer but end the attempt: storage that is away, and a lost lease.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from langchain_core.messages import ToolMessage
from pydantic import BaseModel, ValidationError

import storage
from state.errors import CallsheetError, Fenced, Forbidden, Invalid, Limited, Refused, StorageDown, TimedOut
from state.plan import Step
from storage.artefacts import Artefact, Done, Fence, step_name
from tools.call import Call, Scope
from tools.registry import Tool
from tools.repair import arguments
from tools.terms import House
from tools.work import carried_out

ErrorType = Literal[
    "validation_error",
    "permission_denied",
    "execution_error",
    "timeout_error",
    "rate_limit_error",
    "unknown_tool",
]
SUGGESTION: Final = "Retry with different parameters or check argument format"
"""What the model is told when the error has no remedy of its own (A26)."""
Tell = Callable[[str], None]
"""Is told how a call ended: `ok`, or the type of its error."""
_log = logging.getLogger(__name__)


class Counters(Protocol):
    """Looks on while tools are called."""

    def call(self, tool: str, scope: Scope) -> AbstractContextManager[Tell]:
        """Watch one call and be told its outcome, unless it raises; `tool` is `unknown` for none of ours."""
        ...


class _NoCounters:
    def call(self, tool: str, scope: Scope) -> AbstractContextManager[Tell]:
        del tool, scope
        return nullcontext(lambda _: None)


counters: Counters = _NoCounters()
"""Set once, by the server."""
house: House = House()
"""The operator's word on terms and permissions; set once, by the server."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call."""

    ok: bool
    output: dict[str, Any]
    """The tool's result, or the error as the model reads it."""


def failure(
    kind: ErrorType, message: str, *, suggestion: str = "", retryable: bool = False, **details: object
) -> Outcome:
    """Return a failed outcome in the form models and callers read (A26, C39)."""
    output: dict[str, Any] = {
        "error": message,
        "suggestion": suggestion or SUGGESTION,
        "type": kind,
        "retryable": retryable,
    }
    return Outcome(ok=False, output=output | ({"details": details} if details else {}))


async def call(tools: Mapping[str, Tool], step: Step, scope: Scope) -> Outcome:
    """Carry out one step, or answer why not; never twice for one receipt.

    Raises `StorageDown` when storage is away and `Fenced` when this attempt has lost the step: both end the
    attempt, and a later one finds what was done by its receipts.
    """
    # A model may make names up without end, and a counter keeps every one it is given.
    with counters.call(step["tool"] if step["tool"] in tools else "unknown", scope) as tell:
        outcome = await _answered(tools, step, scope)
        tell("ok" if outcome.ok else str(outcome.output["type"]))
    return outcome


async def _answered(tools: Mapping[str, Tool], step: Step, scope: Scope) -> Outcome:
    tool = tools.get(step["tool"])
    if tool is None:
        return failure(
            "unknown_tool",
            f"Unknown tool: {step['tool']}",
            suggestion=f"Use one of: {', '.join(sorted(tools))}",
        )
    try:
        args = _validated(tool, step)
        _permitted(tool, args, step, scope)
        return await _attempt(tool, args, step, scope)
    except (StorageDown, Fenced):
        raise
    except CallsheetError as error:
        return _refusal(error)
    except Exception:  # noqa: BLE001 -- one of the three places that may: every call must get an answer
        _log.exception("tool %s failed on thread %s, call %s", tool.name, scope.thread, step["id"])
        return failure(
            "execution_error", "An unexpected error occurred during tool execution", retryable=True
        )


def _validated(tool: Tool, step: Step) -> BaseModel:
    params = arguments(step["raw"]) if "raw" in step else step["params"]
    try:
        return tool.schema.model_validate(params)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or tool.name}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)[:5]
        )
        raise Invalid(f"{tool.name} was called with wrong arguments: {problems}") from error


def _permitted(tool: Tool, args: BaseModel, step: Step, scope: Scope) -> None:
    subject = getattr(args, tool.subject) if tool.subject else scope.artefact
    if subject != scope.artefact:
        raise Forbidden(
            f"{tool.subject} {subject!r} is not the {scope.kind} of this conversation",
            remedy=f"use {scope.artefact!r}",
        )
    outside = tool.writes - set(step["writes"])
    if outside:
        raise Forbidden(
            f"step {step['id']!r} may not write {', '.join(sorted(outside))}",
            remedy="plan a step that declares it",
        )


async def _attempt(tool: Tool, args: BaseModel, step: Step, scope: Scope) -> Outcome:
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    claimed = await _claimed(tool, artefact, step, scope)
    if isinstance(claimed, Done):
        return Outcome(ok=True, output=claimed.result)
    terms = house.settled(tool.name, tool.terms, calls=tool.calls)
    call = Call(scope, artefact, step["id"], tool.writes, claimed)
    try:
        async with asyncio.timeout(terms.timeout_s):
            made = await carried_out(tool, args, call)
    except TimeoutError:
        return await _timed_out(tool, terms.timeout_s, artefact, claimed)
    return Outcome(ok=True, output=made)


async def _claimed(tool: Tool, artefact: Artefact, step: Step, scope: Scope) -> Fence | Done | None:
    if not tool.writes:
        return None
    return await artefact.claim(
        step_name(scope.thread, scope.task, f"{scope.plan}/{step['id']}"),
        epoch=scope.epoch,
        owner=scope.owner,
        thread=scope.thread,
        facts=scope.facts,
    )


async def _timed_out(tool: Tool, timeout_s: float, artefact: Artefact, fence: Fence | None) -> Outcome:
    # The write may have come through just before the deadline: then it counts, else it is refused for good.
    done = await artefact.revoke(fence) if fence else None
    if isinstance(done, Done):
        return Outcome(ok=True, output=done.result)
    return failure(
        "timeout_error",
        f"{tool.name} gave no answer within {timeout_s:g} s; nothing was written",
        suggestion="Try again, or ask for less at once",
        retryable=True,
    )


def _refusal(error: CallsheetError) -> Outcome:
    kinds: tuple[tuple[type[CallsheetError], ErrorType, bool], ...] = (
        (Forbidden, "permission_denied", False),
        (Refused, "validation_error", False),
        (Limited, "rate_limit_error", True),
        (TimedOut, "timeout_error", True),
        (CallsheetError, "execution_error", True),
    )
    kind, retryable = next((name, again) for cls, name, again in kinds if isinstance(error, cls))
    return failure(kind, error.message, suggestion=error.remedy, retryable=retryable, **error.details)


def answer(call_id: str, name: str, output: Mapping[str, Any]) -> ToolMessage:
    """Return the message that answers a tool call: JSON text under the call's own id (A24)."""
    return ToolMessage(json.dumps(output, ensure_ascii=False), tool_call_id=call_id, name=name)

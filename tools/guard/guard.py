"""The one way a tool is called.

Always in this order: known tool, input schema (one repair), permission and ownership, write set and locks,
rate limit, circuit breaker, receipt lookup or read cache, timeout with fencing, another try where that is
safe, receipt and record.

What has a receipt has happened, so from then on only its owner is asked for. A failure
becomes an answer for the model with one of six types, exactly: validation_error, permission_denied,
execution_error, timeout_error, rate_limit_error, unknown_tool (C33-C38). Two things are no answer but end the
attempt: storage that is away, and a lost lease.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from pydantic import BaseModel, ValidationError

from callsheet import storage
from callsheet.state.errors import CallsheetError, Fenced, Forbidden, Invalid, StorageDown
from callsheet.state.plan import Step, utf8_safe
from callsheet.storage.redis.scripts import execute_all
from callsheet.tools.guard.attempt import Attempt, resolve_tool
from callsheet.tools.guard.call import Scope
from callsheet.tools.guard.outcome import (
    UNEXPECTED,
    Outcome,
    ToolExecutionError,
    UnknownTool,
    failed_outcome,
    outcome_of_error,
)
from callsheet.tools.guard.policy import ToolPolicy
from callsheet.tools.guard.record import CallRecord
from callsheet.tools.guard.repair import repair_arguments
from callsheet.tools.registry import Tool

ReportOutcome = Callable[[str], None]
"""Is told how a call ended: `ok`, or the type of its error."""
_MAX_PROBLEMS = 5
"""Wrong arguments that are named."""
_log = logging.getLogger(__name__)


class Counters(Protocol):
    """Looks on while tools are called."""

    def call(self, tool: str, scope: Scope) -> AbstractContextManager[ReportOutcome]:
        """Watch one call and be told its outcome, unless it raises; `tool` is `unknown` for none of ours."""
        ...

    def count_lookup(self, tool: str, *, hit: bool) -> None:
        """Be told whether a look-up was answered from what is remembered."""
        ...


_NO_REPORT: Final = nullcontext[ReportOutcome](lambda _: None)


class _NoCounters:
    def call(self, tool: str, scope: Scope) -> AbstractContextManager[ReportOutcome]:
        del tool, scope
        return _NO_REPORT

    def count_lookup(self, tool: str, *, hit: bool) -> None:
        del tool, hit


counters: Counters = _NoCounters()
"""Set once, by the server."""
policy: ToolPolicy = ToolPolicy()
"""The operator's word on terms and permissions; set once, by the server."""


async def call(tools: Mapping[str, Tool], step: Step, scope: Scope) -> Outcome:
    """Carry out one step, or answer why not; never twice for one receipt.

    Raises `StorageDown` when storage is away and `Fenced` when this attempt has lost the step: both end the
    attempt, and a later one finds what was done by its receipts.
    """
    tool = tools.get(step["tool"])
    # A model may make names up without end, and a counter keeps every one it is given.
    with counters.call(tool.name if tool else "unknown", scope) as tell:
        record = _create_record(step, scope)
        outcome = await (_execute_known(tool, record) if tool else _refuse(record, _no_tool(record, tools)))
        tell(outcome.label)
    return outcome


async def execute(
    tools: Mapping[str, Tool], name: str, params: Mapping[str, Any], scope: Scope
) -> dict[str, Any]:
    """Return what one call gives, for hosts that call tools themselves (C3); raises `ToolExecutionError`."""
    tool = tools.get(name)
    writes = sorted(tool.writes) if tool else []
    call_id = f"call_{uuid.uuid4().hex}"
    step = Step(
        id=call_id, tool=name, display=name, params={**params}, dependencies=[], reads=[], writes=writes
    )
    outcome = await call(tools, step, scope)
    if not outcome.ok:
        raise ToolExecutionError(name, call_id, outcome.output)
    return outcome.output


def is_permitted(tool: Tool, owner: str) -> bool:
    """Return whether the owner has been granted everything the tool asks for (C3, C-R1)."""
    return policy.grants_all(owner, tool.permissions)


def _create_record(step: Step, scope: Scope) -> CallRecord:
    """Return the record of a call, which no model keeps from being written by what it writes."""
    try:
        return CallRecord(step, scope)
    except UnicodeEncodeError:
        return CallRecord(utf8_safe(step), scope)


def _no_tool(record: CallRecord, tools: Mapping[str, Tool]) -> UnknownTool:
    name, known = record.step["tool"], ", ".join(sorted(tools))
    return UnknownTool(f"Unknown tool: {name}", remedy=f"Use one of: {known}")


async def _refuse(record: CallRecord, error: CallsheetError) -> Outcome:
    """Record a call that is refused before anything is claimed."""
    outcome = outcome_of_error(error)
    await execute_all((await storage.current()).redis, [record.refused_call(outcome)])
    return outcome


async def _execute_known(tool: Tool, record: CallRecord) -> Outcome:
    opened = await storage.current()
    try:
        args = _validate(tool, record.step)
        _check_permission(tool, args, record.step, record.scope)
        attempt = Attempt(opened, tool, resolve_tool(tool, policy), args, record)
    except CallsheetError as error:
        return await _refuse(record, error)
    outcome = await attempt.report(await _outcome(attempt))
    if attempt.cached is not None:
        counters.count_lookup(tool.name, hit=attempt.cached)
    return outcome


async def _outcome(attempt: Attempt) -> Outcome:
    try:
        return Outcome(ok=True, output=await attempt.run())
    except (StorageDown, Fenced):
        raise
    except asyncio.CancelledError:
        await asyncio.shield(attempt.cancel())
        raise
    except CallsheetError as error:
        return outcome_of_error(error)
    except Exception:  # noqa: BLE001 -- one of the three places that may: every call must get an answer
        where = (attempt.tool.name, attempt.scope.thread, attempt.step["id"])
        _log.exception("tool %s failed on thread %s, call %s", *where)
        return failed_outcome("execution_error", UNEXPECTED, retryable=True)


def _validate(tool: Tool, step: Step) -> BaseModel:
    params = repair_arguments(step["raw"]) if "raw" in step else step["params"]
    try:
        return tool.schema.model_validate(params)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or tool.name}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
        )
        raise Invalid(f"{tool.name} was called with wrong arguments: {problems}") from error


def _check_permission(tool: Tool, args: BaseModel, step: Step, scope: Scope) -> None:
    if not policy.grants_all(scope.owner, tool.permissions):
        raise Forbidden(
            f"{tool.name} needs {', '.join(sorted(tool.permissions))}, which you have not been granted",
            remedy="Do without it, or ask the operator for leave",
        )
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

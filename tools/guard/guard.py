"""The one way a tool is called.

Always in this order: known tool, input schema (one repair), permission, write set, ownership, receipt, locks,
rate limit, circuit breaker, cache, timeout with fencing, retry where that is safe, record. A call with a
receipt has happened: its result is returned without the checks that follow.

A failure becomes an answer for the model of exactly one of six types: validation_error, permission_denied,
execution_error, timeout_error, rate_limit_error, unknown_tool. Only an outage of storage and a lost
lease end the attempt without an answer.
"""

import asyncio
import logging
from collections.abc import Mapping

from pydantic import BaseModel

from callsheet import storage
from callsheet.state.budgets import BudgetExceeded
from callsheet.state.errors import CallsheetError, Fenced, Forbidden, StorageDown
from callsheet.state.plan import Step
from callsheet.state.unicode import utf8_safe_value
from callsheet.storage.redis.scripts import execute_all
from callsheet.tools.call import Scope
from callsheet.tools.guard.arguments import repair_off_loop, validate_arguments
from callsheet.tools.guard.attempt import Attempt, resolve_tool
from callsheet.tools.guard.outcome import (
    UNEXPECTED,
    Outcome,
    UnknownTool,
    failed_outcome,
    outcome_of_error,
)
from callsheet.tools.guard.record import CallRecord
from callsheet.tools.guard.tool_environment import current_tool_environment
from callsheet.tools.registry import Tool

_log = logging.getLogger(__name__)


async def call(tools: Mapping[str, Tool], step: Step, scope: Scope) -> Outcome:
    """Execute one step, never twice for one receipt, and return its outcome.

    Raises `StorageDown` if storage is away, `Fenced` if this attempt has lost the step, and `BudgetExceeded`
    before a model call that a person must agree to. All end the attempt; a later one finds the effects by
    their receipts.
    """
    tool_environment = current_tool_environment()
    tool = tools.get(step["tool"])
    if tool:
        tool = tool_environment.replacements.get(tool.name, tool)
    # A model may invent names without end, and a counter keeps every name.
    with tool_environment.counters.call(tool.name if tool else "unknown", scope) as tell:
        record = _create_record(step, scope)
        outcome = await (_execute_known(tool, record) if tool else _refuse(record, _no_tool(record, tools)))
        tell(outcome.label)
    return outcome


def _create_record(step: Step, scope: Scope) -> CallRecord:
    """Return the record of a call; invalid Unicode from a model is replaced."""
    try:
        return CallRecord(step, scope)
    except UnicodeEncodeError:
        return CallRecord(utf8_safe_value(step), scope)


def _no_tool(record: CallRecord, tools: Mapping[str, Tool]) -> UnknownTool:
    name, known = record.step["tool"], ", ".join(sorted(tools))
    return UnknownTool(f"Unknown tool: {name}", remedy=f"Use one of: {known}")


async def _refuse(record: CallRecord, error: CallsheetError) -> Outcome:
    """Record a call that is refused before it is claimed."""
    outcome = outcome_of_error(error)
    await execute_all((await storage.current()).redis, [record.refused_call(outcome)])
    return outcome


async def _execute_known(tool: Tool, record: CallRecord) -> Outcome:
    tool_environment, opened = current_tool_environment(), await storage.current()
    try:
        args, ignored = await _validate(tool, record.step, record.scope)
        _check_permission(tool, args, record.step, record.scope)
        attempt = Attempt(opened, tool, resolve_tool(tool, tool_environment.policy), args, record)
    except CallsheetError as error:
        return await _refuse(record, error)
    outcome = await _outcome(attempt)
    outcome = await attempt.report(_with_ignored(outcome, ignored))
    if attempt.cached is not None:
        tool_environment.counters.count_lookup(tool.name, hit=attempt.cached)
    return outcome


async def _outcome(attempt: Attempt) -> Outcome:
    try:
        return Outcome(ok=True, output=await attempt.run())
    except (StorageDown, Fenced):
        raise
    except (asyncio.CancelledError, BudgetExceeded):
        await asyncio.shield(attempt.cancel())
        raise
    except CallsheetError as error:
        return outcome_of_error(error)
    except Exception:  # noqa: BLE001 -- one of the allowed places: every call must get an answer
        where = (attempt.tool.name, attempt.scope.thread, attempt.step["id"])
        _log.exception("tool %s failed on thread %s, call %s", *where)
        return failed_outcome("execution_error", UNEXPECTED, retryable=True)


def _with_ignored(outcome: Outcome, ignored: list[str]) -> Outcome:
    """Return the outcome with the unknown arguments that were dropped, so that the model reads of them."""
    if not ignored:
        return outcome
    if outcome.ok:
        return Outcome(ok=True, output={**outcome.output, "ignoredArguments": ignored})
    error = f"{outcome.output['error']} (unknown arguments were ignored: {', '.join(ignored)})"
    return Outcome(ok=False, output={**outcome.output, "error": error})


async def _validate(tool: Tool, step: Step, scope: Scope) -> tuple[BaseModel, list[str]]:
    """Return the arguments, and the unknown names among them."""
    given = await repair_off_loop(step["raw"]) if "raw" in step else step["params"]
    return validate_arguments(tool, given, scope.artefact)


def _check_permission(tool: Tool, args: BaseModel, step: Step, scope: Scope) -> None:
    if not current_tool_environment().policy.grants_all(scope.owner, tool.permissions):
        raise Forbidden(
            f"{tool.name} needs the permissions {', '.join(sorted(tool.permissions))}",
            remedy="Do without it, or ask the operator for the permission",
        )
    subject = getattr(args, tool.subject) if tool.subject else scope.artefact
    if subject != scope.artefact:
        raise Forbidden(
            f"{tool.subject} {subject!r} is not the {scope.kind} of this conversation",
            remedy=f"use {scope.artefact!r}",
        )
    outside = tool.writes_of(step["writes"]) - set(step["writes"])
    if outside:
        raise Forbidden(
            f"step {step['id']!r} may not write {', '.join(sorted(outside))}",
            remedy="plan a step that declares it",
        )

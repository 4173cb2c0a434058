"""Limits on a model's plan: an equal draft is made once, a turn has so many calls, and none fails for ever.

A call that has failed and is made again, equal, while nothing was written in between, fails again. The second
one is not carried out and gets another answer; the third ends the turn. What may pass by itself, such as a
time-out, is tried a second time.
"""

import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from callsheet.state.conversation import calls_of, turn_starts
from callsheet.state.plan import Plan, Step, canonical_json
from callsheet.tools.guard.outcome import Outcome, failed_outcome
from callsheet.tools.registry import Tool

MAX_CALLS: Final = 16
"""Calls of one round that are carried out."""
MAX_FAILURES: Final = 2
"""Equal failed calls after which the next one ends the turn."""
_LASTING: Final = frozenset({"validation_error", "permission_denied", "unknown_tool"})
"""Types of errors that an equal call meets again."""
REPEATED: Final = "repeated"
"""Key of a result that an earlier, equal call made."""
Writes = dict[frozenset[str], tuple[str, str | dict[str, Any]]]
"""By streams: the last call of the turn that wrote them, and its result, as JSON or not."""


def earlier_writes(tools: Mapping[str, Tool], messages: Sequence[AnyMessage]) -> Writes:
    """Return the last successful writes of the newest turn."""
    starts = turn_starts(messages)
    newest = messages[starts[-1] :] if starts else ()
    results = {one.tool_call_id: one for one in newest if isinstance(one, ToolMessage)}
    writes: Writes = {}
    for call in (call for message in newest for call in calls_of(message)):
        tool, result = tools.get(call["name"]), results.get(str(call["id"]))
        if tool and tool.writes and result and '"versionId"' in result.text:
            writes[tool.writes] = (_fingerprint(call["name"], call["args"]), result.text)
    return writes


def repeats_success(answer: AIMessage, messages: Sequence[AnyMessage]) -> bool:
    """Return True if an answer is nothing but calls that have succeeded in the newest turn."""
    starts = turn_starts(messages)
    newest = messages[starts[-1] :] if starts else ()
    failed = {one.tool_call_id for one in newest if isinstance(one, ToolMessage) and _failed_output(one.text)}
    ids = {one.tool_call_id for one in newest if isinstance(one, ToolMessage)} - failed
    successes = {name for one in newest for call, name in _fingerprints(one) if str(call["id"]) in ids}
    return bool(calls_of(answer)) and all(name in successes for _, name in _fingerprints(answer))


class Failure(NamedTuple):
    """A call that has failed in this turn, since the last write."""

    times: int
    output: Mapping[str, Any]
    """Its newest result."""

    @property
    def cause(self) -> str:
        """The error of the call that was carried out."""
        return str((self.output.get("details") or {}).get("cause") or self.output["error"])


def earlier_failures(messages: Sequence[AnyMessage]) -> dict[str, Failure]:
    """Return the calls of the newest turn that have failed since its last write, by fingerprint."""
    starts = turn_starts(messages)
    failures: dict[str, Failure] = {}
    calls: dict[str, str] = {}
    for message in messages[starts[-1] :] if starts else ():
        calls |= {str(call["id"]): fingerprint for call, fingerprint in _fingerprints(message)}
        if not isinstance(message, ToolMessage):
            continue
        if '"versionId"' in message.text:
            failures.clear()
        name, output = calls.get(message.tool_call_id), _failed_output(message.text)
        if name and output:
            failures[name] = Failure(failures[name].times + 1 if name in failures else 1, output)
    return failures


def _fingerprints(message: AnyMessage) -> Iterator[tuple[Mapping[str, Any], str]]:
    if isinstance(message, AIMessage):
        yield from ((call, _fingerprint(call["name"], call["args"])) for call in message.tool_calls)
        yield from ((one, _raw_fingerprint(one["name"], one["args"])) for one in message.invalid_tool_calls)


def _failed_output(text: str) -> Mapping[str, Any] | None:
    """Return a result if it is an error of a call that was carried out, or refused by its arguments."""
    try:
        output = json.loads(text)
    except ValueError:
        return None
    if not isinstance(output, dict) or "error" not in output or "type" not in output:
        return None
    # A person's word is no failure: an equal call may be what they agree to.
    return None if output["type"] == "permission_denied" and _depends_on_person(output) else output


def _depends_on_person(output: Mapping[str, Any]) -> bool:
    return bool(output.get("retryable") or (output.get("details") or {}).get("rejected"))


def step_failure(step: Step, failures: Mapping[str, Failure]) -> Failure | None:
    """Return the earlier failure of an equal call."""
    raw = step.get("raw")
    name = _fingerprint(step["tool"], step["params"]) if raw is None else _raw_fingerprint(step["tool"], raw)
    return failures.get(name)


class Repeats:
    """The limits on one plan."""

    def __init__(self, tools: Mapping[str, Tool], plan: Plan | None, messages: Sequence[AnyMessage]) -> None:
        """Limit a plan; None limits nothing. `messages` have the calls before it."""
        self._tools = tools
        steps = plan["steps"] if plan else []
        self._planned = frozenset(step["id"] for step in steps)
        self._excess = frozenset(step["id"] for step in steps[MAX_CALLS:])
        self._writes = earlier_writes(tools, messages)
        self._failures = earlier_failures(messages)

    async def execute(self, step: Step, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Return the outcome of `call`, or of an equal call before; refuse a call over the limit.

        A step that a person inserted or wants again is carried out.
        """
        if step["id"] not in self._planned:
            return await call
        earlier = _too_many() if step["id"] in self._excess else self._equal(step) or self._again(step)
        if earlier is not None:
            call.close()
            return earlier
        outcome = await call
        tool = self._tools.get(step["tool"])
        if outcome.ok and tool and tool.writes:
            self._writes[tool.writes] = (_fingerprint(step["tool"], step["params"]), outcome.output)
        return outcome

    def _again(self, step: Step) -> Outcome | None:
        """Return another answer to a call that has failed before and cannot succeed now."""
        failure = step_failure(step, self._failures)
        if failure is None or failure.output.get("type") not in _LASTING:
            return None
        cause = failure.cause
        return failed_outcome(
            failure.output["type"],
            f"This call has just failed, and it was not carried out again: {cause}",
            suggestion=f"{failure.output.get('suggestion') or 'Change the arguments'}. Call it with other"
            " arguments, use another tool, or tell the person why it cannot be done; the same call once more"
            " ends the turn",
            cause=cause,
        )

    def _equal(self, step: Step) -> Outcome | None:
        tool = self._tools.get(step["tool"])
        if tool is None or not (tool.idempotent and tool.writes) or "raw" in step:
            return None
        fingerprint, output = self._writes.get(tool.writes, ("", {}))
        if fingerprint != _fingerprint(step["tool"], step["params"]):
            return None
        result = json.loads(output) if isinstance(output, str) else output
        return Outcome(ok=True, output={**result, REPEATED: "An equal call made this in the same turn"})


def _fingerprint(name: str, args: Mapping[str, Any]) -> str:
    return canonical_json([name, args])


def _raw_fingerprint(name: str | None, raw: str | None) -> str:
    return canonical_json([name or "", {}, raw or ""])


def _too_many() -> Outcome:
    return failed_outcome(
        "execution_error",
        f"Not carried out: a round has at most {MAX_CALLS} calls",
        suggestion="Call it again in the next round, if it is still needed",
        retryable=True,
    )

"""Limits on a model's plan: an equal draft is made once, and a turn has so many calls."""

import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from callsheet.state.conversation import calls_of, turn_starts
from callsheet.state.plan import Plan, Step, canonical_json
from callsheet.tools.guard.outcome import Outcome, failed_outcome
from callsheet.tools.registry import Tool

MAX_CALLS: Final = 16
"""Calls of one round that are carried out."""
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


class Repeats:
    """The limits on one plan."""

    def __init__(self, tools: Mapping[str, Tool], plan: Plan | None, messages: Sequence[AnyMessage]) -> None:
        """Limit a plan; None limits nothing. `messages` have the calls before it."""
        self._tools = tools
        steps = plan["steps"] if plan else []
        self._planned = frozenset(step["id"] for step in steps)
        self._excess = frozenset(step["id"] for step in steps[MAX_CALLS:])
        self._writes = earlier_writes(tools, messages)

    async def execute(self, step: Step, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Return the outcome of `call`, or of an equal call before; refuse a call over the limit.

        A step that a person inserted or wants again is carried out.
        """
        if step["id"] not in self._planned:
            return await call
        earlier = _too_many() if step["id"] in self._excess else self._equal(step)
        if earlier is not None:
            call.close()
            return earlier
        outcome = await call
        tool = self._tools.get(step["tool"])
        if outcome.ok and tool and tool.writes:
            self._writes[tool.writes] = (_fingerprint(step["tool"], step["params"]), outcome.output)
        return outcome

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


def _too_many() -> Outcome:
    return failed_outcome(
        "execution_error",
        f"Not carried out: a round has at most {MAX_CALLS} calls",
        suggestion="Call it again in the next round, if it is still needed",
        retryable=True,
    )

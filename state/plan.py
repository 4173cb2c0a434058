"""The plan of one round: steps, what they wait for, and which are ready.

A step is one tool call. It waits for every earlier step of the plan that writes what it reads or writes, so
independent steps run side by side and dependent ones in the order the model gave them.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

_SORTED: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
StepStatus = Literal["pending", "in-progress", "completed", "error", "blocked", "cancelled"]


class Step(TypedDict):
    """One planned tool call."""

    id: str
    """The model's tool_call_id."""
    tool: str
    display: str
    """What a person reads while it runs."""
    params: dict[str, Any]
    raw: NotRequired[str]
    """The arguments as the model wrote them, where they were not JSON."""
    dependencies: list[str]
    """Ids of steps that must be completed before it starts."""
    reads: list[str]
    """Streams it looks at."""
    writes: list[str]
    """Streams it may write; a write outside is refused."""


class Plan(TypedDict):
    """The steps of one round."""

    id: str
    steps: list[Step]


class StepResult(TypedDict):
    """What became of a step."""

    id: str
    plan: str
    """Id of its plan; call ids repeat from message to message with some vendors (C-R7)."""
    tool: str
    status: StepStatus
    output: dict[str, Any]
    """The tool's result, or `{error, suggestion, type, retryable}`."""
    duration_s: float


def with_dependencies(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with their dependencies filled in from what they read and write."""
    result: list[Step] = []
    for step in steps:
        touches = {*step["reads"], *step["writes"]}
        waits = [before["id"] for before in result if touches & set(before["writes"])]
        result.append({**step, "dependencies": waits})
    return result


def ready(plan: Plan, done: Mapping[str, StepStatus], running: Collection[str]) -> list[Step]:
    """Return the steps that may start now, in plan order."""
    return [
        step
        for step in plan["steps"]
        if step["id"] not in done
        and step["id"] not in running
        and all(done.get(needed) == "completed" for needed in step["dependencies"])
    ]


def blocked(plan: Plan, done: Mapping[str, StepStatus]) -> list[Step]:
    """Return the steps that can never start, because one they wait for did not complete."""
    return [
        step
        for step in plan["steps"]
        if step["id"] not in done
        and any(done.get(needed, "completed") != "completed" for needed in step["dependencies"])
    ]


def fingerprint(step: Step) -> str:
    """Return what two steps share when they would do the same."""
    return canonical_json([step["tool"], step["params"]])


def utf8_safe(step: Step) -> Step:
    """Return the step with U+FFFD for each half of a surrogate pair, which UTF-8 has no bytes for."""
    safe_step: Step = json.loads(_SURROGATE.sub("\ufffd", canonical_json(step)))
    return safe_step


def canonical_json(value: object) -> str:
    """Return JSON with text as it is, keys sorted: equal values give equal texts."""
    return _SORTED.encode(value)

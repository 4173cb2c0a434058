"""The plan of one round: its steps, their dependencies and the rules of execution.

A step is one tool call. It waits for every earlier step that writes a stream it reads or writes, so that
independent steps run concurrently and dependent ones in the model's order.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

_SORTED: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)
StepStatus = Literal["pending", "in-progress", "completed", "error", "blocked", "skipped", "cancelled"]


class Step(TypedDict):
    """One planned tool call."""

    id: str
    """The model's tool_call_id."""
    tool: str
    display: str
    """Text shown to people while it runs."""
    label: NotRequired[str]
    """Text in place of `display` once a person has edited the step: `display` is the model's, about its own
    parameters."""
    params: dict[str, Any]
    raw: NotRequired[str]
    """The model's arguments when they were not JSON."""
    dependencies: list[str]
    """Ids of the steps that must complete before it starts."""
    reads: list[str]
    """Streams it reads."""
    writes: list[str]
    """Streams it may write; other writes are refused."""
    after: NotRequired[list[str]]
    """Ids of steps that must have ended, however, before it starts."""
    left_out: NotRequired[bool]
    """True if a person left it out when they approved the plan."""
    alone: NotRequired[bool]
    """True if no other step may run at the same time."""


class Plan(TypedDict):
    """The steps of one round."""

    id: str
    steps: list[Step]
    call: NotRequired[str]
    """Id of the call that submitted the whole plan; absent where every step is a call."""
    about: NotRequired[dict[str, str]]
    """Texts of the plan: its reasoning, and words for the person."""


class StepResult(TypedDict):
    """Result of a step."""

    id: str
    plan: str
    """Id of its plan, since some vendors reuse call ids."""
    tool: str
    status: StepStatus
    output: dict[str, Any]
    """The tool's result, or `{error, suggestion, type, retryable}`."""
    duration_s: float


def covers(declared: Collection[str], stream: str) -> bool:
    """Return True if `declared` names the stream, or its family: `scene-*` stands for `scene-1` and so on."""
    return stream in declared or any(name.endswith("*") and stream.startswith(name[:-1]) for name in declared)


def with_dependencies(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with their dependencies, derived from their reads and writes."""
    result: list[Step] = []
    for step in steps:
        touches = {*step["reads"], *step["writes"]}
        waits = [before["id"] for before in result if touches & set(before["writes"])]
        result.append({**step, "dependencies": waits})
    return result


def plan_type(steps: Sequence[Step]) -> Literal["single", "parallel", "sequential", "mixed"]:
    """Return the label of a plan, as its dependencies make it."""
    if len(steps) == 1:
        return "single"
    if not any(step["dependencies"] or step.get("alone") for step in steps):
        return "parallel"
    waits = all(before["id"] in step["dependencies"] for before, step in pairwise(steps))
    return "sequential" if waits else "mixed"


def without_left_out(steps: Sequence[Step], names: Collection[str], creators: Collection[str]) -> list[Step]:
    """Return the steps, those with these ids marked as left out, and those that lack what one would make."""
    left = {*names}
    making = {step["id"] for step in steps if step["tool"] in creators}
    size = -1
    while size != len(left):
        size = len(left)
        lacking = left & making
        left |= {step["id"] for step in steps if lacking & {*step["dependencies"]}}
    return [{**step, "left_out": True} if step["id"] in left else step for step in steps]


def waits_for(step: Step) -> list[str]:
    """Return the ids of the steps that must have completed, or ended, before a step starts."""
    return [*step["dependencies"], *step.get("after", ())]


def with_params(step: Step, params: Mapping[str, Any]) -> Step:
    """Return the step with other parameters, without what tells of the old ones: raw arguments and title."""
    own = {"raw", "label"}
    changed = cast("Step", {name: value for name, value in step.items() if name not in own})
    display = step.get("label", step["display"])
    old, new = step["params"].get("name"), params.get("name")
    if old and new:
        display = display.replace(f"“{old}”", f"“{new}”")
    return {**changed, "display": display, "params": dict(params)}


def step_titles(plan: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Return the id of a plan and the titles of its steps by id, as pages show them."""
    return {"plan": plan, "titles": {step["id"]: step["display"] for step in steps}}


def is_unchanged(status: StepStatus, output: Mapping[str, Any]) -> bool:
    """Return True for a completed step that changed nothing."""
    return status == "completed" and bool(output.get("unchanged"))


def fingerprint(step: Step) -> str:
    """Return a text that is equal for steps with the same tool and parameters."""
    return canonical_json([step["tool"], step["params"]])


def call_digest(plan: str, step: Step) -> str:
    """Return the digest of one call: its plan's id, its own id, the tool and the arguments."""
    call = [plan, step["id"], step["tool"], step["params"], step.get("raw")]
    return hashlib.sha256(canonical_json(call).encode(errors="backslashreplace")).hexdigest()


def canonical_json(value: object) -> str:
    """Return JSON with sorted keys and unescaped text, equal for equal values."""
    return _SORTED.encode(value)


def is_same_target(
    failed: Mapping[str, Any] | str | None, done: Mapping[str, Any] | str | None, subject: str | None = None
) -> bool:
    """Return True if two calls of a tool have the same target: equal arguments that are ids.

    The argument `subject` names the artefact, which is the same. Arguments that nobody could read have the
    target if they mention it. A call without a message, which a person made, has any.
    """
    if failed is None or not isinstance(done, Mapping):
        return True
    wanted = _ids(done, subject)
    if isinstance(failed, str):
        return all(str(value) in failed for value in wanted.values())
    return _ids(failed, subject) == wanted


def _ids(args: Mapping[str, Any], subject: str | None) -> dict[str, Any]:
    """Return the arguments that are ids, by names as every spelling of them has."""
    plain = {name.replace("_", "").casefold(): value for name, value in args.items() if name != subject}
    return {name: value for name, value in plain.items() if name.endswith(("id", "ids"))}

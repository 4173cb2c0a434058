"""Events of an execution, as the difference between two states of its record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.state.live_plan import (
    ANY,
    ENDED,
    Execution,
    LiveStep,
    PlanRules,
    written,
)
from callsheet.state.plan import StepResult, is_unchanged

PLAN: Final = "execution-plan"
STEP: Final = "step-update"
COMPLETE: Final = "execution-complete"
Event = tuple[str, dict[str, Any]]
"""Name and data of an event."""
_PREVIEW: Final = ("sceneId", "versionId", "preview", "differences", "message")


def events_between(before: Execution | None, after: Execution, rules: PlanRules = ANY) -> Iterator[Event]:
    """Yield the events of a change; together they tell every change of a status."""
    known = {one["step"]["id"]: one for one in before["steps"]} if before else {}
    if (
        before is None
        or [*known] != [one["step"]["id"] for one in after["steps"]]
        or before["status"] == "planned" != after["status"]
    ):
        yield PLAN, plan_event(after)
    for one in after["steps"]:
        old = known.get(one["step"]["id"])
        if old is not None and old != one:
            yield STEP, step_event(after, one)
            yield from _version_events(old, one, rules)
    if is_settled(after) and not (before and is_settled(before)):
        yield COMPLETE, complete_event(after)


def _version_events(before: LiveStep, after: LiveStep, rules: PlanRules) -> Iterator[Event]:
    """Yield the versions that a step has made once it is completed."""
    if after["status"] == "completed" != before["status"]:
        for stream, version in written(after).items():
            if stream not in rules.unannounced:
                names = {"stepId": after["step"]["id"], rules.stream_key: stream, "versionId": version}
                yield rules.version_event, names


def is_settled(record: Execution) -> bool:
    """Return True once the execution is over and none of its steps runs."""
    return record["status"] in ENDED and all(one["status"] != "in-progress" for one in record["steps"])


def plan_event(record: Execution) -> dict[str, Any]:
    """Return the data of `execution-plan`."""
    return {
        "executionId": record["id"],
        "status": record["status"],
        "steps": [step_view(record, one) for one in record["steps"]],
        "totalSteps": len(record["steps"]),
        "estimatedTime": record["estimated_s"],
    }


def step_event(record: Execution, one: LiveStep) -> dict[str, Any]:
    """Return the data of `step-update`."""
    view = step_view(record, one)
    return {"stepId": view.pop("id"), **view, "error": one["output"].get("error")}


def step_view(record: Execution, one: LiveStep) -> dict[str, Any]:
    """Return a step as people see it; `preview` is small, the whole result is read separately."""
    step = one["step"]
    changeable = one["status"] == "pending" and record["status"] in {"running", "paused"}
    preview = {name: one["output"][name] for name in _PREVIEW if name in one["output"]}
    return {
        "id": step["id"],
        "name": step["display"],
        "detail": step["params"].get("prompt") or None,
        "status": one["status"],
        "unchanged": is_unchanged(one["status"], one["output"]),
        "progress": {"pending": 0, "in-progress": None}.get(one["status"], 100),
        "preview": preview or None,
        "canEdit": changeable,
        "canCancel": changeable,
        "stale": bool(one.get("stale")),
    }


def complete_event(record: Execution) -> dict[str, Any]:
    """Return the data of `execution-complete`."""
    return {
        "executionId": record["id"],
        "status": record["status"],
        "success": record["status"] == "completed",
        "totalTime": total_seconds(record),
        "counts": counts(record),
    }


def total_seconds(record: Execution) -> float:
    """Return the seconds from the first start to the end, or 0 before it."""
    if not (record["started_ms"] and record["ended_ms"]):
        return 0.0
    return max(0, record["ended_ms"] - record["started_ms"]) / 1000


def counts(record: Execution) -> dict[str, int]:
    """Return how many steps have each status; `unchanged`, if any, are completed ones without an effect."""
    statuses = [one["status"] for one in record["steps"]]
    unchanged = sum(is_unchanged(one["status"], one["output"]) for one in record["steps"])
    counted: dict[str, int] = {name: statuses.count(name) for name in dict.fromkeys(statuses)}
    return counted | ({"unchanged": unchanged} if unchanged else {})


_OUTCOMES: Final[Mapping[str, str]] = {
    "completed": "done",
    "error": "failed",
    "blocked": "not started",
    "skipped": "left out",
    "cancelled": "cancelled",
    "in-progress": "still running",
}


def outcome_sentence(steps: Sequence[tuple[str, str]]) -> str:
    """Return how many steps have ended how, with their names; `steps` are statuses and names. Empty for none.

    Such as "1 step done: Scene 1; 2 cancelled: Scene 2, Scene 3."
    """
    groups: dict[str, list[str]] = {}
    for status, name in steps:
        groups.setdefault(_OUTCOMES.get(status, status), []).append(name)
    parts = [f"{len(names)} {outcome}: {', '.join(names)}" for outcome, names in groups.items()]
    if not parts:
        return ""
    counted = "step" if parts[0].startswith("1 ") else "steps"
    return f"{'; '.join([parts[0].replace(' ', f' {counted} ', 1), *parts[1:]])}."


def results(record: Execution, since_ms: int = 0) -> list[StepResult]:
    """Return the results of the steps that have ended, since a time."""
    return [
        StepResult(
            id=one["step"]["id"],
            plan=record["id"],
            tool=one["step"]["tool"],
            status=one["status"],
            output=one["output"],
            duration_s=max(0, one["ended_ms"] - one["started_ms"]) / 1000 if one["started_ms"] else 0.0,
        )
        for one in record["steps"]
        if one["status"] not in {"pending", "in-progress"} and one["ended_ms"] >= since_ms
    ]

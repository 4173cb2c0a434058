"""Executions of plans as the API shows them."""

from collections.abc import Mapping
from typing import Any

from callsheet.state.approvals import approval_sentence, paused_sentence, step_request, step_words
from callsheet.state.live_plan import Execution, LiveStep, is_over
from callsheet.state.plan import Step, plan_type
from callsheet.state.plan_progress import counts, outcome_sentence, step_view, total_seconds
from callsheet.state.times import iso_time_or_none


def execution_summary(record: Execution) -> dict[str, Any]:
    """Return an execution in a list."""
    return {
        "id": record["id"],
        "projectId": record["project"],
        "threadId": record["thread"],
        "kind": record["kind"],
        "request": record["request"],
        "status": record["status"],
        "success": record["status"] == "completed" if is_over(record) else None,
        "counts": counts(record),
        "createdAt": iso_time_or_none(record["created_ms"]),
        "startedAt": iso_time_or_none(record["started_ms"]),
        "completedAt": iso_time_or_none(record["ended_ms"]),
        "totalTime": total_seconds(record),
    }


def execution_view(record: Execution, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return an execution with its plan and what people changed; `context` is that of its workflow."""
    changes = [{**one, "at": iso_time_or_none(one["at_ms"])} for one in record["changes"]]
    return {
        **execution_summary(record),
        "message": plan_message(record),
        "plan": plan_view(record, context),
        "changes": [
            {name: one[name] for name in ("kind", "step", "before", "after", "at")} for one in changes
        ],
        "approvedPlan": record["approved"],
    }


def plan_message(record: Execution) -> str:
    """Return what a plan waits for a person about, or how one has ended that is not complete; else empty."""
    if record["status"] == "planned" and record.get("asks"):
        return approval_sentence([_words(one["step"]) for one in record["steps"] if one["step"]["writes"]])
    if is_over(record):
        ended = [(one["status"], _words(one["step"])) for one in record["steps"]]
        has_all = all(status == "completed" for status, _ in ended)
        return "" if has_all else outcome_sentence(ended)
    if record["status"] != "paused":
        return ""
    return paused_sentence([_words(one["step"]) for one in record["steps"] if one["status"] == "pending"])


def _words(step: Step) -> str:
    return step_words(step["display"], step_request(step["params"]))


def plan_view(record: Execution, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan in the shape of `executionPlan`, each step with its status."""
    steps = [one["step"] for one in record["steps"]]
    return {
        "type": plan_type(steps),
        "totalSteps": len(steps),
        "estimatedTime": record["estimated_s"],
        "reasoning": record["reasoning"],
        "userFeedback": record["feedback"],
        "context": context,
        "steps": [_step(record, one) for one in record["steps"]],
    }


def _step(record: Execution, one: LiveStep) -> dict[str, Any]:
    step = one["step"]
    return {
        **step_view(record, one),
        "toolName": step["tool"],
        "displayName": step["display"],
        "params": step["params"],
        "dependencies": step["dependencies"],
        "canParallelize": not step.get("alone", False),
        "contextKeys": step["params"].get("contextKeys", []),
        "reads": step["reads"],
        "writes": step["writes"],
        "error": one["output"].get("error"),
        "result": one["output"] or None,
    }

"""Asks a person before steps with an effect, when the caller wants to be asked.

The one node that asks such questions. Nothing with an effect happens before the question, and a rejection
reaches the planner with its reason; a plan once rejected is not asked again in the same turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from nodes.node import Node, Subject, choices
from state.context import Context
from state.errors import Invalid
from state.plan import Plan, Step, fingerprint
from state.workflow import Workflow
from tools.outcome import answer, failure

RESPONSE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["decisions"],
    "properties": {
        "decisions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"enum": ["approve", "edit", "reject"]},
                    "edited_action": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
                    },
                    "message": {"type": "string"},
                },
            },
        }
    },
}
"""What an answer looks like: one decision for each action request, in order, or one for all."""


def approval(subject: Subject) -> Node[Workflow]:
    """Return the node that asks for leave to carry out the plan."""

    async def approval(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        effects = _effects(subject, plan)
        if plan is None or not effects or not choices(runtime).get("approve_plan"):
            return {}
        decisions = _decisions(interrupt(question(effects)), len(effects))
        refused = [
            (step, choice)
            for step, choice in zip(effects, decisions, strict=True)
            if choice["type"] == "reject"
        ]
        if refused:
            return {
                "messages": _rejections(plan, refused),
                "plan": None,
                "rejected": fingerprint(plan),
            }
        edits = {step["id"]: _edited(step, choice) for step, choice in zip(effects, decisions, strict=True)}
        return {"plan": Plan(id=plan["id"], steps=[edits.get(step["id"], step) for step in plan["steps"]])}

    return approval


def question(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the interrupt's value, in the shape stock agent interfaces render."""
    return {
        "action_requests": [
            {"name": step["tool"], "args": step["params"], "description": step["display"]} for step in steps
        ],
        "review_configs": [
            {"action_name": name, "allowed_decisions": ["approve", "edit", "reject"]}
            for name in dict.fromkeys(step["tool"] for step in steps)
        ],
        "response_schema": RESPONSE_SCHEMA,
        "examples": [
            {"decisions": [{"type": "approve"} for _ in steps]},
            {"decisions": [{"type": "reject", "message": "use a calmer voice"}]},
        ],
    }


def _effects(subject: Subject, plan: Plan | None) -> list[Step]:
    return [
        step for step in (plan["steps"] if plan else ()) if subject.tools.get(step["tool"]) and step["writes"]
    ]


def _decisions(answer: Any, count: int) -> list[Mapping[str, Any]]:
    """Return one decision a step; one alone, or a bare word, stands for all."""
    if isinstance(answer, str | bool):
        answer = {"decisions": [_spoken(answer)]}
    listed = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(listed, list) or not all(
        isinstance(item, Mapping) and item.get("type") in {"approve", "edit", "reject"} for item in listed
    ):
        raise Invalid(
            f"the answer {str(answer)[:200]!r} holds no decisions",
            remedy='send {"decisions": [{"type": "approve"}]}, with edit or reject where wanted',
        )
    if len(listed) not in {1, count}:
        raise Invalid(
            f"{len(listed)} decisions were sent for {count} actions",
            remedy="send one for each, or one for all",
        )
    return listed if len(listed) == count else listed * count


def _spoken(answer: str | bool) -> dict[str, Any]:  # noqa: FBT001 -- a person's answer may be just true or false
    if answer is True or str(answer).strip().casefold() in {
        "approve",
        "approved",
        "yes",
        "y",
        "ok",
        "accept",
    }:
        return {"type": "approve"}
    return {"type": "reject", "message": "" if answer is False else str(answer)}


def _edited(step: Step, choice: Mapping[str, Any]) -> Step:
    action = choice.get("edited_action")
    if choice["type"] != "edit" or not isinstance(action, Mapping):
        return step
    args = action.get("args")
    if action.get("name", step["tool"]) != step["tool"] or not isinstance(args, dict):
        raise Invalid(
            f"the edit of {step['tool']!r} names another tool or has no args",
            remedy="change the args only",
        )
    return {**step, "params": args}


def _rejections(plan: Plan, refused: Sequence[tuple[Step, Mapping[str, Any]]]) -> list[AnyMessage]:
    reasons = {step["id"]: str(choice.get("message") or "no reason given") for step, choice in refused}
    return [
        answer(
            step["id"],
            step["tool"],
            failure(
                "permission_denied",
                f"A person rejected this: {reasons[step['id']]}"
                if step["id"] in reasons
                else "Not carried out, because a person rejected another step of the plan",
                suggestion="Do as they say, or ask what they want instead",
            ).output,
        )
        for step in plan["steps"]
    ]

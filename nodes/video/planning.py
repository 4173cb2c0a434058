"""The planner of videos: shows the model the project, turns `submit_plan` into steps, and closes the plan.

The call that submitted the plan gets one answer; the measured durations serve later estimates.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from pydantic import ValidationError

from callsheet import storage
from callsheet.nodes.pausing import cancel_if_open
from callsheet.nodes.planner import Planned, Planning
from callsheet.nodes.tool_executor import PlanClosing
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import live_plan
from callsheet.state.conversation import calls_of
from callsheet.state.errors import Invalid, Missing
from callsheet.state.live_plan import Execution
from callsheet.state.plan import Plan, step_titles
from callsheet.state.video import plan, plan_forms, project
from callsheet.state.video.plan import RULES, PlannedStep, SubmittedPlan
from callsheet.state.video.project import ORDER, Order, SceneLine, VideoState, scene_line, state_block
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.redis.connection import Storage
from callsheet.storage.video import settings
from callsheet.tools.call import Scope
from callsheet.tools.guard.arguments import (
    read_arguments,
    repair_off_loop,
    unwrap_arguments,
    validate_arguments,
)
from callsheet.tools.guard.outcome import Outcome, failed_outcome, tool_message

SUBMIT: Final = "submit_plan"
MAX_REPLANS: Final = 1
"""Plans of a turn that are sent back with what is wrong."""
_MAX_PROBLEMS: Final = 8


class ScenePlanning(Planning):
    """Plans for a project's scenes."""

    async def state_block(self, workflow: WorkflowSpec[Any], state: VideoState, scope: Scope) -> str:
        """Return the project's outline, the last plan and the person's preferences."""
        del workflow
        opened = await storage.current()
        artefact = Artefact(opened, scope.kind, scope.artefact, scope.owner)
        order, lines = await read_outline(artefact)
        executions = Executions(opened, scope.kind, scope.artefact, scope.owner, RULES)
        last = next(iter(await executions.newest(1)), None)
        if last and not live_plan.is_over(last):
            # A new message has taken the place of the question that it waited for.
            last = await cancel_if_open(executions, last["id"])
        return state_block(
            order,
            lines,
            attached=state.get("scene_ids") or (),
            last=last,
            preferences=[one["text"] for one in await settings.preferences(opened, scope.owner)],
        )

    async def plan(
        self, workflow: WorkflowSpec[Any], state: VideoState, scope: Scope, answer: AIMessage
    ) -> Planned:
        """Return the plan that the answer submits; a bad one goes back to the model once."""
        calls = [*calls_of(answer)]
        if not calls:
            return Planned(state={"replans": 0})
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        order, lines = await read_outline(artefact)
        about = plan.Project(
            order, {line.id: line.name for line in lines}, attached=tuple(state.get("scene_ids") or ())
        )
        others: list[AnyMessage] = [_surplus(str(call["id"]), call["name"]) for call in calls[1:]]
        try:
            submitted = await _read_plan(answer)
            steps = plan.checked_steps(submitted, about)
            for step in steps:
                validate_arguments(workflow.internal_tools[step["tool"]], step["params"], scope.artefact)
        except (Invalid, Missing) as error:
            refusal = failed_outcome(
                "validation_error", error.message, suggestion=error.remedy, retryable=True
            )
            messages = [tool_message(str(calls[0]["id"]), SUBMIT, refusal.output), *others]
            replans = state.get("replans", 0)
            if replans < MAX_REPLANS:
                return Planned(None, messages, {"replans": replans + 1})
            closing = AIMessage(f"I could not make a plan that can be carried out: {error.message}.")
            return Planned(None, [*messages, closing], {"replans": 0})
        planned = Plan(id=uuid.uuid4().hex, steps=steps, call=str(calls[0]["id"]))
        planned["about"] = {
            "reasoning": submitted.reasoning,
            "feedback": submitted.feedback,
            "style": submitted.style,
        }
        return Planned(planned, others, {"replans": 0, "execution": planned["id"], "again": None})

    async def outcome_of_open_call(self, state: VideoState, scope: Scope, call_id: str) -> Outcome | None:
        """Cancel the execution that an earlier run left open, and return what it did."""
        del call_id
        if not (name := state.get("execution")):
            return None
        executions = Executions(await storage.current(), scope.kind, scope.artefact, scope.owner, RULES)
        record = await cancel_if_open(executions, name)
        return Outcome(ok=True, output=_plan_output(record)) if record else None


async def _read_plan(answer: AIMessage) -> SubmittedPlan:
    """Return the plan of the answer's first call; raise `Invalid` for arguments that are none."""
    given: Any
    if answer.tool_calls:
        given = answer.tool_calls[0]["args"]
    else:
        given = await repair_off_loop(answer.invalid_tool_calls[0]["args"] or "")
    given = unwrap_arguments(given, SubmittedPlan.model_fields)
    arguments, unknown = read_arguments(SubmittedPlan, plan_forms.as_plan(given))
    if unknown:
        raise Invalid(
            f"the plan has fields that it cannot have: {', '.join(sorted({*unknown}))}. A plan has "
            f"{', '.join(SubmittedPlan.model_fields)}, and a step {', '.join(PlannedStep.model_fields)}",
            remedy="submit the whole plan again with these fields; say in `prompt` what has no field",
        )
    try:
        return SubmittedPlan.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
        )
        raise Invalid(
            f"the plan does not fit its schema: {problems}", remedy="submit the whole plan again, corrected"
        ) from error


def _surplus(call_id: str, name: str) -> ToolMessage:
    outcome = failed_outcome(
        "execution_error",
        "Only the first plan of an answer is carried out",
        suggestion="Put all steps into one plan",
    )
    return tool_message(call_id, name, outcome.output)


async def read_outline(artefact: Artefact) -> tuple[Order, list[SceneLine]]:
    """Return a project's order and the lines of its scenes."""
    head = await artefact.stream_head(ORDER)
    order = project.order_of(head.newest.data if head.newest else None)
    heads = await artefact.stream_heads(order.scenes)
    lines = [
        scene_line(name, order, one.newest.id, one.newest.data["scene"])
        for name, one in heads.items()
        if one.newest
    ]
    return order, lines


def _plan_output(record: Execution) -> dict[str, Any]:
    """Return the result of a plan for the model: each step, and what a person changed."""
    steps = [
        {
            "step": one["step"]["id"],
            "tool": one["step"]["tool"],
            "scene": one["step"]["params"].get("sceneId"),
            "status": one["status"],
            **{
                name: one["output"][name]
                for name in ("versionId", "differences", "unchanged", "message", "error")
                if name in one["output"]
            },
        }
        for one in record["steps"]
    ]
    changes = [
        f"The person {one['kind']} {one['step'] or 'the execution'}"
        + (f": {json.dumps(one['after'], ensure_ascii=False)}" if one["after"] else "")
        for one in record["changes"]
    ]
    return {"status": record["status"], "steps": steps} | ({"changes": changes} if changes else {})


class SceneClosing(PlanClosing):
    """Ends plans for a project's scenes."""

    async def close(
        self, workflow: WorkflowSpec[Any], state: VideoState, scope: Scope, record: Execution
    ) -> Mapping[str, Any]:
        """Return the answer to the model's call, and count how long the steps took."""
        del workflow
        if record["task"] == scope.task:
            await _measure(await storage.current(), scope, record)
        plan = state["plan"]
        open_call = plan.get("call") if plan and not state.get("decided") else None
        if not open_call:
            return {"messages": []}
        shown = step_titles(record["id"], [one["step"] for one in record["steps"]])
        return {"messages": [tool_message(open_call, SUBMIT, _plan_output(record), shown)]}


async def _measure(opened: Storage, scope: Scope, record: Execution) -> None:
    """Count how long the steps took, for later estimates."""
    for one in record["steps"]:
        if one["status"] == "completed" and one["started_ms"]:
            seconds = (one["ended_ms"] - one["started_ms"]) / 1000
            await settings.add_duration(opened, scope.owner, one["step"]["tool"], seconds)

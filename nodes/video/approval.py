"""Gate before the executor: records the plan, asks for approval if wanted, and holds a paused execution.

The execution's record is made from the plan as it was approved, and the executor follows the record: an
update of the thread's state changes nothing that a person has approved.
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from callsheet import storage
from callsheet.nodes.approval import approval_node
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.consent import consent
from callsheet.state.context import Context
from callsheet.state.plan import Plan, canonical_json
from callsheet.state.video import live
from callsheet.state.video.live import Execution
from callsheet.state.video.plan import estimated_seconds
from callsheet.state.video.workflow import VideoState
from callsheet.storage.video import settings
from callsheet.storage.video.executions import Executions
from callsheet.tools.guard.call import Scope

PARALLEL: Final = 3
"""Steps that run at once unless the caller chose otherwise (D26)."""


def scene_approval_node(workflow: WorkflowSpec) -> Node[VideoState]:
    """Return the gate."""
    ask = approval_node(workflow)

    async def approval(state: VideoState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        if plan is None:
            return {}
        scope = workflow.scope(state, runtime)
        opened = await storage.current()
        executions = Executions(opened, scope.artefact, scope.owner)
        seconds = await settings.durations(opened, scope.owner)
        parallel = run_context(runtime).get("parallel", PARALLEL)
        record = await executions.create(new_execution(plan, scope, state, seconds, parallel))
        runtime.stream_writer({"type": "plan", "executionId": record["id"]})
        if record["status"] == "paused":
            return await _hold(executions, record)
        if record["status"] != "planned" or state.get("decided"):
            return {}
        answer: dict[str, Any] = await ask(state, runtime=runtime)
        await executions.update(record["id"], partial(_answer, answer.get("plan", plan)))
        return answer

    return approval


def new_execution(
    plan: Plan, scope: Scope, state: VideoState, seconds: Mapping[str, float], parallel: int
) -> Execution:
    """Return the record of a plan that nothing has been done of."""
    texts = plan.get("about", {})
    request = next((one.text for one in reversed(state["messages"]) if isinstance(one, HumanMessage)), "")
    return Execution(
        id=plan["id"],
        thread=scope.thread,
        project=scope.artefact,
        run=scope.run,
        kind=texts.get("kind", "plan"),
        request=request,
        reasoning=texts.get("reasoning", ""),
        feedback=texts.get("feedback", ""),
        status="planned",
        approved=digest(plan),
        task="",
        epoch=0,
        estimated_s=round(estimated_seconds(plan["steps"], seconds, parallel), 1),
        created_ms=0,
        started_ms=0,
        ended_ms=0,
        steps=live.live_steps(plan["steps"]),
        changes=[],
    )


def digest(plan: Plan) -> str:
    """Return the digest of a plan's steps."""
    return hashlib.sha256(canonical_json(plan["steps"]).encode(errors="backslashreplace")).hexdigest()


def _answer(plan: Plan | None, record: Execution, now_ms: int) -> Execution:
    """Return the record after the person's answer; None is a rejected plan."""
    if plan is None:
        return live.cancel(record, now_ms)
    return {**record, "approved": digest(plan), "steps": live.live_steps(plan["steps"])}


async def _hold(executions: Executions, record: Execution) -> dict[str, Any]:
    """Wait for a person; the execution goes on unless the answer is a no."""
    open_steps = [one["step"]["display"] for one in record["steps"] if one["status"] == "pending"]
    answer = interrupt(
        {
            "type": "paused",
            "executionId": record["id"],
            "message": f"The execution is paused; {len(open_steps)} steps are pending. Go on?",
            "steps": open_steps,
            "response_schema": {"type": "object", "properties": {"resume": {"type": "boolean"}}},
            "examples": [{"resume": True}, {"resume": False}],
        }
    )
    await executions.update(record["id"], live.resume if _is_yes(answer) else live.cancel)
    return {}


def _is_yes(answer: Any) -> bool:
    if isinstance(answer, Mapping):
        decisions = answer.get("decisions")
        if isinstance(decisions, list) and decisions and isinstance(decisions[0], Mapping):
            return decisions[0].get("type") == "approve"
        return answer.get("resume") is True
    return answer is True or bool(consent(str(answer)))

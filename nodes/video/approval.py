"""Gate before the executor: records the plan, asks for approval if wanted, and holds a paused execution.

The execution's record is made from the plan as it was approved, and the executor follows the record: an
update of the thread's state changes nothing that a person has approved.
"""

from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.approval import approval_node, needs_approval
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.pausing import cancel_if_open, hold, read_record
from callsheet.nodes.plan_execution import PARALLEL, new_execution
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import live_plan, plan_recovery
from callsheet.state.context import Context
from callsheet.state.live_plan import Execution, plan_digest
from callsheet.state.plan import Plan
from callsheet.state.video.plan import RULES, estimated_seconds
from callsheet.state.video.project import VideoState
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.video import settings


def scene_approval_node(workflow: WorkflowSpec[Any]) -> Node[VideoState]:
    """Return the gate."""
    ask = approval_node(workflow)

    async def approval(state: VideoState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        if plan is None:
            return {}
        scope = workflow.scope(state, runtime)
        opened = await storage.current()
        executions = Executions(opened, scope.kind, scope.artefact, scope.owner, RULES)
        seconds = await settings.durations(opened, scope.owner)
        context = run_context(runtime)
        new = new_execution(plan, scope, state, 0)
        parallel = context.get("parallel", PARALLEL)
        new["estimated_s"] = round(estimated_seconds(plan["steps"], seconds, parallel), 1)
        new["asks"] = not state.get("decided") and needs_approval(workflow, state, context)
        known = await read_record(executions, state, new) if state.get("paused") else None
        record = known or await executions.create(new)
        is_other_run = live_plan.executor_of(record) != scope.run
        if not state.get("again") and (record.get("abandoned") or is_other_run):
            record = await executions.update(record["id"], partial(_go_on, scope.run))
        if state.get("decided") and (name := state.get("execution", "")) not in {"", plan["id"]}:
            await cancel_if_open(executions, name)
        runtime.stream_writer({"type": "plan", "executionId": record["id"]})
        if record["status"] == "paused":
            await hold(executions, record, scope.run)
        if record["status"] != "planned" or state.get("decided"):
            # The executor ends the turn of a cancelled one: it starts nothing, and answers the model's call.
            return {}
        answer: dict[str, Any] = await ask(state, runtime=runtime)
        if "plan" in answer:
            await executions.update(record["id"], partial(_answer, answer["plan"], scope.run))
        return answer

    return approval


def _go_on(run: str, record: Execution, now_ms: int) -> Execution:
    """Return the record as this run goes on with it; one that has ended stays as it is."""
    del now_ms
    record = plan_recovery.reopen(record)
    return record if live_plan.is_over(record) else live_plan.assign(record, run)


def _answer(plan: Plan | None, run: str, record: Execution, now_ms: int) -> Execution:
    """Return the record after the person's answer; None is a rejected plan. What is cancelled stays so."""
    if live_plan.is_over(record):
        return record
    if plan is None:
        return live_plan.cancel(record, now_ms)
    changed = live_plan.assign(record, run)
    return {
        **changed,
        "asks": False,
        "approved": plan_digest(plan),
        "steps": live_plan.live_steps(plan["steps"]),
    }

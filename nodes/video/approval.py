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
from callsheet.nodes.approval import approval_node, needs_approval
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.video.planning import cancel_if_open
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
from callsheet.tools.call import Scope

PARALLEL: Final = 3
"""Steps that run at once unless the caller chose otherwise."""


def scene_approval_node(workflow: WorkflowSpec[Any]) -> Node[VideoState]:
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
        context = run_context(runtime)
        new = new_execution(plan, scope, state, seconds, context.get("parallel", PARALLEL))
        new["asks"] = not state.get("decided") and needs_approval(workflow, state, context)
        record = await executions.create(new)
        is_other_run = live.executor_of(record) != scope.run
        if not state.get("again") and (record.get("abandoned") or is_other_run):
            record = await executions.update(record["id"], partial(_go_on, scope.run))
        if state.get("decided") and (name := state.get("execution", "")) not in {"", plan["id"]}:
            await cancel_if_open(executions, name)
        runtime.stream_writer({"type": "plan", "executionId": record["id"]})
        if record["status"] == "paused":
            await _hold(executions, record, scope.run)
        if record["status"] != "planned" or state.get("decided"):
            # The executor ends the turn of a cancelled one: it starts nothing, and answers the model's call.
            return {}
        answer: dict[str, Any] = await ask(state, runtime=runtime)
        if "plan" in answer:
            await executions.update(record["id"], partial(_answer, answer["plan"], scope.run))
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


def _go_on(run: str, record: Execution, now_ms: int) -> Execution:
    """Return the record as this run goes on with it; one that has ended stays as it is."""
    del now_ms
    record = live.reopen(record)
    return record if live.is_over(record) else live.assign(record, run)


def _answer(plan: Plan | None, run: str, record: Execution, now_ms: int) -> Execution:
    """Return the record after the person's answer; None is a rejected plan. What is cancelled stays so."""
    if live.is_over(record):
        return record
    if plan is None:
        return live.cancel(record, now_ms)
    changed = live.assign(record, run)
    return {**changed, "asks": False, "approved": digest(plan), "steps": live.live_steps(plan["steps"])}


async def _hold(executions: Executions, record: Execution, run: str) -> None:
    """Wait for a person; the execution goes on with a yes and is cancelled with a no."""
    change = live.resume if _wants_to_go_on(record) else live.cancel

    def with_answer(held: Execution, now_ms: int) -> Execution:
        return held if live.is_over(held) else live.assign(change(held, now_ms), run)

    await executions.update(record["id"], with_answer)


def _wants_to_go_on(record: Execution) -> bool:
    """Return the person's answer; one that is no plain yes or no is refused, and the question asked again."""
    problem = ""
    while True:
        answer = interrupt(_pause_question(record, problem))
        if (agreed := _agreement(answer)) is not None:
            return agreed
        problem = f'the answer {str(answer)[:200]!r} is no yes and no no: send {{"resume": true}}, or false'


def _pause_question(record: Execution, problem: str) -> dict[str, Any]:
    open_steps = [one["step"]["display"] for one in record["steps"] if one["status"] == "pending"]
    text = f"The execution is paused; {len(open_steps)} steps are pending. Go on?"
    return {
        "type": "paused",
        "executionId": record["id"],
        "message": f"{problem}\n\n{text}" if problem else text,
        "steps": open_steps,
        "problem": problem,
        "response_schema": {"type": "object", "properties": {"resume": {"type": "boolean"}}},
        "examples": [{"resume": True}, {"resume": False}],
    }


def _agreement(answer: Any) -> bool | None:
    """Return True for a yes, False for a no, and None for anything else."""
    if isinstance(answer, Mapping):
        decisions = answer.get("decisions", [])
        if isinstance(decisions, list) and len(decisions) == 1 and isinstance(decisions[0], Mapping):
            return {"approve": True, "reject": False}.get(str(decisions[0].get("type")))
        answer = answer.get("resume")
    return answer if isinstance(answer, bool) else consent(str(answer))

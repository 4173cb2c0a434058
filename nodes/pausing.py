"""Ends and holds executions: a paused one until a person lets it go on, one left open for good."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from langgraph.types import interrupt

from callsheet import storage
from callsheet.nodes.plan_execution import new_execution
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import live_plan, plan_recovery
from callsheet.state.approvals import consent, paused_sentence, step_request, step_words
from callsheet.state.errors import Missing
from callsheet.state.live_plan import Execution
from callsheet.state.plan import Plan
from callsheet.state.workflow import Workflow, is_repetition
from callsheet.storage.artefacts.plans import Executions
from callsheet.tools.call import Scope


async def is_under_way(workflow: WorkflowSpec[Any], state: Workflow, plan: Plan, scope: Scope) -> bool:
    """Return True for a plan whose execution has begun, or was cancelled: nobody is asked about it again.

    A paused one waits for a person first.
    """
    has_record = len(plan["steps"]) > 1 or is_repetition(state)
    if workflow.turn.plan_rules.kept or not has_record:
        return False
    executions = Executions(await storage.current(), scope.kind, scope.artefact, scope.owner)
    record = await read_record(executions, state, new_execution(plan, scope, state, 0))
    if record is None:
        return False
    if not state.get("decided") and record["approved"] != live_plan.plan_digest(plan):
        # Some vendors use ids again: this is another plan.
        return False
    if record["status"] == "paused":
        await hold(executions, record, scope.run)
    # A plan that has ended is executed again by a fork.
    return record["status"] in {"running", "paused", "cancelled"}


async def read_record(executions: Executions, state: Workflow, new: Execution) -> Execution | None:
    """Return the record of the plan of which `new` is an unbegun one; None if there is none.

    One that Redis has lost while the plan was paused, or of which an older backup was restored, is ended by
    the thread's results and the receipts: what people changed in it is not known.
    """
    record: Execution | None = None
    with suppress(Missing):
        record = (await executions.read(new["id"])).record
    paused = state.get("paused")
    if not paused or paused["plan"] != new["id"] or (record and len(record["changes"]) >= paused["changes"]):
        return record
    known = plan_recovery.with_results(new, state.get("results", []))
    receipts = await executions.receipts(known)

    def lose(now_ms: int) -> Execution:
        return plan_recovery.lose(plan_recovery.with_receipts(known, receipts, now_ms), now_ms)

    if record is None:
        return (await executions.open(lose)).record
    return await executions.update(new["id"], lambda _, now_ms: lose(now_ms))


async def hold(executions: Executions, record: Execution, run: str) -> None:
    """Wait for a person; the execution goes on with a yes and is cancelled with a no.

    Does not ask if a person has resumed or cancelled it since it was read. Whoever does that later finds the
    mark in the record, and answers the question.
    """
    record = await executions.update(record["id"], live_plan.ask_to_resume)
    if record["status"] == "paused":
        answer = partial(live_plan.answer_pause, agreed=_wants_to_go_on(record), run=run)
        await executions.update(record["id"], answer)


def _wants_to_go_on(record: Execution) -> bool:
    """Return the person's answer; one that is no plain yes or no is refused, and the question asked again."""
    problem = ""
    while True:
        answer = interrupt(_pause_question(record, problem))
        if (agreed := _agreement(answer)) is not None:
            return agreed
        problem = f'the answer {str(answer)[:200]!r} is no yes and no no: send {{"resume": true}}, or false'


def _pause_question(record: Execution, problem: str) -> dict[str, Any]:
    pending = [one["step"] for one in record["steps"] if one["status"] == "pending"]
    open_steps = [step_words(one["display"], step_request(one["params"])) for one in pending]
    text = f"{paused_sentence(open_steps)}\nGo on?"
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


async def cancel_if_open(executions: Executions, name: str) -> Execution | None:
    """Cancel an execution that an earlier run left open, and return it; None if there is none."""

    def cancel(held: Execution, now_ms: int) -> Execution:
        has_ended = live_plan.is_over(held) and not held.get("abandoned")
        return held if has_ended else live_plan.cancel(held, now_ms)

    try:
        return await executions.update(name, cancel)
    except Missing:
        return None

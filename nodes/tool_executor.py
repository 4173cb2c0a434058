"""Executor: carries out a plan by its record, and merges the record into the state at the end.

A plan of several steps has its record in Redis, where people see and change it. A plan of one step has it in
memory, unless the workflow keeps all its plans.
"""

import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.runnables.config import ensure_config, get_async_callback_manager_for_config
from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.budget import Declined, within_budget
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.plan_execution import (
    PARALLEL,
    OwnRecord,
    PlanExecution,
    PlanRecord,
    SharedRecord,
    new_execution,
)
from callsheet.nodes.repeats import REPEATED, Repeats
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import conversation, live_plan, plan_progress, plan_recovery
from callsheet.state.context import Context
from callsheet.state.live_plan import Execution, LiveStep, plan_digest
from callsheet.state.plan import Plan, Step, StepResult, call_digest, fingerprint
from callsheet.state.workflow import DraftMade, PausedPlan, Repetition, Workflow, is_repetition
from callsheet.storage import consents
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.spending import Account
from callsheet.tools.call import Scope
from callsheet.tools.guard import guard
from callsheet.tools.guard.outcome import Outcome, ToolExecutionError, failed_outcome, tool_message
from callsheet.tools.registry import Tool


async def report_to_callbacks(step: Step, call: Awaitable[Outcome]) -> Outcome:
    """Await a step's call; report its start and end to LangChain's callbacks."""
    name, params = step["tool"], step["params"]
    followers = get_async_callback_manager_for_config(ensure_config())
    started = await followers.on_tool_start(
        {"name": name}, json.dumps(params), inputs=params, tool_call_id=step["id"], name=name
    )
    try:
        outcome = await call
    except BaseException as error:
        await started.on_tool_error(error)
        raise
    if outcome.ok:
        await started.on_tool_end(tool_message(step["id"], name, outcome.output))
    else:
        await started.on_tool_error(ToolExecutionError(name, step["id"], outcome.output))
    return outcome


class PlanClosing:
    """The part of an executor that workflows may replace: the end of a plan."""

    async def close(
        self, workflow: WorkflowSpec[Any], state: Any, scope: Scope, record: Execution
    ) -> Mapping[str, Any]:
        """Return the messages that answer the model's calls, and further keys of the state."""
        del scope
        since_ms = _since_ms(state, record)
        results = plan_progress.results(record, since_ms)
        drafts = created_drafts(workflow.allowed_tools(state), record, since_ms)
        update = dict(workflow.turn.after_plan(state, drafts, results))
        if is_repetition(state):
            # The calls were answered when they were made.
            return update
        plan, refused = state["plan"], _refused_by_person(record)
        messages = workflow.turn.answer_messages(plan, _answers(plan, record))
        if refused:
            update["rejected"] = [*state.get("rejected", []), *refused]
        return update | {"messages": [*messages, *workflow.turn.question_messages(results)]}


def tool_executor_node(workflow: WorkflowSpec[Any], closing: PlanClosing | None = None) -> Node[Workflow]:
    """Return the node that executes the plan's steps through the guard."""
    own = closing or PlanClosing()

    async def tool_executor(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        if plan is None:
            return {}
        scope, rules = workflow.scope(state, runtime), workflow.turn.plan_rules
        parallel = run_context(runtime).get("parallel", PARALLEL)
        held = await _open_record(workflow, plan, state, scope, parallel)
        record, stopped = held.newest, {}
        # Otherwise another run did the same already.
        if record["task"] == scope.task:
            tools = workflow.allowed_tools(state)
            repeats = Repeats(tools, plan if rules.limited else None, state["messages"])
            execution = PlanExecution(
                held,
                lambda step: report_to_callbacks(step, repeats.execute(step, call_tool(tools, step, scope))),
                rules=rules,
                parallel=parallel,
                report=runtime.stream_writer,
                stopping=lambda: runtime.drain_requested,
            )
            account = Account(scope.owner, scope.thread, conversation.turn_id(state["messages"]))
            try:
                begins = isinstance(held, OwnRecord) and conversation.has_no_results(state["messages"])
                record = await within_budget(account, execution.run, begins=begins)
            except Declined:
                record, stopped = await execution.stop(stopped_output), {"stopped": account.turn}
        return await _merge(workflow, own, state, scope, record) | stopped

    return tool_executor


async def _merge(
    workflow: WorkflowSpec[Any], closing: PlanClosing, state: Workflow, scope: Scope, record: Execution
) -> dict[str, Any]:
    """Return the state after an execution; the plan stays where steps are still pending."""
    others = [result for result in state.get("results", []) if result["plan"] != record["id"]]
    merged: dict[str, Any] = {"results": others + plan_progress.results(record)}
    if state.get("again"):
        merged["again"] = None
    if record["status"] == "paused":
        merged["paused"] = PausedPlan(plan=record["id"], changes=len(record["changes"]))
    elif state.get("paused"):
        merged["paused"] = None
    if not live_plan.is_over(record):
        return merged
    drafts = created_drafts(workflow.allowed_tools(state), record, _since_ms(state, record))
    created = [*state.get("created", []), *(drafts if record["task"] == scope.task else ())]
    return {
        **merged,
        "plan": None,
        "created": created,
        **await closing.close(workflow, state, scope, record),
    }


async def _open_record(
    workflow: WorkflowSpec[Any], plan: Plan, state: Workflow, scope: Scope, parallel: int
) -> PlanRecord:
    """Return the record that this task has taken over."""
    rules, again = workflow.turn.plan_rules, state.get("again") if is_repetition(state) else None
    done = [result for result in state.get("results", []) if result["plan"] == plan["id"]]

    def begin(now_ms: int) -> Execution:
        new = plan_recovery.with_results(new_execution(plan, scope, state, now_ms), done)
        record = plan_recovery.begin(new, scope.task, scope.epoch, now_ms)
        return live_plan.claim_steps(record, (), parallel, now_ms)

    def take_over(record: Execution, now_ms: int) -> Execution:
        is_other = not (rules.kept or state.get("decided")) and record["approved"] != plan_digest(plan)
        if is_other and record["task"] != scope.task:
            # Some vendors use ids again.
            return begin(now_ms)
        record = plan_recovery.with_receipts(record, receipts, now_ms)
        is_fork = live_plan.is_over(record) and record["task"] != scope.task and not again
        taken = _take_over(scope, again, record, now_ms)
        return plan_recovery.with_results(taken, done) if is_fork and not live_plan.is_over(taken) else taken

    if len(plan["steps"]) == 1 and not (rules.kept or again):
        return OwnRecord(begin)
    executions = Executions(await storage.current(), scope.kind, scope.artefact, scope.owner, rules)
    held = await (executions.read(plan["id"]) if rules.kept else executions.open(begin))
    seen = {result["id"] for result in done}
    receipts: Mapping[str, Mapping[str, Any]] = {}
    if held.record["task"] != scope.task:
        receipts = await executions.receipts(held.record)
        seen = {result["id"] for result in plan_progress.results(held.record)}
    return SharedRecord(executions, await executions.change(held, take_over), seen)


def _take_over(scope: Scope, again: Repetition | None, record: Execution, now_ms: int) -> Execution:
    """Return the record as this task takes it over, with the step that a person wants again.

    It is returned as it is if it has ended and that step was done again since: two people wanted the same.
    """
    if again and record["task"] != scope.task:
        if _is_wanted(again, live_plan.find(record, again["step"])):
            do_again = live_plan.repeat_step if again["completed"] else live_plan.retry_step
            record = do_again(record, again["step"], now_ms)
        elif live_plan.is_over(record):
            return record
    return live_plan.assign(plan_recovery.begin(record, scope.task, scope.epoch, now_ms), scope.run)


def _is_wanted(again: Repetition, one: LiveStep) -> bool:
    """Return True if the step is as it was when the person asked."""
    expected = {"completed"} if again["completed"] else {"error", "cancelled"}
    return one["generation"] == again["generation"] and one["status"] in expected


async def call_tool(tools: Mapping[str, Tool], step: Step, scope: Scope) -> Outcome:
    """Execute a step; a destructive one only with a person's consent to exactly this call."""
    tool = tools.get(step["tool"])
    if tool and tool.is_destructive:
        digest = call_digest(scope.plan, step)
        if not await consents.use(await storage.current(), scope.thread, scope.task, digest):
            return failed_outcome(
                "permission_denied",
                "No person has approved this call",
                suggestion="Call it again, so that the person is asked",
                retryable=True,
            )
    return await guard.call(tools, step, scope)


def _since_ms(state: Workflow, record: Execution) -> int:
    """Return the time from which results are those of this turn."""
    times = [one["at_ms"] for one in record["changes"] if one["kind"] in {"retried", "repeated"}]
    return times[-1] if times and is_repetition(state) else 0


def _answers(plan: Plan, record: Execution) -> list[StepResult]:
    """Return the results of the model's calls, with what a person changed."""
    called = {step["id"] for step in plan["steps"]}
    edited = {one["step"]: one["after"] for one in record["changes"] if one["kind"] == "edited"}
    results = plan_progress.results(record)
    answers = [
        cast("StepResult", {**one, "output": _with_person(one, edited.get(one["id"]))})
        for one in results
        if one["id"] in called
    ]
    added = [one for one in results if one["id"] not in called]
    if added and answers:
        shown = [{"tool": one["tool"], "status": one["status"], "result": one["output"]} for one in added]
        answers[-1] = {**answers[-1], "output": {**answers[-1]["output"], "addedByPerson": shown}}
    return answers


def _with_person(result: StepResult, edited: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the output of a step, with the arguments that a person gave it; why it has none, if so."""
    if result["status"] in _REFUSED and not result["output"]:
        return failed_outcome(
            "permission_denied",
            f"A person {result['status']} this step before it began",
            suggestion="Go on without it, and do not call it again unless they ask",
            rejected=True,
        ).output
    return {**result["output"], "editedByPerson": edited} if edited else result["output"]


_REFUSED: Final = frozenset({"skipped", "cancelled"})


def _refused_by_person(record: Execution) -> list[str]:
    """Return the fingerprints of the steps that a person skipped or cancelled."""
    return [
        fingerprint(one["step"])
        for one in record["steps"]
        if one["status"] in _REFUSED and not one.get("cut")
    ]


def stopped_output(step: Step) -> dict[str, Any]:
    """Return the output of a step that the budget stopped."""
    return failed_outcome(
        "permission_denied",
        f"{step['tool']} was not executed, because its budget was not raised",
        suggestion="Tell the person that the turn ended here",
    ).output


def created_drafts(tools: Mapping[str, Tool], record: Execution, since_ms: int = 0) -> list[DraftMade]:
    """Return the versions that the completed steps have made since a time."""
    return [
        DraftMade(stream=stream, versionId=version_id, toolCallId=one["step"]["id"])
        for one in record["steps"]
        if one["status"] == "completed" and one["ended_ms"] >= since_ms
        if one["step"]["tool"] in tools and REPEATED not in one["output"]
        for stream, version_id in written_versions(
            tools[one["step"]["tool"]], one["step"]["writes"], one["output"]
        ).items()
    ]


def written_versions(tool: Tool, declared: Sequence[str], output: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the versions that a call with these declared writes made, by stream."""
    if "versionId" not in output:
        return {}
    versions: Mapping[str, str] | None = output.get("versions")
    return versions or dict.fromkeys(tool.writes_of(declared), output["versionId"])

"""Executes a plan: steps start as soon as their dependencies are done, a few at once."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.runnables.config import ensure_config, get_async_callback_manager_for_config
from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.budget import Declined, within_budget
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.repeats import REPEATED, Repeats, earlier_writes
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import conversation
from callsheet.state.budgets import BudgetExceeded
from callsheet.state.context import Context
from callsheet.state.plan import (
    Plan,
    Step,
    StepResult,
    StepStatus,
    blocked_steps,
    call_digest,
    ready_steps,
)
from callsheet.state.workflow import DraftMade, Workflow
from callsheet.storage import consents
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


PARALLEL: Final = 3
"""Steps that run at once unless the caller chose otherwise."""

OnStep = Callable[[dict[str, Any]], None]


def tool_executor_node(workflow: WorkflowSpec[Any]) -> Node[Workflow]:
    """Return the node that executes the plan's steps through the guard."""

    async def tool_executor(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        if plan is None:
            return {}
        earlier = state.get("results", [])
        tools = workflow.allowed_tools(state)
        scope = workflow.scope(state, runtime)
        repeats = Repeats(tools, plan, earlier_writes(tools, state["messages"]))
        execution = PlanExecution(
            plan,
            lambda step: report_to_callbacks(step, repeats.execute(step, call_tool(tools, step, scope))),
            parallel=run_context(runtime).get("parallel", PARALLEL),
            report=runtime.stream_writer,
            stopping=lambda: runtime.drain_requested,
        )
        account = Account(scope.owner, scope.thread, conversation.turn_id(state["messages"]))
        done = [result for result in earlier if result["plan"] == plan["id"]]
        try:
            results, stopped = await within_budget(account, lambda: execution.run(done)), {}
        except Declined:
            results, stopped = execution.stop(), {"stopped": account.turn}
        kept = [result for result in earlier if result["plan"] != plan["id"]] + results
        if len(results) < len(plan["steps"]):
            return {"results": kept}
        made, turn = _created_drafts(tools, plan, results), workflow.turn
        return {
            "results": kept,
            "messages": [*turn.answer_messages(plan, results), *turn.question_messages(results)],
            "plan": None,
            "created": [*state.get("created", []), *made],
            **turn.after_plan(state, made, results),
            **stopped,
        }

    return tool_executor


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


class PlanExecution:
    """The execution of one plan."""

    def __init__(
        self,
        plan: Plan,
        execute: Callable[[Step], Awaitable[Outcome]],
        *,
        parallel: int,
        report: OnStep,
        stopping: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._carry_out = execute
        self._parallel = max(1, parallel)
        self._report = report
        self._stopping = stopping
        self._results: dict[str, StepResult] = {}
        self._running: dict[asyncio.Task[StepResult], str] = {}
        self._exceeded: BudgetExceeded | None = None

    async def run(self, done: list[StepResult]) -> list[StepResult]:
        """Return the results in plan order; fewer than steps if the process stops meanwhile.

        A failed step blocks only the steps that depend on it. An error that ends the attempt (storage away,
        lease lost) is raised after the running steps were cancelled; their receipts keep their effects.
        `BudgetExceeded` is raised after the running steps have ended; the next call runs the others.
        """
        self._exceeded = None
        self._results.update({result["id"]: result for result in done})
        for step in self._plan["steps"]:
            if step["id"] not in self._results:
                self._report_step(step, "pending", input=step["params"])
        try:
            self._start()
            while self._running:
                ended, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    self._finish_task(task)
                self._start()
        finally:
            await self._cancel()
        if self._exceeded:
            raise self._exceeded
        return self._in_order()

    def stop(self) -> list[StepResult]:
        """Return the results in plan order; steps that were not executed failed because of the budget."""
        for step in self._plan["steps"]:
            if step["id"] not in self._results:
                self._record(step, "error", stopped_output(step), 0.0)
        return self._in_order()

    def _in_order(self) -> list[StepResult]:
        return [self._results[step["id"]] for step in self._plan["steps"] if step["id"] in self._results]

    def _start(self) -> None:
        # Blocking one step may block further ones.
        while stuck := blocked_steps(self._plan, self._statuses()):
            for step in stuck:
                self._record(step, "blocked", _blocked_output(step), 0.0)
        if self._stopping() or self._exceeded:
            return
        for step in ready_steps(self._plan, self._statuses(), self._running.values()):
            if len(self._running) >= self._parallel:
                return
            self._report_step(step, "in-progress")
            self._running[asyncio.create_task(self._execute(step))] = step["id"]

    async def _execute(self, step: Step) -> StepResult:
        began = time.monotonic()
        outcome = await self._carry_out(step)
        status: StepStatus = "completed" if outcome.ok else "error"
        return self._record(step, status, outcome.output, time.monotonic() - began)

    def _finish_task(self, task: asyncio.Task[StepResult]) -> None:
        del self._running[task]
        try:
            task.result()
        except BudgetExceeded as exceeded:
            self._exceeded = exceeded

    def _record(self, step: Step, status: StepStatus, output: dict[str, Any], took_s: float) -> StepResult:
        result = StepResult(
            id=step["id"],
            plan=self._plan["id"],
            tool=step["tool"],
            status=status,
            output=output,
            duration_s=round(took_s, 4),
        )
        self._results[step["id"]] = result
        self._report_step(step, status, **_preview(result))
        return result

    def _report_step(self, step: Step, status: StepStatus, **more: Any) -> None:
        self._report(
            {
                "type": "step",
                "stepId": step["id"],
                "plan": self._plan["id"],
                "tool": step["tool"],
                "name": step["display"],
                "status": status,
                **more,
            }
        )

    def _statuses(self) -> dict[str, StepStatus]:
        return {name: result["status"] for name, result in self._results.items()}

    async def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def _blocked_output(step: Step) -> dict[str, Any]:
    return failed_outcome(
        "execution_error",
        f"{step['tool']} was not executed, because a step it depends on failed",
        suggestion="Correct the failed step and call this one again",
        retryable=True,
    ).output


def stopped_output(step: Step) -> dict[str, Any]:
    """Return the output of a step that the budget stopped."""
    return failed_outcome(
        "permission_denied",
        f"{step['tool']} was not executed, because its budget was not raised",
        suggestion="Tell the person that the turn ended here",
    ).output


def _preview(result: StepResult) -> dict[str, Any]:
    output = result["output"]
    shown = {key: output[key] for key in ("versionId", "count", "error") if key in output}
    return {"preview": shown, "output": output, "durationSeconds": result["duration_s"]}


def _created_drafts(tools: Mapping[str, Tool], plan: Plan, results: list[StepResult]) -> list[DraftMade]:
    declared = {step["id"]: step["writes"] for step in plan["steps"]}
    return [
        DraftMade(stream=stream, versionId=version_id, toolCallId=result["id"])
        for result in results
        if result["status"] == "completed" and result["tool"] in tools and REPEATED not in result["output"]
        for stream, version_id in written_versions(
            tools[result["tool"]], declared[result["id"]], result["output"]
        ).items()
    ]


def written_versions(tool: Tool, declared: Sequence[str], output: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the versions that a call with these declared writes made, by stream."""
    if "versionId" not in output:
        return {}
    versions: Mapping[str, str] | None = output.get("versions")
    return versions or dict.fromkeys(tool.writes_of(declared), output["versionId"])

"""Executor of videos: carries out an execution's record, and merges it into the state at the end."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.budget import Declined, within_budget
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.tool_executor import call_tool, report_to_callbacks, stopped_output, written_versions
from callsheet.nodes.video.approval import PARALLEL
from callsheet.nodes.video.execution import LiveExecution
from callsheet.nodes.video.planning import SUBMIT, plan_output
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import conversation
from callsheet.state.context import Context
from callsheet.state.video import live
from callsheet.state.video.live import Execution, LiveStep
from callsheet.state.video.workflow import Repetition, VideoState
from callsheet.state.workflow import DraftMade
from callsheet.storage.redis.connection import Storage
from callsheet.storage.spending import Account
from callsheet.storage.video import settings
from callsheet.storage.video.executions import Executions
from callsheet.tools.call import Scope
from callsheet.tools.guard.outcome import tool_message


def scene_executor_node(workflow: WorkflowSpec[Any]) -> Node[VideoState]:
    """Return the node that executes a plan by its record."""

    async def tool_executor(state: VideoState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        if plan is None:
            return {}
        scope = replace(workflow.scope(state, runtime), plan=plan["id"])
        opened = await storage.current()
        executions = Executions(opened, scope.artefact, scope.owner)
        again = state.get("again")
        record = await executions.update(plan["id"], partial(_take_over, scope, again))
        if record["task"] != scope.task:
            # Another run did the same already.
            return _merge(state, record, [])
        tools = workflow.allowed_tools(state)
        execution = LiveExecution(
            executions,
            record,
            lambda step: report_to_callbacks(step, call_tool(tools, step, scope)),
            parallel=run_context(runtime).get("parallel", PARALLEL),
            report=runtime.stream_writer,
            stopping=lambda: runtime.drain_requested,
        )
        account = Account(scope.owner, scope.thread, conversation.turn_id(state["messages"]))
        stopped: dict[str, Any] = {}
        try:
            record = await within_budget(account, execution.run)
        except Declined:
            output = stopped_output(plan["steps"][0])
            record, stopped = await execution.stop(output), {"stopped": account.turn}
        if not live.is_over(record):
            return {"results": live.results(record), "again": None}
        await _measure(opened, scope, record)
        return _merge(state, record, _created_versions(workflow, record)) | stopped

    return tool_executor


def _take_over(scope: Scope, again: Repetition | None, record: Execution, now_ms: int) -> Execution:
    """Return the record as this task takes it over, with the step that a person wants again.

    It is returned as it is if it has ended and that step was done again since: two people wanted the same.
    """
    if again and record["task"] != scope.task:
        if _is_wanted(again, live.find(record, again["step"])):
            do_again = live.repeat_step if again["completed"] else live.retry_step
            record = do_again(record, again["step"], now_ms)
        elif live.is_over(record):
            return record
    return live.assign(live.begin(record, scope.task, scope.epoch, now_ms), scope.run)


def _is_wanted(again: Repetition, one: LiveStep) -> bool:
    """Return True if the step is as it was when the person asked."""
    expected = {"completed"} if again["completed"] else {"error", "cancelled"}
    return one["generation"] == again["generation"] and one["status"] in expected


def _merge(state: VideoState, record: Execution, created: Sequence[DraftMade]) -> dict[str, Any]:
    """Return the state after an execution: results, versions, and the answer to the model's call."""
    results, plan = live.results(record), state["plan"]
    earlier = [one for one in state.get("results", []) if one["plan"] != record["id"]]
    open_call = plan.get("call") if plan and not state.get("decided") else None
    return {
        "plan": None,
        "again": None,
        "results": earlier + results,
        "messages": [tool_message(str(open_call), SUBMIT, plan_output(record))] if open_call else [],
        "created": [*state.get("created", []), *created],
    }


def _created_versions(workflow: WorkflowSpec[Any], record: Execution) -> list[DraftMade]:
    return [
        DraftMade(stream=stream, versionId=version, toolCallId=one["step"]["id"])
        for one in record["steps"]
        if one["status"] == "completed"
        for stream, version in written_versions(
            workflow.internal_tools[one["step"]["tool"]], one["step"]["writes"], one["output"]
        ).items()
    ]


async def _measure(opened: Storage, scope: Scope, record: Execution) -> None:
    """Count how long the steps took, for later estimates."""
    for one in record["steps"]:
        if one["status"] == "completed" and one["started_ms"]:
            seconds = (one["ended_ms"] - one["started_ms"]) / 1000
            await settings.add_duration(opened, scope.owner, one["step"]["tool"], seconds)

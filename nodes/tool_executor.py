"""Plan to results: steps run as soon as what they wait for is done, a few at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime

from nodes.node import Node, Subject, choices
from nodes.tool_events import told
from state.context import Context
from state.plan import Plan, Step, StepResult, StepStatus, blocked, ready
from state.workflow import DraftMade, Workflow
from tools import guard
from tools.outcome import Outcome, answer, failure
from tools.registry import Tool

PARALLEL: Final = 3
"""Steps that run at once unless the caller chose otherwise (D26)."""

Report = Callable[[dict[str, Any]], None]


def tool_executor(subject: Subject) -> Node[Workflow]:
    """Return the node that carries out the plan's steps through the guard."""

    async def tool_executor(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        if plan is None:
            return {}
        earlier = state.get("results", [])
        tools = subject.allowed(state)
        scope = subject.scope(state, runtime)
        execution = Execution(
            plan,
            lambda step: told(step, guard.call(tools, step, scope)),
            parallel=choices(runtime).get("parallel", PARALLEL),
            report=runtime.stream_writer,
            stopping=lambda: runtime.drain_requested,
        )
        results = await execution.run([result for result in earlier if result["plan"] == plan["id"]])
        kept = [result for result in earlier if result["plan"] != plan["id"]] + results
        if len(results) < len(plan["steps"]):
            return {"results": kept}
        made = _made(tools, results)
        return {
            "results": kept,
            "messages": _answers(results),
            "plan": None,
            "created": [*state.get("created", []), *made],
            **subject.noted(state, made),
        }

    return tool_executor


class Execution:
    """One plan being carried out."""

    def __init__(
        self,
        plan: Plan,
        carry_out: Callable[[Step], Awaitable[Outcome]],
        *,
        parallel: int,
        report: Report,
        stopping: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._carry_out = carry_out
        self._parallel = max(1, parallel)
        self._report = report
        self._stopping = stopping
        self._results: dict[str, StepResult] = {}
        self._running: dict[asyncio.Task[StepResult], str] = {}

    async def run(self, done: list[StepResult]) -> list[StepResult]:
        """Return the results in plan order; fewer than there are steps when asked to stop meanwhile.

        A step that fails blocks those that wait for it and no others. What ends the attempt (storage away,
        lease lost) is raised after the steps in flight were cancelled; their receipts tell what they did.
        """
        self._results = {result["id"]: result for result in done}
        for step in self._plan["steps"]:
            if step["id"] not in self._results:
                self._tell(step, "pending", input=step["params"])
        try:
            self._start()
            while self._running:
                ended, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    self._ended(task)
                self._start()
        finally:
            await self._cancel()
        return [self._results[step["id"]] for step in self._plan["steps"] if step["id"] in self._results]

    def _start(self) -> None:
        # Blocking one step may block those behind it.
        while stuck := blocked(self._plan, self._statuses()):
            for step in stuck:
                self._record(step, "blocked", _blocked_output(step), 0.0)
        if self._stopping():
            return
        for step in ready(self._plan, self._statuses(), self._running.values()):
            if len(self._running) >= self._parallel:
                return
            self._tell(step, "in-progress")
            self._running[asyncio.create_task(self._one(step))] = step["id"]

    async def _one(self, step: Step) -> StepResult:
        began = time.monotonic()
        outcome = await self._carry_out(step)
        status: StepStatus = "completed" if outcome.ok else "error"
        return self._record(step, status, outcome.output, time.monotonic() - began)

    def _ended(self, task: asyncio.Task[StepResult]) -> None:
        del self._running[task]
        task.result()

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
        self._tell(step, status, **_preview(result))
        return result

    def _tell(self, step: Step, status: StepStatus, **more: Any) -> None:
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
    return failure(
        "execution_error",
        f"{step['tool']} was not carried out, because a step it waits for failed",
        suggestion="Correct the failed step and call this one again",
        retryable=True,
    ).output


def _preview(result: StepResult) -> dict[str, Any]:
    output = result["output"]
    shown = {key: output[key] for key in ("versionId", "count", "error") if key in output}
    return {"preview": shown, "output": output, "durationSeconds": result["duration_s"]}


def _answers(results: list[StepResult]) -> list[AnyMessage]:
    return [answer(result["id"], result["tool"], result["output"]) for result in results]


def _made(tools: Mapping[str, Tool], results: list[StepResult]) -> list[DraftMade]:
    return [
        DraftMade(stream=stream, versionId=result["output"]["versionId"], toolCallId=result["id"])
        for result in results
        if result["status"] == "completed" and result["tool"] in tools
        for stream in tools[result["tool"]].writes
    ]

"""Executes a plan while people change it: the record in Redis decides what starts next."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from callsheet.state.budgets import BudgetExceeded
from callsheet.state.plan import Step, StepStatus
from callsheet.state.video import live
from callsheet.state.video.live import Execution, LiveStep, Update
from callsheet.state.video.progress import events_between, total_seconds
from callsheet.storage.video.executions import Executions
from callsheet.tools.guard.outcome import Outcome

POLL_S: Final = 0.25
"""Seconds until a running executor looks for changes by people."""
Ended = tuple[str, StepStatus, Mapping[str, Any]]
"""Id, status and output of a step that has ended."""


class LiveExecution:
    """One task's execution of a plan."""

    def __init__(
        self,
        executions: Executions,
        record: Execution,
        execute: Callable[[Step], Awaitable[Outcome]],
        *,
        parallel: int,
        report: Callable[[dict[str, Any]], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._executions = executions
        self.record = record
        """The newest state."""
        self._reported: Execution | None = None
        self._execute_call = execute
        self._parallel = max(1, parallel)
        self._report = report
        self._stopping = stopping
        self._running: dict[asyncio.Task[Outcome], LiveStep] = {}
        self._exceeded: BudgetExceeded | None = None

    async def run(self) -> Execution:
        """Execute until nothing can start any more, and return the record.

        A failed step blocks only the steps that depend on it. Raises `BudgetExceeded` once the running steps
        have ended, and an error that ends the attempt after they were cancelled.
        """
        self._exceeded = None
        self._report_changes()
        try:
            await self._advance([])
            while self._running:
                done, _ = await asyncio.wait(
                    self._running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
                await self._advance([self._outcome(task) for task in done])
        finally:
            await self._cancel()
        if self._exceeded:
            raise self._exceeded
        return self.record

    async def stop(self, output: Mapping[str, Any]) -> Execution:
        """End the execution: pending steps have failed with this output."""
        for one in self.record["steps"]:
            if one["status"] in {"pending", "in-progress"}:
                await self._update(partial(_finish_steps, [(one["step"]["id"], "error", output)]))
        await self._update(live.end)
        return self.record

    async def _advance(self, ended: list[Ended | None]) -> None:
        """Record the steps that ended, and start what is ready, in one change."""
        await self._update(partial(self._next_record, [one for one in ended if one]))
        for one in self._to_start(self.record):
            if one["status"] == "in-progress":
                self._start(one)

    def _next_record(self, ended: list[Ended], record: Execution, now_ms: int) -> Execution:
        record = _finish_steps(ended, record, now_ms)
        for one in self._to_start(record):
            if one["status"] == "pending":
                record = live.claim_step(record, one["step"]["id"], now_ms)
        busy = {one["step"]["id"] for one in self._running.values()}
        if not busy and not (self._stopping() or self._exceeded):
            record = live.end(record, now_ms)
        return record

    def _to_start(self, record: Execution) -> list[LiveStep]:
        """Return the steps that this task may start now, as many as fit."""
        if self._stopping() or self._exceeded:
            return []
        busy = {one["step"]["id"] for one in self._running.values()}
        ready = [one for one in live.startable(record) if one["step"]["id"] not in busy]
        return ready[: max(0, self._parallel - len(busy))]

    def _start(self, one: LiveStep) -> None:
        step = one["step"]
        # A repetition is another call, with a receipt of its own.
        generation = one["generation"]
        call: Step = {**step, "id": f"{step['id']}#{generation}" if generation else step["id"]}
        self._running[asyncio.create_task(self._carry_out(call))] = one

    async def _carry_out(self, call: Step) -> Outcome:
        return await self._execute_call(call)

    def _outcome(self, task: asyncio.Task[Outcome]) -> Ended | None:
        """Return how a step ended; None where it must be started again."""
        one = self._running.pop(task)
        name = one["step"]["id"]
        try:
            outcome = task.result()
        except BudgetExceeded as exceeded:
            self._exceeded = exceeded
            return name, "pending", {}
        return name, "completed" if outcome.ok else "error", outcome.output

    async def _update(self, change: Update) -> None:
        self.record = await self._executions.update(self.record["id"], partial(self._mine, change))
        self._report_changes()

    def _mine(self, change: Update, record: Execution, now_ms: int) -> Execution:
        """Apply a change unless a later attempt has taken the execution over."""
        live.require_newest(record, self.record["task"], self.record["epoch"])
        return change(record, now_ms)

    def _report_changes(self) -> None:
        before, self._reported = self._reported, self.record
        if before is None:
            self._report({"type": "execution-started", "executionId": self.record["id"]})
        for name, data in events_between(before, self.record):
            self._report({"type": name, "executionId": self.record["id"], **data})
        known = {one["step"]["id"]: one for one in before["steps"]} if before else {}
        for one in self.record["steps"]:
            if known.get(one["step"]["id"]) != one:
                self._report(_step_report(self.record["id"], one))
        if live.is_over(self.record) and before and not live.is_over(before):
            self._report({"type": "execution-completed", "totalTime": total_seconds(self.record)})

    async def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def _finish_steps(ended: list[Ended], record: Execution, now_ms: int) -> Execution:
    for name, status, output in ended:
        if status == "pending":
            record = live.release_step(record, name)
        else:
            record = live.finish_step(record, name, status, output, now_ms)
    return record


def _step_report(execution: str, one: LiveStep) -> dict[str, Any]:
    """Return the event of a step as every workflow reports it."""
    step, output = one["step"], one["output"]
    event = {
        "type": "step",
        "stepId": step["id"],
        "plan": execution,
        "tool": step["tool"],
        "name": step["display"],
        "status": one["status"],
    }
    if one["status"] == "pending":
        return event | {"input": step["params"]}
    if one["status"] == "in-progress":
        return event
    shown = {key: output[key] for key in ("versionId", "versions", "error") if key in output}
    took_s = max(0, one["ended_ms"] - one["started_ms"]) / 1000 if one["started_ms"] else 0.0
    return event | {"preview": shown, "output": output, "durationSeconds": took_s}

"""Executes a plan while people may change it: its record decides what starts next."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, Protocol

from langchain_core.messages import HumanMessage

from callsheet.state import live_plan
from callsheet.state.budgets import BudgetExceeded
from callsheet.state.errors import Missing
from callsheet.state.live_plan import Execution, LiveStep, PlanRules, Update
from callsheet.state.plan import Plan, Step, StepStatus
from callsheet.state.plan_progress import events_between, total_seconds
from callsheet.state.workflow import Workflow
from callsheet.storage.artefacts.plans import Executions, Held
from callsheet.tools.call import Scope
from callsheet.tools.guard.outcome import Outcome

POLL_S: Final = 0.25
"""Seconds until a running executor looks for changes by people."""
PARALLEL: Final = 3
"""Steps that run at once unless the caller chose otherwise."""
Ended = tuple[str, StepStatus, Mapping[str, Any]]
"""Id, status and output of a step that has ended."""


class PlanRecord(Protocol):
    """The record of an execution, as one task follows it."""

    newest: Execution
    """The newest state that the task knows."""
    seen: Collection[str]
    """Steps whose events an earlier task has reported."""

    async def look(self) -> None:
        """Read what people have changed."""
        ...

    async def update(self, change: Update) -> None:
        """Apply a change to the newest state."""
        ...


class SharedRecord:
    """A record in Redis. A change costs one round trip, and another one if a person was faster."""

    def __init__(self, executions: Executions, held: Held, seen: Collection[str] = ()) -> None:
        self._executions = executions
        self._held = held
        self.seen = seen
        self.newest = held.record

    async def look(self) -> None:
        """Read what people have changed."""
        try:
            self._held = await self._executions.read(self.newest["id"])
        except Missing:
            await self._restore()
        self.newest = self._held.record

    async def update(self, change: Update) -> None:
        """Apply a change to the newest state."""
        try:
            self._held = await self._executions.change(self._held, change)
        except Missing:
            await self._restore()
            self._held = await self._executions.change(self._held, change)
        self.newest = self._held.record

    async def _restore(self) -> None:
        """Store the record again, which Redis has lost."""
        self._held = await self._executions.open(lambda _: self.newest)


class OwnRecord:
    """A record in memory, of a plan of one step that nobody else sees."""

    def __init__(self, build: Callable[[int], Execution]) -> None:
        self.newest = build(_clock_ms())
        self.seen: Collection[str] = ()

    async def look(self) -> None:
        """Do nothing."""

    async def update(self, change: Update) -> None:
        """Apply a change."""
        self.newest = change(self.newest, _clock_ms())


def _clock_ms() -> int:
    return int(time.monotonic() * 1000)


class PlanExecution:
    """One task's execution of a plan."""

    def __init__(
        self,
        held: PlanRecord,
        execute: Callable[[Step], Awaitable[Outcome]],
        *,
        rules: PlanRules,
        parallel: int,
        report: Callable[[dict[str, Any]], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._held = held
        self._seen = {
            one["step"]["id"]: one for one in held.newest["steps"] if one["step"]["id"] in held.seen
        }
        self._task, self._epoch = held.newest["task"], held.newest["epoch"]
        self._reported: Execution | None = None
        self._execute_call = execute
        self._rules = rules
        self._parallel = max(1, parallel)
        self._report = report
        self._stopping = stopping
        self._running: dict[asyncio.Task[Outcome], LiveStep] = {}
        self._exceeded: BudgetExceeded | None = None

    async def run(self) -> Execution:
        """Execute until nothing can start any more, and return the record.

        A failed step blocks only the steps that depend on it. Raises `BudgetExceeded` once the running steps
        have ended, and an error that ends the attempt (storage away, lease lost) after they were cancelled;
        their receipts keep their effects.
        """
        self._exceeded = None
        self._report_changes()
        try:
            await self._advance([])
            while self._running:
                done, _ = await asyncio.wait(
                    self._running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    await self._held.look()
                await self._advance([self._outcome(task) for task in done])
        finally:
            await self._cancel()
        if self._exceeded:
            raise self._exceeded
        return self._held.newest

    async def stop(self, output_of: Callable[[Step], Mapping[str, Any]]) -> Execution:
        """End the execution: pending steps have failed with these outputs."""
        ended: list[Ended] = [
            (one["step"]["id"], "error", output_of(one["step"]))
            for one in self._held.newest["steps"]
            if one["status"] in {"pending", "in-progress"}
        ]
        await self._update(partial(_finish_steps, ended))
        await self._update(live_plan.end)
        return self._held.newest

    async def _advance(self, ended: list[Ended | None]) -> None:
        """Record the steps that ended, and start what is ready, in one change."""
        await self._update(partial(self._next_record, [one for one in ended if one]))
        for one in self._to_start():
            if one["status"] == "in-progress":
                self._start(one)

    def _next_record(self, ended: list[Ended], record: Execution, now_ms: int) -> Execution:
        record = _finish_steps(ended, record, now_ms)
        if self._stopping() or self._exceeded:
            return record
        record = live_plan.claim_steps(record, self._busy(), self._parallel, now_ms)
        return record if self._running else live_plan.end(record, now_ms)

    def _to_start(self) -> list[LiveStep]:
        """Return the steps that this task may start now, as many as fit."""
        if self._stopping() or self._exceeded:
            return []
        return live_plan.to_start(self._held.newest, self._busy(), self._parallel)

    def _busy(self) -> set[str]:
        return {one["step"]["id"] for one in self._running.values()}

    def _start(self, one: LiveStep) -> None:
        self._running[asyncio.create_task(self._carry_out(live_plan.call_of(one)))] = one

    async def _carry_out(self, call: Step) -> Outcome:
        return await self._execute_call(call)

    def _outcome(self, task: asyncio.Task[Outcome]) -> Ended | None:
        """Return how a step ended; as pending where it must be started again."""
        one = self._running.pop(task)
        name = one["step"]["id"]
        try:
            outcome = task.result()
        except BudgetExceeded as exceeded:
            self._exceeded = exceeded
            return name, "pending", {}
        return name, "completed" if outcome.ok else "error", outcome.output

    async def _update(self, change: Update) -> None:
        await self._held.update(partial(self._mine, change))
        self._report_changes()

    def _mine(self, change: Update, record: Execution, now_ms: int) -> Execution:
        """Apply a change unless a later attempt has taken the execution over."""
        live_plan.require_newest(record, self._task, self._epoch)
        return change(record, now_ms)

    def _report_changes(self) -> None:
        record = self._held.newest
        before, self._reported = self._reported, record
        if self._rules.kept:
            self._report_execution(before, record)
        known = {one["step"]["id"]: one for one in before["steps"]} if before else self._seen
        for one in record["steps"]:
            for stage in _stages(known.get(one["step"]["id"]), one):
                self._report(_step_report(record["id"], stage, self._rules))
                if self._rules.kept and (event := _stage_event(record["id"], stage, self._rules)):
                    self._report(event)
        if self._rules.kept and live_plan.is_over(record) and before and not live_plan.is_over(before):
            self._report({"type": "execution-completed", "totalTime": total_seconds(record)})

    def _report_execution(self, before: Execution | None, record: Execution) -> None:
        if before is None:
            self._report({"type": "execution-started", "executionId": record["id"]})
        for name, data in events_between(before, record, self._rules):
            self._report({"type": name, "executionId": record["id"], **data})

    async def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def _finish_steps(ended: list[Ended], record: Execution, now_ms: int) -> Execution:
    for name, status, output in ended:
        if status == "pending":
            record = live_plan.release_step(record, name)
        else:
            record = live_plan.finish_step(record, name, status, output, now_ms)
    return record


def _stages(before: LiveStep | None, one: LiveStep) -> list[LiveStep]:
    """Return the states of a step to report, oldest first; of one that is new, those that led to it, too."""
    if before == one:
        return []
    if before is not None or one["status"] == "pending":
        return [one]
    pending: LiveStep = {**one, "status": "pending"}
    started: LiveStep = {**one, "status": "in-progress"}
    return (
        [pending, one] if one["status"] == "in-progress" or not one["started_ms"] else [pending, started, one]
    )


def _stage_event(execution: str, one: LiveStep, rules: PlanRules) -> dict[str, Any] | None:
    """Return the event of a step's start or end in the run's log; None for another stage."""
    event = {"executionId": execution, "stepId": one["step"]["id"]}
    if one["status"] == "in-progress":
        return {"type": "step-started", **event}
    if one["status"] != "completed":
        return None
    preview = {key: one["output"][key] for key in rules.preview if key in one["output"]}
    return {"type": "step-completed", **event, "preview": preview}


def _step_report(execution: str, one: LiveStep, rules: PlanRules) -> dict[str, Any]:
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
    shown = {key: output[key] for key in rules.preview if key in output}
    took_s = max(0, one["ended_ms"] - one["started_ms"]) / 1000 if one["started_ms"] else 0.0
    return event | {"preview": shown, "output": output, "durationSeconds": took_s}


def new_execution(plan: Plan, scope: Scope, state: Workflow, now_ms: int) -> Execution:
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
        style=texts.get("style", ""),
        status="planned",
        approved=live_plan.plan_digest(plan),
        task="",
        epoch=0,
        estimated_s=0.0,
        created_ms=now_ms,
        started_ms=0,
        ended_ms=0,
        steps=live_plan.live_steps(plan["steps"]),
        changes=live_plan.left_out_changes(plan["steps"], now_ms),
    )

"""Executions over REST: start, watch, change while they run, do again, undo."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from langgraph.types import Interrupt

from callsheet.nodes.video.planning import read_outline
from callsheet.server.artefacts.conversation_stream import start_of_turn
from callsheet.server.artefacts.service import (
    RequestContext,
    answer_interrupt,
    pending_questions,
    question_view,
    submit,
    thread_of,
)
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.worker import Worker, progress_of
from callsheet.server.http.context import AppContext
from callsheet.server.video import service
from callsheet.server.video.bodies import StepDecision
from callsheet.server.video.service import VIDEOS
from callsheet.state import live_plan
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.live_plan import Execution, Update
from callsheet.state.plan import Plan
from callsheet.state.video import plan
from callsheet.state.video.plan import PlannedStep, SubmittedPlan
from callsheet.state.video.plan_rules import RULES
from callsheet.state.workflow import Repetition
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.plans import Executions, find_place, missing_execution
from callsheet.storage.runs.events import END, Event
from callsheet.storage.runs.records import Created, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video import settings

_HEARTBEAT_S: Final = 2.0
MAX_LISTED: Final = 50
"""Executions that are searched for one to undo."""


@dataclass(frozen=True)
class ExecutionRef:
    """An existing execution of the caller."""

    ctx: AppContext
    owner: str
    thread: Thread
    executions: Executions
    id: str

    @property
    def artefact(self) -> Artefact:
        """The project."""
        return VIDEOS.artefact(self.ctx.storage, self.thread)


@dataclass(frozen=True)
class Started:
    """A run, and its execution once there is a plan."""

    thread: Thread
    execution: Execution | None
    message: str = ""
    """The model's words where it made no plan, or the text of the question."""
    question: Mapping[str, Any] | None = None
    """Question about a budget that waits before there is a plan."""


async def find(ctx: AppContext, owner: str, execution_id: str) -> ExecutionRef:
    """Return the owner's execution; raise `Missing` if there is none."""
    name, thread_id = await find_place(ctx.storage, owner, execution_id)
    thread = await threads.get(ctx.storage, thread_id, owner)
    if thread.graph != service.GRAPH:
        raise missing_execution(execution_id)
    return ExecutionRef(
        ctx, owner, thread, Executions(ctx.storage, "video", name, owner, RULES), execution_id
    )


async def start_run(ctx: AppContext, request: RunRequest, *, queued: bool = False) -> Started:
    """Start a run, and return as soon as it has a plan or has ended without one.

    The run goes on. A queued one waits for the project's active run. Raises `Busy` while another one has the
    project, and the run's error.
    """
    thread = thread_of(request)
    created = await (queue_run(ctx, request) if queued else submit(ctx.worker, request))
    executions = Executions(ctx.storage, "video", VIDEOS.artefact_id(thread), thread.owner, RULES)
    since = created.since
    if created.verdict in {"attached", "replay"}:
        since = await start_of_turn(ctx, thread.id, created.run)
    if since and (planned := await _planned_execution(ctx, executions, (thread.id, created.run), since)):
        return Started(thread, planned)
    for record in await executions.newest(MAX_LISTED):
        if record["run"] == created.run:
            return Started(thread, record)
    reply = await ctx.worker.reply(thread.id, created.run)
    await ctx.worker.runs.mark_answered(thread.id, created.run)
    if pending := reply["question"]:
        question = question_view(pending["id"], pending["value"])
        return Started(thread, None, question["actions"][0]["description"], question)
    return Started(thread, None, reply["message"])


async def _planned_execution(
    ctx: AppContext, executions: Executions, run: tuple[str, str], since: str
) -> Execution | None:
    """Return the execution that a run (thread and id) planned after `since`; None if it ends without.

    One that asks for approval is returned with the run's end: only then its question can be answered.
    """
    source = ctx.worker.events.follow_run(*run, since, heartbeat_s=_HEARTBEAT_S)
    planned: Execution | None = None
    async with aclosing(source) as events:
        async for event in events:
            if name := _planned_id(event):
                planned = await executions.settle(name)
            asks = planned is None or (planned["status"] == "planned" and planned.get("asks"))
            if not asks or (event and event.name == END):
                break
    return planned


def _planned_id(event: Event | None) -> str:
    """Return the id of the execution that the event announces; empty for another event."""
    step = progress_of(event) if event else None
    return str(step["executionId"]) if step and step.get("type") == "plan" else ""


async def require_no_question(worker: Worker, thread: Thread) -> None:
    """Raise `Conflict` if the project waits for an answer: a run without one would end the question."""
    if await pending_questions(worker, thread):
        raise Conflict(
            "a plan of the project is paused or waits for approval",
            remedy="answer it, resume it or cancel it first",
        )


async def change(ref: ExecutionRef, update: Update) -> Execution:
    """Apply a change to an execution that runs or is paused."""
    # Reading it ends one that nobody carries out any more.
    await ref.executions.settle(ref.id)
    return await ref.executions.update(ref.id, update)


async def edit_step(ref: ExecutionRef, step_id: str, params: Mapping[str, Any]) -> Execution:
    """Change parameters of a pending step, and remember it as a preference."""
    before = live_plan.find(await ref.executions.settle(ref.id), step_id)["step"]["params"].get("prompt")
    record = await change(ref, lambda held, now: live_plan.edit_step(held, step_id, params, now, RULES))
    after = live_plan.find(record, step_id)["step"]["params"].get("prompt")
    if before and after and before != after:
        text = f"for {record['request']!r} the person changed the step {before!r} to {after!r}"
        await settings.add_preference(ref.ctx.storage, ref.owner, text, record["changes"][-1]["at_ms"])
    return record


async def insert_step(ref: ExecutionRef, step: PlannedStep) -> Execution:
    """Add a step to an execution that has not ended."""
    order, lines = await read_outline(ref.artefact)
    names = {line.id: line.name for line in lines}

    def insert(record: Execution, now_ms: int) -> Execution:
        known = {one["step"]["id"] for one in record["steps"]}
        if unknown := [name for name in step.after if name not in known]:
            raise Invalid(
                f"the step waits for {', '.join(unknown)}, which the execution has not",
                remedy=f"its steps are: {', '.join(sorted(known))}",
            )
        about = plan.Project(plan.order_after(order, [one["step"] for one in record["steps"]]), names)
        alone = SubmittedPlan(steps=[step.model_copy(update={"after": [], "id": step.id or _free_id(known)})])
        open_steps = [one["step"] for one in record["steps"] if one["status"] in {"pending", "in-progress"}]
        new = plan.checked_steps(alone, about, open_steps)
        if taken := sorted(known & {one["id"] for one in new}):
            raise Conflict(f"step {taken[0]!r} exists already", remedy="choose another id, or none")
        for one in new:
            one["dependencies"] = [*dict.fromkeys([*one["dependencies"], *step.after])]
        return live_plan.insert_steps(record, new, now_ms)

    return await change(ref, insert)


def _free_id(known: set[str]) -> str:
    return next(name for number in range(1, len(known) + 2) if (name := f"i{number}") not in known)


async def do_again(
    ref: ExecutionRef, caller: RequestContext, *, retry: str = "", repeat: str = ""
) -> Execution:
    """Do a failed or a completed step again: in the running execution, or in a new run if it has ended.

    Two people who ask for the same get it once.
    """
    repeated = partial(_again, retry, repeat)
    record = await change(
        ref, lambda held, now_ms: held if live_plan.is_over(held) else repeated(held, now_ms)
    )
    if not live_plan.is_over(record):
        return record
    await require_no_question(ref.ctx.worker, ref.thread)
    wanted = repeated(record, record["ended_ms"])
    one = live_plan.find(record, retry or repeat)
    again = Repetition(step=retry or repeat, completed=bool(repeat), generation=one["generation"])
    resumed = Plan(id=record["id"], steps=[each["step"] for each in wanted["steps"]])
    text = f"{'Retry' if retry else 'Repeat'}: {one['step']['display']}"
    await queue_run(ref.ctx, service.decided_run(caller, ref.thread, resumed, text, again))
    return wanted


async def queue_run(ctx: AppContext, request: RunRequest) -> Created:
    """Submit a run; it waits for the project's active run, which may be about to end."""
    return await submit(ctx.worker, replace(request, strategy="enqueue"))


def _again(retry: str, repeat: str, record: Execution, now_ms: int) -> Execution:
    return (
        live_plan.retry_step(record, retry, now_ms)
        if retry
        else live_plan.repeat_step(record, repeat, now_ms, RULES)
    )


async def resume(ref: ExecutionRef, caller: RequestContext) -> Execution:
    """Let a paused execution go on; its run waits for that once its running steps have ended."""
    record = await change(ref, live_plan.resume)
    pending = await pending_questions(ref.ctx.worker, ref.thread)
    if question := next((one for one in pending if _is_about(one.value, ref.id)), None):
        run = answer_interrupt([question], caller, ref.thread, {"resume": True})
        await queue_run(ref.ctx, run)
    return record


async def cancel(ref: ExecutionRef, caller: RequestContext) -> Execution:
    """Start nothing more; steps that run end, and what is done stays."""
    record = await change(ref, live_plan.cancel)
    if pending := await _open_questions(ref):
        paused = _is_about(pending[0].value, ref.id)
        answer: Any = {"resume": False} if paused else _rejection()
        # Where another answer was faster, its run finds the cancelled record.
        with suppress(Conflict):
            await queue_run(ref.ctx, answer_interrupt(pending, caller, ref.thread, answer))
    return record


def _rejection() -> dict[str, Any]:
    return {"decisions": [{"type": "reject", "message": "cancelled"}]}


def _is_about(question: Any, execution_id: str) -> bool:
    return isinstance(question, Mapping) and question.get("executionId") == execution_id


async def _open_questions(ref: ExecutionRef) -> list[Interrupt]:
    """Return the questions that wait for an answer, without those about another plan of the project."""
    state = await ref.ctx.worker.state(ref.thread)
    current = state.values.get("plan")
    return [] if current and current["id"] != ref.id else pending_interrupts(state)


async def answer_plan(
    ref: ExecutionRef, caller: RequestContext, decisions: Sequence[StepDecision]
) -> Execution:
    """Approve, edit or reject a plan that waits for approval.

    Raises `Invalid` for decisions that do not fit the question, which then still waits.
    """
    pending = await _open_questions(ref)
    if pending and _is_about(pending[0].value, ref.id) and (len(decisions) > 1 or decisions[0].edited_action):
        raise Invalid("a paused execution is resumed or cancelled", remedy="send one approve, or one reject")
    answer = {"decisions": [one.model_dump(exclude_none=True) for one in decisions]}
    await submit(ref.ctx.worker, answer_interrupt(pending, caller, ref.thread, answer))
    return await ref.executions.settle(ref.id)


async def require_project(ctx: AppContext, name: str, owner: str) -> Thread:
    """Return the thread of the owner's project; raise `Missing` if there is none."""
    try:
        return await VIDEOS.require_thread(ctx.storage, name, owner)
    except Missing:
        raise Missing(
            f"there is no project {name!r}", remedy="create it with POST /api/projects, or with a message"
        ) from None

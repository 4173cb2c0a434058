"""Executions of plans over REST: found, changed while they run, done again, for every workflow."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, TypeVar
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from langgraph.types import Interrupt
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.server.artefacts.service import (
    CHAT,
    RequestContext,
    answer_interrupt,
    pending_questions,
    run_request,
    submit,
)
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.worker import Worker
from callsheet.server.http.context import AppContext
from callsheet.state import live_plan, plan_recovery
from callsheet.state.approvals import plan_decisions
from callsheet.state.errors import Busy, Conflict, Invalid, InvalidArguments, Missing
from callsheet.state.live_plan import Execution, QueuedRepetition, Update
from callsheet.state.plan import Plan, Step, call_digest
from callsheet.state.workflow import Repetition
from callsheet.storage import consents
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.plans import Executions, find_place, missing_execution
from callsheet.storage.runs.records import OPEN_STATUSES, Created, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.arguments import validate_arguments
from callsheet.tools.registry import Tool

_QUESTION_PATIENCE_S: Final = 5.0
"""Seconds for a paused execution to store its question."""
_QUESTION_POLL_S: Final = 0.05


@dataclass(frozen=True)
class ExecutionRef:
    """An existing execution of the caller."""

    ctx: AppContext
    owner: str
    thread: Thread
    workflow: WorkflowSpec[Any]
    executions: Executions
    id: str

    @property
    def artefact(self) -> Artefact:
        """The artefact that the plan is about."""
        name = self.thread.artefact.partition(":")[2] or self.thread.id
        return Artefact(self.ctx.storage, self.workflow.artefact.kind, name, self.owner)


async def find(ctx: AppContext, owner: str, execution_id: str) -> ExecutionRef:
    """Return the owner's execution; raise `Missing` if there is none."""
    name, thread_id = await find_place(ctx.storage, owner, execution_id)
    thread = await threads.get(ctx.storage, thread_id, owner)
    workflow = ctx.workflows.specs.get(thread.graph)
    if workflow is None:
        raise missing_execution(execution_id)
    executions = Executions(ctx.storage, workflow.artefact.kind, name, owner, workflow.turn.plan_rules)
    return ExecutionRef(ctx, owner, thread, workflow, executions, execution_id)


class _NewStep(BaseModel):
    """A step to insert: a call of a tool, named as plans are shown, or shorter."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    tool: str = Field(validation_alias=AliasChoices("toolName", "tool"))
    title: str = Field("", max_length=120, validation_alias=AliasChoices("displayName", "title"))
    params: dict[str, Any] = {}
    after: list[str] = Field([], max_length=100, validation_alias=AliasChoices("dependencies", "after"))
    parallel: bool = Field(default=True, validation_alias="canParallelize")


ModelT = TypeVar("ModelT", bound=BaseModel)


def step_of_request(model: type[ModelT], given: Mapping[str, Any]) -> ModelT:
    """Return the step of a request's body; raise `RequestValidationError` with the places of its faults."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [{**one, "loc": ("body", "step", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(problems) from error


NewSteps = Callable[[Execution], list[Step]]
"""Returns the steps to insert into a record."""


class PlanEdits:
    """Changes of plans by people, as far as workflows differ in them."""

    async def new_steps(self, ref: ExecutionRef, given: Mapping[str, Any]) -> NewSteps:
        """Return the steps to insert for the body of a request; raise for one that does not fit."""
        step = step_of_request(_NewStep, given)
        tool = ref.workflow.tools.get(step.tool)
        if tool is None:
            raise Invalid(
                f"there is no tool {step.tool!r}", remedy=f"the tools are: {', '.join(ref.workflow.tools)}"
            )
        require_arguments(tool, step.params, ref.artefact.id)

        def build(record: Execution) -> list[Step]:
            known = require_known(record, step.after)
            touched = tool.reads | tool.writes
            waits = [
                one["step"]["id"]
                for one in record["steps"]
                if one["status"] in {"pending", "in-progress"} and touched & {*one["step"]["writes"]}
            ]
            new = Step(
                id=step.id or free_id(known),
                tool=tool.name,
                display=step.title or tool.display,
                params=step.params,
                dependencies=[*dict.fromkeys([*waits, *step.after])],
                reads=sorted(tool.reads),
                writes=sorted(tool.writes),
            )
            return [new if step.parallel else {**new, "alone": True}]

        return build

    async def note_edit(self, ref: ExecutionRef, before: Mapping[str, Any], record: Execution) -> None:
        """Note that a person gave a step other parameters than these; by default nothing."""

    def run_input(self, thread: Thread) -> Mapping[str, Any]:
        """Return what a run that does a step again needs beside the thread's state."""
        del thread
        return {}

    def context(self, record: Execution) -> Mapping[str, Any]:
        """Return what the plan looks up, for its view."""
        del record
        return {}


def require_arguments(tool: Tool, params: Mapping[str, Any], artefact: str) -> None:
    """Raise `InvalidArguments` for parameters that do not fit a tool, or that it has not."""
    names = [name for name in tool.schema.model_fields if name != tool.subject]
    remedy = f"its parameters are: {', '.join(names) or 'none'}"
    try:
        _, unknown = validate_arguments(tool, params, artefact)
    except InvalidArguments as error:
        raise InvalidArguments(error.message, remedy=remedy) from error
    if unknown:
        raise InvalidArguments(f"{tool.name} has no parameter {', '.join(map(repr, unknown))}", remedy=remedy)


def require_known(record: Execution, names: Sequence[str]) -> set[str]:
    """Return the ids of a record's steps; raise `Invalid` if one of these is none of them."""
    known = {one["step"]["id"] for one in record["steps"]}
    if unknown := [name for name in names if name not in known]:
        raise Invalid(
            f"the execution has no step {', '.join(map(repr, unknown))}",
            remedy=f"its steps are: {', '.join(sorted(known))}",
        )
    return known


def free_id(known: set[str]) -> str:
    """Return an id for an inserted step."""
    return next(name for number in range(1, len(known) + 2) if (name := f"i{number}") not in known)


async def read(ref: ExecutionRef) -> Execution:
    """Return the execution; one that nobody carries out any more ends here.

    Raises `Missing` if there is none, or if Redis has lost the record of a plan whose question waits.
    """
    try:
        record = await ref.executions.settle(ref.id)
    except Missing:
        if await _open_questions(ref):
            raise Missing(
                f"the record of execution {ref.id!r} was lost, and the plan waits for an answer",
                remedy="answer it or send a message in its conversation: either ends the plan, with what it"
                " has done; then ask for the rest again",
            ) from None
        raise
    return record


async def show(ref: ExecutionRef) -> Execution:
    """Return the execution as people see it: one that a queued run does a step of again has not ended."""
    record = await read(ref)
    queued = record.get("repetition")
    if not (queued and live_plan.is_over(record)):
        return record
    with suppress(Missing):
        if (await ref.ctx.worker.runs.get(ref.thread.id, queued["run"])).status in OPEN_STATUSES:
            return plan_recovery.as_queued(record, ref.workflow.turn.plan_rules)
    return record


async def require_no_question(worker: Worker, thread: Thread) -> None:
    """Raise `Conflict` if the thread waits for an answer: a run without one would end the question."""
    if await pending_questions(worker, thread):
        raise Conflict(
            "a plan of the project is paused or waits for approval",
            remedy="answer it, resume it or cancel it first",
        )


async def change(ref: ExecutionRef, update: Update) -> Execution:
    """Apply a person's change to an execution that runs or is paused."""
    await read(ref)
    # With each attempt, since another person's change may give an inserted step another id.
    return await ref.executions.update(ref.id, update, partial(_consent, ref))


async def _consent(ref: ExecutionRef, before: Execution, after: Execution) -> None:
    """Record the person's consent to the destructive calls that a change makes, or lets happen again."""
    known = [*before["steps"]]
    tools = {**ref.workflow.tools, **ref.workflow.internal_tools}
    calls = [
        call_digest(ref.id, live_plan.call_of(one))
        for one in after["steps"]
        if one["status"] == "pending" and one not in known
        if (tool := tools.get(one["step"]["tool"])) and tool.is_destructive
    ]
    await consents.grant(ref.ctx.storage, ref.thread.id, calls, has_record=True)


async def edit_step(
    ref: ExecutionRef, edits: PlanEdits, step_id: str, params: Mapping[str, Any]
) -> Execution:
    """Change parameters of a pending step; raise `InvalidArguments` for those that do not fit its tool."""
    rules = ref.workflow.turn.plan_rules
    tools = {**ref.workflow.tools, **ref.workflow.internal_tools}

    def edit(held: Execution, now_ms: int) -> Execution:
        edited = live_plan.edit_step(held, step_id, params, now_ms, rules)
        step = live_plan.find(edited, step_id)["step"]
        if tool := tools.get(step["tool"]):
            require_arguments(tool, step["params"], ref.artefact.id)
        return edited

    before = live_plan.find(await read(ref), step_id)["step"]["params"]
    record = await change(ref, edit)
    await edits.note_edit(ref, before, record)
    return record


async def insert_step(ref: ExecutionRef, edits: PlanEdits, given: Mapping[str, Any]) -> Execution:
    """Add a step to an execution that has not ended."""
    build = await edits.new_steps(ref, given)

    def insert(record: Execution, now_ms: int) -> Execution:
        new = build(record)
        if taken := sorted({one["step"]["id"] for one in record["steps"]} & {one["id"] for one in new}):
            raise Conflict(f"step {taken[0]!r} exists already", remedy="choose another id, or none")
        return live_plan.insert_steps(record, new, now_ms)

    return await change(ref, insert)


async def do_again(
    ref: ExecutionRef, edits: PlanEdits, caller: RequestContext, step_id: str, *, completed: bool
) -> Execution:
    """Do a failed or a completed step again: in the running execution, or in a new run if it has ended.

    Two people who ask for the same get it once.
    """
    rules = ref.workflow.turn.plan_rules
    repeat = partial(live_plan.repeat_step, rules=rules) if completed else live_plan.retry_step
    record = await change(
        ref, lambda held, now_ms: held if live_plan.is_over(held) else repeat(held, step_id, now_ms)
    )
    if not live_plan.is_over(record):
        return record
    await require_no_question(ref.ctx.worker, ref.thread)
    wanted = repeat(record, step_id, record["ended_ms"])
    await _consent(ref, record, wanted)
    one = live_plan.find(record, step_id)
    again = Repetition(step=step_id, completed=completed, generation=one["generation"])
    plan = Plan(id=record["id"], steps=[each["step"] for each in wanted["steps"]])
    text = f"{'Repeat' if completed else 'Retry'}: {one['step']['display']}"
    request = decided_run(caller, ref.thread, plan, text, edits.run_input(ref.thread), again)
    queued = QueuedRepetition(run=(await queue_run(ref.ctx, request)).run, step=step_id, completed=completed)
    await ref.executions.update(
        ref.id, lambda held, _: plan_recovery.queue_repetition(held, queued, again["generation"])
    )
    return wanted


def decided_run(
    caller: RequestContext,
    thread: Thread,
    plan: Plan,
    text: str,
    more: Mapping[str, Any],
    again: Repetition | None = None,
) -> RunRequest:
    """Return the run of a plan that a person decided; no model is asked. `text` tells it in the conversation.

    `again` names a step of an ended execution that is done again; `more` is further input.
    """
    message = {"role": "user", "content": text, "id": uuid4().hex}
    graph_input = {
        **more,
        "plan": plan,
        "decided": True,
        "decision": message["id"],
        "again": again,
        "results": [],
        "created": [],
        "drafts": {},
        "messages": [message],
    }
    what = {"ask": "decided", "plan": plan["id"], "text": text, "id": message["id"]}
    return run_request(thread, caller, what, repeatable=True, input=graph_input, stream_mode=[*CHAT])


async def queue_run(ctx: AppContext, request: RunRequest) -> Created:
    """Submit a run; it waits for the thread's active run, which may be about to end."""
    return await submit(ctx.worker, replace(request, strategy="enqueue"))


async def resume(ref: ExecutionRef, caller: RequestContext) -> Execution:
    """Let a paused execution go on; its run waits for that once its running steps have ended."""
    record = await change(ref, live_plan.resume)
    if question := await _pause_question(ref, record):
        await queue_run(ref.ctx, answer_interrupt([question], caller, ref.thread, {"resume": True}))
    return record


async def _pause_question(ref: ExecutionRef, record: Execution) -> Interrupt | None:
    """Return the question of a paused execution; None if it has none, and goes on or has ended by itself.

    The executor marks the record before it stores the question, which therefore may come in a moment. Raises
    `Busy` if it does not.
    """
    ends_s = time.monotonic() + _QUESTION_PATIENCE_S
    while True:
        pending = await pending_questions(ref.ctx.worker, ref.thread)
        if question := next((one for one in pending if _is_about(one.value, ref.id)), None):
            return question
        if not record.get("waits"):
            return None
        if time.monotonic() > ends_s:
            raise Busy(
                f"execution {ref.id!r} is about to ask whether it goes on",
                remedy="send it again in a moment",
            )
        await asyncio.sleep(_QUESTION_POLL_S)
        record = await ref.executions.settle(ref.id)


async def cancel(ref: ExecutionRef, caller: RequestContext) -> Execution:
    """Start nothing more; steps that run end, and what is done stays."""
    record = await change(ref, live_plan.cancel)
    paused = await _pause_question(ref, record)
    if pending := [paused] if paused else await _open_questions(ref):
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
    """Return the questions that wait for an answer and are about this plan."""
    state = await ref.ctx.worker.state(ref.thread)
    current = state.values.get("plan")
    return pending_interrupts(state) if current and current["id"] == ref.id else []


async def answer_plan(ref: ExecutionRef, caller: RequestContext, answer: Mapping[str, Any]) -> Execution:
    """Approve, edit or reject a plan that waits for approval, with some steps left out if wanted.

    Raises `Invalid` for decisions that do not fit the question, which then still waits.
    """
    await read(ref)
    decisions = answer["decisions"]
    pending = await _open_questions(ref)
    is_edited = len(decisions) > 1 or bool(decisions[0].get("edited_action"))
    if pending and _is_about(pending[0].value, ref.id) and is_edited:
        raise Invalid("a paused execution is resumed or cancelled", remedy="send one approve, or one reject")
    request = answer_interrupt(pending, caller, ref.thread, answer)
    _require_edits(ref, pending[0].value, answer)
    await submit(ref.ctx.worker, request)
    return await ref.executions.settle(ref.id)


def _require_edits(ref: ExecutionRef, question: Any, answer: Mapping[str, Any]) -> None:
    """Raise `InvalidArguments` for edits in the answer to the question about a plan that do not fit."""
    if "action_requests" not in question:
        return
    tools = {**ref.workflow.tools, **ref.workflow.internal_tools}
    decided = plan_decisions(answer, question)
    for decision, action in zip(decided, question["action_requests"], strict=True):
        if decision["type"] == "edit":
            require_arguments(tools[action["name"]], decision["args"], ref.artefact.id)

"""Executions over REST: start, watch, change while they run, do again, undo."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from callsheet.nodes.video.planning import read_outline
from callsheet.server.artefacts.conversation_stream import start_of_turn
from callsheet.server.artefacts.executions import (
    ExecutionRef,
    NewSteps,
    PlanEdits,
    free_id,
    queue_run,
    require_known,
)
from callsheet.server.artefacts.service import (
    question_view,
    submit,
    thread_of,
)
from callsheet.server.engine.worker import progress_of
from callsheet.server.http.context import AppContext
from callsheet.server.video.service import VIDEOS
from callsheet.server.video.views import plan_context
from callsheet.state.errors import Missing
from callsheet.state.live_plan import Execution
from callsheet.state.plan import Step
from callsheet.state.video import plan
from callsheet.state.video.plan import RULES, PlannedStep, SubmittedPlan
from callsheet.storage.plans import Executions
from callsheet.storage.runs.events import END, Event
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video import settings

_HEARTBEAT_S: Final = 2.0
MAX_LISTED: Final = 50
"""Executions that are searched for one to undo."""


@dataclass(frozen=True)
class Started:
    """A run, and its execution once there is a plan."""

    thread: Thread
    execution: Execution | None
    message: str = ""
    """The model's words where it made no plan, or the text of the question."""
    question: Mapping[str, Any] | None = None
    """Question about a budget that waits before there is a plan."""


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


class SceneEdits(PlanEdits):
    """Changes of a video's plans by people."""

    async def new_steps(self, ref: ExecutionRef, given: Mapping[str, Any]) -> NewSteps:
        """Return the steps of a planned one, checked against the project as it will be."""
        step = _planned_step(given)
        order, lines = await read_outline(ref.artefact)
        names = {line.id: line.name for line in lines}

        def build(record: Execution) -> list[Step]:
            known = require_known(record, step.after)
            about = plan.Project(plan.order_after(order, [one["step"] for one in record["steps"]]), names)
            alone = SubmittedPlan(
                steps=[step.model_copy(update={"after": [], "id": step.id or free_id(known)})]
            )
            open_steps = [
                one["step"] for one in record["steps"] if one["status"] in {"pending", "in-progress"}
            ]
            new = plan.checked_steps(alone, about, open_steps)
            for one in new:
                one["dependencies"] = [*dict.fromkeys([*one["dependencies"], *step.after])]
            return new

        return build

    async def note_edit(self, ref: ExecutionRef, before: Mapping[str, Any], record: Execution) -> None:
        """Remember another prompt as a preference of the person."""
        edited = [change for change in record["changes"] if change["kind"] == "edited"]
        if not edited or edited[-1]["before"] != before:
            return
        newest = edited[-1]
        old, new = before.get("prompt"), newest["after"].get("prompt")
        if old and new and old != new:
            text = f"for {record['request']!r} the person changed the step {old!r} to {new!r}"
            await settings.add_preference(ref.ctx.storage, ref.owner, text, newest["at_ms"])

    def run_input(self, thread: Thread) -> Mapping[str, Any]:
        """Return the project's id."""
        return {"project_id": VIDEOS.artefact_id(thread)}

    def context(self, record: Execution) -> Mapping[str, Any]:
        """Return what the plan looks up, and the scene that it works like."""
        return plan_context(record)


def _planned_step(given: Mapping[str, Any]) -> PlannedStep:
    try:
        return PlannedStep.model_validate(given)
    except ValidationError as error:
        problems = [{**one, "loc": ("body", "step", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(problems) from error


async def require_project(ctx: AppContext, name: str, owner: str) -> Thread:
    """Return the thread of the owner's project; raise `Missing` if there is none."""
    try:
        return await VIDEOS.require_thread(ctx.storage, name, owner)
    except Missing:
        raise Missing(
            f"there is no project {name!r}", remedy="create it with POST /api/projects, or with a message"
        ) from None

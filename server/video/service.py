"""Requests about videos as runs, their replies, and the executions that they start, undo and redo."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final

from callsheet.nodes.video.planning import read_outline
from callsheet.server.artefacts import executions as artefact_executions
from callsheet.server.artefacts.conversation_stream import start_of_turn
from callsheet.server.artefacts.executions import (
    ExecutionRef,
    NewSteps,
    PlanEdits,
    free_id,
    queue_run,
    require_arguments,
    require_known,
    require_no_question,
    step_of_request,
)
from callsheet.server.artefacts.service import (
    CHAT,
    ArtefactService,
    RequestContext,
    budget_answer_run,
    clean_message,
    human_message,
    is_recorded,
    question_view,
    require_not_paused,
    run_request,
    submit,
    thread_of,
    with_fingerprint,
)
from callsheet.server.engine.worker import Worker, progress_of
from callsheet.server.http.context import AppContext
from callsheet.server.video.schemas import ExecutionCreate
from callsheet.state import live_plan
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.live_plan import Execution, LiveStep
from callsheet.state.plan import Plan, Step
from callsheet.state.versions import number_of
from callsheet.state.video import plan, plan_forms, project, undo
from callsheet.state.video.plan import RULES, PlannedStep, SubmittedPlan
from callsheet.state.video.project import ORDER, order_of
from callsheet.state.video.undo import History
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.artefacts.plans import MAX_SEARCHED, Executions
from callsheet.storage.runs.events import END, Event
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video import settings

GRAPH: Final = "scene_edit"
VIDEOS: Final = ArtefactService(GRAPH, "video", "projectId")


async def edit_run(
    worker: Worker, project_id: str, body: ExecutionCreate, caller: RequestContext
) -> RunRequest:
    """Return the run for a message; write nothing. A plain yes or no answers a question about a budget.

    Raises `Invalid` for a message or an id that is none.
    """
    text = clean_message(body.message)
    for name in body.sceneIds:
        if not project.is_scene_id(name):
            raise Invalid(f"sceneIds has {name!r}, which is no scene", remedy="send ids such as 'scene-1'")
    thread = await VIDEOS.find_thread(worker.storage, project_id, caller.owner)
    graph_input = {
        "project_id": VIDEOS.artefact_id(thread),
        "scene_ids": [*body.sceneIds],
        "decided": False,
        "messages": [human_message(text)],
    }
    what = {"ask": "edit", "message": text, "scenes": [*body.sceneIds], "approve": body.approve}
    caller = replace(caller, context={**caller.context, "approve_plan": body.approve})
    if answer_run := await budget_answer_run(worker, thread, caller, text, what):
        return answer_run
    await require_not_paused(worker, thread, caller)
    repeatable = caller.idempotency_key is None
    return run_request(thread, caller, what, repeatable=repeatable, input=graph_input, stream_mode=[*CHAT])


def decided_run(caller: RequestContext, thread: Thread, plan: Plan, text: str) -> RunRequest:
    """Return the run of a plan that a person decided; no model is asked."""
    return artefact_executions.decided_run(
        caller, thread, plan, text, {"project_id": VIDEOS.artefact_id(thread)}
    )


def decided_plan(steps: Sequence[Step], kind: str) -> Plan:
    """Return a plan of steps that no model made."""
    return Plan(id=uuid.uuid4().hex, steps=[*steps], about={"kind": kind})


_HEARTBEAT_S: Final = 2.0
_READ_FIRST: Final = 3
"""Executions that are read first: mostly the newest ones say what can be undone."""


@dataclass(frozen=True)
class Started:
    """A run, and its execution once there is a plan."""

    thread: Thread
    execution: Execution | None
    message: str = ""
    """The model's words where it made no plan, or the text of the question."""
    question: Mapping[str, Any] | None = None
    """Question about a budget that waits before there is a plan."""
    receipt: Mapping[str, Any] | None = None
    """Effects of a turn without a plan."""


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
    if record := await _execution_of(executions, created.run):
        return Started(thread, record)
    if created.verdict == "attached":
        # A server that was killed may have left no beginning of the turn to follow.
        async for _ in ctx.worker.events.follow_run(
            thread.id, created.run, created.since, heartbeat_s=_HEARTBEAT_S
        ):
            pass
        if record := await _execution_of(executions, created.run):
            return Started(thread, record)
    reply = await ctx.worker.reply(thread.id, created.run)
    await ctx.worker.runs.mark_answered(thread.id, created.run)
    if pending := reply["question"]:
        question = question_view(pending["id"], pending["value"])
        return Started(thread, None, question["actions"][0]["description"], question)
    return Started(thread, None, reply["message"], receipt=reply["receipt"])


async def _execution_of(executions: Executions, run: str) -> Execution | None:
    return next((record for record in await executions.newest(MAX_SEARCHED) if record["run"] == run), None)


async def plans_to_undo(executions: Executions) -> list[Execution]:
    """Return the newest executions, newest first, as many as say what can be undone and redone."""
    records = await executions.newest(_READ_FIRST)
    is_known = undo.can_undo(records) and any(record["kind"] == "plan" for record in records)
    return records if is_known or len(records) < _READ_FIRST else await executions.newest(MAX_SEARCHED)


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
        step = step_of_request(PlannedStep, plan_forms.as_step(given))
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
                require_arguments(ref.workflow.internal_tools[one["tool"]], one["params"], ref.artefact.id)
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


async def require_project(ctx: AppContext, name: str, owner: str) -> Thread:
    """Return the thread of the owner's project; raise `Missing` if there is none."""
    try:
        return await VIDEOS.require_thread(ctx.storage, name, owner)
    except Missing:
        raise Missing(
            f"there is no project {name!r}", remedy="create it with POST /api/projects, or with a message"
        ) from None


def plan_context(record: Execution) -> dict[str, Any]:
    """Return what a plan looks up, and the scene that it works like."""
    gathering = [one["step"]["params"] for one in record["steps"] if one["step"]["tool"] == "contextGatherer"]
    references = _references(record["steps"])
    return {
        "needsWebSearch": any("web" in params.get("sources", ()) for params in gathering),
        "searchQueries": [query for params in gathering for query in params.get("queries", ())],
        "sharedStyle": record.get("style") or None,
        "referenceSceneId": references[0] if references else None,
    }


def _references(steps: Sequence[LiveStep]) -> list[str]:
    named = [
        name
        for one in steps
        for params in (one["step"]["params"],)
        for name in [params.get("targetSceneId"), *params.get("referenceSceneIds", ())]
    ]
    return [*dict.fromkeys(name for name in named if name)]


async def undo_run(
    worker: Worker, caller: RequestContext, thread: Thread, execution_id: str | None, steps: Sequence[str]
) -> RunRequest:
    """Return the run that undoes an execution, by default the newest, or some of its steps.

    A request that is sent again with its idempotency key is the recorded one, whatever was done since. Raises
    `Conflict` for an execution that has not ended, unless steps are named, and while a question waits.
    """
    body = {"ask": undo.UNDO, "execution": execution_id, "steps": [*steps]}
    if await is_recorded(worker, thread, caller):
        return run_request(thread, caller, body)
    await require_no_question(worker, thread)
    storage = worker.storage
    executions = Executions(storage, "video", VIDEOS.artefact_id(thread), thread.owner, RULES)
    if execution_id:
        record = await executions.settle(execution_id)
    else:
        record = undo.undone_execution(await plans_to_undo(executions))
    if not (steps or live_plan.is_over(record)):
        raise Conflict(
            f"execution {record['id']!r} has not ended",
            remedy="cancel it first, or name the steps that are to be undone",
        )
    wanted = undo.undo_steps(record, steps, await _history(VIDEOS.artefact(storage, thread), record))
    prompts = [live_plan.find(record, name)["step"]["display"] for name in steps]
    about = ", ".join(prompts) or undo.subject(record["request"])
    if record["kind"] == "plan":
        text = f"the person undid {about!r}"
        await settings.add_preference(storage, thread.owner, text, record["ended_ms"])
    run = decided_run(caller, thread, decided_plan(wanted, undo.UNDO), f"Undo: {about}")
    return with_fingerprint(run, thread, caller, body)


async def redo_run(worker: Worker, caller: RequestContext, thread: Thread) -> RunRequest:
    """Return the run that takes the newest undo back; repeated and refused as that of `undo_run`."""
    body = {"ask": undo.REDO}
    if await is_recorded(worker, thread, caller):
        return run_request(thread, caller, body)
    await require_no_question(worker, thread)
    executions = Executions(worker.storage, "video", VIDEOS.artefact_id(thread), thread.owner, RULES)
    record = undo.redone_execution(await plans_to_undo(executions))
    wanted = undo.undo_steps(record, [], await _history(VIDEOS.artefact(worker.storage, thread), record))
    text = f"Redo: {undo.subject(record['request'])}"
    run = decided_run(caller, thread, decided_plan(wanted, undo.REDO), text)
    return with_fingerprint(run, thread, caller, body)


async def _history(artefact: Artefact, record: Execution) -> History:
    """Return the versions of the streams that an execution wrote."""
    names = [*dict.fromkeys(name for one in record["steps"] for name in one["step"]["writes"]), ORDER]
    streams: dict[str, Stream] = await artefact.streams([*dict.fromkeys(names)])
    newest = {name: one.id for name, stream in streams.items() if (one := stream.newest())}
    order = order_of(current.data if (current := streams[ORDER].newest()) else None)
    removed = dict(zip(streams, await asyncio.gather(*map(artefact.removed_up_to, streams)), strict=True))

    def earlier(stream: str, version_id: str) -> str | None:
        ids = [version.id for version in streams[stream].versions]
        before = number_of(version_id) - 1
        if 0 < before <= removed[stream] and f"v{before}" not in ids:
            raise artefact.removed_version(stream, f"v{before}")
        place = ids.index(version_id) if version_id in ids else 0
        return ids[place - 1] if place else None

    def content(stream: str, version_id: str) -> Any:
        version = streams[stream].find(version_id)
        return version.data if version else None

    def earlier_order(version_id: str) -> list[str]:
        before = streams[ORDER].find(earlier(ORDER, version_id) or "")
        ids = [name for name in order_of(before.data if before else None).scenes if name in order.scenes]
        return [*ids, *(name for name in order.scenes if name not in ids)]

    return History(order, newest, content, earlier, earlier_order)

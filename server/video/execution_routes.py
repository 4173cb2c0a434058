"""Executions over REST: start, follow, change while they run."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from starlette.responses import Response

from callsheet.server.artefacts.service import RequestContext
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.events import event_stream_reply
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.openapi import EVENTS
from callsheet.server.http.policy import API_READ, API_WRITE, Streaming, with_policy
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.server.langgraph.run_streams import BEGINNING, checked_event_id
from callsheet.server.video import executions, service, undoing, views
from callsheet.server.video.bodies import ExecutionCreate, PlanDecision, StepCreate, StepPatch, UndoCreate
from callsheet.server.video.executions import ExecutionRef, Started
from callsheet.server.video.progress import progress_events
from callsheet.server.video.replies import ExecutionStarted, ExecutionView
from callsheet.state import live_plan
from callsheet.state.errors import Missing
from callsheet.state.video.plan_rules import RULES
from callsheet.storage.video import settings

project_router = APIRouter(
    prefix="/api/projects/{project_id}",
    route_class=StrictRoute,
    tags=["videos"],
    default_response_class=JsonReply,
)
router = APIRouter(
    prefix="/api/executions/{plan_id}",
    route_class=StrictRoute,
    tags=["videos"],
    default_response_class=JsonReply,
)
progress_router = APIRouter(
    prefix="/api/execution-progress/{plan_id}", route_class=StrictRoute, tags=["videos"]
)
_ERRORS = (400, 403, 404, 409, 422, 500, 503, 504)
_CHANGED = documented_responses(*_ERRORS, reply=ExecutionView)
_STARTED = documented_responses(*_ERRORS, 429, reply=ExecutionStarted)
_STREAM: dict[int | str, dict[str, Any]] = {
    **documented_responses(400, 404, 422, 500, 503, 504, reply=None),
    200: EVENTS,
}


async def _execution_ref(plan_id: str, request: Request) -> ExecutionRef:
    return await executions.find(app_context(request), current_owner(request), plan_id)


_Execution = Annotated[ExecutionRef, Depends(_execution_ref)]


@project_router.post("/executions", responses=_STARTED)
@with_policy(API_WRITE)
async def start_execution(
    project_id: str, body: ExecutionCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Start edits of a project by a message; the reply comes with the plan, and its steps run meanwhile.

    A project id that was never used is a new project.
    """
    ctx, owner = app_context(request), current_owner(request)
    message = body.message
    if body.preset is not None:
        known = await settings.presets(ctx.storage, owner)
        if body.preset not in known:
            raise Missing(f"there is no preset {body.preset!r}", remedy="list them with GET /api/presets")
        message = f"{known[body.preset]}\n\n{message}".strip()
    caller = RequestContext(owner, idempotency_key, body.context())
    body = body.model_copy(update={"message": message})
    return _reply(
        await executions.start_run(ctx, await service.edit_run(ctx.worker, project_id, body, caller))
    )


@project_router.post("/undo", responses=_STARTED)
@with_policy(API_WRITE)
async def undo_execution(
    project_id: str,
    request: Request,
    body: UndoCreate | None = None,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Undo the newest execution, another one, or some of its steps; every version stays.

    409 while a plan runs, unless steps are named, and while one is paused or waits for approval.
    """
    body = body or UndoCreate()
    ctx, owner = app_context(request), current_owner(request)
    thread = await executions.require_project(ctx, project_id, owner)
    caller = RequestContext(owner, idempotency_key, body.context())
    run = await undoing.undo_run(ctx.worker, caller, thread, body.executionId, body.steps)
    return _reply(await executions.start_run(ctx, run, queued=True))


@project_router.post("/redo", responses=_STARTED)
@with_policy(API_WRITE)
async def redo_execution(
    project_id: str, request: Request, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Redo the newest undo, if nothing was changed after it."""
    ctx, owner = app_context(request), current_owner(request)
    thread = await executions.require_project(ctx, project_id, owner)
    run = await undoing.redo_run(ctx.worker, RequestContext(owner, idempotency_key), thread)
    return _reply(await executions.start_run(ctx, run, queued=True))


@router.get("", responses=documented_responses(404, 500, 503, 504, reply=ExecutionView))
@with_policy(API_READ)
async def get_execution(ref: _Execution) -> dict[str, Any]:
    """Show an execution: its plan, the status of each step, and what people changed."""
    return views.execution_view(await ref.executions.settle(ref.id))


@progress_router.get("", responses=_STREAM, response_class=Response)
@with_policy(replace(API_READ, streaming=Streaming.ALWAYS))
async def follow_execution(
    ref: _Execution,
    last_event_id: Annotated[str | None, Header(max_length=80)] = None,
) -> Response:
    """Follow an execution: `execution-plan`, `step-update`, `scene-update`, `execution-complete`.

    `Last-Event-ID` goes on after an event; `-1` is the beginning. `gap` and the plan as it is now stand for
    events that are not kept any more. Close the stream at `execution-complete`: browsers open one that has
    ended again.
    """
    after = checked_event_id(last_event_id) if last_event_id not in {None, BEGINNING} else None
    await ref.executions.settle(ref.id)
    heartbeat_s = ref.ctx.settings.heartbeat_s
    return event_stream_reply(progress_events(ref.executions, ref.id, after, heartbeat_s))


@router.patch("/steps/{step_id}", responses=_CHANGED)
@with_policy(API_WRITE)
async def edit_step(step_id: str, body: StepPatch, ref: _Execution) -> dict[str, Any]:
    """Change parameters of a pending step; 409 once it has started."""
    return views.execution_view(await executions.edit_step(ref, step_id, body.params))


@router.post("/steps", responses=_CHANGED)
@with_policy(API_WRITE)
async def insert_step(body: StepCreate, ref: _Execution) -> dict[str, Any]:
    """Insert a step into an execution that has not ended; `after` names steps of it."""
    return views.execution_view(await executions.insert_step(ref, body.step))


@router.post("/steps/{step_id}/skip", responses=_CHANGED)
@with_policy(API_WRITE)
async def skip_step(step_id: str, ref: _Execution) -> dict[str, Any]:
    """Skip a pending step; 409 once it has started."""
    record = await executions.change(ref, lambda held, now: live_plan.skip_step(held, step_id, now, RULES))
    return views.execution_view(record)


@router.post("/steps/{step_id}/retry", responses=_CHANGED)
@with_policy(API_WRITE)
async def retry_step(step_id: str, ref: _Execution, request: Request) -> dict[str, Any]:
    """Retry a failed step, with the steps that it blocked, and no others."""
    caller = RequestContext(current_owner(request))
    return views.execution_view(await executions.do_again(ref, caller, retry=step_id))


@router.post("/steps/{step_id}/rerun", responses=_CHANGED)
@with_policy(API_WRITE)
async def rerun_step(step_id: str, ref: _Execution, request: Request) -> dict[str, Any]:
    """Repeat a completed step; steps that used its result are marked stale."""
    caller = RequestContext(current_owner(request))
    return views.execution_view(await executions.do_again(ref, caller, repeat=step_id))


@router.post("/pause", responses=_CHANGED)
@with_policy(API_WRITE)
async def pause_execution(ref: _Execution) -> dict[str, Any]:
    """Pause an execution: no further step starts until it is resumed."""
    return views.execution_view(await executions.change(ref, live_plan.pause))


@router.post("/resume", responses=_CHANGED)
@with_policy(API_WRITE)
async def resume_execution(ref: _Execution, request: Request) -> dict[str, Any]:
    """Resume a paused execution."""
    return views.execution_view(await executions.resume(ref, RequestContext(current_owner(request))))


@router.post("/cancel", responses=_CHANGED)
@with_policy(API_WRITE)
async def cancel_execution(ref: _Execution, request: Request) -> dict[str, Any]:
    """Cancel an execution: what runs ends, and what is done stays."""
    return views.execution_view(await executions.cancel(ref, RequestContext(current_owner(request))))


@router.post("/decision", responses=_CHANGED)
@with_policy(API_WRITE)
async def decide_execution(body: PlanDecision, ref: _Execution, request: Request) -> dict[str, Any]:
    """Decide about a plan that waits for approval: approve, edit or reject it."""
    caller = RequestContext(current_owner(request))
    return views.execution_view(await executions.answer_plan(ref, caller, body.decisions))


def _reply(started: Started) -> dict[str, Any]:
    record = started.execution
    return {
        "executionId": record["id"] if record else None,
        "threadId": started.thread.id,
        "plan": views.plan_view(record) if record else None,
        "message": started.message or (record["feedback"] if record else ""),
        "question": started.question,
    }

"""Executions over REST, of every workflow: follow them, change them while they run, do steps again."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from starlette.responses import Response

from callsheet.server.artefacts import executions
from callsheet.server.artefacts.event_schemas import EXECUTION_EVENTS
from callsheet.server.artefacts.execution_progress import progress_events
from callsheet.server.artefacts.execution_views import execution_view
from callsheet.server.artefacts.executions import ExecutionRef, PlanEdits
from callsheet.server.artefacts.features import feature_of
from callsheet.server.artefacts.schemas import (
    ExecutionView,
    PlanDecision,
    StepCreate,
    StepMove,
    StepPatch,
)
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, Streaming, with_policy
from callsheet.server.http.replies import JsonReply, event_stream_reply
from callsheet.server.http.requests import StrictRoute
from callsheet.server.langgraph.run_streams import BEGINNING, checked_event_id
from callsheet.state import live_plan
from callsheet.state.live_plan import Execution

router = APIRouter(
    prefix="/api/executions/{plan_id}",
    route_class=StrictRoute,
    tags=["executions"],
    default_response_class=JsonReply,
)
progress_router = APIRouter(
    prefix="/api/execution-progress/{plan_id}", route_class=StrictRoute, tags=["executions"]
)
_ERRORS = (400, 403, 404, 409, 422, 500, 503, 504)
_CHANGED = documented_responses(*_ERRORS, reply=ExecutionView)
_STREAM: dict[int | str, dict[str, Any]] = {
    **documented_responses(400, 404, 422, 500, 503, 504, reply=None),
    200: EXECUTION_EVENTS,
}


async def _execution_ref(plan_id: str, request: Request) -> ExecutionRef:
    return await executions.find(app_context(request), current_owner(request), plan_id)


_Execution = Annotated[ExecutionRef, Depends(_execution_ref)]


def _edits(ref: ExecutionRef) -> PlanEdits:
    feature = feature_of(ref.ctx, ref.thread.graph)
    return feature.plan_edits if feature else PlanEdits()


def _view(ref: ExecutionRef, record: Execution) -> dict[str, Any]:
    return execution_view(record, _edits(ref).context(record))


@router.get("", responses=documented_responses(404, 500, 503, 504, reply=ExecutionView))
@with_policy(API_READ)
async def get_execution(ref: _Execution) -> dict[str, Any]:
    """Show an execution: its plan, the status of each step, and what people changed."""
    return _view(ref, await executions.show(ref))


@progress_router.get("", responses=_STREAM, response_class=Response)
@with_policy(replace(API_READ, streaming=Streaming.ALWAYS))
async def follow_execution(
    ref: _Execution,
    last_event_id: Annotated[str | None, Header(max_length=80)] = None,
) -> Response:
    """Follow an execution: `execution-plan`, `step-update`, `version-update`, `execution-complete`.

    Videos have `scene-update` in place of `version-update`.

    `Last-Event-ID` goes on after an event; `-1` is the beginning. `gap` and the plan as it is now stand for
    events that are not kept any more. Close the stream at `execution-complete`: browsers open one that has
    ended again.
    """
    after = checked_event_id(last_event_id) if last_event_id not in {None, BEGINNING} else None
    await executions.read(ref)
    heartbeat_s = ref.ctx.settings.heartbeat_s
    return event_stream_reply(progress_events(ref.executions, ref.id, after, heartbeat_s))


@router.patch("/steps/{step_id}", responses=_CHANGED)
@with_policy(API_WRITE)
async def edit_step(step_id: str, body: StepPatch, ref: _Execution) -> dict[str, Any]:
    """Change parameters of a pending step; 409 once it has started."""
    return _view(ref, await executions.edit_step(ref, _edits(ref), step_id, body.params))


@router.post("/steps", responses=_CHANGED)
@with_policy(API_WRITE)
async def insert_step(body: StepCreate, ref: _Execution) -> dict[str, Any]:
    """Insert a step into an execution that has not ended; `after` names steps of it."""
    return _view(ref, await executions.insert_step(ref, _edits(ref), body.step))


@router.post("/steps/{step_id}/skip", responses=_CHANGED)
@with_policy(API_WRITE)
async def skip_step(step_id: str, ref: _Execution) -> dict[str, Any]:
    """Skip a pending step; 409 once it has started."""
    rules = ref.workflow.turn.plan_rules
    record = await executions.change(ref, lambda held, now: live_plan.skip_step(held, step_id, now, rules))
    return _view(ref, record)


@router.post("/steps/{step_id}/move", responses=_CHANGED)
@with_policy(API_WRITE)
async def move_step(step_id: str, body: StepMove, ref: _Execution) -> dict[str, Any]:
    """Put a pending step before another one, or to the end.

    409 once it has started, and where one of them waits for the other.
    """
    before = body.before or ""
    if before:
        executions.require_known(await executions.read(ref), [before])
    record = await executions.change(ref, lambda held, now: live_plan.move_step(held, step_id, before, now))
    return _view(ref, record)


@router.post("/steps/{step_id}/retry", responses=_CHANGED)
@with_policy(API_WRITE)
async def retry_step(step_id: str, ref: _Execution, request: Request) -> dict[str, Any]:
    """Retry a failed step, with the steps that it blocked, and no others."""
    caller = RequestContext(current_owner(request))
    return _view(ref, await executions.do_again(ref, _edits(ref), caller, step_id, completed=False))


@router.post("/steps/{step_id}/rerun", responses=_CHANGED)
@with_policy(API_WRITE)
async def rerun_step(step_id: str, ref: _Execution, request: Request) -> dict[str, Any]:
    """Repeat a completed step; steps that used its result are marked stale."""
    caller = RequestContext(current_owner(request))
    return _view(ref, await executions.do_again(ref, _edits(ref), caller, step_id, completed=True))


@router.post("/pause", responses=_CHANGED)
@with_policy(API_WRITE)
async def pause_execution(ref: _Execution) -> dict[str, Any]:
    """Pause an execution: no further step starts until it is resumed."""
    return _view(ref, await executions.change(ref, live_plan.pause))


@router.post("/resume", responses=_CHANGED)
@with_policy(API_WRITE)
async def resume_execution(ref: _Execution, request: Request) -> dict[str, Any]:
    """Resume a paused execution."""
    return _view(ref, await executions.resume(ref, RequestContext(current_owner(request))))


@router.post("/cancel", responses=_CHANGED)
@with_policy(API_WRITE)
async def cancel_execution(ref: _Execution, request: Request) -> dict[str, Any]:
    """Cancel an execution: what runs ends, and what is done stays."""
    return _view(ref, await executions.cancel(ref, RequestContext(current_owner(request))))


@router.post("/decision", responses=_CHANGED)
@with_policy(API_WRITE)
async def decide_execution(body: PlanDecision, ref: _Execution, request: Request) -> dict[str, Any]:
    """Decide about a plan that waits for approval: approve, edit or reject it."""
    caller = RequestContext(current_owner(request))
    return _view(ref, await executions.answer_plan(ref, caller, body.as_answer()))

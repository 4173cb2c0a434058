"""Executions of videos over REST: started by a message, undone, redone."""

from typing import Any

from fastapi import APIRouter, Request

from callsheet.server.artefacts.execution_views import plan_view
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import IdempotencyKey, StrictRoute
from callsheet.server.video import executions, service, undoing, views
from callsheet.server.video.bodies import ExecutionCreate, UndoCreate
from callsheet.server.video.executions import Started
from callsheet.server.video.replies import ExecutionStarted
from callsheet.state.errors import Missing
from callsheet.storage.video import settings

project_router = APIRouter(
    prefix="/api/projects/{project_id}",
    route_class=StrictRoute,
    tags=["videos"],
    default_response_class=JsonReply,
)
_ERRORS = (400, 403, 404, 409, 422, 500, 503, 504)
_STARTED = documented_responses(*_ERRORS, 429, reply=ExecutionStarted)


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


def _reply(started: Started) -> dict[str, Any]:
    record = started.execution
    return {
        "executionId": record["id"] if record else None,
        "threadId": started.thread.id,
        "plan": plan_view(record, views.plan_context(record)) if record else None,
        "message": started.message or (record["feedback"] if record else ""),
        "question": started.question,
    }

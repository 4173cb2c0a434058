"""Requests about videos as runs for the worker, and their replies."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from callsheet.server.artefacts import executions
from callsheet.server.artefacts.service import (
    CHAT,
    ArtefactService,
    RequestContext,
    budget_answer_run,
    clean_message,
    human_message,
    run_request,
)
from callsheet.server.artefacts.views import turn_use, turn_view
from callsheet.server.engine.execution import BuildReply
from callsheet.server.engine.worker import Worker
from callsheet.server.video.bodies import ExecutionCreate
from callsheet.state.errors import Invalid
from callsheet.state.plan import Plan, Step
from callsheet.state.video import project
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

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
    repeatable = caller.idempotency_key is None
    return run_request(thread, caller, what, repeatable=repeatable, input=graph_input, stream_mode=[*CHAT])


def decided_run(caller: RequestContext, thread: Thread, plan: Plan, text: str) -> RunRequest:
    """Return the run of a plan that a person decided; no model is asked."""
    return executions.decided_run(caller, thread, plan, text, {"project_id": VIDEOS.artefact_id(thread)})


def decided_plan(steps: Sequence[Step], kind: str) -> Plan:
    """Return a plan of steps that no model made."""
    return Plan(id=uuid.uuid4().hex, steps=[*steps], about={"kind": kind})


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread, used = await asyncio.gather(
            threads.get(storage, run.thread, run.owner), turn_use(storage, run.owner, run.thread, state)
        )
        reply: dict[str, Any] = turn_view(thread, state) | used
        return reply

    return build

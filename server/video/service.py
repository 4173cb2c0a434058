"""Requests about videos as runs for the worker, and their replies."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.server.artefacts.service import ArtefactService, RequestOptions
from callsheet.server.artefacts.turn_view import turn_view
from callsheet.server.artefacts.turns import clean_message, human_message, turn_use
from callsheet.server.runtime.execution import BuildReply
from callsheet.server.runtime.run_request import DomainRun
from callsheet.state.errors import Invalid
from callsheet.state.plan import Plan, Step
from callsheet.state.video import project
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "scene_edit"
VIDEOS: Final = ArtefactService(GRAPH, "video", "projectId")
STREAM_MODES: Final = ("custom", "messages-tuple")


@dataclass(frozen=True)
class EditRequest(RequestOptions):
    """A message about a project."""

    project_id: str
    message: str
    scene_ids: Sequence[str] = ()
    """Scenes that the person attached."""
    approve: bool = False
    """True if the person approves the plan before it runs."""


async def edit_run(storage: Storage, request: EditRequest) -> DomainRun:
    """Return the run for a message; write nothing. Raises `Invalid` for a message or an id that is none."""
    text = clean_message(request.message)
    for name in request.scene_ids:
        if not project.is_scene_id(name):
            raise Invalid(f"sceneIds has {name!r}, which is no scene", remedy="send ids such as 'scene-1'")
    thread = await VIDEOS.find_thread(storage, request.project_id, request.owner)
    run = request.domain_run(
        thread,
        {"ask": "edit", "message": text, "scenes": [*request.scene_ids], "approve": request.approve},
        input={
            "project_id": VIDEOS.artefact_id(thread),
            "scene_ids": [*request.scene_ids],
            "decided": False,
            "messages": [human_message(text)],
        },
        stream_modes=STREAM_MODES,
        repeatable=request.idempotency_key is None,
    )
    run.context["approve_plan"] = request.approve
    return run


def decided_run(
    request: RequestOptions,
    thread: Thread,
    plan: Plan,
    text: str,
    again: Mapping[str, Sequence[str]] | None = None,
) -> DomainRun:
    """Return the run of a plan that a person decided; no model is asked. `text` tells it in the conversation.

    `again` names steps of an ended execution that are done again.
    """
    message = {"role": "user", "content": text, "id": uuid.uuid4().hex}
    return request.domain_run(
        thread,
        {"ask": "decided", "plan": plan["id"], "text": text, "id": message["id"]},
        input={
            "project_id": VIDEOS.artefact_id(thread),
            "plan": plan,
            "decided": True,
            "decision": message["id"],
            "again": again,
            "results": [],
            "created": [],
            "drafts": {},
            "messages": [message],
        },
        stream_modes=STREAM_MODES,
        repeatable=True,
    )


def decided_plan(steps: Sequence[Step], kind: str) -> Plan:
    """Return a plan of steps that no model made."""
    return Plan(id=uuid.uuid4().hex, steps=[*steps], about={"kind": kind})


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        view = turn_view(await threads.get(storage, run.thread, run.owner), state)
        return view | await turn_use(storage, run.owner, run.thread, state)

    return build

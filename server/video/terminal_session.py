"""One turn about a video in this process, on the server's storage: `callsheet scenes`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.graphs import scene_edit
from callsheet.server.artefacts.service import RequestContext, run_and_ack
from callsheet.server.engine.worker import OnProgress, Worker
from callsheet.server.processes.worker import local_worker
from callsheet.server.settings.settings import Settings
from callsheet.server.video import projects, service
from callsheet.server.video.schemas import ExecutionCreate
from callsheet.server.video.service import VIDEOS
from callsheet.state.context import Context
from callsheet.state.errors import Missing
from callsheet.state.owners import LOCAL
from callsheet.state.video.preview import project_page
from callsheet.state.video.scene import Scene
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads.threads import Thread


@dataclass(frozen=True)
class VideoCliRequest:
    """A request of the command."""

    project: str
    text: str | None
    starter: str | None = None
    scene_ids: tuple[str, ...] = ()
    undo: bool = False
    context: Context = field(default_factory=Context)


@dataclass(frozen=True)
class VideoCliTurn:
    """The result of a turn."""

    reply: Mapping[str, Any]
    """The run's reply, and `scenes`."""
    page: str
    """A page that plays the project."""


async def run(request: VideoCliRequest, settings: Settings, report: OnProgress) -> VideoCliTurn:
    """Execute the turn and return its result; raise what the REST API raises."""
    async with local_worker(settings, {service.GRAPH: scene_edit.graph}) as (worker, storage):
        thread = await VIDEOS.find_thread(storage, request.project, LOCAL)
        if request.starter:
            await _begin(storage, request)
        reply: Mapping[str, Any] = {}
        if run_request := await _run_request(worker, thread, request):
            reply = await run_and_ack(worker, run_request, report)
        return await _turn(storage, thread, reply)


async def _begin(storage: Storage, request: VideoCliRequest) -> None:
    """Create the project from its starter."""
    scenes = projects.starter_scenes(str(request.starter))
    await projects.create(
        storage, LOCAL, request.project, str(request.starter).replace("-", " ").capitalize(), scenes
    )


async def _run_request(worker: Worker, thread: Thread, request: VideoCliRequest) -> RunRequest | None:
    caller = RequestContext(context=request.context)
    if request.undo:
        return await service.undo_run(worker, caller, thread, None, [])
    if request.text is None:
        return None
    body = ExecutionCreate(message=request.text, sceneIds=[*request.scene_ids])
    return await service.edit_run(worker, request.project, body, caller)


async def _turn(storage: Storage, thread: Thread, reply: Mapping[str, Any]) -> VideoCliTurn:
    artefact = VIDEOS.artefact(storage, thread)
    if not await artefact.meta():
        raise Missing(f"there is no project {artefact.id!r}", remedy="give a text, or --starter")
    order, heads = await projects.read_scenes(artefact)
    listed = [projects.scene_view(order, name, head) for name, head in heads.items()]
    shown = [Scene.model_validate(head.newest.data["scene"]) for head in heads.values() if head.newest]
    return VideoCliTurn(
        {"projectId": artefact.id, **reply, "scenes": listed}, project_page(shown, order.name)
    )

"""One turn of a lesson in this process, on the server's storage: `callsheet lesson`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.graphs import fact_narration
from callsheet.server.artefacts.service import RequestContext, claim, run_and_ack
from callsheet.server.engine.worker import OnProgress
from callsheet.server.lessons import service
from callsheet.server.lessons.edits import Lesson, add_file
from callsheet.server.lessons.schemas import LessonTurnCreate, UIMessage
from callsheet.server.processes.worker import local_worker
from callsheet.server.settings.settings import Settings
from callsheet.state.context import Context
from callsheet.state.owners import LOCAL

_UPLOADED = "Find the facts in the file I uploaded."


@dataclass(frozen=True)
class LessonCliRequest:
    """A turn requested in the terminal."""

    message: str
    """May be the material itself; may be empty with a file."""
    lesson: str = ""
    """Id of the lesson to continue; empty for a new one."""
    file: str = ""
    """Name of a file with the material; empty for none."""
    content: bytes = b""
    """The file's content."""
    review: bool | None = None
    images: bool | None = None
    context: Context = field(default_factory=Context)


async def run(request: LessonCliRequest, settings: Settings, report: OnProgress) -> Mapping[str, Any]:
    """Execute the turn and return the REST API's reply; raise what the REST API raises."""
    async with local_worker(settings, {service.GRAPH: fact_narration.graph}) as (worker, storage):
        session = await service.find_or_create_session(storage, LOCAL, request.lesson or None)
        if request.lesson and session.new:
            await service.find_session(storage, LOCAL, request.lesson)
        message = request.message
        if request.file:
            await claim(storage, session.thread)
            lesson = Lesson(storage, session.thread)
            await add_file(lesson, request.file, request.content, lambda _done, _of: None)
            message = f"{message}\n\n{_UPLOADED}".strip()
        body = LessonTurnCreate.model_construct(
            messages=[UIMessage.model_construct(role="user", content=message)],
            review=request.review,
            images=request.images,
        )
        run_request = await service.turn_run(worker, session, body, RequestContext(context=request.context))
        return await run_and_ack(worker, run_request, report)

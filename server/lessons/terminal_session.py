"""A lesson made in this process, on the storage that the server uses: what `callsheet lesson` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.graphs import fact_narration
from callsheet.server.lessons import service as lesson_jobs
from callsheet.server.lessons.edits import Lesson, add_file
from callsheet.server.lessons.service import LESSONS, TurnRequest
from callsheet.server.runtime.worker import OnProgress
from callsheet.server.runtime.worker_process import local_worker
from callsheet.server.settings import Settings
from callsheet.state.context import Context
from callsheet.state.owners import LOCAL

_UPLOADED = "Find the facts in the file I uploaded."


@dataclass(frozen=True)
class CliRequest:
    """What a person asks for in the terminal."""

    said: str
    """What they say, which may be the material; empty where a file says it all."""
    lesson: str = ""
    """The lesson to go on with; empty for a new one."""
    file: str = ""
    """Name of a file with the material; empty for none."""
    content: bytes = b""
    """What is in it."""
    review: bool | None = None
    images: bool | None = None
    context: Context = field(default_factory=Context)


async def run(wish: CliRequest, settings: Settings, report: OnProgress) -> Mapping[str, Any]:
    """Do what was asked and return the reply of the REST endpoints; raises what they raise."""
    async with local_worker(settings, {lesson_jobs.GRAPH: fact_narration.graph}) as (worker, opened):
        place = await lesson_jobs.find_or_create_session(opened, LOCAL, wish.lesson or None)
        if wish.lesson and place.new:
            await lesson_jobs.find_session(opened, LOCAL, wish.lesson)
        said = wish.said
        if wish.file:
            await LESSONS.claim(opened, place.thread)
            await add_file(Lesson(opened, place.thread), wish.file, wish.content, lambda _done, _of: None)
            said = f"{said}\n\n{_UPLOADED}".strip()
        asked = TurnRequest(place, said, review=wish.review, images=wish.images, context=wish.context)
        job = await lesson_jobs.turn_run(worker, opened, asked)
        await LESSONS.claim(opened, place.thread)
        return await worker.run_and_ack(job, report)

"""A lesson made in this process, on the storage that the server uses: what `callsheet lesson` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphs import fact_narration
from server import lesson_jobs
from server.command_worker import at_hand
from server.lesson_edits import Lesson, add_file
from server.lesson_jobs import DESK, LessonChat
from server.settings import Settings
from server.worker import Report
from state.context import Context
from state.owners import LOCAL

_UPLOADED = "Find the facts in the file I uploaded."


@dataclass(frozen=True)
class Wish:
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


async def carried_out(wish: Wish, settings: Settings, report: Report) -> Mapping[str, Any]:
    """Do what was asked and return the reply of the REST endpoints; raises what they raise."""
    async with at_hand(settings, {lesson_jobs.GRAPH: fact_narration.graph}) as (worker, opened):
        place = await lesson_jobs.place(opened, LOCAL, wish.lesson or None)
        if wish.lesson and place.new:
            await lesson_jobs.known(opened, LOCAL, wish.lesson)
        said = wish.said
        if wish.file:
            await DESK.opened(opened, place.thread)
            await add_file(Lesson(opened, place.thread), wish.file, wish.content, lambda _done, _of: None)
            said = f"{said}\n\n{_UPLOADED}".strip()
        asked = LessonChat(place, said, review=wish.review, images=wish.images, context=wish.context)
        job = await lesson_jobs.job(worker, opened, asked)
        await DESK.opened(opened, place.thread)
        return await worker.do(job, report)

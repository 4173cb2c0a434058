"""A page edited in this process, on the storage that the server uses: what `callsheet page` does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphs import page_builder
from server import page_jobs
from server.command_worker import at_hand
from server.page_jobs import PageChat, PageDecision
from server.requested import Job
from server.settings import Settings
from server.worker import Report, Worker
from state import page_history
from state.errors import Missing
from state.owners import LOCAL
from state.page import STREAM
from storage import threads
from storage.artefacts import Artefact
from storage.connection import Storage


@dataclass(frozen=True)
class Turn:
    """What came of what was asked for."""

    reply: Mapping[str, Any]
    """The reply of the REST endpoints."""
    changes: Mapping[str, tuple[str, ...]]
    """What each version of this turn made different, a line a difference."""


async def carried_out(asked: PageChat | PageDecision, settings: Settings, report: Report) -> Turn:
    """Do what was asked and return what came of it; raises what the REST endpoints raise."""
    async with at_hand(settings, {page_jobs.GRAPH: page_builder.graph}) as (worker, opened):
        job = await _job(worker, opened, asked)
        await page_jobs.DESK.opened(opened, job.thread)
        reply = await worker.do(job, report)
        return Turn(reply, await _changes(page_jobs.DESK.artefact_of(opened, job.thread), reply))


async def _job(worker: Worker, opened: Storage, asked: PageChat | PageDecision) -> Job:
    page_id = await _page(opened, asked.page_id)
    if isinstance(asked, PageChat):
        return await page_jobs.chat_job(worker, opened, replace(asked, page_id=page_id))
    return await page_jobs.decision_job(worker, opened, replace(asked, page_id=page_id))


async def _page(opened: Storage, name: str) -> str:
    """Return the page that `name`, which may be its conversation's id too, stands for."""
    try:
        thread = await threads.get(opened, name, LOCAL)
    except Missing:
        return name
    return page_jobs.DESK.subject(thread) if thread.graph == page_jobs.GRAPH else name


async def _changes(artefact: Artefact, reply: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    stream = await artefact.stream(STREAM)
    made = [stream.find(one["versionId"]) for one in reply["created"]]
    return {one.id: tuple(page_history.lines(one.data["changes"])) for one in made if one}

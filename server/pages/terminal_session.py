"""A page edited in this process, on the storage that the server uses: what `callsheet page` does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from callsheet.graphs import page_builder
from callsheet.server.pages import service as page_jobs
from callsheet.server.pages.service import ChatRequest, DecisionRequest
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import OnProgress, Worker
from callsheet.server.runtime.worker_process import local_worker
from callsheet.server.settings import Settings
from callsheet.state.errors import Missing
from callsheet.state.owners import LOCAL
from callsheet.state.pages import history
from callsheet.state.pages.page import STREAM
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads


@dataclass(frozen=True)
class CliTurn:
    """What came of what was asked for."""

    reply: Mapping[str, Any]
    """The reply of the REST endpoints."""
    changes: Mapping[str, tuple[str, ...]]
    """What each version of this turn made different, a line a difference."""


async def run(asked: ChatRequest | DecisionRequest, settings: Settings, report: OnProgress) -> CliTurn:
    """Do what was asked and return what came of it; raises what the REST endpoints raise."""
    async with local_worker(settings, {page_jobs.GRAPH: page_builder.graph}) as (worker, opened):
        job = await _job(worker, opened, asked)
        await page_jobs.PAGES.claim(opened, job.thread)
        reply = await worker.run_and_ack(job, report)
        return CliTurn(reply, await _changes(page_jobs.PAGES.artefact(opened, job.thread), reply))


async def _job(worker: Worker, opened: Storage, asked: ChatRequest | DecisionRequest) -> DomainRun:
    page_id = await _page(opened, asked.page_id)
    if isinstance(asked, ChatRequest):
        return await page_jobs.chat_run(worker, opened, replace(asked, page_id=page_id))
    return await page_jobs.decision_run(worker, opened, replace(asked, page_id=page_id))


async def _page(opened: Storage, name: str) -> str:
    """Return the page that `name`, which may be its conversation's id too, stands for."""
    try:
        thread = await threads.get(opened, name, LOCAL)
    except Missing:
        return name
    return page_jobs.PAGES.artefact_id(thread) if thread.graph == page_jobs.GRAPH else name


async def _changes(artefact: Artefact, reply: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    stream = await artefact.stream(STREAM)
    made = [stream.find(one["versionId"]) for one in reply["created"]]
    return {one.id: tuple(history.change_lines(one.data["changes"])) for one in made if one}

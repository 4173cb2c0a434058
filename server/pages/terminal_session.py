"""One turn of a page's chat in this process, on the server's storage: `callsheet page`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.graphs import page_builder
from callsheet.server.artefacts.service import RequestContext, run_and_ack, thread_of
from callsheet.server.engine.worker import OnProgress
from callsheet.server.pages import service
from callsheet.server.pages.schemas import DecisionCreate, PageChatCreate
from callsheet.server.pages.service import PAGES
from callsheet.server.processes.worker import local_worker
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Missing
from callsheet.state.owners import LOCAL
from callsheet.state.pages import history
from callsheet.state.pages.page import STREAM
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads


@dataclass(frozen=True)
class PageCliTurn:
    """The result of a turn."""

    reply: Mapping[str, Any]
    """The REST API's reply."""
    changes: Mapping[str, tuple[str, ...]]
    """Changes of each version that the turn made, one line each."""


async def run(
    name: str, body: PageChatCreate | DecisionCreate, settings: Settings, report: OnProgress
) -> PageCliTurn:
    """Execute a turn about the page `name` and return its result; raise what the REST API raises."""
    async with local_worker(settings, {service.GRAPH: page_builder.graph}) as (worker, storage):
        page_id, caller = await _page_id(storage, name), RequestContext(context=body.context())
        if isinstance(body, PageChatCreate):
            request = await service.chat_run(worker, page_id, body, caller)
        else:
            request = await service.decision_run(worker, page_id, body, caller)
        reply = await run_and_ack(worker, request, report)
        return PageCliTurn(reply, await _changes(PAGES.artefact(storage, thread_of(request)), reply))


async def _page_id(storage: Storage, name: str) -> str:
    """Return the id of the page called `name`, which may be its conversation's id, too."""
    try:
        thread = await threads.get(storage, name, LOCAL)
    except Missing:
        return name
    return PAGES.artefact_id(thread) if thread.graph == service.GRAPH else name


async def _changes(artefact: Artefact, reply: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    stream = await artefact.stream(STREAM)
    versions = [stream.find(draft["versionId"]) for draft in reply["created"]]
    return {
        version.id: tuple(history.change_lines(version.data["changes"])) for version in versions if version
    }

"""A question in this process, on the server's storage: `callsheet ask`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callsheet.graphs import campaign_search
from callsheet.server.artefacts.service import RequestContext, run_and_ack
from callsheet.server.campaigns import service
from callsheet.server.campaigns.schemas import CampaignChat
from callsheet.server.campaigns.service import import_campaigns
from callsheet.server.cli.text_input import open_bytes
from callsheet.server.engine.worker import OnProgress
from callsheet.server.processes.worker import local_worker
from callsheet.server.settings.settings import Settings
from callsheet.state.context import Context
from callsheet.state.owners import LOCAL
from callsheet.storage.redis.connection import Storage
from callsheet.tools.campaigns.file_reading import FileRequest
from callsheet.tools.campaigns.libraries import own_library
from callsheet.tools.campaigns.tables import kind_of


@dataclass(frozen=True)
class CampaignCliRequest:
    """A request of the command."""

    text: str | None
    thread: str | None = None
    file: str | None = None
    strict: bool = False
    context: Context = field(default_factory=Context)


async def run(request: CampaignCliRequest, settings: Settings, report: OnProgress) -> Mapping[str, Any]:
    """Import and ask, as far as wanted; return the reply, and `import` with the report of an import."""
    async with local_worker(settings, {service.GRAPH: campaign_search.graph}) as (worker, storage):
        imported = await _import(storage, request, report) if request.file else None
        reply: Mapping[str, Any] = {}
        if request.text is not None:
            question = CampaignChat(message=request.text, conversationId=request.thread)
            run_request = await service.question_run(
                worker, question, RequestContext(context=request.context)
            )
            reply = await run_and_ack(worker, run_request, report)
        return {**reply, "import": imported} if imported else reply


async def _import(storage: Storage, request: CampaignCliRequest, report: OnProgress) -> Mapping[str, Any]:
    path = str(request.file)
    step = {"type": "step", "stepId": "import", "name": f"Importing {Path(path).name}"}

    def tell(done: int, every: int) -> None:
        report({**step, "status": "in-progress", "name": f"Importing {Path(path).name}: {done} of {every}"})

    report({**step, "status": "in-progress"})
    index = await own_library(storage, LOCAL)
    with await asyncio.to_thread(open_bytes, path) as file:
        reading = FileRequest(kind_of(path))
        result = await import_campaigns(index, file, reading, all_or_nothing=request.strict, report=tell)
    report({**step, "status": "completed", "preview": {"imported": result["imported"]}})
    return result

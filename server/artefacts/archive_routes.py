"""Threads as files: taken along whole, and made from a file."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.ads.bodies import StrictRoute
from callsheet.server.ads.replies import ImportedThread
from callsheet.server.artefacts import archive
from callsheet.server.artefacts.archive import MEDIA, ThreadArchive
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.errors import JsonReply, documented_responses
from callsheet.server.http.origins import current_owner

router = APIRouter(prefix="/api/threads", route_class=StrictRoute, tags=["threads as files"])
_FILE: Final = {"content": {MEDIA: {"schema": {"type": "string"}}}, "description": "The file"}
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(400, 403, 404, 409, 500, 503, 504, reply=None),
    200: _FILE,
}
_IMPORT: Final = documented_responses(
    400, 403, 409, 413, 422, 500, 503, 504, reply=ImportedThread, status=201
)


@router.get("/{thread_id}/export", responses=_EXPORT, response_class=Response)
async def export_thread(thread_id: str, request: Request) -> Response:
    """Export a thread as one file: its states, and its artefacts with all versions.

    JSON lines with checksums; made while no run is at the thread (409).
    """
    lines = await archive.export_thread(_shelf(request), thread_id, current_owner(request))
    # The first line now, so that what keeps a file from being made has a status of its own.
    first = await anext(lines)
    name = f"attachment; filename*=UTF-8''{quote(thread_id, safe='')}.jsonl"
    return StreamingResponse(_after(first, lines), media_type=MEDIA, headers={"Content-Disposition": name})


@router.post(
    "/import",
    status_code=201,
    responses=_IMPORT,
    response_model=None,
    openapi_extra={"requestBody": {"required": True, "content": _FILE["content"]}},
)
async def import_thread(
    request: Request,
    new_id: Annotated[
        str | None,
        Query(alias="as", description="Id of the thread and of what it is about, instead of theirs"),
    ] = None,
) -> JsonReply:
    """Create a thread, owned by the caller, from the exported file in the body.

    All of it is made or, where anything in the file is wrong or there already (409), nothing.
    """
    made = await archive.import_thread(
        _shelf(request), await request.body(), current_owner(request), new_id=new_id
    )
    return JsonReply({"threadId": made.id, "graph": made.graph, "artefact": made.artefact or None}, 201)


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in rest:
        yield line
        await asyncio.sleep(0)


def _shelf(request: Request) -> ThreadArchive:
    here: AppContext = app_context(request)
    return ThreadArchive(here.storage, here.saver, here.workflows, request.app.version)

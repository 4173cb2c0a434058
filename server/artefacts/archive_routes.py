"""REST endpoints for the export and import of threads as files."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts import archive
from callsheet.server.artefacts.archive import MEDIA_TYPE, ThreadArchive
from callsheet.server.artefacts.replies import ImportedThread
from callsheet.server.http.auth import current_caller, current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.policy import API_READ, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.requests import StrictRoute

router = APIRouter(prefix="/api/threads", route_class=StrictRoute, tags=["threads as files"])
_FILE: Final = {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "The file"}
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(400, 403, 404, 409, 500, 503, 504, reply=None),
    200: _FILE,
}
_IMPORT_POLICY: Final = replace(
    API_WRITE,
    body=BodyLimit(
        lambda settings: settings.max_import_bytes,
        "on the server's machine run: callsheet threads import FILE; or raise CALLSHEET_MAX_IMPORT_BYTES",
    ),
)
_IMPORT: Final = documented_responses(
    400, 403, 409, 413, 422, 500, 503, 504, reply=ImportedThread, status=201
)


@router.get("/{thread_id}/export", responses=_EXPORT, response_class=Response)
@with_policy(API_READ)
async def export_thread(thread_id: str, request: Request) -> Response:
    """Export a thread as one file: its states, and its artefacts with all versions.

    JSON lines with checksums. Refused with 409 while a run is active.
    """
    lines = await archive.export_thread(thread_archive(request), thread_id, current_owner(request))
    # Read the first line now, while an error can still set the status.
    first = await anext(lines)
    name = f"attachment; filename*=UTF-8''{quote(thread_id, safe='')}.jsonl"
    return StreamingResponse(
        _stream(first, lines), media_type=MEDIA_TYPE, headers={"Content-Disposition": name}
    )


@router.post(
    "/import",
    status_code=201,
    responses=_IMPORT,
    response_model=None,
    openapi_extra={"requestBody": {"required": True, "content": _FILE["content"]}},
)
@with_policy(_IMPORT_POLICY)
async def import_thread(
    request: Request,
    new_id: Annotated[
        str | None,
        Query(alias="as", description="New id of the thread and of its main artefact"),
    ] = None,
    trust: Annotated[
        bool | None, Query(description="Read types of any library; from the operator's terminal alone")
    ] = None,
) -> JsonReply:
    """Create a thread, owned by the caller, from the exported file in the body.

    All or nothing: 409 if the thread or one of its artefacts exists.
    """
    if trust:
        current_caller(request).require("operator")
    record = await archive.import_thread(
        thread_archive(request),
        await request.body(),
        current_owner(request),
        new_id=new_id,
        trusted=bool(trust),
    )
    return JsonReply({"threadId": record.id, "graph": record.graph, "artefact": record.artefact or None}, 201)


async def _stream(first: bytes, following: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in following:
        yield line
        await asyncio.sleep(0)


def thread_archive(request: Request) -> ThreadArchive:
    """Return the dependencies of exports and imports."""
    ctx = app_context(request)
    return ThreadArchive(ctx.storage, ctx.saver, ctx.workflows, request.app.version, ctx.features)

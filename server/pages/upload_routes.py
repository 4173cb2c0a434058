"""Files of a page: sent by people, got by whoever owns the page (C-R3)."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.ads.bodies import StrictRoute
from callsheet.server.artefacts import uploads
from callsheet.server.context import app_context
from callsheet.server.http.errors import JsonReply, documented_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.pages import views
from callsheet.server.pages.replies import Upload, UploadList
from callsheet.state.errors import Missing
from callsheet.state.uploads import FORMATS, MEDIA, FileType
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage

router = APIRouter(
    prefix="/api/pages/{page_id}/uploads",
    route_class=StrictRoute,
    tags=["pages"],
    default_response_class=JsonReply,
)
_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (*_READ, 409, 413, 422)
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BODY: Final = {"requestBody": {"required": True, "content": _BYTES}}


def binary_responses(*types: FileType) -> dict[str, Any]:
    """Return how a reply is described that is a file of one of these types."""
    media = sorted({MEDIA[one].partition(";")[0] for kind in types for one in FORMATS[kind]})
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in media}
    return {"content": content, "description": "The file"}


_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_READ, reply=None),
    200: binary_responses(*FORMATS),
}


async def _place(page_id: str, request: Request) -> uploads.UploadTarget:
    found = await views.find_page(app_context(request).storage, page_id, current_owner(request))
    return uploads.UploadTarget(found.storage, found.artefact, found.owner)


_Place = Annotated[uploads.UploadTarget, Depends(_place)]


@router.get("", responses=documented_responses(*_READ, reply=UploadList))
async def list_uploads(place: _Place) -> dict[str, Any]:
    """List the files that came to the page, and those that are waited for."""
    return {"uploads": await uploads.list_tickets(place)}


@router.post(
    "", status_code=201, responses=documented_responses(*_WRITE, reply=Upload, status=201), openapi_extra=BODY
)
async def upload_file(
    request: Request,
    place: _Place,
    name: Annotated[str, Query(alias="fileName", max_length=210, description="Such as logo.png")],
    kind: Annotated[FileType, Query(alias="fileType")] = "image",
) -> dict[str, Any]:
    """Upload a file that nobody has asked for yet, as the body; `upload_file` finds it by its name."""
    asked = uploads.open_ticket(kind, name)
    return await uploads.store_unrequested(place, asked, request.stream())


@router.put("/{upload_id}", responses=documented_responses(*_WRITE, reply=Upload), openapi_extra=BODY)
async def upload_requested_file(upload_id: str, request: Request, place: _Place) -> dict[str, Any]:
    """Upload the file that an upload waits for, as the body. The same file again changes nothing."""
    return await uploads.store_requested(place, await uploads.get_ticket(place, upload_id), request.stream())


@router.get("/{upload_id}", responses=_FILE, response_class=Response)
async def get_upload(upload_id: str, place: _Place) -> StreamingResponse:
    """Download a file, to be saved or shown as an image, never as a page."""
    return await file_reply(place.storage, place.artefact, upload_id)


async def file_reply(storage: Storage, artefact: Artefact, file_id: str) -> StreamingResponse:
    """Return a file of an artefact, to be saved; raises `Missing` where there is none."""
    record = (await files.records(storage, artefact)).get(file_id)
    if record is None:
        raise Missing(
            f"{artefact.kind} {artefact.id!r} has no file {file_id[:80]!r}",
            remedy="list the uploads; one may still be waited for",
        )
    body: AsyncIterator[bytes] = files.pieces(storage, artefact, file_id)
    return StreamingResponse(
        body,
        media_type=record["type"],
        headers={
            "Content-Length": str(record["size"]),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(record['name'], safe='')}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, max-age=31536000, immutable",
            "ETag": f'"{record["sha256"]}"',
        },
    )

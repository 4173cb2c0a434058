"""Uploads of a page."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts import uploads
from callsheet.server.context import app_context
from callsheet.server.http.auth import current_owner
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.policy import API_READ, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.requests import StrictRoute
from callsheet.server.pages import views
from callsheet.server.pages.replies import Upload, UploadList
from callsheet.state.errors import Missing
from callsheet.state.uploads import FORMATS, MAX_FILE, MEDIA, FileType
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
_UPLOAD_POLICY: Final = replace(API_WRITE, body=BodyLimit(MAX_FILE))
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BODY: Final = {"requestBody": {"required": True, "content": _BYTES}}


def binary_responses(*types: FileType) -> dict[str, Any]:
    """Return the OpenAPI description of a reply that is a file of one of these types."""
    media = sorted({MEDIA[version].partition(";")[0] for kind in types for version in FORMATS[kind]})
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in media}
    return {"content": content, "description": "The file"}


_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_READ, reply=None),
    200: binary_responses(*FORMATS),
}


async def _upload_target(page_id: str, request: Request) -> uploads.UploadTarget:
    ref = await views.find_page(app_context(request).storage, page_id, current_owner(request))
    return uploads.UploadTarget(ref.storage, ref.artefact, ref.owner)


_Target = Annotated[uploads.UploadTarget, Depends(_upload_target)]


@router.get("", responses=documented_responses(*_READ, reply=UploadList))
@with_policy(API_READ)
async def list_uploads(target: _Target) -> dict[str, Any]:
    """List the uploaded and the requested files of the page."""
    return {"uploads": await uploads.list_tickets(target)}


@router.post(
    "", status_code=201, responses=documented_responses(*_WRITE, reply=Upload, status=201), openapi_extra=BODY
)
@with_policy(_UPLOAD_POLICY)
async def upload_file(
    request: Request,
    target: _Target,
    name: Annotated[str, Query(alias="fileName", max_length=210, description="Such as logo.png")],
    kind: Annotated[FileType, Query(alias="fileType")] = "image",
) -> dict[str, Any]:
    """Upload an unrequested file as the body; the tool `upload_file` finds it by its name."""
    ticket = uploads.open_ticket(kind, name)
    return await uploads.store_unrequested(target, ticket, request.stream())


@router.put("/{upload_id}", responses=documented_responses(*_WRITE, reply=Upload), openapi_extra=BODY)
@with_policy(_UPLOAD_POLICY)
async def upload_requested_file(upload_id: str, request: Request, target: _Target) -> dict[str, Any]:
    """Upload the file that an upload waits for, as the body. The same file again changes nothing."""
    return await uploads.store_requested(
        target, await uploads.get_ticket(target, upload_id), request.stream()
    )


@router.get("/{upload_id}", responses=_FILE, response_class=Response)
@with_policy(API_READ)
async def get_upload(upload_id: str, target: _Target) -> StreamingResponse:
    """Download a file, to be saved or shown as an image, never as a page."""
    return await file_reply(target.storage, target.artefact, upload_id)


async def file_reply(storage: Storage, artefact: Artefact, file_id: str) -> StreamingResponse:
    """Return a file of an artefact as a download; raise `Missing` if there is none."""
    record = (await files.records(storage, artefact)).get(file_id)
    if record is None:
        raise Missing(
            f"{artefact.kind} {artefact.id!r} has no file {file_id[:80]!r}",
            remedy="list the uploads; the file may not have been sent yet",
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

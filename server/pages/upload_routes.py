"""Uploads of a page."""

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts import uploads
from callsheet.server.artefacts.uploads import BODY, binary_responses, file_reply
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import StrictRoute
from callsheet.server.pages import views
from callsheet.server.pages.replies import Upload, UploadList
from callsheet.state.uploads import FORMATS, MAX_FILE, FileType

router = APIRouter(
    prefix="/api/pages/{page_id}/uploads",
    route_class=StrictRoute,
    tags=["pages"],
    default_response_class=JsonReply,
)
_READ = (400, 403, 404, 500, 503, 504)
_WRITE = (*_READ, 409, 413, 422)
_UPLOAD_POLICY: Final = replace(API_WRITE, body=BodyLimit(MAX_FILE))


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

"""Landing pages over REST: read, restore, lock, upload files, and chat."""

import re
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts import uploads
from callsheet.server.artefacts.conversation_routes import RESUMABLE, turn_reply
from callsheet.server.artefacts.deletion import delete_artefact
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.schemas import ArtefactDeleted, VersionDiff
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.artefacts.uploads import binary_responses, file_reply
from callsheet.server.artefacts.views import VersionQuery, reply_builder
from callsheet.server.artefacts.zip_files import ZIP, file_name, zip_reply
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_RUN, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.requests import UPLOAD_BODY, IdempotencyKey, IfMatch, api_router, expected_version
from callsheet.server.pages import chat, publishing, service, views
from callsheet.server.pages.chat import ConversationView
from callsheet.server.pages.frames import FRAMES
from callsheet.server.pages.publishing import PageChecks
from callsheet.server.pages.schemas import (
    DecisionCreate,
    Diff,
    ElementPatch,
    LockList,
    PageActivated,
    PageChatCreate,
    PageCreate,
    PageList,
    PageTurn,
    PageVersion,
    PageVersionList,
    PageView,
    Upload,
    UploadList,
)
from callsheet.state.uploads import FORMATS, MAX_FILE, MAX_PAGE, FileType
from callsheet.storage.threads.threads import Thread
from callsheet.tools.pages.uploads import upload_url

router = api_router("/api/pages/{page_id}", "pages")
list_router = api_router("/api", "pages")
_READ = (400, 403, 404, 500, 503, 504)
_QUERY = (*_READ, 422)
_HTML: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_QUERY, 410, reply=None),
    200: {
        "content": {"text/html": {"schema": {"type": "string"}}, **ZIP["content"]},
        "description": "The page",
    },
}
_BOXED: Final = (
    "sandbox allow-forms allow-popups allow-popups-to-escape-sandbox "
    "allow-top-navigation-by-user-activation; frame-ancestors 'self'"
)
"""Policy that isolates an exported page from the rest of the origin."""
_READABLE: Final = "sandbox allow-same-origin; frame-ancestors 'self'"
"""Policy of the console's frame, which marks the page's elements; no script, form or link works there."""


_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")


def _own_files(request: Request, page_id: str) -> str:
    """Return the address of a page's uploads for a Content-Security-Policy.

    The frame's requests carry the person's session, so an image must not lead to any other route.
    """
    host = request.headers.get("host", "")
    # Policies have no form for IPv6 addresses; images are in the document by default.
    return f"{host}{upload_url(page_id, '')}" if _HOST.fullmatch(host) else ""


async def _page_ref(page_id: str, request: Request) -> views.PageRef:
    return await views.find_page(app_context(request).storage, page_id, current_owner(request))


_Page = Annotated[views.PageRef, Depends(_page_ref)]
_FROM = Query(alias="from", max_length=80, description="The older version's id, or `start`")
_TO = Query(alias="to", max_length=80, description="The newer version's id")


@list_router.get("/pages", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=PageList))
@with_policy(API_READ)
async def list_pages(
    request: Request,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the list before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the pages, newest change first."""
    return await views.page_list(app_context(request), current_owner(request), after, limit)


@list_router.post(
    "/pages",
    status_code=201,
    responses=documented_responses(400, 403, 404, 409, 422, 500, 503, 504, reply=PageView, status=201),
)
@with_policy(API_WRITE)
async def create_page(
    body: PageCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Create a page from an ad: its first section has the words of the newest script, or of `version`.

    Where another one is active, `notices` says so. The records of both name each other
    (`GET /api/artefacts/{kind}/{id}`). The same `Idempotency-Key` makes it once.
    """
    ctx, owner = app_context(request), current_owner(request)
    ref, notices = await views.create_from_ad(ctx.storage, owner, body, idempotency_key)
    return {**await views.page_view(ctx, ref), "notices": notices}


@router.get("", responses=documented_responses(*_READ, reply=PageView))
@with_policy(API_READ)
async def get_page(ref: _Page, request: Request) -> dict[str, Any]:
    """Show a page: its elements, theme, newest and active version, and locks."""
    return await views.page_view(app_context(request), ref)


@router.delete("", responses=documented_responses(*_READ, 409, reply=ArtefactDeleted))
@with_policy(API_WRITE)
async def delete_page(ref: _Page, request: Request) -> ArtefactDeleted:
    """Delete a page with everything that belongs to it: versions, files, locks, plans, conversation, runs.

    Refused (409) while a run has it.
    """
    thread = Thread(ref.thread, ref.owner, service.GRAPH)
    return await delete_artefact(app_context(request), ref.artefact, thread)


@router.get("/versions", responses=documented_responses(*_QUERY, reply=PageVersionList))
@with_policy(API_READ)
async def list_page_versions(ref: _Page, page: VersionQuery) -> dict[str, Any]:
    """List the versions, newest last, each with a one-line summary, and name the active one."""
    return await views.versions_view(ref, page)


@router.get("/versions/{version_id}", responses=documented_responses(*_READ, 410, reply=PageVersion))
@with_policy(API_READ)
async def get_page_version(version_id: str, ref: _Page) -> dict[str, Any]:
    """Show a version: its page and its changes."""
    return await views.version_view(ref, version_id)


@router.get(
    "/versions/{version_id}/diff/{other_id}", responses=documented_responses(*_READ, 410, reply=VersionDiff)
)
@with_policy(API_READ)
async def compare_page_versions(version_id: str, other_id: str, ref: _Page) -> dict[str, Any]:
    """Compare two versions: what another one changed of this one, as data and in words."""
    return await views.versions_diff(ref, version_id, other_id)


@router.post(
    "/versions/{version_id}/activate", responses=documented_responses(*_READ, 410, reply=PageActivated)
)
@with_policy(API_WRITE)
async def activate_page_version(version_id: str, ref: _Page) -> dict[str, Any]:
    """Activate a version of a page."""
    return await views.activate_version(ref, version_id)


@router.post(
    "/versions/{version_id}/restore",
    status_code=201,
    responses=documented_responses(*_READ, 409, 410, reply=PageVersion, status=201),
)
@with_policy(API_WRITE)
async def restore_page_version(version_id: str, ref: _Page) -> dict[str, Any]:
    """Restore a version as a new one; `start` restores the starter page.

    Refused (403) where it would change what is locked.
    """
    return await views.restore_version(ref, version_id)


@router.patch("/elements/{element_id}", responses=documented_responses(*_QUERY, 409, 413, reply=PageVersion))
@with_policy(API_WRITE)
async def edit_page_element(
    element_id: str, body: ElementPatch, ref: _Page, if_match: IfMatch = None
) -> dict[str, Any]:
    """Edit one element by hand: its text, style, attributes or label. The others stay as they are.

    Names the newest version, by `version` or `If-Match`, or `start` before the first; 409 if there is a newer
    one. Refused (403) for a locked element.
    """
    version = expected_version(if_match, body.version)
    return await views.edit_element(ref, element_id, body.changes(), version)


@router.get("/diff", responses=documented_responses(*_QUERY, 410, reply=Diff))
@with_policy(API_READ)
async def diff_page_versions(
    ref: _Page, old: Annotated[str, _FROM], new: Annotated[str, _TO]
) -> dict[str, Any]:
    """Compare two versions: the changes, and the byte-identical elements."""
    return await views.diff_view(ref, old, new)


@router.put("/locks/{element_id}", responses=documented_responses(*_READ, reply=LockList))
@with_policy(API_WRITE)
async def lock_page_element(element_id: str, ref: _Page) -> dict[str, Any]:
    """Lock an element and its children against every edit; `page` locks the whole page."""
    return await views.lock_element(ref, element_id)


@router.delete("/locks/{element_id}", responses=documented_responses(*_READ, reply=LockList))
@with_policy(API_WRITE)
async def unlock_page_element(element_id: str, ref: _Page) -> dict[str, Any]:
    """Unlock an element."""
    return await views.unlock_element(ref, element_id)


class PageExportQuery(BaseModel):
    """Choice of an export."""

    version: str | None = Field(
        None, max_length=80, description="A version's id, or `start`; the newest when left out"
    )
    format: Literal["html", "zip"] = Field(
        "html", description="One file, or a ZIP file of the page with the files that were sent to it"
    )
    images: Literal["inline", "linked"] = Field(
        "inline", description="Whether images that were sent to the page are inside the file of HTML"
    )
    external: Literal["blocked", "linked"] = Field(
        "blocked", description="Whether it loads images and films from elsewhere, or names their addresses"
    )
    view: Literal["inline", "attachment", "frame"] = Field(
        "inline", description="Whether browsers show it or save it; in a `frame`, its elements can be marked"
    )
    url: str = Field(
        "",
        max_length=2_000,
        pattern=r"^(https?://.*)?$",
        description="Address at which the ZIP file's page will be served, for Open Graph and JSON-LD",
    )


@router.get("/export", responses=_HTML, response_class=Response)
@with_policy(API_READ)
async def export_page(request: Request, ref: _Page, query: Annotated[PageExportQuery, Query()]) -> Response:
    """Export a version as one HTML file without scripts; its content policy forbids them, too.

    It loads what lies elsewhere with `external=linked` only: that tells the other server what the address
    holds. With `format=zip` a ZIP file has the page as `index.html`, the files that were sent to it under
    `assets/`, and in `not-included.txt` the addresses of what is not among them.
    """
    external = query.external == "linked"
    # A frame of the console is shown, never saved.
    is_frame = query.view == "frame"
    title = "" if is_frame else await views.file_title(app_context(request), ref, query.version)
    if query.format == "zip":
        contents = publishing.site_files(ref, query.version, query.url, external=external)
        return await zip_reply(contents, file_name(title, "zip"), ref.owner)
    files = _own_files(request, ref.artefact.id) if query.view == "frame" else "'self'"
    document = await views.export_html(
        ref, query.version, inline=query.images == "inline", external=external, files=files
    )
    name = f"filename*=UTF-8''{quote(file_name(title, 'html'), safe='')}"
    return Response(
        document.html,
        media_type="text/html",
        headers={
            "Content-Security-Policy": f"{document.policy}; {_READABLE if query.view == 'frame' else _BOXED}",
            "Content-Disposition": f"{'attachment' if query.view == 'attachment' else 'inline'}; {name}",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        },
    )


@router.get("/check", responses=documented_responses(*_QUERY, 410, reply=PageChecks))
@with_policy(API_READ)
async def check_page(
    ref: _Page,
    version: Annotated[
        str | None, Query(max_length=80, description="A version's id, or `start`; the newest when left out")
    ] = None,
) -> PageChecks:
    """Check a version before it is published: title, description, images, contrast, links, headings."""
    return await publishing.check_view(ref, version)


upload_router = api_router("/api/pages/{page_id}/uploads", "pages")
_WRITE = (*_READ, 409, 413, 422)
_UPLOAD_POLICY: Final = replace(API_WRITE, body=BodyLimit(MAX_FILE + uploads.FORM_ROOM))


_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_READ, reply=None),
    200: binary_responses(*FORMATS),
}


async def _upload_target(page_id: str, request: Request) -> uploads.UploadTarget:
    ref = await views.find_page(app_context(request).storage, page_id, current_owner(request))
    return uploads.UploadTarget(ref.storage, ref.artefact, ref.owner)


_Target = Annotated[uploads.UploadTarget, Depends(_upload_target)]


@upload_router.get("", responses=documented_responses(*_READ, reply=UploadList))
@with_policy(API_READ)
async def list_page_uploads(target: _Target) -> dict[str, Any]:
    """List the uploaded and the requested files of the page."""
    return {"uploads": await uploads.list_tickets(target)}


@upload_router.post(
    "",
    status_code=201,
    responses=documented_responses(*_WRITE, reply=Upload, status=201),
    openapi_extra=UPLOAD_BODY,
)
@with_policy(_UPLOAD_POLICY)
async def upload_page_file(
    request: Request,
    target: _Target,
    name: Annotated[
        str | None, Query(alias="fileName", max_length=210, description="Such as logo.png")
    ] = None,
    kind: Annotated[FileType, Query(alias="fileType")] = "image",
) -> dict[str, Any]:
    """Upload an unrequested file as the body, or in a form; the tool `upload_file` finds it by its name.

    The name is that of the form's file unless `fileName` is sent.
    """
    ticket, data = await uploads.receive_file(request, name, partial(uploads.open_ticket, kind))
    return await uploads.store_unrequested(target, ticket, data)


@upload_router.put(
    "/{upload_id}", responses=documented_responses(*_WRITE, reply=Upload), openapi_extra=UPLOAD_BODY
)
@with_policy(_UPLOAD_POLICY)
async def upload_requested_page_file(upload_id: str, request: Request, target: _Target) -> dict[str, Any]:
    """Upload the file that an upload waits for, as the body or in a form; again, it changes nothing."""
    ticket = await uploads.get_ticket(target, upload_id)
    _, data = await uploads.receive_file(request, ticket["fileName"], lambda _: ticket)
    return await uploads.store_requested(target, ticket, data)


@upload_router.get("/{upload_id}", responses=_FILE, response_class=Response)
@with_policy(API_READ)
async def get_page_upload(upload_id: str, target: _Target) -> StreamingResponse:
    """Download a file, to be saved or shown as an image, never as a page."""
    return await file_reply(target.storage, target.artefact, upload_id)


_RUN = documented_responses(400, 402, 403, 404, 409, 413, 422, 429, 500, 503, 504, reply=PageTurn)
_RUN[200] |= FRAMES


@router.post("/chat", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def chat_about_page(
    page_id: str, body: PageChatCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Edit a page in words; a page that is not there begins as the starter page.

    A plain yes or no answers the question that waits, if one does. With `Accept: text/event-stream` the
    reply is what the web socket tells of the run, to its end; `Last-Event-ID` resumes it.
    """
    ctx = app_context(request)
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    return await turn_reply(request, await service.chat_run(ctx.worker, page_id, body, caller))


@router.post("/decisions", responses=_RUN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def answer_page_question(
    page_id: str, body: DecisionCreate, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Answer the question that the page's conversation waits with."""
    ctx = app_context(request)
    caller = RequestContext(current_owner(request), idempotency_key, body.context())
    return await turn_reply(request, await service.decision_run(ctx.worker, page_id, body, caller))


API: Final = FeatureApi(
    routers=(
        list_router,
        router,
        upload_router,
        chat.router,
    ),
    reply_builder=partial(reply_builder, view=service.turn_view),
    translator=lambda ctx, thread: ConversationView(ctx.worker, thread.id),
    tags={"pages": "Landing pages: edited by chat, each edit a version"},
    max_file_bytes=MAX_PAGE,
    file_url=lambda artefact_id, _thread_id, file_id: upload_url(artefact_id, file_id),
)

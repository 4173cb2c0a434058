"""Landing pages over REST: read, compare, restore, lock and export."""

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import StrictRoute
from callsheet.server.pages import views
from callsheet.server.pages.replies import (
    Diff,
    LockList,
    PageActivated,
    PageList,
    PageVersion,
    PageVersionList,
    PageView,
)

router = APIRouter(
    prefix="/api/pages/{page_id}", route_class=StrictRoute, tags=["pages"], default_response_class=JsonReply
)
list_router = APIRouter(
    prefix="/api", route_class=StrictRoute, tags=["pages"], default_response_class=JsonReply
)
_READ = (400, 403, 404, 500, 503, 504)
_QUERY = (*_READ, 422)
_HTML: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_QUERY, reply=None),
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page"},
}
_BOXED: Final = (
    "sandbox allow-forms allow-popups allow-popups-to-escape-sandbox "
    "allow-top-navigation-by-user-activation; frame-ancestors 'self'"
)
"""Policy that isolates an exported page from the rest of the origin."""


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
    return await views.page_list(app_context(request).storage, current_owner(request), after, limit)


@router.get("", responses=documented_responses(*_READ, reply=PageView))
@with_policy(API_READ)
async def get_page(ref: _Page) -> dict[str, Any]:
    """Show a page: its elements, theme, newest and active version, and locks."""
    return await views.page_view(ref)


@router.get("/versions", responses=documented_responses(*_QUERY, reply=PageVersionList))
@with_policy(API_READ)
async def list_page_versions(
    ref: _Page,
    before: Annotated[str | None, Query(max_length=80, description="Only versions older than this")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = views.PAGE_LIMIT,
) -> dict[str, Any]:
    """List the versions, newest last, each with a one-line summary, and name the active one."""
    return await views.versions_view(ref, before, limit)


@router.get("/versions/{version_id}", responses=documented_responses(*_READ, reply=PageVersion))
@with_policy(API_READ)
async def get_page_version(version_id: str, ref: _Page) -> dict[str, Any]:
    """Show a version: its page and its changes."""
    return await views.version_view(ref, version_id)


@router.post("/versions/{version_id}/activate", responses=documented_responses(*_READ, reply=PageActivated))
@with_policy(API_WRITE)
async def activate_page_version(version_id: str, ref: _Page) -> dict[str, Any]:
    """Activate a version of a page."""
    return await views.activate_version(ref, version_id)


@router.post(
    "/versions/{version_id}/restore",
    status_code=201,
    responses=documented_responses(*_READ, 409, reply=PageVersion, status=201),
)
@with_policy(API_WRITE)
async def restore_page_version(version_id: str, ref: _Page) -> dict[str, Any]:
    """Restore a version as a new one; `start` restores the starter page.

    Refused (403) where it would change what is locked.
    """
    return await views.restore_version(ref, version_id)


@router.get("/diff", responses=documented_responses(*_QUERY, reply=Diff))
@with_policy(API_READ)
async def diff_page_versions(
    ref: _Page, old: Annotated[str, _FROM], new: Annotated[str, _TO]
) -> dict[str, Any]:
    """Compare two versions: the changes, and the byte-identical elements."""
    return await views.diff_view(ref, old, new)


@router.put("/locks/{element_id}", responses=documented_responses(*_READ, reply=LockList))
@with_policy(API_WRITE)
async def lock_element(element_id: str, ref: _Page) -> dict[str, Any]:
    """Lock an element and its children against every edit; `page` locks the whole page."""
    return await views.lock_element(ref, element_id)


@router.delete("/locks/{element_id}", responses=documented_responses(*_READ, reply=LockList))
@with_policy(API_WRITE)
async def unlock_element(element_id: str, ref: _Page) -> dict[str, Any]:
    """Unlock an element."""
    return await views.unlock_element(ref, element_id)


@router.get("/export", responses=_HTML, response_class=Response)
@with_policy(API_READ)
async def export_page(
    ref: _Page,
    version: Annotated[
        str | None, Query(max_length=80, description="A version's id, or `start`; the newest when left out")
    ] = None,
    images: Annotated[
        Literal["inline", "linked"],
        Query(description="Whether images that were sent to the page are inside the file"),
    ] = "inline",
    view: Annotated[
        Literal["inline", "attachment"], Query(description="Whether browsers show it or save it")
    ] = "inline",
) -> Response:
    """Export a version as one HTML file without scripts; its content policy forbids them, too."""
    document = await views.export_html(ref, version, inline=images == "inline")
    name = f"filename*=UTF-8''{quote(ref.artefact.id, safe='')}.html"
    return Response(
        document.html,
        media_type="text/html",
        headers={
            "Content-Security-Policy": f"{document.policy}; {_BOXED}",
            "Content-Disposition": f"{view}; {name}",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        },
    )

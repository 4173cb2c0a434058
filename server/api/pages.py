"""Landing pages: looked at, compared, brought back, locked, and exported (C27)."""

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from server.api import page_views
from server.api.bodies import StrictRoute
from server.api.page_replies import Diff, Locks, PageActivated, Pages, PageVersion, PageVersions, PageView
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented

router = APIRouter(
    prefix="/api/pages/{page_id}", route_class=StrictRoute, tags=["pages"], default_response_class=Reply
)
shelf = APIRouter(prefix="/api", route_class=StrictRoute, tags=["pages"], default_response_class=Reply)
_READ = (400, 403, 404, 500, 503, 504)
_QUERY = (*_READ, 422)
_HTML: Final[dict[int | str, dict[str, Any]]] = {
    **documented(*_QUERY, reply=None),
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page"},
}
_BOXED: Final = (
    "sandbox allow-forms allow-popups allow-popups-to-escape-sandbox "
    "allow-top-navigation-by-user-activation; frame-ancestors 'self'"
)
"""What keeps a page that is looked at here away from everything else here."""


async def _found(page_id: str, request: Request) -> page_views.Found:
    return await page_views.find(parts(request).storage, page_id, owner(request))


_Found = Annotated[page_views.Found, Depends(_found)]
_FROM = Query(alias="from", max_length=80, description="The older version's id, or `start`")
_TO = Query(alias="to", max_length=80, description="The newer version's id")


@shelf.get("/pages", responses=documented(400, 403, 422, 500, 503, 504, reply=Pages))
async def pages(
    request: Request,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the list before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the pages, newest change first."""
    return await page_views.listed(parts(request).storage, owner(request), after, limit)


@router.get("", responses=documented(*_READ, reply=PageView))
async def page(found: _Found) -> dict[str, Any]:
    """Show a page as it is now: its elements, theme, versions in hand and locks."""
    return await page_views.whole(found)


@router.get("/versions", responses=documented(*_QUERY, reply=PageVersions))
async def versions(
    found: _Found,
    before: Annotated[str | None, Query(max_length=80, description="Only versions older than this")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = page_views.LISTED,
) -> dict[str, Any]:
    """List the versions, newest last, each with its differences in a line, and say which is active."""
    return await page_views.versions(found, before, limit)


@router.get("/versions/{version_id}", responses=documented(*_READ, reply=PageVersion))
async def version(version_id: str, found: _Found) -> dict[str, Any]:
    """Show a version: the page, and what is different from the version before."""
    return await page_views.version(found, version_id)


@router.post("/versions/{version_id}/activate", responses=documented(*_READ, reply=PageActivated))
async def activate(version_id: str, found: _Found) -> dict[str, Any]:
    """Make this version the one that counts."""
    return await page_views.activate(found, version_id)


@router.post(
    "/versions/{version_id}/restore",
    status_code=201,
    responses=documented(*_READ, 409, reply=PageVersion, status=201),
)
async def restore(version_id: str, found: _Found) -> dict[str, Any]:
    """Make a new version that holds what this one holds; `start` brings the starter page back.

    Refused (403) where it would change what is locked.
    """
    return await page_views.restore(found, version_id)


@router.get("/diff", responses=documented(*_QUERY, reply=Diff))
async def diff(found: _Found, old: Annotated[str, _FROM], new: Annotated[str, _TO]) -> dict[str, Any]:
    """Show what is different between two versions, and which elements are the same to the byte."""
    return await page_views.diff(found, old, new)


@router.put("/locks/{element_id}", responses=documented(*_READ, reply=Locks))
async def lock(element_id: str, found: _Found) -> dict[str, Any]:
    """Lock an element with all inside it against every edit; `page` locks the whole page."""
    return await page_views.lock(found, element_id)


@router.delete("/locks/{element_id}", responses=documented(*_READ, reply=Locks))
async def unlock(element_id: str, found: _Found) -> dict[str, Any]:
    """Unlock an element."""
    return await page_views.unlock(found, element_id)


@router.get("/export", responses=_HTML, response_class=Response)
async def export(
    found: _Found,
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
    """Send a version as one file of HTML without scripts, under a policy that lets none run."""
    made = await page_views.exported(found, version, inline=images == "inline")
    name = f"filename*=UTF-8''{quote(found.artefact.id, safe='')}.html"
    return Response(
        made.html,
        media_type="text/html",
        headers={
            "Content-Security-Policy": f"{made.policy}; {_BOXED}",
            "Content-Disposition": f"{view}; {name}",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        },
    )

"""Assets, image search and statistics of a lesson over REST."""

from dataclasses import asdict, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.providers import search_engines
from callsheet.server.artefacts import file_replies
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.policy import LESSON_READ, LESSON_WRITE, BodyLimit, with_policy
from callsheet.server.http.requests import StrictRoute
from callsheet.server.lessons import assets as lesson_assets
from callsheet.server.lessons import statistics
from callsheet.server.lessons.bodies import AssetCreate
from callsheet.server.lessons.replies import Asset, AssetList, ImageList, SessionDeleted, SessionStatistics
from callsheet.server.lessons.routes import READ, WRITE, SessionHeader, SessionQuery, find_lesson
from callsheet.state.uploads import MAX_FILE

router = APIRouter(
    prefix="/api/agent-create/session",
    route_class=StrictRoute,
    tags=["lessons"],
    default_response_class=JsonReply,
)
_Attribution = Annotated[str | None, Query(max_length=300, description="The author, or the source")]
_FILE: Final = {
    **documented_responses(*READ, reply=None),
    200: file_replies.binary_responses("image", "video"),
}


@router.get("/assets", responses=documented_responses(*READ, reply=AssetList))
@with_policy(LESSON_READ)
async def list_assets(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """List the images, sounds and films of a lesson, oldest first."""
    return {"assets": await lesson_assets.list_assets(await find_lesson(request, header or query))}


@router.post("/assets", status_code=201, responses=documented_responses(*WRITE, reply=Asset, status=201))
@with_policy(LESSON_WRITE)
async def add_asset(
    body: AssetCreate, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Add an image, a sound or a film by its address."""
    lesson = await find_lesson(request, header or body.sessionId or query)
    return await lesson_assets.add_asset(lesson, body.assetType, body.url, body.metadata)


@router.post(
    "/assets/files",
    status_code=201,
    responses=documented_responses(*WRITE, reply=Asset, status=201),
    openapi_extra=file_replies.BODY,
)
@with_policy(replace(LESSON_WRITE, body=BodyLimit(MAX_FILE)))
async def upload_asset(
    request: Request,
    name: Annotated[str, Query(alias="fileName", max_length=210, description="Such as leaf.png")],
    credit: _Attribution = None,
    source: _Attribution = None,
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> dict[str, Any]:
    """Add an image or a film by its bytes, the body: PNG, JPEG, GIF, WebP, MP4 or WebM."""
    lesson = await find_lesson(request, header or query)
    attribution = {key: value for key, value in (("credit", credit), ("source", source)) if value}
    return await lesson_assets.upload_asset(lesson, name, request.stream(), attribution)


@router.get("/assets/{asset_id}/file", responses=_FILE, response_class=Response)
@with_policy(LESSON_READ)
async def get_asset_file(
    asset_id: str, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> StreamingResponse:
    """Download the file of an asset, to be saved or shown as an image, never as a page."""
    lesson = await find_lesson(request, header or query)
    return await file_replies.file_reply(
        lesson.storage, lesson.artefact, await lesson_assets.file_id_of(lesson, asset_id)
    )


@router.delete("/assets/{asset_id}", responses=documented_responses(*READ, reply=SessionDeleted))
@with_policy(LESSON_WRITE)
async def remove_asset(
    asset_id: str, request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Delete an asset."""
    await lesson_assets.remove_asset(await find_lesson(request, header or query), asset_id)
    return {"deleted": asset_id}


@router.get("/images", responses=documented_responses(*READ, reply=ImageList))
@with_policy(LESSON_READ)
async def search_images(
    request: Request,
    query_text: Annotated[str, Query(alias="q", min_length=1, max_length=300, description="Search text")],
    header: SessionHeader = None,
    query: SessionQuery = None,
) -> dict[str, Any]:
    """Search for six images to choose from; 400 where no search is configured. One is chosen as an asset."""
    lesson = await find_lesson(request, header or query)
    results = [asdict(image) for image in await search_engines.image_search().top(query_text)]
    return {"sessionId": lesson.thread.id, "images": results}


@router.get("/analytics", responses=documented_responses(*READ, reply=SessionStatistics))
@with_policy(LESSON_READ)
async def get_statistics(
    request: Request, header: SessionHeader = None, query: SessionQuery = None
) -> dict[str, Any]:
    """Show a session's usage: calls of tools, how many went well, tokens and US dollars."""
    lesson = await find_lesson(request, header or query)
    ctx = app_context(request)
    state = await ctx.worker.state(lesson.thread)
    return await statistics.session_statistics(lesson, state.values, ctx.application.policy.prices)

"""What is beside a lesson: assets, images to choose from, and what all of it took (B40, B62, B66)."""

from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from providers import images
from server import lesson_assets, lesson_figures
from server.api import uploads
from server.api.bodies import StrictRoute
from server.api.lesson_bodies import AssetBody
from server.api.lesson_replies import Asset, Assets, Deleted, Figures, Images
from server.api.lessons import READ, WRITE, Query_, Session, lesson
from server.parts import parts
from server.problems import Reply, documented

router = APIRouter(
    prefix="/api/agent-create/session",
    route_class=StrictRoute,
    tags=["lessons"],
    default_response_class=Reply,
)
_Told = Annotated[str | None, Query(max_length=300, description="Whose it is; where it is from")]
_FILE: Final = {**documented(*READ, reply=None), 200: uploads.binary("image", "video")}


@router.get("/assets", responses=documented(*READ, reply=Assets))
async def assets(request: Request, header: Session = None, query: Query_ = None) -> dict[str, Any]:
    """List what is shown beside the words, oldest first."""
    return {"assets": await lesson_assets.listed(await lesson(request, header or query))}


@router.post("/assets", status_code=201, responses=documented(*WRITE, reply=Asset, status=201))
async def add(
    body: AssetBody, request: Request, header: Session = None, query: Query_ = None
) -> dict[str, Any]:
    """Add an image, a sound or a film by its address."""
    about = await lesson(request, header or body.sessionId or query)
    return await lesson_assets.add(about, body.assetType, body.url, body.metadata)


@router.post(
    "/assets/files",
    status_code=201,
    responses=documented(*WRITE, reply=Asset, status=201),
    openapi_extra=uploads.BODY,
)
async def bring(
    request: Request,
    name: Annotated[str, Query(alias="fileName", max_length=210, description="Such as leaf.png")],
    credit: _Told = None,
    source: _Told = None,
    header: Session = None,
    query: Query_ = None,
) -> dict[str, Any]:
    """Add an image or a film by its bytes, the body: PNG, JPEG, GIF, WebP, MP4 or WebM."""
    about = await lesson(request, header or query)
    said = {key: value for key, value in (("credit", credit), ("source", source)) if value}
    return await lesson_assets.bring(about, name, request.stream(), said)


@router.get("/assets/{asset_id}/file", responses=_FILE, response_class=Response)
async def file(
    asset_id: str, request: Request, header: Session = None, query: Query_ = None
) -> StreamingResponse:
    """Send the file of an asset, to be saved or shown as an image, never as a page."""
    about = await lesson(request, header or query)
    return await uploads.sent(about.storage, about.artefact, await lesson_assets.file_of(about, asset_id))


@router.delete("/assets/{asset_id}", responses=documented(*READ, reply=Deleted))
async def remove(
    asset_id: str, request: Request, header: Session = None, query: Query_ = None
) -> dict[str, Any]:
    """Take one away."""
    await lesson_assets.remove(await lesson(request, header or query), asset_id)
    return {"deleted": asset_id}


@router.get("/images", responses=documented(*READ, reply=Images))
async def found(
    request: Request,
    words: Annotated[str, Query(alias="q", min_length=1, max_length=300, description="What is shown")],
    header: Session = None,
    query: Query_ = None,
) -> dict[str, Any]:
    """Look for six images to choose from; 400 where no search is configured. One is chosen as an asset."""
    about = await lesson(request, header or query)
    chosen = [asdict(one) for one in await images.search().top(words)]
    return {"sessionId": about.thread.id, "images": chosen}


@router.get("/analytics", responses=documented(*READ, reply=Figures))
async def figures(request: Request, header: Session = None, query: Query_ = None) -> dict[str, Any]:
    """Show what the session took: calls of tools, how many went well, tokens and US dollars (B66)."""
    about = await lesson(request, header or query)
    state = await parts(request).worker.state(about.thread)
    return await lesson_figures.figures(about, state.values)

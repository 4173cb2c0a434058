"""What is shown beside the words of a lesson: images, sounds and films, by address or as files (B40)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from callsheet.server.artefacts import uploads
from callsheet.server.lessons.edits import MAX_LESSON_BYTES, Lesson
from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons import assets
from callsheet.state.lessons.assets import ASSETS, AssetType
from callsheet.state.lessons.images import on_the_web
from callsheet.state.uploads import FORMATS, FileType, file_extension
from callsheet.state.versions import Version
from callsheet.storage.artefacts import files

FILE_TYPES: Final = "/api/agent-create/session/assets"
"""Where the files of assets are."""
_TYPES: Final[tuple[FileType, ...]] = ("image", "video")
"""What may be sent as a file."""


async def list_assets(about: Lesson) -> list[dict[str, Any]]:
    """Return the lesson's assets, oldest first (B40)."""
    return [_shown(about, one) for one in await _live(about)]


async def add_asset(
    about: Lesson, kind: AssetType, url: str | None, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Add an asset and return it; raises `Invalid` for what is no address on the web."""
    if url is not None and not on_the_web(url):
        raise Invalid(f"url {url[:80]!r} is no address on the web", remedy="begin it with https://")
    return await _added(about, {"id": uuid.uuid4().hex, "assetType": kind, "url": url, "metadata": metadata})


async def upload_asset(
    about: Lesson, name: str, sent: AsyncIterator[bytes], said: Mapping[str, str]
) -> dict[str, Any]:
    """Keep a file as an asset and return it; `said` is what its sender says of it.

    Raises `Invalid` for a file that is not wholly what its name says, and `TooLarge` over the limit of its
    type, and where the files of the lesson have more than 200 MiB.
    """
    asked = uploads.open_ticket(_type(name), name)
    data = await uploads.read_body(sent, asked)
    record = await asyncio.to_thread(uploads.describe_file, name, data)
    await files.store(about.storage, about.artefact, asked["id"], files.split(data), record, MAX_LESSON_BYTES)
    metadata = {"title": name, **said, "mediaType": record["type"], "size": record["size"]}
    kept = {"id": asked["id"], "assetType": asked["fileType"], "url": None, "file": True}
    return await _added(about, {**kept, "metadata": metadata})


async def file_id_of(about: Lesson, asset: str) -> str:
    """Return the id of an asset's file; raises `Missing` for one that is not there, or has none."""
    if not any(one.data["id"] == asset and one.data.get("file") for one in await _live(about)):
        raise Missing(f"there is no file of asset {asset[:80]!r}", remedy="list the assets of the session")
    return asset


async def remove_asset(about: Lesson, asset: str) -> None:
    """Take an asset away, with its file; raises `Missing` for one that is not there."""
    if asset not in {one.data["id"] for one in await _live(about)}:
        raise Missing(f"there is no asset {asset[:80]!r}", remedy="list the assets of the session")
    await about.write(ASSETS, assets.removal(asset))
    await files.remove(about.storage, about.artefact, asset)


async def _live(about: Lesson) -> list[Version]:
    return assets.live((await about.artefact.stream(ASSETS)).versions)


async def _added(about: Lesson, data: Mapping[str, Any]) -> dict[str, Any]:
    version = await about.write(ASSETS, data)
    return _shown(about, await about.artefact.version(ASSETS, version))


def _type(name: str) -> FileType:
    wanted = file_extension(name)
    found = next((one for one in _TYPES if wanted in FORMATS[one]), None)
    if found is None:
        taken = ", ".join(one for kind in _TYPES for one in FORMATS[kind])
        raise Invalid(f"{name!r} is no image and no film", remedy=f"send one of {taken}")
    return found


def _shown(about: Lesson, version: Version) -> dict[str, Any]:
    data = dict(version.data)
    if data.pop("file", False):
        session = quote(about.thread.id, safe="")
        data["url"] = f"{FILE_TYPES}/{data['id']}/file?sessionId={session}"
    return {**data, "sessionId": about.thread.id, "createdAt": version.created_at()}

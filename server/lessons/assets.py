"""Assets of a lesson: images, sounds and videos, by URL or as files."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from callsheet.server.artefacts import uploads
from callsheet.server.lessons.edits import MAX_LESSON_BYTES, Lesson
from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons import images
from callsheet.state.lessons.images import ASSETS, AssetType, on_the_web
from callsheet.state.uploads import FORMATS, FileType, file_extension
from callsheet.state.versions import Version
from callsheet.storage.artefacts import files

FILES_URL: Final = "/api/agent-create/session/assets"
"""URL of the assets' files."""
_TYPES: Final[tuple[FileType, ...]] = ("image", "video")
"""Types that may be uploaded."""


async def list_assets(lesson: Lesson) -> list[dict[str, Any]]:
    """Return the lesson's assets, oldest first."""
    return [_asset_view(lesson, version) for version in await _live(lesson)]


async def add_asset(
    lesson: Lesson, kind: AssetType, url: str | None, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Add an asset and return it; raise `Invalid` for a malformed URL."""
    if url is not None and not on_the_web(url):
        raise Invalid(f"url {url[:80]!r} is no web address", remedy="begin it with https://")
    return await _add(lesson, {"id": uuid.uuid4().hex, "assetType": kind, "url": url, "metadata": metadata})


async def upload_asset(
    lesson: Lesson, name: str, chunks: AsyncIterator[bytes], attribution: Mapping[str, str]
) -> dict[str, Any]:
    """Store a file as an asset and return it; `attribution` are metadata from its sender.

    Raises `Invalid` for content that does not match the name, and `TooLarge` over the limit of its type, or
    if the lesson's files exceed 200 MiB.
    """
    ticket = uploads.open_ticket(_file_type(name), name)
    data = await uploads.read_body(chunks, ticket)
    record = await asyncio.to_thread(uploads.describe_file, name, data)
    await files.store(
        lesson.storage, lesson.artefact, ticket["id"], files.split(data), record, MAX_LESSON_BYTES
    )
    metadata = {"title": name, **attribution, "mediaType": record["type"], "size": record["size"]}
    asset_data = {"id": ticket["id"], "assetType": ticket["fileType"], "url": None, "file": True}
    return await _add(lesson, {**asset_data, "metadata": metadata})


async def file_id_of(lesson: Lesson, asset_id: str) -> str:
    """Return the id of an asset's file; raise `Missing` without one."""
    if not any(
        version.data["id"] == asset_id and version.data.get("file") for version in await _live(lesson)
    ):
        raise Missing(f"there is no file of asset {asset_id[:80]!r}", remedy="list the assets of the session")
    return asset_id


async def remove_asset(lesson: Lesson, asset_id: str) -> None:
    """Remove an asset with its file; raise `Missing` for an unknown one."""
    if asset_id not in {version.data["id"] for version in await _live(lesson)}:
        raise Missing(f"there is no asset {asset_id[:80]!r}", remedy="list the assets of the session")
    await lesson.write(ASSETS, images.asset_removal(asset_id))
    await files.remove(lesson.storage, lesson.artefact, asset_id)


async def _live(lesson: Lesson) -> list[Version]:
    return images.live_assets((await lesson.artefact.stream(ASSETS)).versions)


async def _add(lesson: Lesson, data: Mapping[str, Any]) -> dict[str, Any]:
    version = await lesson.write(ASSETS, data)
    return _asset_view(lesson, await lesson.artefact.version(ASSETS, version))


def _file_type(name: str) -> FileType:
    extension = file_extension(name)
    file_type = next((known for known in _TYPES if extension in FORMATS[known]), None)
    if file_type is None:
        formats = ", ".join(known for kind in _TYPES for known in FORMATS[kind])
        raise Invalid(f"{name!r} is no image and no film", remedy=f"send one of {formats}")
    return file_type


def _asset_view(lesson: Lesson, version: Version) -> dict[str, Any]:
    data = dict(version.data)
    if data.pop("file", False):
        session = quote(lesson.thread.id, safe="")
        data["url"] = f"{FILES_URL}/{data['id']}/file?sessionId={session}"
    return {**data, "sessionId": lesson.thread.id, "createdAt": version.created_at()}

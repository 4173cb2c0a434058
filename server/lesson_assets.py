"""What is shown beside the words of a lesson: images, sounds and films, by their addresses (B40)."""

import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from server.lesson_edits import Lesson
from state.errors import Invalid, Missing
from state.lesson import ASSETS, AssetType
from state.versions import Version

_GONE: Final = "gone"
"""Key of a version that takes an asset away."""


async def listed(about: Lesson) -> list[dict[str, Any]]:
    """Return the lesson's assets, oldest first (B40)."""
    kept = (await about.artefact.stream(ASSETS)).versions
    gone = {version.data[_GONE] for version in kept if _GONE in version.data}
    return [_shown(about, one) for one in kept if _GONE not in one.data and one.data["id"] not in gone]


async def add(
    about: Lesson, kind: AssetType, url: str | None, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Add an asset and return it; raises `Invalid` for what is no address on the web."""
    if url is not None and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname):
        raise Invalid(f"url {url[:80]!r} is no address on the web", remedy="begin it with https://")
    data = {"id": uuid.uuid4().hex, "assetType": kind, "url": url, "metadata": metadata}
    version = await about.write(ASSETS, data)
    return _shown(about, await about.artefact.version(ASSETS, version))


async def remove(about: Lesson, asset: str) -> None:
    """Take an asset away; raises `Missing` for one that is not there."""
    if asset not in {one["id"] for one in await listed(about)}:
        raise Missing(f"there is no asset {asset[:80]!r}", remedy="list the assets of the session")
    await about.write(ASSETS, {_GONE: asset})


def _shown(about: Lesson, version: Version) -> dict[str, Any]:
    return {**version.data, "sessionId": about.thread.id, "createdAt": version.created_at()}

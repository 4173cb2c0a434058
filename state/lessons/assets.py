"""A lesson's assets: images, audio and video.

Each version of the stream adds an asset or removes one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, model_validator

from callsheet.state.lessons.images import Picture, on_the_web
from callsheet.state.versions import Version

ASSETS: Final = "assets"
"""Name of the stream."""
AssetType = Literal["image", "audio", "video"]
_GONE: Final = "gone"


class AssetVersion(BaseModel):
    """Data of a version: an asset, or in `gone` the id of a removed one."""

    gone: str | None = None
    id: str | None = None
    assetType: AssetType = "image"  # noqa: N815 -- the wire's name
    url: str | None = None
    """Web address; None for an uploaded file, also while its upload is pending."""
    metadata: dict[str, Any] | None = None
    file: bool = Field(default=False)
    """True if the lesson stores its bytes under its id."""

    @model_validator(mode="after")
    def _check(self) -> "AssetVersion":
        if (self.gone is None) == (self.id is None):
            raise ValueError("an asset has either an id or gone")
        if self.url is not None and not on_the_web(self.url):
            raise ValueError(f"url {self.url[:80]!r} is not a web address")
        return self


def live(versions: Sequence[Version]) -> list[Version]:
    """Return the versions whose assets are not removed, oldest first."""
    removed = {version.data[_GONE] for version in versions if version.data.get(_GONE)}
    return [
        version for version in versions if not version.data.get(_GONE) and version.data["id"] not in removed
    ]


def removal(asset: str) -> dict[str, Any]:
    """Return the data of a version that removes an asset."""
    return {_GONE: asset}


def of_picture(picture: Picture, asset_id: str) -> dict[str, Any]:
    """Return the data of a chosen image as an asset, with its source and credit."""
    metadata = {
        "title": picture.title,
        "source": picture.page,
        "credit": picture.credit,
        "thumbnail": picture.thumbnail,
        "mediaType": picture.type,
    }
    return {"id": asset_id, "assetType": "image", "url": picture.url, "metadata": metadata}


def summary(data: Mapping[str, Any]) -> str:
    """Return a version in one line."""
    if data.get(_GONE):
        return f"without {data[_GONE]}"
    about = data.get("metadata") or {}
    return f"{data['assetType']} {about.get('title') or data.get('url') or data['id']}"

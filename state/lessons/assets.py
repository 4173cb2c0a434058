"""What is shown beside the words of a lesson: images, sounds and films (B40).

Each version of the stream brings one, or takes one away.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, model_validator

from callsheet.state.lessons.images import Picture, on_the_web
from callsheet.state.versions import Version

ASSETS: Final = "assets"
"""The stream."""
AssetType = Literal["image", "audio", "video"]
_GONE: Final = "gone"


class AssetVersion(BaseModel):
    """What a version holds: an asset, or the id of one that is gone."""

    gone: str | None = None
    id: str | None = None
    assetType: AssetType = "image"  # noqa: N815 -- the wire's name
    url: str | None = None
    """Where it is on the web; None for a file of the lesson's own, and for one that is yet to come."""
    metadata: dict[str, Any] | None = None
    file: bool = Field(default=False)
    """Whether its bytes are a file of the lesson's, under its id."""

    @model_validator(mode="after")
    def _check(self) -> "AssetVersion":
        if (self.gone is None) == (self.id is None):
            raise ValueError("an asset has an id, or is gone")
        if self.url is not None and not on_the_web(self.url):
            raise ValueError(f"url {self.url[:80]!r} is no address on the web")
        return self


def live(versions: Sequence[Version]) -> list[Version]:
    """Return the versions whose assets are there, oldest first."""
    removed = {version.data[_GONE] for version in versions if version.data.get(_GONE)}
    return [one for one in versions if not one.data.get(_GONE) and one.data["id"] not in removed]


def removal(asset: str) -> dict[str, Any]:
    """Return what a version holds that takes an asset away."""
    return {_GONE: asset}


def of_picture(picture: Picture, asset_id: str) -> dict[str, Any]:
    """Return an image that was chosen as the asset `name`, with its source and whose it is."""
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

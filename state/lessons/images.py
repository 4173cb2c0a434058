"""Images found for a lesson, a person's choice among them, and the lesson's assets.

Assets are images, audio and video. Each version of their stream adds an asset or removes one.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from callsheet.state.errors import Invalid
from callsheet.state.lessons.answer_reader import AnswerReader, by_number, choice_schema, without_deselected
from callsheet.state.versions import Version

REQUEST: Final = "select_images"
"""Name of the question's action."""
SCHEMA: Final = choice_schema(
    "images",
    "an image",
    {"required": ["id"], "properties": {"id": {"type": "string"}, "selected": {"type": "boolean"}}},
    "all, none, numbers, or something else to say",
)
"""JSON Schema of the answer."""
_ID_BYTES: Final = 5
_URL: Final = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-f:]+\])(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
SEARCH_PENDING: Final = "wanted"
"""Placeholder for the images' version before the search."""
CHOICE_DONE: Final = "over"
"""Placeholder for it once the images are chosen, or none were found."""


class Picture(BaseModel):
    """One image found by the search."""

    model_config = ConfigDict(frozen=True)

    NOUN: ClassVar[str] = "image"

    id: str
    """Derived from the URL."""
    title: str
    url: str
    thumbnail: str | None = None
    page: str | None = None
    """URL of the page that shows it."""
    credit: str | None = None
    """Owner of that page."""
    type: str | None = None
    """Media type."""


def on_the_web(url: str) -> bool:
    """Return whether `url` is an HTTP or HTTPS address."""
    return _URL.fullmatch(url) is not None


def picture_id(url: str) -> str:
    """Return the id of the image with this URL."""
    return f"image-{hashlib.blake2b(url.encode(), digest_size=_ID_BYTES).hexdigest()}"


@dataclass(frozen=True)
class ChosenImages:
    """Choice of images, possibly none."""

    images: tuple[Picture, ...]


@dataclass(frozen=True)
class OtherImages:
    """Request for other images."""

    words: str


@dataclass(frozen=True)
class NotAnImageChoice:
    """Text that is not a choice and needs a reply."""

    text: str


Answer = ChosenImages | OtherImages | NotAnImageChoice


def read_choice(answer: Any, offered: Sequence[Picture]) -> Answer:
    """Return the parsed answer; raises `Invalid` for an image that was not offered."""
    return _ImageReader(offered).read(answer)


class _ImageReader(AnswerReader[Answer]):
    ACTION = REQUEST
    LISTS = ("images", "selectedImages", "ids", "indices", "numbers")

    def __init__(self, offered: Sequence[Picture]) -> None:
        self._offered = offered
        self._by_id = {image.id: image for image in offered}

    def from_approval(self) -> Answer:
        return ChosenImages(tuple(self._offered))

    def from_rejection(self, message: str) -> Answer:
        return OtherImages(message) if message.strip() else ChosenImages(())

    def from_words(self, text: str) -> Answer:
        return NotAnImageChoice(text)

    def from_items(self, items: Sequence[Any]) -> Answer:
        chosen = {image.id: image for image in map(self._item, without_deselected(items))}
        return ChosenImages(tuple(chosen.values()))

    def with_comment(self, read: Answer, words: str) -> Answer:
        if words.strip():
            raise Invalid(
                f"a choice of images takes no comment, such as {words[:80]!r}", remedy="send it as a message"
            )
        return read

    def is_offered_id(self, text: str) -> bool:
        return text.strip() in self._by_id

    def malformed_error(self, answer: Any) -> Invalid:
        return Invalid(
            f"the answer {str(answer)[:200]!r} chooses no images",
            remedy='send {"images": [ids or numbers]}, "all", "none", or "1 and 3"',
        )

    def _item(self, item: Any) -> Picture:
        by_place = by_number(item, self._offered, Picture.NOUN)
        if by_place:
            return by_place
        name = item.get("id") if isinstance(item, Mapping) else item
        if not isinstance(name, str):
            raise self.malformed_error(item)
        if not self.is_offered_id(name):
            raise Invalid(
                f"there is no image {name[:200]!r} here", remedy=f"choose from {', '.join(self._by_id)}"
            )
        return self._by_id[name.strip()]


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


def live_assets(versions: Sequence[Version]) -> list[Version]:
    """Return the versions whose assets are not removed, oldest first."""
    removed = {version.data[_GONE] for version in versions if version.data.get(_GONE)}
    return [
        version for version in versions if not version.data.get(_GONE) and version.data["id"] not in removed
    ]


def asset_removal(asset: str) -> dict[str, Any]:
    """Return the data of a version that removes an asset."""
    return {_GONE: asset}


def asset_of_picture(picture: Picture, asset_id: str) -> dict[str, Any]:
    """Return the data of a chosen image as an asset, with its source and credit."""
    metadata = {
        "title": picture.title,
        "source": picture.page,
        "credit": picture.credit,
        "thumbnail": picture.thumbnail,
        "mediaType": picture.type,
    }
    return {"id": asset_id, "assetType": "image", "url": picture.url, "metadata": metadata}


def asset_summary(data: Mapping[str, Any]) -> str:
    """Return a version in one line."""
    if data.get(_GONE):
        return f"without {data[_GONE]}"
    about = data.get("metadata") or {}
    return f"{data['assetType']} {about.get('title') or data.get('url') or data['id']}"

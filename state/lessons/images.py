"""Images found for a lesson, and parsing of a person's choice among them."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict

from callsheet.state.errors import Invalid
from callsheet.state.lessons.answer_reader import AnswerReader, by_number, choice_schema, without_deselected

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


def read(answer: Any, offered: Sequence[Picture]) -> Answer:
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

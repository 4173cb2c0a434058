"""Image search for lessons with Google's Programmable Search.

https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from callsheet.providers.http_json import fetch_json
from callsheet.state.errors import Invalid

TOP: Final = 6
"""Images per search."""
_URL: Final = "https://www.googleapis.com/customsearch/v1"


@dataclass(frozen=True)
class Image:
    """One search result."""

    url: str
    title: str
    thumbnail: str | None
    page: str | None
    """URL of the page that shows it."""
    type: str | None
    """Media type."""
    credit: str | None = None
    """Host name of that page."""


class ImageSearch(Protocol):
    """A search engine for images."""

    async def top(self, words: str) -> list[Image]:
        """Return the first images for `words`, at most `TOP`; raises `Unavailable`."""
        ...


class NoImageSearch:
    """The search engine when none is configured."""

    async def top(self, words: str) -> list[Image]:
        """Raise `Invalid`."""
        raise Invalid(
            f"there is no image search here to look for {words[:80]!r}",
            remedy="set GOOGLE_SEARCH_KEY and GOOGLE_SEARCH_ENGINE, or add an image by its address",
        )


class GoogleImages:
    """Google's Programmable Search."""

    def __init__(self, key: str, engine: str, url: str = _URL) -> None:
        self._key, self._engine, self._url = key, engine, url

    async def top(self, words: str) -> list[Image]:
        """Return the first images with safe search on; raises `Unavailable`."""
        parameters = {"key": self._key, "cx": self._engine, "q": words, "searchType": "image"}
        options = {"num": str(TOP), "safe": "active"}
        reply = await fetch_json(f"{self._url}?{urlencode(parameters | options)}", "the image search")
        return [_image(item) for item in reply.get("items", ())][:TOP]


def search(environ: Mapping[str, str] | None = None) -> ImageSearch:
    """Return the search that GOOGLE_SEARCH_KEY, _ENGINE and _URL configure, or `NoImageSearch`."""
    env = os.environ if environ is None else environ
    key, engine = (env.get(f"GOOGLE_SEARCH_{name}", "").strip() for name in ("KEY", "ENGINE"))
    if not (key and engine):
        return NoImageSearch()
    return GoogleImages(key, engine, env.get("GOOGLE_SEARCH_URL", "").strip() or _URL)


def _image(item: Mapping[str, Any]) -> Image:
    details: Mapping[str, Any] = item.get("image") or {}
    return Image(
        url=str(item.get("link", "")),
        title=str(item.get("title", "")),
        thumbnail=details.get("thumbnailLink"),
        page=details.get("contextLink"),
        type=item.get("mime"),
        credit=item.get("displayLink"),
    )

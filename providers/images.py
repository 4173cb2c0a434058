"""Where images for lessons are found (B62): Google's Programmable Search, or nowhere without its key.

https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx

from state.errors import Invalid, Unavailable

TOP: Final = 6
"""Images of one search (B62)."""
_URL: Final = "https://www.googleapis.com/customsearch/v1"
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True)
class Image:
    """One image that was found."""

    url: str
    title: str
    thumbnail: str | None
    page: str | None
    """Where it is shown."""
    type: str | None
    """Media type."""


class ImageSearch(Protocol):
    """Finds images."""

    async def top(self, words: str) -> list[Image]:
        """Return the first images for some words, at most `TOP`; raises `Unavailable`."""
        ...


class NoSearch:
    """Stands for a search where none is configured."""

    async def top(self, words: str) -> list[Image]:
        """Raise `Invalid`: there is no search."""
        raise Invalid(
            f"there is no image search here to look for {words[:80]!r}",
            remedy="set GOOGLE_SEARCH_KEY and GOOGLE_SEARCH_ENGINE, or add an image by its address",
        )


class GoogleImages:
    """`GOOGLE_SEARCH_KEY`, `GOOGLE_SEARCH_ENGINE`, `GOOGLE_SEARCH_URL`."""

    def __init__(self, key: str, engine: str, url: str = _URL) -> None:
        self._key, self._engine, self._url = key, engine, url

    async def top(self, words: str) -> list[Image]:
        """Return the first images that are safe for children; raises `Unavailable`."""
        asked = {"key": self._key, "cx": self._engine, "q": words, "searchType": "image", "num": str(TOP)}
        try:
            async with httpx.AsyncClient(timeout=_PATIENCE_S) as client:
                reply = await client.get(self._url, params={**asked, "safe": "active"})
                reply.raise_for_status()
                found = reply.json()
        except (httpx.HTTPError, ValueError) as error:
            # The error may name the address, and that has the key in it.
            raise Unavailable(
                f"the image search gave no answer: {_told(error)}", remedy="try again later"
            ) from None
        return [_image(one) for one in found.get("items", ())][:TOP]


def search(environ: Mapping[str, str] | None = None) -> ImageSearch:
    """Return the search that is configured, or one that says that there is none."""
    env = os.environ if environ is None else environ
    key, engine = (env.get(f"GOOGLE_SEARCH_{name}", "").strip() for name in ("KEY", "ENGINE"))
    if not (key and engine):
        return NoSearch()
    return GoogleImages(key, engine, env.get("GOOGLE_SEARCH_URL", "").strip() or _URL)


def _told(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"status {error.response.status_code}"
    return type(error).__name__


def _image(one: Mapping[str, Any]) -> Image:
    about: Mapping[str, Any] = one.get("image") or {}
    return Image(
        url=str(one.get("link", "")),
        title=str(one.get("title", "")),
        thumbnail=about.get("thumbnailLink"),
        page=about.get("contextLink"),
        type=one.get("mime"),
    )

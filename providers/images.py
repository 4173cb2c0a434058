"""Where images for lessons are found (B62): Google's Programmable Search, or nowhere without its key.

https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import httpcore

from callsheet.state.errors import Invalid, Unavailable

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
    credit: str | None = None
    """Whose page that is."""


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
        found = await _answer(f"{self._url}?{urlencode({**asked, 'safe': 'active'})}")
        return [_image(one) for one in found.get("items", ())][:TOP]


def search(environ: Mapping[str, str] | None = None) -> ImageSearch:
    """Return the search that is configured, or one that says that there is none."""
    env = os.environ if environ is None else environ
    key, engine = (env.get(f"GOOGLE_SEARCH_{name}", "").strip() for name in ("KEY", "ENGINE"))
    if not (key and engine):
        return NoSearch()
    return GoogleImages(key, engine, env.get("GOOGLE_SEARCH_URL", "").strip() or _URL)


async def _answer(url: str) -> Mapping[str, Any]:
    waits = dict.fromkeys(("connect", "read", "write", "pool"), _PATIENCE_S)
    try:
        async with httpcore.AsyncConnectionPool() as pool:
            reply = await pool.request("GET", url, extensions={"timeout": waits})
        if reply.status != HTTPStatus.OK:
            raise _silent(f"status {reply.status}")
        found: Mapping[str, Any] = json.loads(reply.content)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ValueError) as error:
        # The error may name the address, and that has the key in it.
        raise _silent(type(error).__name__) from None
    return found


def _silent(why: str) -> Unavailable:
    return Unavailable(f"the image search gave no answer: {why}", remedy="try again later")


def _image(one: Mapping[str, Any]) -> Image:
    about: Mapping[str, Any] = one.get("image") or {}
    return Image(
        url=str(one.get("link", "")),
        title=str(one.get("title", "")),
        thumbnail=about.get("thumbnailLink"),
        page=about.get("contextLink"),
        type=one.get("mime"),
        credit=one.get("displayLink"),
    )

"""Search engines for images and for the web.

Images come from Google's Programmable Search, web pages from any HTTP service that answers as Brave's or
SearXNG's does.
https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list
https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
https://docs.searxng.org/dev/search_api.html
"""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import httpcore

from callsheet.state.errors import Invalid, Unavailable
from callsheet.state.unicode import utf8_safe_value

_TIMEOUT_S: Final = 10.0
"""Seconds for a whole reply."""
_MAX_BYTES: Final = 2_000_000
"""Largest reply."""


async def _fetch_json(url: str, service: str, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Return the JSON object at an address; raises `Unavailable` that names the service alone.

    The URL and the headers may contain a key, so they are in no error.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            content = await _fetch(url, service, [*(headers or {}).items()])
        reply = await asyncio.to_thread(_parse, content)
    except TimeoutError:
        raise _no_answer(service, f"none within {_TIMEOUT_S:g} s") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, ValueError, RecursionError) as error:
        raise _no_answer(service, type(error).__name__) from None
    if not isinstance(reply, dict):
        raise _no_answer(service, "no JSON object")
    return reply


async def _fetch(url: str, service: str, headers: list[tuple[str, str]]) -> bytes:
    """Return the body of a response, of at most `_MAX_BYTES`."""
    content = bytearray()
    async with (
        httpcore.AsyncConnectionPool() as pool,
        pool.stream("GET", url, headers=headers) as response,
    ):
        if response.status != HTTPStatus.OK:
            raise _no_answer(service, f"status {response.status}")
        async for piece in response.aiter_stream():
            content += piece
            if len(content) > _MAX_BYTES:
                raise _no_answer(service, f"more than {_MAX_BYTES} bytes")
    return bytes(content)


def _parse(content: bytes) -> Any:
    """Return the JSON value; half of a surrogate pair is U+FFFD."""
    return utf8_safe_value(json.loads(content))


def _no_answer(service: str, reason: str) -> Unavailable:
    failure = Unavailable(f"{service} gave no answer: {reason}", remedy="try again later")
    failure.service = service
    return failure


MAX_IMAGES: Final = 6
"""Images per search."""
_GOOGLE_URL: Final = "https://www.googleapis.com/customsearch/v1"


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

    def __init__(self, key: str, engine: str, url: str = _GOOGLE_URL) -> None:
        self._key, self._engine, self._url = key, engine, url

    async def top(self, words: str) -> list[Image]:
        """Return the first images with safe search on; raises `Unavailable`."""
        parameters = {"key": self._key, "cx": self._engine, "q": words, "searchType": "image"}
        options = {"num": str(MAX_IMAGES), "safe": "active"}
        reply = await _fetch_json(f"{self._url}?{urlencode(parameters | options)}", "the image search")
        return [_image(item) for item in reply.get("items", ())][:MAX_IMAGES]


def image_search(environ: Mapping[str, str] | None = None) -> ImageSearch:
    """Return the search that GOOGLE_SEARCH_KEY, _ENGINE and _URL configure, or `NoImageSearch`."""
    env = os.environ if environ is None else environ
    key, engine = (env.get(f"GOOGLE_SEARCH_{name}", "").strip() for name in ("KEY", "ENGINE"))
    if not (key and engine):
        return NoImageSearch()
    return GoogleImages(key, engine, env.get("GOOGLE_SEARCH_URL", "").strip() or _GOOGLE_URL)


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


_KEY_HEADER: Final = "X-Subscription-Token"
_MAX_TEXT: Final = 600


class WebSearch(Protocol):
    """A search engine."""

    async def top(self, query: str) -> list[dict[str, str]]:
        """Return the first results: `{title, url, summary}`; raises `Unavailable`."""
        ...


class NoWebSearch:
    """The search engine when none is configured."""

    async def top(self, query: str) -> list[dict[str, str]]:
        """Raise `Invalid`."""
        raise Invalid(
            f"there is no web search to look for {query[:80]!r}",
            remedy="set CALLSHEET_SEARCH_URL, and CALLSHEET_SEARCH_KEY where the service wants one",
        )


class HttpSearch:
    """A search service over HTTP."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key

    async def top(self, query: str) -> list[dict[str, str]]:
        """Return the service's results in its order."""
        joint = "&" if "?" in self._url else "?"
        headers = {"Accept": "application/json"} | ({_KEY_HEADER: self._key} if self._key else {})
        parameters = urlencode({"q": query, "format": "json"})
        reply = await _fetch_json(f"{self._url}{joint}{parameters}", "the web search", headers)
        results = reply.get("results") or (reply.get("web") or {}).get("results") or ()
        return [_web_result(item) for item in results if isinstance(item, Mapping)]


def web_search(environ: Mapping[str, str] | None = None) -> WebSearch:
    """Return the search that CALLSHEET_SEARCH_URL and CALLSHEET_SEARCH_KEY configure, or `NoWebSearch`."""
    env = os.environ if environ is None else environ
    url = env.get("CALLSHEET_SEARCH_URL", "").strip()
    return HttpSearch(url, env.get("CALLSHEET_SEARCH_KEY", "").strip()) if url else NoWebSearch()


def _web_result(item: Mapping[str, Any]) -> dict[str, str]:
    summary = str(item.get("content") or item.get("description") or "")
    return {
        "title": str(item.get("title", ""))[:200],
        "url": str(item.get("url", "")),
        "summary": summary[:_MAX_TEXT],
    }

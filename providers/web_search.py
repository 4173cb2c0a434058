"""Search of the web, over any HTTP service that answers as Brave's or SearXNG's does.

https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
https://docs.searxng.org/dev/search_api.html
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from callsheet.providers.http_json import fetch_json
from callsheet.state.errors import Invalid

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
        reply = await fetch_json(f"{self._url}{joint}{parameters}", "the web search", headers)
        results = reply.get("results") or (reply.get("web") or {}).get("results") or ()
        return [_result(item) for item in results if isinstance(item, Mapping)]


def search(environ: Mapping[str, str] | None = None) -> WebSearch:
    """Return the search that CALLSHEET_SEARCH_URL and CALLSHEET_SEARCH_KEY configure, or `NoWebSearch`."""
    env = os.environ if environ is None else environ
    url = env.get("CALLSHEET_SEARCH_URL", "").strip()
    return HttpSearch(url, env.get("CALLSHEET_SEARCH_KEY", "").strip()) if url else NoWebSearch()


def _result(item: Mapping[str, Any]) -> dict[str, str]:
    summary = str(item.get("content") or item.get("description") or "")
    return {
        "title": str(item.get("title", ""))[:200],
        "url": str(item.get("url", "")),
        "summary": summary[:_MAX_TEXT],
    }

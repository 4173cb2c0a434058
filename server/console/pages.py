"""The pages of the console: one document for all of them, its assets, and the reason where it is not built.

They hold no data, so anyone may load them; every call that the page makes is authorized like any other.
"""

import asyncio
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from callsheet.server.console import build
from callsheet.server.http.policy import OnOutage, RoutePolicy, with_policy

PATHS: Final = ("/", "/c/{thread}", "/artefacts", "/campaigns", "/settings", "/inspect/{thread}")
"""Paths that show the page; it reads the address itself."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "media-src 'self' blob:; frame-src 'self'; connect-src 'self'; base-uri 'none'; "
        "frame-ancestors 'none'; form-action 'self'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The files have no version in their names; an unchanged one costs a 304.
    "Cache-Control": "no-cache",
}
PAGE: Final = RoutePolicy("public", on_outage=OnOutage.REPORT)
"""The page needs no storage, and says itself what the server does not answer."""
_METHODS: Final = ["GET", "HEAD"]
_NOT_BUILT: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Callsheet</title>
<h1>The page is not built</h1>
<p>The server is running, and its API and the <code>callsheet</code> command work. The page at this address is
built from its sources, and that has not happened.</p>
<pre>{reason}</pre>
<p>To build it: install Node.js 20 or newer, or nothing (then it comes from PyPI), and call
<code>make console</code> in the checkout. The server need not be started again. An installed package has the
page inside; if it lacks it, the package was built without Node.js.</p>
<p><a href="/docs">The API's documentation</a></p>
</html>
"""
_UNKNOWN_REASON: Final = "Nobody has built it yet; `make run` does."


def pages_router(folder: Path = build.FOLDER / build.STATIC) -> APIRouter:
    """Return the routes of the page that is built in `folder`, which need not exist."""
    router = APIRouter()
    files = StaticFiles(directory=folder, check_dir=False)

    @with_policy(PAGE)
    async def show_page(request: Request) -> Response:
        """Show the page."""
        try:
            reply = await files.get_response("index.html", request.scope)
        except HTTPException:
            reason = await asyncio.to_thread(_reason, folder)
            reply = HTMLResponse(_NOT_BUILT.format(reason=html.escape(reason)), 404)
        reply.headers.update(HEADERS)
        return reply

    @with_policy(PAGE)
    async def send_asset(path: str, request: Request) -> Response:
        """Send a script, a style sheet or an image of the page."""
        reply = await files.get_response(path, request.scope)
        reply.headers.update(HEADERS)
        return reply

    for address in PATHS:
        router.add_api_route(address, show_page, methods=_METHODS, include_in_schema=False)
    router.add_api_route("/console/{path:path}", send_asset, methods=_METHODS, include_in_schema=False)
    return router


def _reason(folder: Path) -> str:
    """Return the reason why there is no page."""
    try:
        return (folder / build.PROBLEM).read_text()
    except OSError:
        return _UNKNOWN_REASON

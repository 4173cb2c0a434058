"""The page at `/docs`: Swagger UI, whose files the server sends, under a strict content security policy.

The page has no secret, and neither has the document that it shows: both need no key. Requests that it sends
need one, which the button *Authorize* takes.
"""

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from callsheet.server.http.policy import RoutePolicy, with_policy
from callsheet.state.errors import Missing

_ASSETS: Final = frozenset({"swagger-ui.css", "swagger-ui-bundle.js", "start.js"})
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title} API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="docs/swagger-ui.css">
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript; <a href="openapi.json">openapi.json</a> does not.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</html>
"""
_START: Final = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayOperationId: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_PUBLIC: Final = RoutePolicy("public")
router = APIRouter(include_in_schema=False)


@router.api_route("/docs", methods=["GET", "HEAD"])
@with_policy(_PUBLIC)
async def show_documentation(request: Request) -> HTMLResponse:
    """Show the documentation, from which requests can be sent."""
    return HTMLResponse(_PAGE.format(title=escape(request.app.title)), headers=_HEADERS)


@router.api_route("/docs/{name}", methods=["GET", "HEAD"])
@with_policy(_PUBLIC)
async def get_documentation_asset(name: str) -> Response:
    """Get a file of the page."""
    if name not in _ASSETS:
        raise Missing(f"the page has no file {name[:80]!r}", remedy="see /docs")
    headers = {**_HEADERS, "Cache-Control": "no-cache"}
    if name == "start.js":
        return Response(_START, media_type="text/javascript", headers=headers)
    return FileResponse(Path(str(files("fastapi_offline").joinpath("static", name))), headers=headers)

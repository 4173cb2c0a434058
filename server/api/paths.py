"""Ids in paths: an id may hold a slash, so paths are split before they are decoded."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

_PLACED: Final = frozenset({"http", "websocket"})
_SPLIT: Final = (b"/api/", b"/assistants/", b"/threads/", b"/runs/")


class Segments:
    """Gives routes that have ids in them a path in which a slash inside an id stays `%2F`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        raw = scope.get("raw_path") or b""
        if scope["type"] in _PLACED and raw.startswith(_SPLIT):
            scope = {**scope, "path": "/".join(_segment(part) for part in raw.split(b"/"))}
        await self._app(scope, receive, send)


def decoded(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of such a path as their sender meant them."""
    return {name: unquote(value) if isinstance(value, str) else value for name, value in params.items()}


def _segment(part: bytes) -> str:
    return unquote(part.decode("ascii", "replace")).replace("%", "%25").replace("/", "%2F")

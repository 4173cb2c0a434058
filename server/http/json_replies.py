"""Replies of any value as JSON."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from callsheet.server.engine.json_values import dumps


class JsonReply(JSONResponse):
    """A reply of any value as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON."""
        return dumps(content)


class ConfirmedReply(JsonReply):
    """A reply that is reported once it was sent to a client that is still there.

    A server drops what it sends to a client that has left, without an error.
    """

    def __init__(self, content: Any, on_sent: Callable[[], Awaitable[None]]) -> None:
        super().__init__(content)
        self._on_sent = on_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        has_reader = not await Request(scope, receive).is_disconnected()
        await super().__call__(scope, receive, send)
        if has_reader:
            await self._on_sent()

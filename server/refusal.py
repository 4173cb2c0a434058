"""How a request is turned away before any route sees it."""

from collections.abc import Mapping
from typing import Final

from starlette.types import Receive, Scope, Send

from server import problems
from state.errors import CallsheetError, Unavailable

POLICY: Final = 1008
"""Web socket code: not allowed."""
TRY_LATER: Final = 1013
"""Web socket code: worth trying again."""


async def refuse(
    error: CallsheetError,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send the reply to an exception, with further headers; a web socket is closed before it opens."""
    if scope["type"] == "websocket":
        await receive()
        code = TRY_LATER if isinstance(error, Unavailable) else POLICY
        await send({"type": "websocket.close", "code": code})
        return
    reply = problems.response(error)
    for name, value in (headers or {}).items():
        reply.headers[name] = value
    await reply(scope, receive, send)

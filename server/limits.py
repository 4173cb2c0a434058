"""How much a caller may send."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import problems
from state.errors import TooLarge


class BodyLimit:
    """Refuses bodies over a number of bytes: by their declared length, else as soon as they pass it."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > self._most:
            await problems.response(self._refusal())(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                # FastAPI turns every other exception that reading a body raises into its own 400.
                raise HTTPException(413, self._refusal().message)
            return message

        return counted

    def _refusal(self) -> TooLarge:
        return TooLarge(
            f"the body has more than {self._most} bytes, which is the limit",
            remedy="send less, or raise CALLSHEET_MAX_BODY_BYTES",
        )

"""Web sockets: one connection takes messages one by one, and tells what happens beside them."""

import asyncio
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from callsheet.server.context import app_context
from callsheet.server.http.errors import TRY_LATER
from callsheet.server.http.limits import rate_limit_error
from callsheet.server.http.origins import current_owner
from callsheet.state.errors import Unavailable
from callsheet.storage import rate_limits

MAX_FRAME_BYTES: Final = 32
"""What one connection may be told of at a time."""
_TOO_BIG: Final = 1009
"""Web socket code: a message over the limit (RFC 6455 §7.4.1)."""
_BROKEN: Final = 1011
"""Web socket code: the server met what it did not expect (the same place)."""
_log = logging.getLogger(__name__)


class SocketSession(ABC):
    """One connection of one owner; a subclass knows what its messages mean."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._here = app_context(socket)
        self._owner = current_owner(socket)
        self._sending = asyncio.Lock()
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None

    @abstractmethod
    async def handle(self, text: bytes) -> None:
        """Answer one message; raises `Unavailable` where another try, later, may do."""

    async def serve(self) -> None:
        """Take the connection and its messages as they come, until it ends."""
        await self._socket.accept()
        try:
            while (text := await self._next()) is not None:
                await self.handle(text)
        except WebSocketDisconnect:
            return
        except Unavailable as error:
            await self._later(error)
        finally:
            await self._stop()

    async def check_rate(self) -> None:
        """Count a message as a request is counted; raises `Limited`."""
        most = self._here.settings.requests_per_minute
        if most:
            count = await rate_limits.count_request(self._here.storage, self._owner, uuid.uuid4().hex, most)
            if not count.allowed:
                raise rate_limit_error(most, count)

    def is_subscribed(self, name: str) -> bool:
        """Whether it is being told of `name`."""
        return name in self._telling

    @property
    def is_full(self) -> bool:
        """Whether nothing further can be told of."""
        return len(self._telling) >= MAX_FRAME_BYTES

    def subscribe(self, name: str, telling: Coroutine[Any, Any, None]) -> None:
        """Tell of `name` beside the messages that come, until it is left."""
        task = self._telling[name] = asyncio.create_task(self._patiently(telling))
        task.add_done_callback(partial(self._ended, name))

    async def unsubscribe(self, name: str) -> bool:
        """Tell no more of `name`; whether it was told of."""
        task = self._telling.pop(name, None)
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return task is not None

    async def send(self, frame: bytes) -> None:
        """Send one frame of JSON, whole, whoever else is sending."""
        async with self._sending:
            await self._socket.send_text(frame.decode())

    async def _next(self) -> bytes | None:
        """The next message, or None after one that was too big; raises `WebSocketDisconnect`."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text: bytes = message.get("bytes") or (message.get("text") or "").encode()
        if len(text) <= self._here.settings.max_body_bytes:
            return text
        await self._socket.close(_TOO_BIG)
        return None

    async def _patiently(self, telling: Coroutine[Any, Any, None]) -> None:
        try:
            await telling
        except Unavailable as error:
            await self._later(error)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Close the connection where telling failed: nobody waits on it for what never comes."""
        if self._telling.get(name) is task:
            del self._telling[name]
        error = None if task.cancelled() else task.exception()
        here = self._socket.application_state is WebSocketState.CONNECTED
        if error and here and not isinstance(error, WebSocketDisconnect):
            _log.error("what a web socket was to be told cannot be told", exc_info=error)
            self._closing = asyncio.create_task(self._socket.close(_BROKEN))

    async def _later(self, error: Unavailable) -> None:
        await self._socket.close(TRY_LATER, error.message[:100])

    async def _stop(self) -> None:
        for task in self._telling.values():
            task.cancel()
        await asyncio.gather(*self._telling.values(), return_exceptions=True)

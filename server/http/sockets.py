"""Web sockets: a connection handles messages one by one, and sends subscribed events meanwhile."""

import asyncio
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from callsheet.server.http.auth import check_credential, current_owner, get_caller
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import POLICY_VIOLATION, TRY_LATER
from callsheet.server.http.limits import rate_limit_error
from callsheet.server.http.policy import get_policy
from callsheet.state.errors import CallsheetError, Unauthenticated, Unavailable
from callsheet.storage import rate_limits

MAX_SUBSCRIPTIONS: Final = 32
"""Subscriptions of one connection."""
_TOO_BIG: Final = 1009
"""Web socket close code: message too big (RFC 6455 §7.4.1)."""
_INTERNAL_ERROR: Final = 1011
"""Web socket close code: unexpected error (the same section)."""
_log = logging.getLogger(__name__)


class SocketSession(ABC):
    """One connection of one owner; a subclass handles its messages."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._ctx = app_context(socket)
        self._owner = current_owner(socket)
        self._sending = asyncio.Lock()
        self._subscriptions: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None

    @abstractmethod
    async def handle(self, text: bytes) -> None:
        """Handle one message.

        Raises `Unavailable` if the client should try again later, and `Unauthenticated` as `admit`.
        """

    async def serve(self) -> None:
        """Accept the connection and handle its messages until it closes."""
        await self._socket.accept()
        key_id, streams = get_caller(self._socket.scope).key_id, self._socket.app.state.open_streams
        try:
            with streams.watch(key_id, self._end_revoked):
                while (text := await self._next()) is not None:
                    await self.handle(text)
        except WebSocketDisconnect:
            return
        except Unavailable as error:
            await self._close(TRY_LATER, error)
        except Unauthenticated as error:
            await self._close(POLICY_VIOLATION, error)
        finally:
            await self._stop()

    async def admit(self) -> None:
        """Check the credential again, and count a message as a request.

        Raises `Unauthenticated` for a credential revoked or expired since the last message, and `Limited`.
        """
        await check_credential(self._socket)
        most = self._ctx.settings.requests_per_minute
        if most:
            count = await rate_limits.count_request(self._ctx.storage, self._owner, uuid.uuid4().hex, most)
            if not count.allowed:
                raise rate_limit_error(most, count)

    def is_subscribed(self, name: str) -> bool:
        """Return True if `name` is subscribed."""
        return name in self._subscriptions

    @property
    def is_full(self) -> bool:
        """True if no further subscription is possible."""
        return len(self._subscriptions) >= MAX_SUBSCRIPTIONS

    def subscribe(self, name: str, source: Coroutine[Any, Any, None]) -> None:
        """Run `source`, which sends the events of `name`, until it is unsubscribed."""
        task = self._subscriptions[name] = asyncio.create_task(self._run_subscription(source))
        task.add_done_callback(partial(self._end_subscription, name))

    async def unsubscribe(self, name: str) -> bool:
        """End a subscription; return True if there was one."""
        task = self._subscriptions.pop(name, None)
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return task is not None

    async def send(self, frame: bytes) -> None:
        """Send one JSON frame; frames never interleave."""
        async with self._sending:
            await self._socket.send_text(frame.decode())

    async def _next(self) -> bytes | None:
        """Return the next message; None after one that was too big. Raises `WebSocketDisconnect`."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text: bytes = message.get("bytes") or (message.get("text") or "").encode()
        if len(text) <= get_policy(self._socket.scope).body.read_bytes(self._ctx.settings):
            return text
        await self._socket.close(_TOO_BIG)
        return None

    async def _run_subscription(self, source: Coroutine[Any, Any, None]) -> None:
        try:
            await source
        except Unavailable as error:
            await self._close(TRY_LATER, error)

    def _end_subscription(self, name: str, task: asyncio.Task[None]) -> None:
        """Remove a subscription; close the connection if it failed, so that no client waits for it."""
        if self._subscriptions.get(name) is task:
            del self._subscriptions[name]
        error = None if task.cancelled() else task.exception()
        connected = self._socket.application_state is WebSocketState.CONNECTED
        if error and connected and not isinstance(error, WebSocketDisconnect):
            _log.error("a subscription of a web socket failed", exc_info=error)
            self._closing = asyncio.create_task(self._socket.close(_INTERNAL_ERROR))

    def _end_revoked(self, error: Unauthenticated) -> None:
        self._closing = asyncio.create_task(self._close(POLICY_VIOLATION, error))

    async def _close(self, code: int, error: CallsheetError) -> None:
        await self._socket.close(code, error.message[:100])

    async def _stop(self) -> None:
        for task in self._subscriptions.values():
            task.cancel()
        await asyncio.gather(*self._subscriptions.values(), return_exceptions=True)

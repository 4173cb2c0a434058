"""Streaming replies: ended with their reader, and cut off for readers that do not read.

What a reader has not taken yet waits in memory, at most what uvicorn writes before it holds an answer back.
Cut off, not ended: an end would say that all was told. A reader that is cut off knows that something is
missing, and goes on by the id of the last event it got.
"""

import asyncio
import logging
import socket
import struct
from typing import Final, cast

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol


class StreamingReply(StreamingResponse):
    """A streamed reply of which the rest is cancelled once its reader has gone.

    Starlette's own makes a task group for each; here one task listens while the reply's own tells.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        leaving: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as presence:
                leaving = asyncio.create_task(self._left(receive, presence))
                await self.stream_response(send)
        except TimeoutError:
            if not presence.expired():
                raise
        finally:
            if leaving:
                leaving.cancel()
        if self.background:
            await self.background()

    async def _left(self, receive: Receive, presence: asyncio.Timeout) -> None:
        """End the reader's presence once it has gone."""
        await self.listen_for_disconnect(receive)
        presence.reschedule(0)


MIN_BYTES_PER_CHECK: Final = 64 * 1024
"""Bytes that a reader must take in the time it is given."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_log = logging.getLogger(__name__)


def http_protocol(slow_s: float) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol, which cuts off readers slower than `MIN_BYTES_PER_CHECK` in `slow_s`.

    Time counts only while more waits than uvicorn writes ahead; with 0, it never does.
    """
    if not slow_s:
        return type("Forgetting", (_Forgetting, AutoHTTPProtocol), {})
    return type("Patient", (_Cutting, _Forgetting, AutoHTTPProtocol), {"slow_s": slow_s})


class _Forgetting(asyncio.Protocol):
    """What is added to a protocol that remembers a connection that was reset until its idle time is over.

    uvicorn 0.54 stops that clock only where the other side has ended the connection in order, and proxies
    reset those they have no more use for.
    """

    timeout_keep_alive_task: asyncio.TimerHandle | None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.timeout_keep_alive_task:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None


class _Cutting(asyncio.Protocol):
    """What is added to a protocol that holds back what its reader does not take."""

    slow_s: float
    _to: asyncio.WriteTransport
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._to = cast("asyncio.WriteTransport", transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._look_later()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stop()
        super().resume_writing()

    def _look_later(self) -> None:
        waiting = self._to.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(self.slow_s, self._look, waiting)

    def _look(self, before: int) -> None:
        if before - self._to.get_write_buffer_size() >= MIN_BYTES_PER_CHECK:
            self._look_later()
            return
        reader = self._to.get_extra_info("peername")
        _log.info(
            "%s was cut off: it took fewer than %d bytes in %g s", reader, MIN_BYTES_PER_CHECK, self.slow_s
        )
        # What the system has not sent yet goes, too; else it waits for a reader that may never come back.
        self._to.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._to.abort()

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

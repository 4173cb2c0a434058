"""Streaming replies that end with their reader, and connections that are reset for slow readers.

A slow reader's connection is reset and not ended in order: an orderly end would look complete. The reader
resumes after the id of the last event it received.
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
    """A streamed reply that is cancelled once its reader has left.

    Starlette's own starts a task group for each reply; this one starts one task.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        leaving: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as presence:
                leaving = asyncio.create_task(self._watch_reader(receive, presence))
                await self.stream_response(send)
        except TimeoutError:
            if not presence.expired():
                raise
        finally:
            if leaving:
                leaving.cancel()
        if self.background:
            await self.background()

    async def _watch_reader(self, receive: Receive, limit: asyncio.Timeout) -> None:
        """End the reply once the reader has left."""
        await self.listen_for_disconnect(receive)
        limit.reschedule(0)


MIN_BYTES_PER_CHECK: Final = 64 * 1024
"""Bytes that a reader must take between two checks."""
_RESET: Final = struct.pack("ii", 1, 0)
_log = logging.getLogger(__name__)


def http_protocol(slow_s: float) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with resets for readers slower than `MIN_BYTES_PER_CHECK` in `slow_s`.

    Time counts only while uvicorn's write buffer is full. 0 disables resets.
    """
    if not slow_s:
        return type("Forgetting", (_KeepAliveFix, AutoHTTPProtocol), {})
    return type("Patient", (_SlowReaderCutoff, _KeepAliveFix, AutoHTTPProtocol), {"slow_s": slow_s})


class _KeepAliveFix(asyncio.Protocol):
    """Stops uvicorn's keep-alive timer when a connection is reset.

    uvicorn 0.54 stops it only at an orderly end, and proxies reset connections they no longer need.
    """

    timeout_keep_alive_task: asyncio.TimerHandle | None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.timeout_keep_alive_task:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None


class _SlowReaderCutoff(asyncio.Protocol):
    """Resets the connection of a reader that is too slow."""

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
        self._schedule_check()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stop()
        super().resume_writing()

    def _schedule_check(self) -> None:
        waiting = self._to.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(self.slow_s, self._check, waiting)

    def _check(self, before: int) -> None:
        if before - self._to.get_write_buffer_size() >= MIN_BYTES_PER_CHECK:
            self._schedule_check()
            return
        reader = self._to.get_extra_info("peername")
        _log.info(
            "closed the connection of %s: it read fewer than %d bytes in %g s",
            reader,
            MIN_BYTES_PER_CHECK,
            self.slow_s,
        )
        # Drop unsent data of the system too; it would wait for a reader that may never come back.
        self._to.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._to.abort()

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

"""Sockets that a server listens on, and connections with limits for readers and headers.

A slow reader's connection is reset and not ended in order: an orderly end would look complete. The reader
resumes after the id of the last event it received.
"""

import asyncio
import errno
import logging
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Final, cast

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from callsheet.server.settings.installation import program
from callsheet.state.errors import CallsheetError, Conflict, Invalid

if sys.platform != "win32":
    from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser


HEADERS_S: Final = 15.0
"""Seconds for the headers of a request to arrive, and for the first request of a connection."""
MAX_HEADER_BYTES: Final = 64 * 1024
"""Bytes of headers that may wait for their end."""
MIN_BYTES_PER_CHECK: Final = 64 * 1024
"""Bytes that a reader must take between two checks."""
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
_RESET: Final = struct.pack("ii", 1, 0)
_log = logging.getLogger(__name__)


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to every address of `host`; raises `Invalid` or `Conflict` with the port."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"host {host!r} is not an address of this machine", remedy="use 127.0.0.1") from error
    listeners: list[socket.socket] = []
    try:
        for family, where in dict.fromkeys((entry[0], entry[4]) for entry in addresses):
            chosen = listeners[0].getsockname()[1] if listeners else port
            listeners.append(_bind(family, (str(where[0]), chosen)))
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise bind_error(host, port, error) from error
    return listeners


def _bind(family: int, where: tuple[str, int]) -> socket.socket:
    # With the protocol named: asyncio sets TCP_NODELAY only on sockets it recognises as TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(where)
        # Listen now, so that a port in use is found before the slow part of the start.
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def bind_error(host: str, port: int, error: OSError) -> CallsheetError:
    """Return the error for the user if the system refuses a port or an address."""
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {port} on {host} is in use by another program",
            remedy=f"stop that program, or choose a free port: {program()} serve --port 0",
        )
    if error.errno == errno.EACCES:
        return Invalid(f"port {port} may not be used by this user", remedy="choose a port from 1024 on")
    return Invalid(
        f"host {host!r} cannot be listened on: {os.strerror(error.errno or 0).lower()}",
        remedy="use 127.0.0.1",
    )


def url_host(host: str) -> str:
    """Return a host in the form of a URL."""
    return f"[{host}]" if ":" in host else host


def http_protocol(slow_s: float, headers_s: float = HEADERS_S) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with limits for headers and readers.

    A connection is reset if its reader takes less than `MIN_BYTES_PER_CHECK` in `slow_s` while uvicorn's
    write buffer is full. 0 disables resets.
    """
    bases: list[type[Any]] = [_KeepAliveFix, AutoHTTPProtocol]
    # h11, which uvicorn uses without httptools, limits the size itself.
    if sys.platform != "win32":
        bases.insert(0, _HeaderLimits)
    if slow_s:
        bases.insert(0, _SlowReaderCutoff)
    return type("Limited", tuple(bases), {"slow_s": slow_s, "headers_s": headers_s})


class _KeepAliveFix(asyncio.Protocol):
    """Stops uvicorn's keep-alive timer when a connection is reset.

    uvicorn 0.54 stops it only at an orderly end, and proxies reset connections they no longer need.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        super().connection_lost(None)


class _HeaderLimits(asyncio.Protocol):
    """Closes a connection whose headers are late or too long; uvicorn 0.54 waits for ever and keeps all."""

    headers_s: float
    _headers: "_Headers"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._headers = _Headers(cast("asyncio.WriteTransport", transport), self.headers_s)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._headers.follow(data)
        super().data_received(data)


class _Headers:
    """The headers of a connection's requests, followed with a parser of its own.

    The methods whose names begin with `on_` are the callbacks of httptools.
    """

    def __init__(self, transport: asyncio.WriteTransport, headers_s: float) -> None:
        self._to = transport
        self._headers_s = headers_s
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        self._late: asyncio.TimerHandle | None = None
        """Set while headers are awaited."""
        self._unparsed_bytes = 0
        """Bytes since the last piece of a body or the end of headers: of headers, or of a body's trailers."""
        self._reads_body = False
        self._wait()

    def follow(self, data: bytes) -> None:
        """Follow what was received; uvicorn answers what is no request."""
        if not self._parser:
            return
        if not self._reads_body:
            self._wait()
        self._unparsed_bytes += len(data)
        with suppress(HttpParserError, HttpParserUpgrade):
            self._parser.feed_data(data)
        if self._unparsed_bytes > MAX_HEADER_BYTES:
            if self._late:
                self._to.write(_TOO_LARGE)
            self._to.close()

    def stop(self) -> None:
        """Stop waiting, and forget the parser, which refers to this object."""
        self._end()
        self._parser = None

    def on_message_begin(self) -> None:
        self._wait()

    def on_headers_complete(self) -> None:
        self._end()
        self._reads_body = True
        self._unparsed_bytes = 0

    def on_body(self, body: bytes) -> None:
        del body
        self._unparsed_bytes = 0

    def on_message_complete(self) -> None:
        self._reads_body = False

    def _wait(self) -> None:
        if not self._late:
            self._late = asyncio.get_running_loop().call_later(self._headers_s, self._to.close)

    def _end(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None


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

"""A proxy to Redis that counts the round trips of a request, and delays replies while it counts."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.doubles.tcp_server import Connections

DELAY_S: Final = 0.05
"""Delay of every reply while trips are counted: a command sent sooner did not wait for the last reply."""
_QUIET_S: Final = 0.2
_CREATE: Final = b"\r\nanswering\r\n"
"""An argument that only the call that records a run has."""
_BACKGROUND: Final = (b"XREADGROUP", b"XAUTOCLAIM", b"docket", b"SUBSCRIBE", b"PING", b":open\r\n")
"""Commands that workers send in any case; the last reads the list of open runs, which is polled."""


def _is_own(sent: bytes) -> bool:
    return _CREATE in sent or not any(word in sent for word in _BACKGROUND)


class SlowProxy:
    """Passes bytes between a process and the server at a Unix socket, and records requests."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._connections = Connections(self._serve)
        self._requests: list[tuple[float, bytes]] = []
        self._counts = False
        self._ends_with_run = True

    @property
    def trips_to_run(self) -> int:
        """Round trips from the last `count` to the one that recorded a run, that one included."""
        assert not self._counts, "no run was recorded"
        return self._count_trips(self._request_of_run + 1)

    @property
    def trips(self) -> int:
        """Round trips from the last `count` to `stop`, one after another."""
        return self._count_trips(len(self._requests))

    @property
    def request_of_run(self) -> bytes:
        """The bytes that were sent at once with the call that recorded a run."""
        return self._requests[self._request_of_run][1]

    @property
    def _request_of_run(self) -> int:
        return next(index for index, (_, sent) in enumerate(self._requests) if _CREATE in sent)

    def _count_trips(self, requests: int) -> int:
        trips, began = 0, 0.0
        for at, sent in self._requests[:requests]:
            if _is_own(sent) and at - began > DELAY_S:
                trips, began = trips + 1, at
        return trips

    def occurrences(self, word: bytes) -> int:
        """The number of times that a word was sent since the last `count`."""
        return sum(sent.count(word) for _, sent in self._requests)

    async def is_quiet(self) -> bool:
        """True if nothing but the background was sent for a while."""
        since = time.monotonic() - _QUIET_S
        return not any(at > since and _is_own(sent) for at, sent in self._requests)

    def count(self, *, to_run: bool = True) -> None:
        """Begin to count, until a run is recorded or, without `to_run`, until `stop`."""
        self._requests.clear()
        self._counts, self._ends_with_run = True, to_run

    def stop(self) -> None:
        """End the count and the delays."""
        self._counts = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Listen, and give the URL."""
        server = await asyncio.start_server(self._connections.handle, "127.0.0.1", 0)
        try:
            yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            await self._connections.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await self._connections.connect(self._socket)
        await asyncio.gather(
            self._forward_requests(reader, upstream_writer), self._forward_replies(upstream_reader, writer)
        )

    async def _forward_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            while data := await reader.read(1 << 20):
                self._requests.append((time.monotonic(), data))
                self._counts = self._counts and not (self._ends_with_run and _CREATE in data)
                writer.write(data)
                await writer.drain()

    async def _forward_replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            while data := await reader.read(1 << 20):
                if self._counts:
                    await asyncio.sleep(DELAY_S)
                writer.write(data)
                await writer.drain()

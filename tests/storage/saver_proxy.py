"""Between a saver and its server: counts round trips, cuts connections, and loses replies."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self

from redis.asyncio import Redis

from tests.doubles.tcp_server import Connections


class CountingProxy:
    """Passes Redis's protocol on over a unix socket."""

    def __init__(self, folder: Path, target: str) -> None:
        self.socket = str(folder / "proxy")
        self.trips = 0
        """Number of times that a client sent its first request, or one after a reply."""
        self.connections = 0
        self._target = target.removeprefix("unix://").partition("?")[0]
        self._connections = Connections(self._serve)
        self._open: set[asyncio.StreamWriter] = set()
        self._replies_to_lose = 0
        self.loses_reply: Callable[[bytes], bool] | None = None
        """Called with the request of each reply; true loses the reply."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._connections.handle, self.socket)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._connections.close()

    def client(self) -> Redis:
        """A client that goes through the proxy."""
        return Redis(unix_socket_path=self.socket)

    def cut(self) -> None:
        """Close every connection."""
        for writer in self._open:
            writer.close()

    def lose_reply(self) -> None:
        """Let the next request through, and close its connection instead of delivering the reply."""
        self._replies_to_lose += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        server_reader, server_writer = await self._connections.connect(self._target)
        ends = {writer, server_writer}
        self._open |= ends
        # Requests since the last reply.
        requests: list[bytes] = []
        try:
            await asyncio.gather(
                self._up(reader, server_writer, requests), self._down(server_reader, writer, requests)
            )
        finally:
            self._open -= ends
            for end in ends:
                end.close()

    async def _up(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[bytes]
    ) -> None:
        while data := await reader.read(1 << 20):
            self.trips += not requests
            requests.append(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _down(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[bytes]
    ) -> None:
        while data := await reader.read(1 << 20):
            request = b"".join(requests)
            requests.clear()
            if self.loses_reply and self.loses_reply(request):
                break
            if self._replies_to_lose:
                self._replies_to_lose -= 1
                break
            writer.write(data)
            await writer.drain()
        writer.close()

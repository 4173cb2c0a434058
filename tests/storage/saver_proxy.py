"""Between a saver and its server: counts round trips, cuts connections, and loses replies."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Self

from redis.asyncio import Redis


class CountingProxy:
    """Passes Redis's protocol on over a unix socket."""

    def __init__(self, folder: Path, target: str) -> None:
        self.socket = str(folder / "proxy")
        self.trips = 0
        """How often a client began to send after the server had spoken, or at all."""
        self.connections = 0
        self._target = target.removeprefix("unix://").partition("?")[0]
        self._open: set[asyncio.StreamWriter] = set()
        self._lost = 0
        self.losing: Callable[[bytes], bool] | None = None
        """Asked, by what it answers, of every reply whether it is lost."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.socket)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut()

    def client(self) -> Redis:
        """A client that goes through the proxy."""
        return Redis(unix_socket_path=self.socket)

    def cut(self) -> None:
        """Close every connection."""
        for writer in self._open:
            writer.close()

    def lose_reply(self) -> None:
        """Let the next request through, and close its connection instead of delivering the reply."""
        self._lost += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        ends = {writer, server_writer}
        self._open |= ends
        # What was sent since the server spoke last.
        said: list[bytes] = []
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(
                self._up(reader, server_writer, said), self._down(server_reader, writer, said)
            )
        self._open -= ends
        for end in ends:
            end.close()

    async def _up(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: list[bytes]
    ) -> None:
        while data := await reader.read(1 << 20):
            self.trips += not said
            said.append(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _down(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: list[bytes]
    ) -> None:
        while data := await reader.read(1 << 20):
            asked = b"".join(said)
            said.clear()
            if self.losing and self.losing(asked):
                break
            if self._lost:
                self._lost -= 1
                break
            writer.write(data)
            await writer.drain()
        writer.close()

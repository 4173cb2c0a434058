"""A proxy between a process and a database that stops passing bytes on without closing connections."""

import asyncio
import contextlib
import socket
import struct
from typing import Final, Self

from tests.doubles.tcp_server import Connections

_RESET: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: closing sends RST instead of FIN."""


class TcpProxy:
    """Passes bytes on over loopback TCP while nothing is in their way."""

    def __init__(self, target: int | str) -> None:
        """`target` is a loopback port, or the path of a unix socket."""
        self._target = target
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._connections = Connections(self._serve)
        self._clients: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self.heal()
        self._server = await asyncio.start_server(self._connections.handle, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._connections.close()

    @property
    def port(self) -> int:
        """The port of the proxy."""
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The URL of Redis through the proxy."""
        return f"redis://127.0.0.1:{self.port}"

    def cut(self, *, half: bool) -> None:
        """Let nothing through any more; `half`: requests arrive, and replies do not."""
        self._down.clear()
        if not half:
            self._up.clear()

    def heal(self) -> None:
        """Let everything through, what was held back first."""
        self._up.set()
        self._down.set()

    def reset(self) -> None:
        """Reset the connections of all clients; new ones go through."""
        for writer in self._clients:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        pumps: list[asyncio.Task[None]] = []
        try:
            upstream_reader, upstream_writer = await self._connections.connect(self._target)
            pumps = [
                asyncio.create_task(_pump(reader, upstream_writer, self._up)),
                asyncio.create_task(_pump(upstream_reader, writer, self._down)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            upstream_writer.close()
        finally:
            self._clients.discard(writer)
            for pump in pumps:
                pump.cancel()
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clear: asyncio.Event) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            await clear.wait()
            writer.write(data)
            await writer.drain()

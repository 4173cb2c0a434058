"""A proxy to Redis that holds a message back until it is released."""

import asyncio
import contextlib
from typing import Self

from tests.doubles.tcp_server import Connections


class HoldingProxy:
    """Passes bytes on over a unix socket; the first message with a chosen text, and those after it, wait."""

    def __init__(self, path: str, target: str) -> None:
        self.path, self._target = path, target
        self._text = b""
        self.has_held = asyncio.Event()
        """Set once a message is held back."""
        self._clear = asyncio.Event()
        self._connections = Connections(self._serve)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._connections.handle, self.path)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.release()
        self._server.close()
        await self._connections.close()

    @property
    def url(self) -> str:
        """The URL of Redis through the proxy."""
        return f"unix://{self.path}?db=0"

    def hold(self, text: str) -> None:
        """Hold back the next message that contains a text."""
        self._text = text.encode()
        self.has_held.clear()
        self._clear.clear()

    def release(self) -> None:
        """Let everything through."""
        self._text = b""
        self._clear.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await self._connections.connect(self._target)
        down = asyncio.create_task(_pump(up_reader, writer))
        try:
            while data := await reader.read(1 << 20):
                if self._text and self._text in data:
                    self._text = b""
                    self.has_held.set()
                    await self._clear.wait()
                up_writer.write(data)
                await up_writer.drain()
        finally:
            down.cancel()
            for end in (writer, up_writer):
                end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            writer.write(data)
            await writer.drain()

"""A proxy between a process and a database that stops passing bytes on without closing connections."""

import asyncio
import contextlib
import socket
import struct
from typing import Final, Self

_RESET: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: closing sends RST instead of FIN."""


class TcpProxy:
    """Passes bytes on over loopback TCP while nothing is in their way."""

    def __init__(self, target: int | str) -> None:
        """`target` is a loopback port, or the path of a unix socket."""
        self._target = target
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self.heal()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._clients.add(writer)
        task.add_done_callback(lambda _: self._clients.discard(writer))
        upstream_reader, upstream_writer = await self._connect()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.wait(
                [
                    asyncio.create_task(_pump(reader, upstream_writer, self._up)),
                    asyncio.create_task(_pump(upstream_reader, writer, self._down)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        for end in (writer, upstream_writer):
            end.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, int):
            return await asyncio.open_connection("127.0.0.1", self._target)
        return await asyncio.open_unix_connection(self._target)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clear: asyncio.Event) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            await clear.wait()
            writer.write(data)
            await writer.drain()

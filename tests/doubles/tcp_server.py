"""Servers of a test on loopback, which leave no connection open."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Connections:
    """The connections of a server, and those that it opens for them.

    One that an event loop leaves open is closed by the garbage collector, whose warning fails another test.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, and close it if its other end, or what it needs, is not there."""
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.close()

    async def connect(self, target: int | str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a loopback port, or to the path of a unix socket."""
        if isinstance(target, int):
            reader, writer = await asyncio.open_connection("127.0.0.1", target)
        else:
            reader, writer = await asyncio.open_unix_connection(target)
        self._writers.add(writer)
        return reader, writer

    async def close(self) -> None:
        """End all of them, also those in use, and those whose other end reads nothing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def tcp_server(serve: Serve, port: int = 0) -> AsyncIterator[int]:
    """Serve each connection; yield the port."""
    connections = Connections(serve)
    server = await asyncio.start_server(connections.handle, "127.0.0.1", port)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await connections.close()

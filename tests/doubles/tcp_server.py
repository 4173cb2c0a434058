"""A server of a test on a loopback port, which leaves no connection open."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tcp_server(serve: Serve, port: int = 0) -> AsyncIterator[int]:
    """Serve each connection; yield the port. At the end, connections are closed, also those in use."""
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        connections[task] = writer
        with suppress(ConnectionError, asyncio.CancelledError):
            await serve(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for writer in connections.values():
            writer.close()
            # An event loop that ends before this leaves a socket to the garbage collector.
            with suppress(ConnectionError):
                await writer.wait_closed()

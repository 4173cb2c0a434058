"""Servers and proxies of the tests leave no connection open, whose end another test would be blamed for."""

import asyncio
import gc
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.doubles.holding_proxy import HoldingProxy
from tests.doubles.killing import KillingProxy
from tests.doubles.tcp_proxy import TcpProxy
from tests.doubles.tcp_server import Connections, tcp_server
from tests.doubles.trips import SlowProxy
from tests.storage.saver_proxy import CountingProxy

CONTENT = b"x" * 8_000_000
"""More than the buffers of two sockets hold."""


@asynccontextmanager
async def deaf_server(socket: Path) -> AsyncIterator[None]:
    """A server that accepts connections and reads nothing."""

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    connections = Connections(ignore)
    server = await asyncio.start_unix_server(connections.handle, socket)
    try:
        yield
    finally:
        server.close()
        await connections.close()


PROXIES: dict[str, Callable[[Path, str], AbstractAsyncContextManager[Any]]] = {
    "holding": lambda folder, target: HoldingProxy(str(folder / "proxy"), target),
    "killing": lambda folder, target: KillingProxy(str(folder / "proxy"), target),
    "tcp": lambda _folder, target: TcpProxy(target),
    "trips": lambda _folder, target: SlowProxy(target).open(),
    "saver": CountingProxy,
    "server": lambda _folder, _target: tcp_server(hold_open),
}


async def hold_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(CONTENT)
    await reader.read()


def address(proxy: Any) -> int | str:
    """The port or the socket at which it listens."""
    if isinstance(proxy, str):
        return int(proxy.rpartition(":")[2])
    for name in ("port", "path", "socket"):
        if where := getattr(proxy, name, None):
            return where  # type: ignore[no-any-return]
    return int(proxy)


def open_sockets() -> int:
    """The number of this process's connections."""
    return sum(str(each.status) != "LISTEN" for each in psutil.Process().net_connections("all"))


@pytest.mark.parametrize("name", PROXIES)
async def test_a_proxy_that_ends_closes_connections_whose_other_end_reads_nothing(name: str) -> None:
    """In a folder of its own: pytest's may have a path that is too long for a socket."""
    gc.collect()
    before = open_sockets()
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            target = Path(folder, "target")
            await stack.enter_async_context(deaf_server(target))
            proxy = await stack.enter_async_context(PROXIES[name](Path(folder), str(target)))
            clients = Connections(hold_open)
            stack.push_async_callback(clients.close)
            _, writer = await clients.connect(address(proxy))
            writer.write(CONTENT)
            await asyncio.wait([asyncio.create_task(writer.drain())], timeout=0.2)
        assert open_sockets() == before

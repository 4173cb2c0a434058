"""The measured savers, each set up as its own documentation recommends."""

import asyncio
import importlib.util
import socket
import sqlite3
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from redis import Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.embedded import watchdog

Saver = BaseCheckpointSaver[Any]
_ENOUGH_CONNECTIONS: Final = 32


@dataclass(frozen=True)
class SaverPeer:
    """A saver, how to open it, and how to measure its storage."""

    name: str
    package: str
    """Package that must be installed; empty for none."""
    open: Callable[[str, Path], AbstractAsyncContextManager[Saver]]
    """Called with the URL of a Valkey and the saver's own folder."""
    stored_bytes: Callable[[str, Path, Saver], Awaitable[int]]
    """Stored bytes of all threads."""

    @property
    def missing(self) -> bool:
        """True if its package is not installed."""
        return bool(self.package) and importlib.util.find_spec(self.package) is None


@contextmanager
def valkey() -> Iterator[str]:
    """Start a Valkey on a loopback port with an append-only file, as all Redis savers recommend."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        process = subprocess.Popen([watchdog.binary(), *options], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            patient = Retry(ConstantBackoff(0.01), 1000)
            with Redis(port=port, retry=patient) as server:
                server.ping()
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def _memory(_url: str, _folder: Path) -> AsyncIterator[Saver]:
    yield InMemorySaver()


@asynccontextmanager
async def _ours(url: str, _folder: Path) -> AsyncIterator[Saver]:
    async with RedisSaver.from_url(url) as saver:
        yield saver


@asynccontextmanager
async def _sqlite(_url: str, folder: Path) -> AsyncIterator[Saver]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(folder / f"{uuid.uuid4().hex}.sqlite")) as saver:
        await saver.setup()
        yield saver


@asynccontextmanager
async def _plainredis(url: str, _folder: Path) -> AsyncIterator[Saver]:
    from langgraph_checkpoint_plainredis import AsyncRedisSaver

    # Its default pool fails with "Too many connections" when many threads run at once.
    pool = BlockingConnectionPool.from_url(url, max_connections=_ENOUGH_CONNECTIONS, timeout=60, protocol=2)
    async with AsyncRedis(connection_pool=pool) as client:
        yield AsyncRedisSaver(client=client)
    await pool.aclose()


@asynccontextmanager
async def _hotkv(url: str, _folder: Path) -> AsyncIterator[Saver]:
    from langgraph.checkpoint.hotkv import AsyncHotKVSaver

    async with AsyncHotKVSaver.from_conn_string(url) as saver:
        yield saver


async def _in_memory(_url: str, _folder: Path, saver: Saver) -> int:
    """Return the bytes of the serialised data, without the dicts around it."""
    assert isinstance(saver, InMemorySaver)
    rows = [row for thread in saver.storage.values() for space in thread.values() for row in space.values()]
    checkpoints = sum(len(row[0][1]) + len(row[1][1]) for row in rows)
    writes = sum(len(write[2][1]) for each in saver.writes.values() for write in each.values())
    return checkpoints + writes + sum(len(blob[1]) for blob in saver.blobs.values())


async def _in_files(_url: str, folder: Path, _saver: Saver) -> int:
    return await asyncio.to_thread(_sizes, folder)


def _sizes(folder: Path) -> int:
    for file in folder.glob("*.sqlite"):
        with closing(sqlite3.connect(file)) as database:
            # Otherwise the write-ahead log counts a second time what is already in the database.
            database.execute("pragma wal_checkpoint(truncate)")
    return sum(file.stat().st_size for file in folder.iterdir())


def _under(prefix: str) -> Callable[[str, Path, Saver], Awaitable[int]]:
    async def measure(url: str, _folder: Path, _saver: Saver) -> int:
        async with AsyncRedis.from_url(url) as server:
            keys = [key async for key in server.scan_iter(match=f"{prefix}*", count=1000)]
            return sum([await server.memory_usage(key, samples=0) or 0 for key in keys])

    return measure


PEERS: Final = (
    SaverPeer("InMemorySaver", "", _memory, _in_memory),
    SaverPeer("RedisSaver (ours)", "", _ours, _under("*checkpoint")),
    SaverPeer("AsyncSqliteSaver", "langgraph.checkpoint.sqlite", _sqlite, _in_files),
    SaverPeer("plainredis", "langgraph_checkpoint_plainredis", _plainredis, _under("lg")),
    SaverPeer("hotkv", "langgraph.checkpoint.hotkv", _hotkv, _under("*langgraph")),
)
"""The others are compared with the first one."""

"""Connections that uvloop closed before their reader noticed: they are lost, and nothing else (X13)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import uvloop
from redis.asyncio import Redis

from callsheet.state.errors import StorageDown
from callsheet.storage import connect
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import translated_errors
from callsheet.storage.redis.scripts import Script
from callsheet.storage.runs.events import Announcements
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.tcp_proxy import TcpProxy

ECHO: Final = Script("return ARGV[1]")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(watchdog.binary(), tmp_path) as started:
        yield started


def test_a_subscription_over_a_closed_transport_subscribes_again(server: RedisServer) -> None:
    """The connection is reset while nobody reads it, as when a server is killed; redis-py reconnects."""

    async def subscribe() -> None:
        async with TcpProxy(server.port) as wire, connect(wire.url) as storage:
            announcements = Announcements(storage)
            await announcements.open()
            await reset(wire, server)
            async with announcements.subscribe("t"):
                listening = asyncio.create_task(announcements.listen())
                async with announcements.subscribe("t") as signal:
                    signal.clear()
                    await storage.redis.publish(keys.run_keys("t").events, b"events")
                    await asyncio.wait_for(signal.wait(), 10)
            listening.cancel()
            await announcements.aclose()

    uvloop.run(subscribe())


def test_commands_pipelines_and_batches_over_closed_transports_are_sent_again(server: RedisServer) -> None:
    """A pool's connection in use, and the batcher's idle one."""

    async def use() -> list[object]:
        async with TcpProxy(server.port) as wire, connect(wire.url) as storage:
            assert await ECHO(storage.redis, [], ["x"]) == b"x"
            connection = await storage.redis.connection_pool.get_connection()
            await reset(wire, server)
            await connection.retry.call_with_retry(
                lambda: connection.send_command("PING"), lambda _: connection.disconnect()
            )
            answers = [await connection.read_response()]
            await storage.redis.connection_pool.release(connection)
            async with storage.redis.pipeline() as pipeline:
                answers += await pipeline.ping().execute()
            return [*answers, await ECHO(storage.redis, [], ["y"])]

    assert uvloop.run(use()) == [b"PONG", True, b"y"]


async def reset(wire: TcpProxy, server: RedisServer) -> None:
    """Reset the connections, and return when uvloop has closed their transports."""
    wire.reset()
    async with Redis(port=server.port) as other:
        for _ in range(3):
            await other.ping()


def test_a_failure_of_the_task_queues_own_connections_is_an_outage(server: RedisServer) -> None:
    """The queue's clients are not ours; only what uvloop says of a closed transport counts."""

    async def fail(message: str) -> None:
        async with connect(server.url) as storage:
            with translated_errors(storage):
                raise RuntimeError(message)

    closed = "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
    with pytest.raises(StorageDown, match="the handler is closed"):
        asyncio.run(fail(closed))
    with pytest.raises(RuntimeError, match="a bug"):
        asyncio.run(fail("a bug"))

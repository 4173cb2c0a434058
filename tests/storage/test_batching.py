"""X3: replies, push messages and errors on the connections that scripts share."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ResponseError

from callsheet.state.errors import StorageRefused, StorageSilent
from callsheet.storage import Storage
from callsheet.storage.redis.address import parse
from callsheet.storage.redis.batching import CommandPolicy
from callsheet.storage.redis.connection import connect_to
from callsheet.storage.redis.scripts import Command, execute, execute_all
from tests.doubles.tcp_server import tcp_server

GET = Command(("GET", "a"))


@asynccontextmanager
async def scripted_storage(
    *connections: Sequence[bytes],
) -> AsyncIterator[tuple[Storage, list[asyncio.Event]]]:
    """A storage whose connections answer each request with the next of these bytes.

    A connection without further bytes closes. Yielded too: an event for each, set once no bytes are left.
    """
    remaining, exhausted = [list(one) for one in connections], [asyncio.Event() for _ in connections]
    numbers = iter(range(len(connections)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        while await reader.read(1 << 16) and remaining[number]:
            for byte in remaining[number].pop(0):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            if not remaining[number]:
                exhausted[number].set()
        exhausted[number].set()
        writer.close()

    async with tcp_server(serve) as port:
        url = f"redis://127.0.0.1:{port}"
        redis = connect_to(parse(url), CommandPolicy("the server", "Mend it.", 4, 0.5))
        try:
            yield Storage(redis, url, "the server"), exhausted
        finally:
            await redis.aclose()


async def test_a_push_message_between_replies_is_not_taken_for_a_reply() -> None:
    """Also when it arrives in pieces, or together with replies."""
    pushed = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"
    async with scripted_storage([pushed + b"$3\r\none\r\n", b"+two\r\n" + pushed + b"+three\r\n"]) as (
        storage,
        _,
    ):
        assert await execute_all(storage.redis, [GET]) == [b"one"]
        assert await execute_all(storage.redis, [GET, GET]) == [b"two", b"three"]


async def test_a_connection_with_an_unexpected_reply_is_replaced() -> None:
    """Otherwise the next command would get it."""
    async with scripted_storage([b"+one\r\n+stray\r\n"], [b"+two\r\n"]) as (storage, exhausted):
        assert await execute(storage.redis, "GET", "a") == b"one"
        async with asyncio.timeout(20):
            await exhausted[0].wait()
        assert await execute(storage.redis, "GET", "a") == b"two"


async def test_an_error_reply_fails_only_its_own_command() -> None:
    async with scripted_storage([b"-ERR no\r\n+one\r\n"]) as (storage, _):
        both = await asyncio.gather(
            execute(storage.redis, "GET", "a"), execute(storage.redis, "GET", "b"), return_exceptions=True
        )
        assert isinstance(both[0], ResponseError)
        assert both[1] == b"one"


REPLICA = b"-READONLY You can't write against a read only replica.\r\n"


@pytest.mark.parametrize("replies", [[REPLICA], [b"-LOADING Reading from disk\r\n"], []])
async def test_a_connection_to_a_replica_or_a_loading_or_closed_server_is_replaced(
    replies: list[bytes],
) -> None:
    """As after a failover."""
    async with scripted_storage([b"+one\r\n", *replies], [b"+two\r\n"]) as (storage, exhausted):
        assert await execute(storage.redis, "GET", "a") == b"one"
        assert await execute(storage.redis, "GET", "a") == b"two"
        assert exhausted[0].is_set()


async def test_an_invalid_reply_is_an_error_and_the_next_command_succeeds() -> None:
    async with scripted_storage([b"what?\r\n"], [b"+two\r\n"]) as (storage, _):
        with pytest.raises(StorageRefused, match="not in Redis' protocol"):
            await execute(storage.redis, "GET", "a")
        assert await execute(storage.redis, "GET", "a") == b"two"


async def test_a_late_reply_is_not_taken_for_that_of_the_next_command() -> None:
    async with scripted_storage([b"+one\r\n", b"+on"], [b"+two\r\n"]) as (storage, _):
        assert await execute(storage.redis, "GET", "a") == b"one"
        began = time.monotonic()
        with pytest.raises(StorageSilent, match=r"within 0\.5 s"):
            await execute(storage.redis, "GET", "a")
        assert time.monotonic() - began >= 0.49, "the full time, not the rest of the previous command's"
        assert await execute(storage.redis, "GET", "a") == b"two"

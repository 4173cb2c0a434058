"""X3: what is said over the connections that scripts share, and what is heard."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ResponseError

from callsheet.state.errors import StorageRefused, StorageSilent
from callsheet.storage import Storage
from callsheet.storage.redis.address import parse
from callsheet.storage.redis.client import connect_to
from callsheet.storage.redis.command_policy import CommandPolicy
from callsheet.storage.redis.scripts import Command, execute, execute_all

GET = Command(("GET", "a"))


@asynccontextmanager
async def scripted(*connections: Sequence[bytes]) -> AsyncIterator[tuple[Storage, list[asyncio.Event]]]:
    """A storage whose connections give these bytes, one after the other, to whatever they are sent.

    One that has no more closes. With it, for each whether it has given all or ended.
    """
    left, given = [list(one) for one in connections], [asyncio.Event() for _ in connections]
    turns = iter(range(len(connections)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(turns)
        while await reader.read(1 << 16) and left[turn]:
            for byte in left[turn].pop(0):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            if not left[turn]:
                given[turn].set()
        given[turn].set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        redis = connect_to(parse(url), CommandPolicy("the server", "Mend it.", 4, 0.5))
        try:
            yield Storage(redis, url, "the server"), given
        finally:
            await redis.aclose()


async def test_what_a_server_tells_in_between_is_no_reply() -> None:
    """However it comes, in pieces or more at once."""
    pushed = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"
    async with scripted([pushed + b"$3\r\none\r\n", b"+two\r\n" + pushed + b"+three\r\n"]) as (storage, _):
        assert await execute_all(storage.redis, [GET]) == [b"one"]
        assert await execute_all(storage.redis, [GET, GET]) == [b"two", b"three"]


async def test_a_connection_with_a_reply_that_nobody_has_asked_for_is_replaced() -> None:
    """Else it would be taken for the next one's."""
    async with scripted([b"+one\r\n+stray\r\n"], [b"+two\r\n"]) as (storage, given):
        assert await execute(storage.redis, "GET", "a") == b"one"
        async with asyncio.timeout(5):
            await given[0].wait()
        assert await execute(storage.redis, "GET", "a") == b"two"


async def test_an_error_is_the_answer_of_its_own_command_alone() -> None:
    async with scripted([b"-ERR no\r\n+one\r\n"]) as (storage, _):
        both = await asyncio.gather(
            execute(storage.redis, "GET", "a"), execute(storage.redis, "GET", "b"), return_exceptions=True
        )
        assert isinstance(both[0], ResponseError)
        assert both[1] == b"one"


REPLICA = b"-READONLY You can't write against a read only replica.\r\n"


@pytest.mark.parametrize("replies", [[REPLICA], [b"-LOADING Reading from disk\r\n"], []])
async def test_a_server_that_was_replaced_is_left_for_the_new_one(replies: list[bytes]) -> None:
    """One that is a replica now, one that has just begun, one that has gone."""
    async with scripted([b"+one\r\n", *replies], [b"+two\r\n"]) as (storage, given):
        assert await execute(storage.redis, "GET", "a") == b"one"
        assert await execute(storage.redis, "GET", "a") == b"two"
        assert given[0].is_set()


async def test_what_is_no_reply_at_all_is_an_error_and_the_next_call_is_well() -> None:
    async with scripted([b"what?\r\n"], [b"+two\r\n"]) as (storage, _):
        with pytest.raises(StorageRefused, match="not in Redis' protocol"):
            await execute(storage.redis, "GET", "a")
        assert await execute(storage.redis, "GET", "a") == b"two"


async def test_a_reply_that_comes_too_late_is_nobodys() -> None:
    async with scripted([b"+one\r\n", b"+on"], [b"+two\r\n"]) as (storage, _):
        assert await execute(storage.redis, "GET", "a") == b"one"
        began = time.monotonic()
        with pytest.raises(StorageSilent, match=r"within 0\.5 s"):
            await execute(storage.redis, "GET", "a")
        assert time.monotonic() - began >= 0.49, "its own time, not what was left of the one before"
        assert await execute(storage.redis, "GET", "a") == b"two"

"""Connections that are used again: none of our answers ends one, and none that is reset is remembered."""

import asyncio
import gc
import json
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import pytest

from callsheet.server.app import create_app
from callsheet.server.processes.serving import server_config
from callsheet.server.settings.settings import Settings
from callsheet.storage.redis.connection import connect
from tests.doubles.auth_cases import create_key
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

MOST: Final = 1_000
BROWSER_S: Final = 300
"""How long Chromium, the most patient browser, keeps a connection it has used."""
BODY: Final = json.dumps({"metadata": {"note": "kept"}}).encode()


@pytest.fixture(scope="module")
def url(redis: str) -> Iterator[str]:
    with running_server(redis, GRAPHS, auth=("keys",), max_body_bytes=MOST, requests_per_minute=3) as found:
        yield found


class Caller:
    """One connection, and what is said over it byte by byte."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self.writer = streams

    def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)

    def begin(self, secret: str, length: int | None) -> None:
        """Send the head of a POST; without a length the body comes in chunks."""
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        head = ("POST /threads HTTP/1.1", "Host: localhost", "Content-Type: application/json", size)
        self.send("\r\n".join((*head, f"X-Api-Key: {secret}", "", "")))

    async def reply(self) -> tuple[int, Any]:
        """The status and the body of the next reply."""
        async with asyncio.timeout(10):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert "connection: close" not in head
            size = int(head.split("content-length: ")[1].split("\r\n")[0])
            return int(head.split()[1]), json.loads(await self._reader.readexactly(size))

    async def rest(self) -> bytes:
        """What is sent until the server ends the connection."""
        with suppress(ConnectionError):
            return await self._reader.read()
        return b""


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Caller]:
    host, port = url.removeprefix("http://").split(":")
    caller = Caller(await asyncio.open_connection(host, int(port)))
    try:
        yield caller
    finally:
        caller.writer.close()


async def secret(redis: str, owner: str) -> str:
    async with connect(redis) as storage:
        return await create_key(storage, owner)


async def made(caller: Caller, mine: str) -> None:
    """A POST that must be answered over the same connection."""
    caller.begin(mine, len(BODY))
    caller.send(BODY)
    status, thread = await caller.reply()
    assert (status, thread.get("metadata")) == (200, {"note": "kept"}), thread


async def test_a_refusal_before_the_body_has_come_leaves_the_connection_as_it_was(
    url: str, redis: str
) -> None:
    """401, and 413 by the declared length: the body is still on its way, and is the refused request's."""
    mine = await secret(redis, "alice")
    async with calling(url) as caller:
        for theirs, size, expected in (("nobody's", len(BODY), 401), (mine, MOST + 1, 413)):
            caller.begin(theirs, size)
            status, _ = await caller.reply()
            assert status == expected
            caller.send(b"x" * size)
        await made(caller, mine)


async def test_a_body_that_grows_over_the_limit_leaves_the_connection_as_it_was(url: str, redis: str) -> None:
    mine = await secret(redis, "bob")
    piece = f"{MOST:x}\r\n{'x' * MOST}\r\n"
    async with calling(url) as caller:
        caller.begin(mine, None)
        caller.send(piece * 2)
        status, _ = await caller.reply()
        assert status == 413
        caller.send(piece + "0\r\n\r\n")
        await made(caller, mine)


async def test_too_many_requests_leave_the_connection_as_it_was(url: str, redis: str) -> None:
    """429, and then another owner's request over the same connection."""
    mine = await secret(redis, "carol")
    async with calling(url) as caller:
        for _ in range(3):
            await made(caller, mine)
        caller.begin(mine, len(BODY))
        status, _ = await caller.reply()
        assert status == 429
        caller.send(BODY)
        await made(caller, await secret(redis, "dave"))


def test_an_idle_connection_is_kept_longer_than_by_any_browser() -> None:
    app = create_app(Settings())
    assert server_config(app, Settings()).timeout_keep_alive > BROWSER_S


@pytest.fixture
def young() -> Iterator[None]:
    """Nothing that was there before is looked at when memory is collected: a test session has much of it."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("young")
async def test_a_connection_that_is_reset_is_forgotten_at_once(url: str, redis: str) -> None:
    async with calling(url) as caller:
        await made(caller, await secret(redis, "erin"))
        mine = caller.writer.get_extra_info("sockname")
        [theirs] = [one for one in remembered() if getattr(one(), "client", None) == mine]
        known = caller.writer.get_extra_info("socket")
        known.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.writer.transport.abort()

        async def forgotten() -> bool:
            gc.collect()
            return theirs() is None

        await eventually(forgotten, "the end of the memory of it")


def remembered() -> list[Any]:
    """References to the server's sides of connections, which do not keep them."""
    return [
        weakref.ref(one)
        for one in gc.get_objects()
        if type(one).__module__ == "callsheet.server.http.connections"
    ]


HEAD: Final = b"GET /ok HTTP/1.1\r\nHost: localhost\r\n"
HEADERS_S: Final = 1.0


@pytest.fixture(scope="module")
def hurried(redis: str) -> Iterator[str]:
    with running_server(redis, GRAPHS, headers_s=HEADERS_S) as found:
        yield found


async def test_headers_that_never_end_close_their_connection(hurried: str) -> None:
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(calling(hurried)) for _ in range(200)]
        for number, caller in enumerate(callers):
            if number % 4 == 1:
                caller.send(HEAD)
            elif number % 4 == 2:
                caller.send(HEAD + b"\r\n")
                assert (await caller.reply())[0] == 200
                caller.send(b"\r\n")
            elif number % 4 == 3:
                caller.send(HEAD + b"\r\n" + HEAD)
                assert (await caller.reply())[0] == 200
        async with asyncio.timeout(20):
            assert [await caller.rest() for caller in callers] == [b""] * len(callers)


@pytest.mark.slow
async def test_a_request_and_an_idle_connection_may_last_longer_than_headers(hurried: str) -> None:
    async with calling(hurried) as caller:
        for _ in range(2):
            caller.send("POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{")
            await asyncio.sleep(1.5 * HEADERS_S)
            caller.send("}")
            assert (await caller.reply())[0] == 200
            await asyncio.sleep(1.5 * HEADERS_S)


CHUNKED: Final = (
    b"POST /threads HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)


@pytest.mark.parametrize("start", [b"GET /", HEAD + b"X-A: ", CHUNKED + b"X-A: "])
async def test_headers_that_grow_without_end_close_their_connection(url: str, start: bytes) -> None:
    async with calling(url) as caller, asyncio.timeout(20):
        caller.send(start)
        sent = 0
        with suppress(ConnectionError):
            while sent < 60 * 2**20 and not caller.writer.is_closing():
                caller.send(b"x" * 65_536)
                await caller.writer.drain()
                sent += 65_536
                await asyncio.sleep(0)
        assert sent < 20 * 2**20, "what the system buffers, and no more"
        await caller.rest()


async def test_headers_of_a_common_size_are_read(url: str) -> None:
    async with calling(url) as caller:
        for _ in range(3):
            caller.send(HEAD + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 4_000) for n in range(8)) + b"\r\n")
            assert (await caller.reply())[0] == 200

"""Keep-alive connections: no reply closes one, limits on headers do, and a reset one leaves no memory."""

import asyncio
import gc
import json
import re
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import httpx
import pytest

from callsheet.server.app import create_app
from callsheet.server.processes.serving import server_config
from callsheet.server.settings.settings import Settings
from callsheet.storage.redis.connection import connect
from tests.doubles.auth_cases import create_key
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

MAX_BODY_BYTES: Final = 1_000
BROWSER_S: Final = 300
"""Longest time that a browser (Chromium) keeps an idle connection."""
BODY: Final = json.dumps({"metadata": {"note": "kept"}}).encode()


@pytest.fixture(scope="module")
def url(redis: str) -> Iterator[str]:
    with running_server(
        redis, GRAPHS, auth=("keys",), max_message_bytes=MAX_BODY_BYTES, requests_per_minute=3
    ) as url:
        yield url


class RawConnection:
    """One TCP connection to the server, written byte by byte."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self.writer = streams

    def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)

    def send_head(self, create_secret: str, length: int | None) -> None:
        """Send the head of a POST; without a length the body comes in chunks."""
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        head = ("POST /threads HTTP/1.1", "Host: localhost", "Content-Type: application/json", size)
        self.send("\r\n".join((*head, f"X-Api-Key: {create_secret}", "", "")))

    async def reply(self) -> tuple[int, Any]:
        """Return the status and the body of the next reply."""
        async with asyncio.timeout(10):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert "connection: close" not in head
            size = int(head.split("content-length: ")[1].split("\r\n")[0])
            return int(head.split()[1]), json.loads(await self._reader.readexactly(size))

    async def read_to_end(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        with suppress(ConnectionError):
            return await self._reader.read()
        return b""


@asynccontextmanager
async def open_connection(url: str) -> AsyncIterator[RawConnection]:
    host, port = url.removeprefix("http://").split(":")
    connection = RawConnection(await asyncio.open_connection(host, int(port)))
    try:
        yield connection
    finally:
        connection.writer.close()


async def create_secret(redis: str, owner: str) -> str:
    async with connect(redis) as storage:
        return await create_key(storage, owner)


async def assert_post_succeeds(connection: RawConnection, secret: str) -> None:
    """Send a POST and check that it is answered over the same connection."""
    connection.send_head(secret, len(BODY))
    connection.send(BODY)
    status, thread = await connection.reply()
    assert (status, thread.get("metadata")) == (200, {"note": "kept"}), thread


async def test_a_401_or_413_before_the_body_has_arrived_keeps_the_connection_open(
    url: str, redis: str
) -> None:
    """The body that arrives after the refusal is read as the refused request's, not as another request."""
    secret = await create_secret(redis, "alice")
    async with open_connection(url) as connection:
        for sent_secret, size, expected in (("nobody's", len(BODY), 401), (secret, MAX_BODY_BYTES + 1, 413)):
            connection.send_head(sent_secret, size)
            status, _ = await connection.reply()
            assert status == expected
            connection.send(b"x" * size)
        await assert_post_succeeds(connection, secret)


async def test_a_chunked_body_over_the_limit_is_413_and_keeps_the_connection_open(
    url: str, redis: str
) -> None:
    secret = await create_secret(redis, "bob")
    chunk = f"{MAX_BODY_BYTES:x}\r\n{'x' * MAX_BODY_BYTES}\r\n"
    async with open_connection(url) as connection:
        connection.send_head(secret, None)
        connection.send(chunk * 2)
        status, _ = await connection.reply()
        assert status == 413
        connection.send(chunk + "0\r\n\r\n")
        await assert_post_succeeds(connection, secret)


async def test_a_429_keeps_the_connection_open(url: str, redis: str) -> None:
    """429, and then another owner's request over the same connection."""
    secret = await create_secret(redis, "carol")
    async with open_connection(url) as connection:
        for _ in range(3):
            await assert_post_succeeds(connection, secret)
        connection.send_head(secret, len(BODY))
        status, _ = await connection.reply()
        assert status == 429
        connection.send(BODY)
        await assert_post_succeeds(connection, await create_secret(redis, "dave"))


def test_the_server_keeps_an_idle_connection_longer_than_any_browser() -> None:
    app = create_app(Settings())
    assert server_config(app, Settings()).timeout_keep_alive > BROWSER_S


@pytest.fixture
def only_new_objects_collected() -> Iterator[None]:
    """Keep older objects out of garbage collection, which a long test session would make slow."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_objects_collected")
async def test_a_reset_connection_is_freed_at_once(url: str, redis: str) -> None:
    async with open_connection(url) as connection:
        await assert_post_succeeds(connection, await create_secret(redis, "erin"))
        address = connection.writer.get_extra_info("sockname")
        [server_side] = [
            reference
            for reference in server_side_connections()
            if getattr(reference(), "client", None) == address
        ]
        client_socket = connection.writer.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.writer.transport.abort()

        async def is_freed() -> bool:
            gc.collect()
            return server_side() is None

        await eventually(is_freed, "the server's side of the connection is freed")


def server_side_connections() -> list[Any]:
    """Return weak references to the server's sides of all connections."""
    return [
        weakref.ref(connection)
        for connection in gc.get_objects()
        if type(connection).__module__ == "callsheet.server.http.connections"
    ]


HEAD: Final = b"GET /ok HTTP/1.1\r\nHost: localhost\r\n"
HEADERS_S: Final = 1.0


@pytest.fixture(scope="module")
def impatient_url(redis: str) -> Iterator[str]:
    with running_server(redis, GRAPHS, headers_s=HEADERS_S) as url:
        yield url


async def test_a_client_that_leaves_while_its_body_arrives_is_counted_as_499(impatient_url: str) -> None:
    """Nobody gets the reply to half a body, whatever it says of it."""
    async with open_connection(impatient_url) as connection:
        connection.send_head("", len(BODY))
        connection.send(BODY[:5])
    async with httpx.AsyncClient(base_url=impatient_url) as client:
        counts: list[str] = []

        async def is_counted() -> bool:
            lines = (await client.get("/metrics")).text.splitlines()
            counts[:] = [one for one in lines if "http_requests_total{" in one and '"/threads"' in one]
            return bool(counts)

        await eventually(is_counted, "the request is counted")
    assert [re.search(r'status="(\d+)"', one)[1] for one in counts] == ["499"]  # type: ignore[index]


async def test_unfinished_headers_close_the_connection_after_the_timeout(impatient_url: str) -> None:
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(open_connection(impatient_url)) for _ in range(200)]
        for number, connection in enumerate(connections):
            if number % 4 == 1:
                connection.send(HEAD)
            elif number % 4 == 2:
                connection.send(HEAD + b"\r\n")
                assert (await connection.reply())[0] == 200
                connection.send(b"\r\n")
            elif number % 4 == 3:
                connection.send(HEAD + b"\r\n" + HEAD)
                assert (await connection.reply())[0] == 200
        async with asyncio.timeout(20):
            assert [await connection.read_to_end() for connection in connections] == [b""] * len(connections)


@pytest.mark.slow
async def test_the_timeout_of_headers_limits_neither_bodies_nor_idle_connections(impatient_url: str) -> None:
    async with open_connection(impatient_url) as connection:
        for _ in range(2):
            connection.send("POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{")
            await asyncio.sleep(1.5 * HEADERS_S)
            connection.send("}")
            assert (await connection.reply())[0] == 200
            await asyncio.sleep(1.5 * HEADERS_S)


CHUNKED: Final = (
    b"POST /threads HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)


@pytest.mark.parametrize("start", [b"GET /", HEAD + b"X-A: ", CHUNKED + b"X-A: "])
async def test_endless_headers_close_the_connection(url: str, start: bytes) -> None:
    async with open_connection(url) as connection, asyncio.timeout(20):
        connection.send(start)
        sent = 0
        with suppress(ConnectionError):
            while sent < 60 * 2**20 and not connection.writer.is_closing():
                connection.send(b"x" * 65_536)
                await connection.writer.drain()
                sent += 65_536
                await asyncio.sleep(0)
        assert sent < 20 * 2**20, "what the system buffers, and no more"
        await connection.read_to_end()


async def test_headers_of_32_kilobytes_are_accepted(url: str) -> None:
    async with open_connection(url) as connection:
        for _ in range(3):
            connection.send(HEAD + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 4_000) for n in range(8)) + b"\r\n")
            assert (await connection.reply())[0] == 200


async def test_a_body_that_arrives_byte_by_byte_without_end_is_cut(redis: str) -> None:
    """Also that of a caller with a key."""
    secret = await create_secret(redis, "frank")
    with running_server(redis, GRAPHS, auth=("keys",), body_timeout_s=0.5) as url:
        async with open_connection(url) as connection:
            connection.send_head(secret, 900_000)
            reading = asyncio.create_task(connection.read_to_end())

            async def is_closed() -> bool:
                connection.send(b" ")
                return reading.done()

            await eventually(is_closed, "the server closes the connection")
            assert b" 408 " in reading.result()
        async with open_connection(url) as connection:
            await assert_post_succeeds(connection, secret)

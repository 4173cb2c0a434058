"""Readers that are slow, and those that do not read at all (X10, X13)."""

import re
import socket
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from langgraph_sdk import get_client

from tests.doubles.waiting import eventually
from tests.doubles.wire_served import collect, create_thread, graph_input, running_server_on_own_redis

pytestmark = pytest.mark.slow

SLOW_S: Final = 0.5
BIG: Final = 800_000
"""Bytes of a value: with several of them, more than what a system keeps on the way."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(slow_reader_s=SLOW_S) as found:
        yield found


async def filled(url: str) -> tuple[str, list[Any]]:
    """A thread of whose events there are some ten megabytes; its id, and they."""
    async with get_client(url=url) as client:
        thread = await create_thread(client)
        for _ in range(2):
            await client.runs.wait(thread, "counter", input=graph_input(x=1, log=["x" * BIG]))
        return thread, await collect(await client.threads.join_stream(thread, last_event_id="-1"), 12)


def begun(url: str, thread: str) -> socket.socket:
    """A reader of the thread's events that takes little at a time."""
    host, port = url.removeprefix("http://").split(":")
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    reader.settimeout(5)
    reader.connect((host, int(port)))
    reader.sendall(
        f"GET /threads/{thread}/stream HTTP/1.1\r\nHost: {host}\r\nLast-Event-ID: -1\r\n\r\n".encode()
    )
    return reader


def taken_to(reader: socket.socket, pattern: bytes) -> str:
    """Read until that has come; the last of it."""
    found = b""
    while not (match := re.search(pattern, found)):
        found += reader.recv(65_536)
    return match[1].decode()


async def cut_off(url: str) -> None:
    async def gone() -> bool:
        async with httpx.AsyncClient() as http:
            text = (await http.get(f"{url}/metrics")).text
        return "callsheet_http_streams_open 0.0" in text

    await eventually(gone, "the end of the stream that nobody reads")


async def test_a_reader_that_does_not_read_is_cut_off_and_goes_on_by_event_id(url: str) -> None:
    thread, whole = await filled(url)
    with begun(url, thread) as reader:
        last = taken_to(reader, rb"event: values\r\ndata: [^\r]*\r\nid: (\d+-\d+)\r\n")
        await cut_off(url)
        with pytest.raises(ConnectionResetError):
            taken_to(reader, b"(what nobody says)")
    read = [one.id for one in whole].index(last) + 1
    assert 0 < read < len(whole)
    async with get_client(url=url) as client:
        rest = await collect(await client.threads.join_stream(thread, last_event_id=last), len(whole) - read)
    assert rest == whole[read:]

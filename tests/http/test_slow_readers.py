"""Stream readers that stop reading (X10, X13)."""

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

SLOW_READER_S: Final = 0.5
VALUE_BYTES: Final = 800_000
"""Several values of this size are more than the socket buffers hold."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(slow_reader_s=SLOW_READER_S) as url:
        yield url


async def create_large_thread(url: str) -> tuple[str, list[Any]]:
    """Create a thread with some ten megabytes of events; return its id and the events."""
    async with get_client(url=url) as client:
        thread_id = await create_thread(client)
        for _ in range(2):
            await client.runs.wait(thread_id, "counter", input=graph_input(x=1, log=["x" * VALUE_BYTES]))
        return thread_id, await collect(await client.threads.join_stream(thread_id, last_event_id="-1"), 12)


def connect_slow_reader(url: str, thread_id: str) -> socket.socket:
    """Open a stream of the thread's events with a small receive buffer."""
    host, port = url.removeprefix("http://").split(":")
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    reader.settimeout(5)
    reader.connect((host, int(port)))
    reader.sendall(
        f"GET /threads/{thread_id}/stream HTTP/1.1\r\nHost: {host}\r\nLast-Event-ID: -1\r\n\r\n".encode()
    )
    return reader


def read_until(reader: socket.socket, pattern: bytes) -> str:
    """Read until the pattern matches; return its group."""
    received = b""
    while not (match := re.search(pattern, received)):
        received += reader.recv(65_536)
    return match[1].decode()


async def wait_for_closed_stream(url: str) -> None:
    async def is_closed() -> bool:
        async with httpx.AsyncClient() as http:
            text = (await http.get(f"{url}/metrics")).text
        return "callsheet_http_streams_open 0.0" in text

    await eventually(is_closed, "the stream that nobody reads is closed")


async def test_a_reader_that_stops_reading_is_disconnected_and_can_resume_by_event_id(url: str) -> None:
    thread_id, events = await create_large_thread(url)
    with connect_slow_reader(url, thread_id) as reader:
        last_id = read_until(reader, rb"event: values\r\ndata: [^\r]*\r\nid: (\d+-\d+)\r\n")
        await wait_for_closed_stream(url)
        with pytest.raises(ConnectionResetError):
            read_until(reader, b"(never sent)")
    received = [event.id for event in events].index(last_id) + 1
    assert 0 < received < len(events)
    async with get_client(url=url) as client:
        rest = await collect(
            await client.threads.join_stream(thread_id, last_event_id=last_id), len(events) - received
        )
    assert rest == events[received:]

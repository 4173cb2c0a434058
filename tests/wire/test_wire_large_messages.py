"""Messages with photos pass, and the memory for bodies has a limit (X13)."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk import get_client

from callsheet.server.http.requests import parse_json
from tests.doubles.wire_served import create_thread, graph_input, running_redis_for_file
from tests.doubles.wire_server import running_server

MEGABYTE = 1_000_000


async def measure(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", str(len(str(state["messages"][-1].content))))]}


def measuring_graph() -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("measure", measure)
    builder.add_edge(START, "measure")
    return builder.compile()


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    with running_redis_for_file() as redis_url:
        yield redis_url


@pytest.fixture
async def http(redis: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that holds three megabytes of bodies."""
    with running_server(redis, {"measure": measuring_graph()}, max_held_bytes=3 * MEGABYTE) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield client


async def test_a_message_with_a_photo_of_several_megabytes_is_a_run(redis: str) -> None:
    photo = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5 * MEGABYTE}}
    message = {"role": "user", "content": [photo]}
    with running_server(redis, {"measure": measuring_graph()}) as url:
        async with get_client(url=url) as client:
            thread = await create_thread(client)
            result: Any = await client.runs.wait(thread, "measure", input=graph_input(messages=[message]))
    assert int(result["messages"][-1]["content"]) > 5 * MEGABYTE


async def test_a_request_is_503_while_the_bodies_of_others_fill_the_memory_for_bodies(
    http: httpx.AsyncClient,
) -> None:
    body = b'{"metadata": {"note": "' + b"x" * 2 * MEGABYTE + b'"}}'
    connections = [await asyncio.open_connection(http.base_url.host, http.base_url.port) for _ in range(2)]
    head = f"POST /threads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    for _, writer in connections:
        writer.write(head.encode() + body[:-1])
    replies = {asyncio.create_task(reader.readline()): (reader, writer) for reader, writer in connections}
    [refused], [held] = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
    assert await refused == b"HTTP/1.1 503 Service Unavailable\r\n"
    reader, writer = replies[refused]
    rest = await reader.readuntil(b"}")
    assert (b"retry-after: " in rest, b"CALLSHEET_MAX_HELD_BYTES" in rest) == (True, True)
    writer.close()
    writer = replies[held][1]
    writer.write(body[-1:])
    assert await held == b"HTTP/1.1 200 OK\r\n"
    writer.close()
    assert (await http.post("/threads", content=body)).status_code == 200


@pytest.mark.slow
async def test_other_requests_are_answered_while_a_large_body_is_parsed(redis: str) -> None:
    """Hundreds of thousands of small objects take a second."""
    body = b'{"metadata": {"x": [' + b",".join([b'{"a":1}'] * 700_000) + b']}, "ttl": -1}'
    with running_server(redis, {"measure": measuring_graph()}) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            large = asyncio.create_task(client.post("/threads", content=body))
            waits_s = []
            while not large.done():
                start_s = time.monotonic()
                assert (await client.get("/ok")).status_code == 200
                waits_s.append(time.monotonic() - start_s)
    assert (await large).status_code == 422
    start_s = time.monotonic()
    parse_json(body)
    assert max(waits_s) < (time.monotonic() - start_s) / 2

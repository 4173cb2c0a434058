"""The history of a long thread is read in pages of a limited size."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from callsheet.storage import Storage
from tests.doubles.wire_server import run_on_new_thread, running_server

UPDATES = 24
MAX_BYTES = 30_000


@pytest.fixture
async def thread(client: LangGraphClient, storage: Storage) -> str:
    """A thread of many states, each larger than the one before."""
    thread_id = await run_on_new_thread(
        client, storage, "agent", {"messages": [{"role": "user", "content": "hello"}]}
    )
    for number in range(UPDATES):
        message = {"messages": [{"role": "user", "content": f"{number} " + "ü" * 400}]}
        await client.threads.update_state(thread_id, message, as_node="finish")
    return thread_id


@pytest.fixture
async def http_with_small_pages(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that sends at most `MAX_BYTES` of a history at once."""
    with running_server(valkey_url, max_history_bytes=MAX_BYTES) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            yield http


async def read_pages(
    http: httpx.AsyncClient, path: str, method: str = "POST", **query: Any
) -> list[list[Any]]:
    """Return the states of every page, following the header that names the next one."""
    all_pages = []
    while True:
        arguments: Any = {"params": query} if method == "GET" else {"json": query}
        reply = await http.request(method, path, **arguments)
        assert reply.status_code == 200, reply.text
        all_pages.append(reply.json())
        if not (next_before := reply.headers.get("X-Pagination-Next")):
            return all_pages
        assert next_before == all_pages[-1][-1]["checkpoint_id"]
        query["before"] = next_before


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_long_history_is_cut_by_bytes_and_continued_without_a_gap(
    method: str, client: LangGraphClient, http_with_small_pages: httpx.AsyncClient, thread: str
) -> None:
    expected = await client.threads.get_history(thread, limit=1000)
    assert len(expected) > UPDATES
    all_pages = await read_pages(http_with_small_pages, f"/threads/{thread}/history", method, limit=1000)
    assert len(all_pages) > 5
    assert all(
        len(json.dumps(page, separators=(",", ":"), ensure_ascii=False)) < MAX_BYTES for page in all_pages
    )
    assert [state for page in all_pages for state in page] == expected


async def test_a_state_larger_than_the_limit_is_a_page_of_its_own(
    valkey_url: str, client: LangGraphClient, thread: str
) -> None:
    expected = await client.threads.get_history(thread, limit=1000)
    with running_server(valkey_url, max_history_bytes=1_000) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            all_pages = await read_pages(http, f"/threads/{thread}/history", limit=1000)
    assert all_pages == [[state] for state in expected]


async def test_a_page_of_the_requested_length_names_the_next_one(url: str, thread: str) -> None:
    async with httpx.AsyncClient(base_url=url) as http:
        all_pages = await read_pages(
            http, f"/threads/{thread}/history", limit=5, metadata={"source": "update"}
        )
    assert [len(page) for page in all_pages] == [5, 5, 5, 5, 4]


async def test_a_history_that_cannot_be_read_to_its_end_is_an_error(
    url: str, storage: Storage, thread: str
) -> None:
    """The oldest messages are damaged; the states that are read first do not need them."""
    async for key in storage.redis.scan_iter(match=f"*{thread}*"):
        if await storage.redis.type(key) == b"hash":
            fields = [field for field in await storage.redis.hkeys(key) if b"\0messages\0" in field]
            for field in sorted(fields, key=lambda name: int(name.rsplit(b"\0", 1)[1]))[:1]:
                await storage.redis.hset(key, field, b"L999999:1")
    async with httpx.AsyncClient(base_url=url) as http:
        newest = await http.get(f"/threads/{thread}/history", params={"limit": 15})
        assert (newest.status_code, len(newest.json())) == (200, 15)
        reply = await http.get(f"/threads/{thread}/history", params={"limit": 1000})
    assert reply.status_code == 404, "a part of the history is missing"
    assert "detail" in reply.json()


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Any:
    with running_server(valkey_url) as server_url:
        yield server_url

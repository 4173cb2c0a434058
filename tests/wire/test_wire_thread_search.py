"""Searches for threads, compared with a plain model, on one server and on a cluster."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from callsheet.storage import Storage, connect
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis import keys
from callsheet.storage.store import RedisStore
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.doubles.killing import Kill, KillableServer, When
from tests.doubles.redis_server import one_node_cluster
from tests.doubles.trips import DELAY_S, SlowProxy
from tests.doubles.waiting import eventually
from tests.doubles.wire_server import running_server

ORDERS = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"status": "idle"},
    {"status": "error"},
    {"status": "interrupted", "metadata": {"colour": "red"}},
    {"metadata": {"colour": "red"}},
    {"metadata": {"colour": "blue", "size": 1}},
    {"metadata": {"size": True}},
    {"metadata": {"nested": {"deep": None}}},
    {"metadata": {"nested": {}}},
    {"metadata": {"tags": ["a"]}},
    {"metadata": {"colour": "red", "tags": ["b"]}, "status": "idle"},
    {"metadata": {"graph_id": "counter"}},
    {"metadata": {"no": "such"}},
    {"values": {"x": 4}},
    {"values": {"x": 4}, "metadata": {"colour": "red"}},
)


@pytest.fixture(params=["server", pytest.param("cluster", marks=pytest.mark.slow)])
def redis_url(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Iterator[str]:
    if request.param == "server":
        yield valkey_url
    else:
        with one_node_cluster(watchdog.binary(), tmp_path) as server:
            yield server.url.replace("redis://", "redis+cluster://")


@pytest.fixture
def url(redis_url: str) -> Iterator[str]:
    with running_server(redis_url) as address:
        yield address


@pytest.fixture
async def opened(redis_url: str) -> AsyncIterator[Storage]:
    async with connect(redis_url) as storage:
        yield storage


def random_metadata(dice: random.Random) -> dict[str, Any]:
    values: dict[str, Any] = {
        "colour": dice.choice(["red", "blue", None]),
        "size": dice.choice([1, 1.0, True, 2, "1"]),
        "nested": dice.choice([{}, {"deep": None}, {"deep": [1]}, 7]),
        "tags": dice.choice([["a"], ["a", "b"], []]),
    }
    return {name: value for name, value in values.items() if dice.random() < 0.6}


async def change_something(client: LangGraphClient, dice: random.Random, ids: list[str]) -> None:
    """One random change; threads may be gone or busy."""
    thread = dice.choice(ids)
    with suppress(NotFoundError, ConflictError, httpx.HTTPStatusError):
        match dice.randrange(8):
            case 0 | 1:
                ids.append((await client.threads.create(metadata=random_metadata(dice)))["thread_id"])
            case 2 | 3:
                await client.threads.update(thread, metadata=random_metadata(dice))
            case 4:
                await client.runs.wait(thread, "counter", input={"x": 1}, raise_error=False)
            case 5:
                await client.runs.wait(thread, "boom", input={"x": 1}, raise_error=False)
            case 6:
                await client.threads.delete(thread)
            case _:
                copied: Any = await client.threads.copy(thread)  # type: ignore[func-returns-value]  # it does
                ids.append(copied["thread_id"])


async def threads_by_id(client: LangGraphClient, ids: list[str]) -> list[Any]:
    """The threads of these ids that exist, each read by its id."""
    replies = await asyncio.gather(*(client.threads.get(one) for one in ids), return_exceptions=True)
    return [reply for reply in replies if not isinstance(reply, NotFoundError)]


def contains(value: Any, part: Any) -> bool:
    if isinstance(part, Mapping):
        names = isinstance(value, Mapping) and part.keys() <= value.keys()
        return names and all(contains(value[name], one) for name, one in part.items())
    if isinstance(part, list):
        return isinstance(value, list) and all(any(contains(each, one) for each in value) for one in part)
    return bool(value == part)


def model_ids(threads: list[Any], filters: Mapping[str, Any], sort_by: str) -> list[str]:
    """The ids that a search should return, in ascending order."""
    matching = [
        thread
        for thread in threads
        if filters.get("status") in {None, thread["status"]}
        and contains(thread["metadata"], filters.get("metadata", {}))
        and ("values" not in filters or contains(thread["values"], filters["values"]))
    ]
    second = "updated_at" if sort_by == "status" else "thread_id"
    matching.sort(key=lambda thread: (thread[sort_by], thread[second], thread["thread_id"]))
    return [thread["thread_id"] for thread in matching]


async def check(client: LangGraphClient, dice: random.Random, threads: list[Any]) -> None:
    """Compare counts and pages of all filters with the model."""
    for filters in FILTERS:
        sort_by, order = dice.choice(ORDERS), dice.choice(["asc", "desc"])
        limit, offset = dice.choice([1, 3, 10, 100]), dice.choice([0, 0, 1, 5, 40])
        ids = model_ids(threads, filters, sort_by)[:: 1 if order == "asc" else -1]
        search: Any = {**filters, "sort_by": sort_by, "sort_order": order, "limit": limit, "offset": offset}
        page: Any = await client.threads.search(**search, select=["thread_id"])
        assert [row["thread_id"] for row in page] == ids[offset : offset + limit], search
        assert await client.threads.count(**filters) == len(ids), filters


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_searches_and_counts_equal_a_plain_model_over_many_random_changes(url: str) -> None:
    dice = random.Random(20)
    async with get_client(url=url) as client:
        ids = [(await client.threads.create(metadata=random_metadata(dice)))["thread_id"] for _ in range(5)]
        for _ in range(4):
            # Searches meanwhile enter what the changes announce.
            changes = [change_something(client, dice, ids) for _ in range(16)]
            await asyncio.gather(*changes, *(client.threads.search() for _ in range(8)))
            await check(client, dice, await threads_by_id(client, ids))


async def test_threads_of_an_earlier_version_are_listed(url: str, opened: Storage) -> None:
    async with get_client(url=url) as client:
        ids = [(await client.threads.create(metadata={"n": n % 2}))["thread_id"] for n in range(5)]
        assert await client.threads.count(metadata={"n": 1}) == 2
        names = keys.thread_search("local")
        added = {key async for key in opened.redis.scan_iter("owner:{local}:threads:*")}
        await opened.redis.delete(*added)
        assert await client.threads.count(metadata={"n": 1}) == 2
        assert await client.threads.count() == 5
        rows: Any = await client.threads.search(sort_by="created_at", sort_order="asc")
        assert [thread["thread_id"] for thread in rows] == ids
        assert await opened.redis.zcard(names.changes) == 0


async def test_a_thread_with_more_values_than_are_indexed_is_listed(url: str) -> None:
    async with get_client(url=url) as client:
        large = (await client.threads.create(metadata={str(n): n for n in range(100)}))["thread_id"]
        small = (await client.threads.create(metadata={"3": 3}))["thread_id"]
        for number in (3, 99):
            rows: Any = await client.threads.search(metadata={str(number): number})
            assert [thread["thread_id"] for thread in rows] == [small, large][number == 99 :]
            assert await client.threads.count(metadata={str(number): number}) == len(rows)


@asynccontextmanager
async def server_behind(proxy: SlowProxy) -> AsyncIterator[str]:
    """A server that reaches Redis by the proxy; its URL."""
    async with proxy.open() as redis_url:
        server = running_server(redis_url)
        # In a thread, because the proxy is in this one.
        address = await asyncio.to_thread(server.__enter__)
        try:
            yield address
        finally:
            await asyncio.to_thread(server.__exit__, None, None, None)


READS: dict[str, tuple[bytes, int]] = {
    "/threads/search": (b"HGETALL", 1_000),
    "/threads/count": (b"HGETALL", 1_000),
    "/store/items/search": (b"\r\nMGET\r\n", 20),
}
"""The command that reads a thread, or a hundred items, and how often a whole search sends it."""


async def first_of(proxy: SlowProxy, command: bytes) -> None:
    """Return once the proxy has passed the command on."""
    while not proxy.occurrences(command):  # noqa: ASYNC110 -- the proxy only counts
        await asyncio.sleep(DELAY_S / 10)


@pytest.mark.slow
@pytest.mark.parametrize("path", READS)
async def test_a_search_ends_when_its_client_leaves(valkey_url: str, storage: Storage, path: str) -> None:
    """Each chunk of a hundred takes a round trip or two, which are slow here."""
    if path == "/store/items/search":
        store = RedisStore(storage, lambda: "local")
        await asyncio.gather(*(store.aput(("all",), str(number), {"n": number}) for number in range(2_000)))
    else:
        new = [NewThread(f"t{number}", "local", "counter") for number in range(1_000)]
        await asyncio.gather(*(threads.create(storage, one) for one in new))
    proxy = SlowProxy(valkey_url.removeprefix("unix://").partition("?")[0])
    async with server_behind(proxy) as address:
        async with httpx.AsyncClient(base_url=address, timeout=30) as http:
            await http.post("/threads/count", json={})
            proxy.count()
            body = {"values": {"x": "none"}} if "threads" in path else {}
            command, times = READS[path]
            search = asyncio.create_task(http.post(path, json=body))
            await asyncio.wait_for(first_of(proxy, command), 20)
            search.cancel()
        await eventually(proxy.is_quiet, "the search ends")
        assert proxy.occurrences(command) < times


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.timeout(120)
async def test_after_a_kill_at_any_message_a_search_agrees_with_the_threads(
    killable_server: KillableServer, storage: Storage
) -> None:
    """A kill between a thread's record and its owner's index leaves an announcement."""

    async def use(base: str, turn: int = 0) -> None:
        async with httpx.AsyncClient(base_url=base, timeout=20) as http:
            thread = (await http.post("/threads", json={"metadata": {"turn": turn}})).json()["thread_id"]
            await http.patch(f"/threads/{thread}", json={"metadata": {"colour": "red"}})
            run = {"assistant_id": "ad_creation", "input": {"messages": []}}
            await http.post(f"/threads/{thread}/runs/wait", json=run)
            await http.delete(f"/threads/{thread}")

    count, kills, dice = await killable_server.count_messages(use), 0, random.Random()
    moments: tuple[When, ...] = ("before", "after")
    for when in moments:
        for at in dice.sample(range(1, count + 1), 1):
            kills += await killable_server.run_until_killed(Kill(at=at, when=when), use)
            async with killable_server.serve() as base, get_client(url=base) as client:
                await eventually(partial(has_no_busy_thread, client, storage), "another server ends the run")
                await check(client, dice, await threads_by_id(client, await ids_of_records(storage)))
    assert kills > 0


async def ids_of_records(storage: Storage) -> list[str]:
    """The ids of all records of threads, whatever the index says."""
    rows = [key.decode() async for key in storage.redis.scan_iter("thread:{*}:meta")]
    return [key.partition("{")[2].rpartition("}")[0] for key in rows]


async def has_no_busy_thread(client: LangGraphClient, storage: Storage) -> bool:
    records = await threads_by_id(client, await ids_of_records(storage))
    return all(thread["status"] != "busy" for thread in records)

"""Threads through LangGraph's own client."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError, UnprocessableEntityError

from callsheet.server.langgraph import retention
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis import keys
from callsheet.storage.threads import threads as thread_records
from tests.doubles.wire_server import run_on_new_thread, run_on_thread, running_server

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as server_url:
        yield server_url


@dataclass(frozen=True)
class SweepContext:
    """The part of the server's context that a sweep needs."""

    storage: Storage
    saver: RedisSaver


async def new_thread(client: LangGraphClient, **options: Any) -> str:
    return str((await client.threads.create(**options))["thread_id"])


async def test_a_new_thread_is_idle_and_empty(client: LangGraphClient) -> None:
    thread: Any = await client.threads.create(metadata={"topic": "tea"})
    assert uuid.UUID(thread["thread_id"])
    assert thread["created_at"] == thread["updated_at"] == thread["state_updated_at"]
    assert thread["created_at"].endswith("+00:00")
    expected = {
        "metadata": {"topic": "tea"},
        "status": "idle",
        "values": None,
        "error": None,
        "interrupts": {},
    }
    assert expected.items() <= thread.items()
    assert await client.threads.get(thread["thread_id"]) == thread


async def test_an_interrupted_thread_has_the_form_of_langgraphs_server(
    client: LangGraphClient, storage: Storage
) -> None:
    sample = json.loads((SAMPLES / "json_thread_interrupted.json").read_text())
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    shown: Any = await client.threads.get(thread_id)
    assert list(shown) == list(sample)
    assert [list(message) for message in shown["values"]["messages"]] == [
        list(message) for message in sample["values"]["messages"]
    ]
    assert (shown["status"], shown["values"]["steps"]) == (sample["status"], sample["values"]["steps"])
    [[interrupt]], [[expected_interrupt]] = shown["interrupts"].values(), sample["interrupts"].values()
    assert (list(interrupt), interrupt["value"]) == (list(expected_interrupt), expected_interrupt["value"])
    assert shown["state_updated_at"] > shown["created_at"]


@pytest.mark.parametrize("thread_id", ["a/b", "Ü 100 %", "..", "%2F", "x" * 255, "{tag}", "a:b?c#d"])
async def test_any_printable_thread_id_is_accepted(client: LangGraphClient, thread_id: str) -> None:
    assert await new_thread(client, thread_id=thread_id) == thread_id
    assert (await client.threads.get(thread_id))["thread_id"] == thread_id
    assert (await client.threads.get_state(thread_id))["next"] == []
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)


@pytest.mark.parametrize("thread_id", ["a\nb", "x" * 256, "a\0b"])
async def test_an_invalid_thread_id_is_refused(client: LangGraphClient, thread_id: str) -> None:
    with pytest.raises(UnprocessableEntityError, match="printable"):
        await client.threads.create(thread_id=thread_id)


async def test_an_existing_thread_id_is_refused_or_returned(client: LangGraphClient) -> None:
    thread = await client.threads.create(thread_id="t", metadata={"a": 1})
    with pytest.raises(ConflictError, match="exists already"):
        await client.threads.create(thread_id="t")
    assert await client.threads.create(thread_id="t", if_exists="do_nothing", metadata={"b": 1}) == thread


async def test_a_new_thread_is_first_in_the_list_and_creating_an_existing_one_moves_nothing(
    client: LangGraphClient,
) -> None:
    await client.threads.create(thread_id="t")
    unnamed = (await client.threads.create(ttl=60))["thread_id"]
    await client.threads.create(thread_id="t", if_exists="do_nothing")
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id="t")
    assert [thread["thread_id"] for thread in await client.threads.search()] == [unnamed, "t"]


async def test_of_twenty_creations_with_one_id_at_once_one_succeeds(client: LangGraphClient) -> None:
    results = await asyncio.gather(
        *(client.threads.create(thread_id="t") for _ in range(20)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["ConflictError"] * 19 + ["dict"]


async def test_a_thread_of_another_owner_is_404_on_every_route(
    client: LangGraphClient, storage: Storage
) -> None:
    await thread_records.create(storage, thread_records.NewThread("theirs", "somebody else", "agent"))
    for call in (
        client.threads.get("theirs"),
        client.threads.get_state("theirs"),
        client.threads.get_history("theirs"),
        client.threads.delete("theirs"),
        client.threads.copy("theirs"),
        client.threads.update("theirs", metadata={"mine": True}),
        client.threads.update_state("theirs", {"steps": ["x"]}),
    ):
        with pytest.raises(NotFoundError) as of_another_owner:
            await call
        with pytest.raises(NotFoundError) as of_nobody:
            await client.threads.get("nobodys")
        assert str(of_another_owner.value).replace("theirs", "nobodys") == str(of_nobody.value)
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id="theirs", if_exists="do_nothing")
    assert await client.threads.prune(["theirs"]) == {"pruned_count": 0}
    assert await client.threads.search(ids=["theirs"]) == []
    assert await client.threads.count() == 0


async def test_metadata_is_merged_and_return_minimal_gives_no_body(client: LangGraphClient) -> None:
    thread_id = await new_thread(client, metadata={"a": 1, "b": 1})
    changed: Any = await client.threads.update(thread_id, metadata={"b": 2})
    assert changed["metadata"] == {"a": 1, "b": 2}
    assert changed["updated_at"] >= changed["created_at"]
    threads: Any = client.threads
    assert await threads.update(thread_id, metadata={"c": 3}, return_minimal=True) is None
    assert (await threads.get(thread_id))["metadata"] == {"a": 1, "b": 2, "c": 3}


async def test_concurrent_updates_of_metadata_are_all_kept(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    await asyncio.gather(*(client.threads.update(thread_id, metadata={str(n): n}) for n in range(10)))
    assert (await client.threads.get(thread_id))["metadata"] == {str(n): n for n in range(10)}


async def test_a_deleted_thread_leaves_no_key(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.delete(thread_id)
    keys_left = [key.decode() async for key in storage.redis.scan_iter(f"*{keys.hash_tag(thread_id)}*")]
    assert keys_left == []
    assert await client.threads.search() == []
    assert (await new_thread(client, thread_id=thread_id), await client.threads.get_history(thread_id)) == (
        thread_id,
        [],
    )


async def test_deleting_a_busy_thread_deletes_its_runs(client: LangGraphClient, storage: Storage) -> None:
    """As in LangGraph's server; the active run writes nothing afterwards."""
    thread_id = await new_thread(client)
    await client.runs.create(thread_id, "slow", input={"x": 200})
    await client.runs.create(thread_id, "slow", input={"x": 200}, multitask_strategy="enqueue")
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    await asyncio.sleep(1)
    keys_left = [key.decode() async for key in storage.redis.scan_iter(f"*{keys.hash_tag(thread_id)}*")]
    assert keys_left == []


async def test_deleting_a_thread_that_is_held_is_refused(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    async with thread_records.hold(storage, thread_id, "local"):
        with pytest.raises(ConflictError, match="has an unfinished run"):
            await client.threads.delete(thread_id)
    assert len(await client.threads.get_history(thread_id)) == 3
    await client.threads.delete(thread_id)


async def test_a_search_returns_threads_with_values_newest_change_first(
    client: LangGraphClient, storage: Storage
) -> None:
    """Agent Chat UI takes its titles from the values."""
    first = await run_on_new_thread(client, storage, "agent", HELLO)
    second = await run_on_new_thread(client, storage, "counter", {"x": 1})
    empty = await new_thread(client)
    rows: Any = await client.threads.search()
    assert [row["thread_id"] for row in rows] == [empty, second, first]
    assert rows[0]["values"] is None
    assert rows[1]["values"] == {"x": 4, "log": ["a", "b", "c"]}
    assert rows[2]["values"]["messages"][0]["content"] == "hello"
    assert rows[2] == await client.threads.get(first)
    await run_on_thread(storage, second, "counter", {"x": 1})
    newest: Any = await client.threads.search(limit=1)
    assert newest[0]["thread_id"] == second


async def test_a_search_filters_by_metadata_status_values_and_ids(
    client: LangGraphClient, storage: Storage
) -> None:
    interrupted = await run_on_new_thread(
        client, storage, "agent", HELLO, user={"name": "ana", "tags": ["a", "b"]}
    )
    idle = await run_on_new_thread(client, storage, "counter", {"x": 1})

    async def search(**filters: Any) -> list[str]:
        rows: Any = await client.threads.search(**filters)
        assert await client.threads.count(**filters) == len(rows)
        return [row["thread_id"] for row in rows]

    assert await search(metadata={"graph_id": "agent"}) == [interrupted]
    assert await search(metadata={"user": {"name": "ana"}}) == [interrupted]
    assert await search(metadata={"user": {"tags": ["b"]}}) == [interrupted]
    assert await search(metadata={"user": {"name": "bo"}}) == []
    assert await search(status="interrupted") == [interrupted]
    assert await search(status="idle") == [idle]
    assert await search(status="error") == []
    assert await search(values={"x": 4}) == [idle]
    assert await search(values={"messages": [{"type": "human", "content": "hello"}]}) == [interrupted]
    rows: Any = await client.threads.search(ids=[idle, "nobodys", interrupted], status="idle")
    assert [row["thread_id"] for row in rows] == [idle]


async def test_a_search_sorts_selects_extracts_and_pages(
    client: LangGraphClient, storage: Storage, url: str
) -> None:
    for number in range(5):
        await new_thread(client, thread_id=f"t{number}", metadata={"n": number})
    await run_on_thread(storage, "t2", "counter", {"x": 7})
    await client.threads.update("t2", metadata={"graph_id": "counter"})
    by_id: Any = await client.threads.search(sort_by="thread_id", sort_order="asc", select=["thread_id"])
    assert by_id == [{"thread_id": f"t{n}"} for n in range(5)]
    oldest: Any = await client.threads.search(sort_by="updated_at", sort_order="asc", limit=2, offset=1)
    assert [row["thread_id"] for row in oldest] == ["t1", "t3"]
    by_creation: Any = await client.threads.search(sort_by="created_at", limit=1)
    assert by_creation[0]["thread_id"] == "t4"
    extracted: Any = await client.threads.search(
        ids=["t2"],
        select=["thread_id"],
        extract={"last": "values.log[-1]", "n": "metadata.n", "none": "values.a[9].b"},
    )
    assert extracted == [{"thread_id": "t2", "extracted": {"last": "c", "n": 2, "none": None}}]
    async with httpx.AsyncClient() as http:
        page = await http.post(f"{url}/threads/search", json={"limit": 2, "offset": 1})
        last = await http.post(f"{url}/threads/search", json={"limit": 2, "offset": 3})
    assert (page.headers["x-pagination-next"], page.headers["x-pagination-total"]) == ("3", "4")
    assert "x-pagination-next" not in last.headers
    assert last.headers["x-pagination-total"] == "5"


async def test_an_index_entry_without_a_thread_is_skipped_and_removed(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await new_thread(client)
    await storage.redis.zadd(keys.owned_threads("local"), {"gone": 9e12, "gone too": 8e12})
    rows: Any = await client.threads.search(limit=1)
    assert [row["thread_id"] for row in rows] == [thread_id]
    assert await storage.redis.zcard(keys.owned_threads("local")) == 1


async def test_a_copy_is_independent_of_its_original(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO, topic="tea")
    threads: Any = client.threads
    copy, shown = await threads.copy(thread_id), await threads.get(thread_id)
    assert copy["thread_id"] != thread_id
    for name in ("metadata", "status", "values", "interrupts"):
        assert copy[name] == shown[name], name
    assert len(await client.threads.get_history(copy["thread_id"])) == 3
    await client.threads.update_state(copy["thread_id"], {"steps": ["mine"]}, as_node="review")
    assert (await threads.get(thread_id))["values"]["steps"] == ["plan"]
    await threads.delete(thread_id)
    assert (await threads.get(copy["thread_id"]))["values"]["steps"] == ["plan", "mine"]


async def test_pruning_deletes_threads_or_their_earlier_states(
    client: LangGraphClient, storage: Storage
) -> None:
    first = await run_on_new_thread(client, storage, "counter", {"x": 1})
    second = await run_on_new_thread(client, storage, "counter", {"x": 1})
    assert await client.threads.prune([first], strategy="keep_latest") == {"pruned_count": 1}
    assert len(await client.threads.get_history(first)) == 1
    pruned: Any = await client.threads.get(first)
    assert pruned["values"]["x"] == 4
    assert await client.threads.prune([second, "nobodys"]) == {"pruned_count": 1}
    with pytest.raises(NotFoundError):
        await client.threads.get(second)


async def test_pruning_counts_a_repeated_id_once(client: LangGraphClient) -> None:
    first, second = await new_thread(client), await new_thread(client)
    assert (await client.threads.prune([first, first, second]))["pruned_count"] == 2


async def test_a_thread_is_created_with_supersteps(client: LangGraphClient) -> None:
    steps: Any = [
        {"updates": [{"values": {"x": 1}, "as_node": "__input__"}]},
        {"updates": [{"values": {"x": 2, "log": ["a"]}, "as_node": "a"}]},
    ]
    thread: Any = await client.threads.create(graph_id="counter", supersteps=steps)
    assert thread["values"] == {"x": 2, "log": ["a"]}
    assert thread["status"] == "interrupted", "b is next"
    assert (await client.threads.get_state(thread["thread_id"]))["next"] == ["b"]


async def test_a_thread_with_invalid_supersteps_is_not_created(client: LangGraphClient) -> None:
    steps: Any = [{"updates": [{"values": {"x": 1}, "as_node": "nobody"}]}]
    with pytest.raises(BadRequestError, match="nobody"):
        await client.threads.create(thread_id="t", graph_id="counter", supersteps=steps)
    with pytest.raises(NotFoundError):
        await client.threads.get("t")
    with pytest.raises(BadRequestError, match="no graph yet"):
        await client.threads.create(supersteps=steps)


async def test_invalid_supersteps_for_an_existing_thread_leave_it_unchanged(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    steps: Any = [{"updates": [{"values": {"x": 1}, "as_node": "nobody"}]}]
    with pytest.raises(BadRequestError):
        await client.threads.create(thread_id=thread, if_exists="do_nothing", supersteps=steps)
    assert len(await client.threads.get_history(thread)) == 5


async def test_a_ttl_is_shown_and_counted_from_the_last_change(
    client: LangGraphClient, storage: Storage
) -> None:
    expiring = await run_on_new_thread(client, storage, "counter", {"x": 1})
    await client.threads.update(expiring, metadata={}, ttl=1)
    keeping = await run_on_new_thread(client, storage, "counter", {"x": 1})
    await client.threads.update(keeping, metadata={}, ttl={"ttl": 1, "strategy": "keep_latest"})
    forever = await new_thread(client)
    shown: Any = await client.threads.get(expiring, include=["ttl"])
    assert (shown["ttl"]["ttl_minutes"], shown["ttl"]["strategy"]) == (1, "delete")
    assert "ttl" not in await client.threads.get(expiring)
    context = SweepContext(storage, RedisSaver(storage.redis))
    now_ms = int(time.time() * 1000)
    assert await retention.sweep(context, now_ms) == 0
    async with thread_records.hold(storage, expiring, "local"):
        assert await retention.sweep(context, now_ms + 90_000) == 1, "the thread that is not held"
    assert len(await client.threads.get_history(keeping)) == 1
    assert await retention.sweep(context, now_ms + 200_000) == 2
    with pytest.raises(NotFoundError):
        await client.threads.get(expiring)
    pruned: Any = await client.threads.get(keeping)
    assert pruned["values"]["x"] == 4
    assert await client.threads.get(forever)


async def test_a_thread_with_keep_latest_is_swept_at_most_once_a_minute(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    await client.threads.update(thread, metadata={}, ttl={"ttl": 1e-9, "strategy": "keep_latest"})
    context, now_ms = SweepContext(storage, RedisSaver(storage.redis)), int(time.time() * 1000) + 1_000
    async with asyncio.timeout(5):
        assert await retention.sweep(context, now_ms) == 1
        assert await retention.sweep(context, now_ms + 59_000) == 0
        assert await retention.sweep(context, now_ms + 61_000) == 1


async def test_the_storage_of_a_thread_is_reported(
    client: LangGraphClient, url: str, storage: Storage
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with httpx.AsyncClient(base_url=url) as http:
        usage = (await http.get(f"/threads/{thread}/storage")).json()
        empty = (await http.get(f"/threads/{await new_thread(client)}/storage")).json()
        assert (await http.get("/threads/nobodys/storage")).status_code == 404
    parts = ("checkpoints", "channel_values", "pending_writes")
    assert list(usage) == ["thread_id", "total_bytes", *parts]
    assert usage["thread_id"] == thread
    assert usage["total_bytes"] == sum(usage[part]["bytes"] for part in parts)
    assert usage["checkpoints"]["count"] == len(await client.threads.get_history(thread))
    of_x = usage["channel_values"]["by_channel"]["x"]
    assert of_x["versions"] == 4, "the input, and one version of each of three nodes"
    assert of_x["bytes"] >= 4
    names = keys.checkpoints(thread)
    values = await storage.redis.hgetall(names.values)
    elements = await storage.redis.lrange(names.log, 0, -1)
    assert usage["channel_values"]["count"] == len(values)
    assert usage["channel_values"]["bytes"] == sum(map(len, [*values.values(), *elements]))
    assert empty["total_bytes"] == 0


async def test_the_conversation_of_an_ad_is_a_thread(valkey_url: str) -> None:
    """X5."""
    with running_server(valkey_url, None) as server_url:
        async with get_client(url=server_url) as client, httpx.AsyncClient(base_url=server_url) as http:
            brief = {"adId": "ad-1", "brief": "Miel, a bakery in Lyon, 20 seconds", "provider": "offline"}
            reply = await http.post("/api/ai/generate", json=brief)
            assert reply.status_code == 200, reply.text
            rows: Any = await client.threads.search(metadata={"graph_id": "ad_creation"})
            [thread] = rows
            assert thread["values"]["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
            state: Any = await client.threads.get_state(thread["thread_id"])
            assert (state["next"], state["values"]) == ([], thread["values"])
            assert len(await client.threads.get_history(thread["thread_id"])) > 3

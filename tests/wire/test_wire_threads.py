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
    with running_server(valkey_url) as found:
        yield found


@dataclass(frozen=True)
class Home:
    """As much of the server as the sweep needs."""

    storage: Storage
    saver: RedisSaver


async def new(client: LangGraphClient, **said: Any) -> str:
    return str((await client.threads.create(**said))["thread_id"])


async def test_a_new_thread_is_idle_and_empty(client: LangGraphClient) -> None:
    made: Any = await client.threads.create(metadata={"topic": "tea"})
    assert uuid.UUID(made["thread_id"])
    assert made["created_at"] == made["updated_at"] == made["state_updated_at"]
    assert made["created_at"].endswith("+00:00")
    wanted = {"metadata": {"topic": "tea"}, "status": "idle", "values": None, "error": None, "interrupts": {}}
    assert wanted.items() <= made.items()
    assert await client.threads.get(made["thread_id"]) == made


async def test_an_interrupted_thread_is_shown_as_langgraphs_server_does(
    client: LangGraphClient, storage: Storage
) -> None:
    sample = json.loads((SAMPLES / "json_thread_interrupted.json").read_text())
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    shown: Any = await client.threads.get(thread_id)
    assert list(shown) == list(sample)
    assert [list(one) for one in shown["values"]["messages"]] == [
        list(one) for one in sample["values"]["messages"]
    ]
    assert (shown["status"], shown["values"]["steps"]) == (sample["status"], sample["values"]["steps"])
    [[asked]], [[expected]] = shown["interrupts"].values(), sample["interrupts"].values()
    assert (list(asked), asked["value"]) == (list(expected), expected["value"])
    assert shown["state_updated_at"] > shown["created_at"]


@pytest.mark.parametrize("thread_id", ["a/b", "Ü 100 %", "..", "%2F", "x" * 255, "{tag}", "a:b?c#d"])
async def test_any_printable_name_is_a_thread(client: LangGraphClient, thread_id: str) -> None:
    assert await new(client, thread_id=thread_id) == thread_id
    assert (await client.threads.get(thread_id))["thread_id"] == thread_id
    assert (await client.threads.get_state(thread_id))["next"] == []
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)


@pytest.mark.parametrize("thread_id", ["a\nb", "x" * 256, "a\0b"])
async def test_what_is_no_name_is_refused(client: LangGraphClient, thread_id: str) -> None:
    with pytest.raises(UnprocessableEntityError, match="printable"):
        await client.threads.create(thread_id=thread_id)


async def test_a_name_that_is_taken_is_refused_or_found(client: LangGraphClient) -> None:
    made = await client.threads.create(thread_id="t", metadata={"a": 1})
    with pytest.raises(ConflictError, match="exists already"):
        await client.threads.create(thread_id="t")
    assert await client.threads.create(thread_id="t", if_exists="do_nothing", metadata={"b": 1}) == made


async def test_a_new_thread_heads_the_list_and_asking_for_a_taken_name_moves_nothing(
    client: LangGraphClient,
) -> None:
    await client.threads.create(thread_id="t")
    unnamed = (await client.threads.create(ttl=60))["thread_id"]
    await client.threads.create(thread_id="t", if_exists="do_nothing")
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id="t")
    assert [found["thread_id"] for found in await client.threads.search()] == [unnamed, "t"]


async def test_of_twenty_that_take_one_name_at_once_one_succeeds(client: LangGraphClient) -> None:
    done = await asyncio.gather(
        *(client.threads.create(thread_id="t") for _ in range(20)), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in done) == ["ConflictError"] * 19 + ["dict"]


async def test_another_owners_thread_looks_like_none(client: LangGraphClient, storage: Storage) -> None:
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
        with pytest.raises(NotFoundError) as refused:
            await call
        with pytest.raises(NotFoundError) as unknown:
            await client.threads.get("nobodys")
        assert str(refused.value).replace("theirs", "nobodys") == str(unknown.value)
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id="theirs", if_exists="do_nothing")
    assert await client.threads.prune(["theirs"]) == {"pruned_count": 0}
    assert await client.threads.search(ids=["theirs"]) == []
    assert await client.threads.count() == 0


async def test_metadata_is_added_to_and_the_reply_may_be_spared(client: LangGraphClient) -> None:
    thread_id = await new(client, metadata={"a": 1, "b": 1})
    changed: Any = await client.threads.update(thread_id, metadata={"b": 2})
    assert changed["metadata"] == {"a": 1, "b": 2}
    assert changed["updated_at"] >= changed["created_at"]
    threads: Any = client.threads
    assert await threads.update(thread_id, metadata={"c": 3}, return_minimal=True) is None
    assert (await threads.get(thread_id))["metadata"] == {"a": 1, "b": 2, "c": 3}


async def test_metadata_that_is_added_at_once_is_all_kept(client: LangGraphClient) -> None:
    thread_id = await new(client)
    await asyncio.gather(*(client.threads.update(thread_id, metadata={str(n): n}) for n in range(10)))
    assert (await client.threads.get(thread_id))["metadata"] == {str(n): n for n in range(10)}


async def test_a_deleted_thread_leaves_nothing(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.delete(thread_id)
    left = [key.decode() async for key in storage.redis.scan_iter(f"*{keys.hash_tag(thread_id)}*")]
    assert left == []
    assert await client.threads.search() == []
    assert (await new(client, thread_id=thread_id), await client.threads.get_history(thread_id)) == (
        thread_id,
        [],
    )


async def test_a_busy_thread_is_deleted_with_its_runs(client: LangGraphClient, storage: Storage) -> None:
    """As LangGraph's server does; the run that was under way writes nothing afterwards."""
    thread_id = await new(client)
    await client.runs.create(thread_id, "slow", input={"x": 200})
    await client.runs.create(thread_id, "slow", input={"x": 200}, multitask_strategy="enqueue")
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    await asyncio.sleep(1)
    left = [key.decode() async for key in storage.redis.scan_iter(f"*{keys.hash_tag(thread_id)}*")]
    assert left == []


async def test_a_thread_with_a_run_is_not_deleted_under_it(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    async with thread_records.hold(storage, thread_id, "local"):
        with pytest.raises(ConflictError, match="has an unfinished run"):
            await client.threads.delete(thread_id)
    assert len(await client.threads.get_history(thread_id)) == 3
    await client.threads.delete(thread_id)


async def test_a_search_shows_the_newest_change_first_with_values(
    client: LangGraphClient, storage: Storage
) -> None:
    """Agent Chat UI takes its titles from the values."""
    first = await run_on_new_thread(client, storage, "agent", HELLO)
    second = await run_on_new_thread(client, storage, "counter", {"x": 1})
    empty = await new(client)
    found: Any = await client.threads.search()
    assert [one["thread_id"] for one in found] == [empty, second, first]
    assert found[0]["values"] is None
    assert found[1]["values"] == {"x": 4, "log": ["a", "b", "c"]}
    assert found[2]["values"]["messages"][0]["content"] == "hello"
    assert found[2] == await client.threads.get(first)
    await run_on_thread(storage, second, "counter", {"x": 1})
    again: Any = await client.threads.search(limit=1)
    assert again[0]["thread_id"] == second


async def test_a_search_filters_by_all_that_is_known(client: LangGraphClient, storage: Storage) -> None:
    waits = await run_on_new_thread(client, storage, "agent", HELLO, user={"name": "ana", "tags": ["a", "b"]})
    done = await run_on_new_thread(client, storage, "counter", {"x": 1})

    async def found(**wanted: Any) -> list[str]:
        rows: Any = await client.threads.search(**wanted)
        assert await client.threads.count(**wanted) == len(rows)
        return [one["thread_id"] for one in rows]

    assert await found(metadata={"graph_id": "agent"}) == [waits]
    assert await found(metadata={"user": {"name": "ana"}}) == [waits]
    assert await found(metadata={"user": {"tags": ["b"]}}) == [waits]
    assert await found(metadata={"user": {"name": "bo"}}) == []
    assert await found(status="interrupted") == [waits]
    assert await found(status="idle") == [done]
    assert await found(status="error") == []
    assert await found(values={"x": 4}) == [done]
    assert await found(values={"messages": [{"type": "human", "content": "hello"}]}) == [waits]
    rows: Any = await client.threads.search(ids=[done, "nobodys", waits], status="idle")
    assert [one["thread_id"] for one in rows] == [done]


async def test_a_search_sorts_selects_extracts_and_comes_in_pages(
    client: LangGraphClient, storage: Storage, url: str
) -> None:
    for number in range(5):
        await new(client, thread_id=f"t{number}", metadata={"n": number})
    await run_on_thread(storage, "t2", "counter", {"x": 7})
    await client.threads.update("t2", metadata={"graph_id": "counter"})
    by_id: Any = await client.threads.search(sort_by="thread_id", sort_order="asc", select=["thread_id"])
    assert by_id == [{"thread_id": f"t{n}"} for n in range(5)]
    oldest: Any = await client.threads.search(sort_by="updated_at", sort_order="asc", limit=2, offset=1)
    assert [one["thread_id"] for one in oldest] == ["t1", "t3"]
    by_creation: Any = await client.threads.search(sort_by="created_at", limit=1)
    assert by_creation[0]["thread_id"] == "t4"
    taken: Any = await client.threads.search(
        ids=["t2"],
        select=["thread_id"],
        extract={"last": "values.log[-1]", "n": "metadata.n", "none": "values.a[9].b"},
    )
    assert taken == [{"thread_id": "t2", "extracted": {"last": "c", "n": 2, "none": None}}]
    async with httpx.AsyncClient() as http:
        page = await http.post(f"{url}/threads/search", json={"limit": 2, "offset": 1})
        last = await http.post(f"{url}/threads/search", json={"limit": 2, "offset": 3})
    assert (page.headers["x-pagination-next"], page.headers["x-pagination-total"]) == ("3", "4")
    assert "x-pagination-next" not in last.headers
    assert last.headers["x-pagination-total"] == "5"


async def test_a_list_entry_without_a_thread_is_passed_over(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await new(client)
    await storage.redis.zadd(keys.owned_threads("local"), {"gone": 9e12, "gone too": 8e12})
    rows: Any = await client.threads.search(limit=1)
    assert [one["thread_id"] for one in rows] == [thread_id]
    assert await storage.redis.zcard(keys.owned_threads("local")) == 1


async def test_a_copy_goes_its_own_way(client: LangGraphClient, storage: Storage) -> None:
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


async def test_pruning_takes_threads_away_or_their_past(client: LangGraphClient, storage: Storage) -> None:
    one = await run_on_new_thread(client, storage, "counter", {"x": 1})
    two = await run_on_new_thread(client, storage, "counter", {"x": 1})
    assert await client.threads.prune([one], strategy="keep_latest") == {"pruned_count": 1}
    assert len(await client.threads.get_history(one)) == 1
    kept: Any = await client.threads.get(one)
    assert kept["values"]["x"] == 4
    assert await client.threads.prune([two, "nobodys"]) == {"pruned_count": 1}
    with pytest.raises(NotFoundError):
        await client.threads.get(two)


async def test_a_thread_that_is_named_twice_is_pruned_once(client: LangGraphClient) -> None:
    first, second = await new(client), await new(client)
    assert (await client.threads.prune([first, first, second]))["pruned_count"] == 2


async def test_a_past_may_be_told_when_a_thread_is_made(client: LangGraphClient) -> None:
    steps: Any = [
        {"updates": [{"values": {"x": 1}, "as_node": "__input__"}]},
        {"updates": [{"values": {"x": 2, "log": ["a"]}, "as_node": "a"}]},
    ]
    made: Any = await client.threads.create(graph_id="counter", supersteps=steps)
    assert made["values"] == {"x": 2, "log": ["a"]}
    assert made["status"] == "interrupted", "b is next"
    assert (await client.threads.get_state(made["thread_id"]))["next"] == ["b"]


async def test_a_thread_whose_past_cannot_be_is_not_made(client: LangGraphClient) -> None:
    steps: Any = [{"updates": [{"values": {"x": 1}, "as_node": "nobody"}]}]
    with pytest.raises(BadRequestError, match="nobody"):
        await client.threads.create(thread_id="t", graph_id="counter", supersteps=steps)
    with pytest.raises(NotFoundError):
        await client.threads.get("t")
    with pytest.raises(BadRequestError, match="no graph yet"):
        await client.threads.create(supersteps=steps)


async def test_a_thread_that_was_there_stays_where_its_past_cannot_be(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    steps: Any = [{"updates": [{"values": {"x": 1}, "as_node": "nobody"}]}]
    with pytest.raises(BadRequestError):
        await client.threads.create(thread_id=thread, if_exists="do_nothing", supersteps=steps)
    assert len(await client.threads.get_history(thread)) == 5


async def test_a_lifetime_is_shown_and_counted_from_the_last_change(
    client: LangGraphClient, storage: Storage
) -> None:
    goes = await run_on_new_thread(client, storage, "counter", {"x": 1})
    await client.threads.update(goes, metadata={}, ttl=1)
    stays = await run_on_new_thread(client, storage, "counter", {"x": 1})
    await client.threads.update(stays, metadata={}, ttl={"ttl": 1, "strategy": "keep_latest"})
    forever = await new(client)
    shown: Any = await client.threads.get(goes, include=["ttl"])
    assert (shown["ttl"]["ttl_minutes"], shown["ttl"]["strategy"]) == (1, "delete")
    assert "ttl" not in await client.threads.get(goes)
    here = Home(storage, RedisSaver(storage.redis))
    now_ms = int(time.time() * 1000)
    assert await retention.sweep(here, now_ms) == 0
    async with thread_records.hold(storage, goes, "local"):
        assert await retention.sweep(here, now_ms + 90_000) == 1, "the one that no run is at"
    assert len(await client.threads.get_history(stays)) == 1
    assert await retention.sweep(here, now_ms + 200_000) == 2
    with pytest.raises(NotFoundError):
        await client.threads.get(goes)
    kept: Any = await client.threads.get(stays)
    assert kept["values"]["x"] == 4
    assert await client.threads.get(forever)


async def test_a_thread_that_keeps_its_newest_state_is_looked_at_once_in_a_minute_at_most(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    await client.threads.update(thread, metadata={}, ttl={"ttl": 1e-9, "strategy": "keep_latest"})
    here, now_ms = Home(storage, RedisSaver(storage.redis)), int(time.time() * 1000) + 1_000
    async with asyncio.timeout(5):
        assert await retention.sweep(here, now_ms) == 1
        assert await retention.sweep(here, now_ms + 59_000) == 0
        assert await retention.sweep(here, now_ms + 61_000) == 1


async def test_a_thread_says_how_much_it_takes_up(
    client: LangGraphClient, url: str, storage: Storage
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with httpx.AsyncClient(base_url=url) as http:
        told = (await http.get(f"/threads/{thread}/storage")).json()
        empty = (await http.get(f"/threads/{await new(client)}/storage")).json()
        assert (await http.get("/threads/nobodys/storage")).status_code == 404
    parts = ("checkpoints", "channel_values", "pending_writes")
    assert list(told) == ["thread_id", "total_bytes", *parts]
    assert told["thread_id"] == thread
    assert told["total_bytes"] == sum(told[part]["bytes"] for part in parts)
    assert told["checkpoints"]["count"] == len(await client.threads.get_history(thread))
    of_x = told["channel_values"]["by_channel"]["x"]
    assert of_x["versions"] == 4, "what was sent, and what each of three nodes made of it"
    assert of_x["bytes"] >= 4
    names = keys.checkpoints(thread)
    kept = await storage.redis.hgetall(names.values)
    elements = await storage.redis.lrange(names.log, 0, -1)
    assert told["channel_values"]["count"] == len(kept)
    assert told["channel_values"]["bytes"] == sum(map(len, [*kept.values(), *elements]))
    assert empty["total_bytes"] == 0


async def test_the_conversation_of_an_ad_is_a_thread_too(valkey_url: str) -> None:
    """X5."""
    with running_server(valkey_url, None) as ours:
        async with get_client(url=ours) as client, httpx.AsyncClient(base_url=ours) as http:
            brief = {"adId": "ad-1", "brief": "Miel, a bakery in Lyon, 20 seconds", "provider": "offline"}
            made = await http.post("/api/ai/generate", json=brief)
            assert made.status_code == 200, made.text
            found: Any = await client.threads.search(metadata={"graph_id": "ad_creation"})
            [thread] = found
            assert thread["values"]["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
            state: Any = await client.threads.get_state(thread["thread_id"])
            assert (state["next"], state["values"]) == ([], thread["values"])
            assert len(await client.threads.get_history(thread["thread_id"])) > 3

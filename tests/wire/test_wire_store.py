"""The store: through LangGraph's own client, and from inside graphs."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from callsheet.nodes.node import OWNER_KEY
from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.store import RedisStore, running_owner
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as found:
        yield found


@pytest.fixture
async def store(storage: Storage) -> RedisStore:
    return RedisStore(storage, running_owner(OWNER_KEY, "local"))


async def keys_found(client: LangGraphClient, *prefix: str, **wanted: Any) -> list[str]:
    found = await client.store.search_items(list(prefix), **wanted)
    return [one["key"] for one in found["items"]]


async def test_an_item_is_kept_as_it_was_put(client: LangGraphClient) -> None:
    value = {"text": "Grüße ✓", "deep": [{"a": None}, 1.5, True], "empty": {}, "none": []}
    await client.store.put_item(["users", "ana"], "likes", value)
    item: Any = await client.store.get_item(["users", "ana"], "likes")
    assert list(item) == ["namespace", "key", "value", "created_at", "updated_at"]
    assert (item["namespace"], item["key"], item["value"]) == (["users", "ana"], "likes", value)
    assert item["created_at"] == item["updated_at"]
    await client.store.put_item(["users", "ana"], "likes", {"text": "new"})
    again: Any = await client.store.get_item(["users", "ana"], "likes")
    assert (again["value"], again["created_at"]) == ({"text": "new"}, item["created_at"])
    assert again["updated_at"] > item["updated_at"]


async def test_an_item_that_is_not_there_is_null_and_may_be_deleted(client: LangGraphClient) -> None:
    assert await client.store.get_item(["a"], "k") is None
    await client.store.delete_item(["a"], "k")
    await client.store.put_item(["a"], "k", {"n": 1})
    await client.store.delete_item(["a"], "k")
    assert await client.store.get_item(["a"], "k") is None
    assert await keys_found(client) == []
    assert (await client.store.list_namespaces())["namespaces"] == []


@pytest.mark.parametrize("key", ["a.b", "ü/%2F", "a:b{c}", " ", "x" * 500, "\0"])
async def test_any_key_is_its_own(client: LangGraphClient, key: str) -> None:
    await client.store.put_item(["n"], key, {"mine": key})
    await client.store.put_item(["n", "deeper"], key, {"mine": "not"})
    item: Any = await client.store.get_item(["n"], key)
    assert item["value"] == {"mine": key}
    assert await keys_found(client, "n", filter={"mine": key}) == [key]


async def test_a_search_finds_what_is_below_its_prefix_newest_change_first(client: LangGraphClient) -> None:
    for namespace, key in ((["a"], "1"), (["a", "b"], "2"), (["ab"], "3"), (["a", "c", "d"], "4")):
        await client.store.put_item(namespace, key, {"k": key})
    assert await keys_found(client, "a") == ["4", "2", "1"]
    assert await keys_found(client) == ["4", "3", "2", "1"]
    assert await keys_found(client, "a", limit=1, offset=1) == ["2"]
    await client.store.put_item(["a"], "1", {"k": "1"})
    assert await keys_found(client, "a") == ["1", "4", "2"]


async def test_a_filter_compares_as_langgraphs_stores_do(client: LangGraphClient) -> None:
    for n in range(5):
        value = {"n": n, "name": f"n{n}", "deep": {"odd": bool(n % 2)}, "list": [n]}
        await client.store.put_item(["n"], str(n), value)
    await client.store.put_item(["n"], "text", {"n": "much"})

    async def found(**wanted: Any) -> set[str]:
        return set(await keys_found(client, "n", filter=wanted))

    assert await found(n=2) == {"2"}
    assert await found(n={"$gt": 2}) == {"3", "4"}
    assert await found(n={"$gte": 2, "$lt": 4}) == {"2", "3"}
    assert await found(n={"$lte": 0}) == {"0"}
    assert await found(n={"$ne": 2}) == {"0", "1", "3", "4", "text"}
    assert await found(n={"$eq": "much"}) == {"text"}
    assert await found(name={"$gt": "n3"}) == {"4"}
    assert await found(deep={"odd": True}, n={"$gt": 1}) == {"3"}
    assert await found(list=[4]) == {"4"}
    assert await found(missing=1) == set()
    with pytest.raises(UnprocessableEntityError, match=r"operator '\$like'"):
        await found(n={"$like": 1})


async def test_a_query_puts_items_with_its_words_first(client: LangGraphClient) -> None:
    await client.store.put_item(["m"], "tea", {"text": "Ana drinks green tea", "tags": ["drinks"]})
    await client.store.put_item(["m"], "dog", {"text": "Ana has a dog"})
    await client.store.put_item(["m"], "sea", {"text": "Oslo lies at the sea"})
    found: Any = await client.store.search_items(["m"], query="What tea does ANA like?")
    assert [(one["key"], one["score"]) for one in found["items"]] == [
        ("tea", 0.4),
        ("dog", 0.2),
        ("sea", 0.0),
    ]
    plain: Any = await client.store.search_items(["m"], limit=1)
    assert plain["items"][0]["score"] is None


async def test_namespaces_are_listed_by_how_they_begin_and_end(client: LangGraphClient) -> None:
    for namespace in (["a", "x"], ["a", "y", "z"], ["b", "z"], ["ab", "x"]):
        await client.store.put_item(namespace, "k", {})
        await client.store.put_item(namespace, "k2", {})

    async def listed(**wanted: Any) -> list[list[str]]:
        return list((await client.store.list_namespaces(**wanted))["namespaces"])

    assert await listed() == [["a", "x"], ["a", "y", "z"], ["ab", "x"], ["b", "z"]]
    assert await listed(prefix=["a"]) == [["a", "x"], ["a", "y", "z"]]
    assert await listed(suffix=["z"]) == [["a", "y", "z"], ["b", "z"]]
    assert await listed(prefix=["*", "y"]) == [["a", "y", "z"]]
    assert await listed(prefix=["a"], suffix=["x"]) == [["a", "x"]]
    assert await listed(max_depth=1) == [["a"], ["ab"], ["b"]]
    assert await listed(max_depth=1, limit=1, offset=1) == [["ab"]]


async def test_a_namespace_that_cannot_be_is_refused(client: LangGraphClient, url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as http:
        for namespace in ([], ["a.b"], [""], ["langgraph", "x"], ["a\0"]):
            reply = await http.put("/store/items", json={"namespace": namespace, "key": "k", "value": {}})
            assert reply.status_code == 422, (namespace, reply.text)
            assert "amespace" in reply.json()["detail"]
        wrong = {"namespace": ["a"], "key": "k", "value": {}, "ttl": 0}
        assert (await http.put("/store/items", json=wrong)).status_code == 422
    assert await keys_found(client) == []


async def left_ms(storage: Storage, namespace: str, key: str) -> int:
    return int(await storage.redis.pttl(keys.store_item("local", f"{namespace}.\0{key}")))


async def test_an_item_with_a_lifetime_goes_unless_it_is_read(
    client: LangGraphClient, storage: Storage
) -> None:
    await client.store.put_item(["t"], "k", {"n": 1}, ttl=5)
    assert 4 * MINUTE_MS < await left_ms(storage, "t", "k") <= 5 * MINUTE_MS
    item = keys.store_item("local", "t.\0k")
    for renewing in (
        client.store.get_item(["t"], "k"),
        client.store.search_items(["t"]),
        client.store.get_item(["t"], "k", refresh_ttl=True),
    ):
        await storage.redis.pexpire(item, MINUTE_MS)
        await renewing
        assert await left_ms(storage, "t", "k") > 4 * MINUTE_MS
    for leaving in (
        client.store.get_item(["t"], "k", refresh_ttl=False),
        client.store.search_items(["t"], refresh_ttl=False),
        client.store.list_namespaces(),
    ):
        await storage.redis.pexpire(item, MINUTE_MS)
        await leaving
        assert await left_ms(storage, "t", "k") <= MINUTE_MS
    await client.store.put_item(["t"], "k", {"n": 2})
    assert await left_ms(storage, "t", "k") == -1, "put anew without a lifetime"


@pytest.mark.parametrize("seen_by", ["search", "namespaces"])
async def test_an_expired_item_leaves_no_entry_behind(
    client: LangGraphClient, storage: Storage, seen_by: str
) -> None:
    await client.store.put_item(["t"], "k", {"n": 1}, ttl=5)
    await client.store.put_item(["t"], "stays", {"n": 1})
    await storage.redis.pexpire(keys.store_item("local", "t.\0k"), 1)

    async def gone() -> bool:
        return await left_ms(storage, "t", "k") == -2

    await eventually(gone, "the item expires")
    assert await client.store.get_item(["t"], "k") is None
    if seen_by == "search":
        assert await keys_found(client, "t") == ["stays"]
    else:
        assert (await client.store.list_namespaces())["namespaces"] == [["t"]]
    assert await storage.redis.zrange(keys.store_index("local"), 0, -1) == [b"t.\0stays"]


@pytest.mark.slow
async def test_more_items_than_are_read_in_one_step_are_all_found(
    client: LangGraphClient, store: RedisStore
) -> None:
    await store.abatch([PutOp(("many",), str(n), {"n": n}) for n in range(1_100)])
    found = await store.asearch(("many",), filter={"n": {"$gte": 3}}, limit=2_000)
    assert {one.value["n"] for one in found} == set(range(3, 1_100))
    assert len(await keys_found(client, "many", limit=1_000)) == 1_000


async def test_owners_do_not_see_each_others_items(client: LangGraphClient, store: RedisStore) -> None:
    await store.for_owner("ana").aput(("n",), "k", {"whose": "ana"})
    await store.for_owner("bo").aput(("n",), "k", {"whose": "bo"})
    assert await client.store.get_item(["n"], "k") is None
    assert await keys_found(client) == []
    assert (await client.store.list_namespaces())["namespaces"] == []
    await client.store.delete_item(["n"], "k")
    item = await store.for_owner("ana").aget(("n",), "k")
    assert item is not None
    assert item.value == {"whose": "ana"}
    assert [one.value["whose"] for one in await store.for_owner("bo").asearch(())] == ["bo"]


async def test_a_graph_remembers_for_the_owner_of_its_run_beyond_its_thread(
    client: LangGraphClient, store: RedisStore
) -> None:
    graph = GRAPHS["memory"].copy(update={"store": store})
    assert graph.store is store
    for turn in range(3):
        done = await graph.ainvoke({"x": 0, "log": []}, {"configurable": {"thread_id": str(turn)}})
        assert done["x"] == 2 * turn + 2, "one node awaits, the other blocks in a thread"
    theirs = await graph.ainvoke({"x": 0, "log": []}, {"configurable": {OWNER_KEY: "ana"}})
    assert theirs["x"] == 2
    item: Any = await client.store.get_item(["counts"], "runs")
    assert item["value"] == {"runs": 6}


async def test_the_store_is_used_from_other_loops_and_threads_but_blocks_none(store: RedisStore) -> None:
    with pytest.raises(Invalid, match="would block"):
        store.put(("a",), "k", {})
    found: list[Any] = []

    def elsewhere() -> None:
        store.put(("a",), "k", {"n": 1})
        found.append(store.get(("a",), "k"))
        found.append(asyncio.run(store.aget(("a",), "k")))

    thread = threading.Thread(target=elsewhere)
    thread.start()

    async def ended() -> bool:
        return not thread.is_alive()

    await eventually(ended, "the thread ends")
    assert [one.value for one in found] == [{"n": 1}, {"n": 1}]


async def test_a_batch_is_carried_out_in_its_order(store: RedisStore) -> None:
    done: Any = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 1}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", None),
            GetOp(("a",), "k"),
            SearchOp(("a",)),
        ]
    )
    assert done[1].value == {"n": 1}
    assert done[3:] == [None, []]
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("a",), "j", {"n": 1}), GetOp(("a.b",), "k")])
    assert await store.aget(("a",), "j") is None


async def test_lifetimes_may_have_a_default(storage: Storage) -> None:
    store = RedisStore(storage, lambda: "local", {"default_ttl": 2, "refresh_on_read": False})
    await store.aput(("t",), "k", {})
    await store.aput(("t",), "for ever", {}, ttl=None)
    assert MINUTE_MS < await left_ms(storage, "t", "k") <= 2 * MINUTE_MS
    assert await left_ms(storage, "t", "for ever") == -1
    await storage.redis.pexpire(keys.store_item("local", "t.\0k"), MINUTE_MS)
    await store.aget(("t",), "k")
    assert await left_ms(storage, "t", "k") <= MINUTE_MS

"""The store: through LangGraph's own client, and from inside graphs."""

import asyncio
import random
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
    with running_server(valkey_url) as server_url:
        yield server_url


@pytest.fixture
async def store(storage: Storage) -> RedisStore:
    return RedisStore(storage, running_owner(OWNER_KEY, "local"))


async def search_keys(client: LangGraphClient, *prefix: str, **options: Any) -> list[str]:
    reply = await client.store.search_items(list(prefix), **options)
    return [item["key"] for item in reply["items"]]


async def test_an_item_is_returned_as_it_was_put(client: LangGraphClient) -> None:
    value = {"text": "Grüße ✓", "deep": [{"a": None}, 1.5, True], "empty": {}, "none": []}
    await client.store.put_item(["users", "ana"], "likes", value)
    item: Any = await client.store.get_item(["users", "ana"], "likes")
    assert list(item) == ["namespace", "key", "value", "created_at", "updated_at"]
    assert (item["namespace"], item["key"], item["value"]) == (["users", "ana"], "likes", value)
    assert item["created_at"] == item["updated_at"]
    await client.store.put_item(["users", "ana"], "likes", {"text": "new"})
    changed: Any = await client.store.get_item(["users", "ana"], "likes")
    assert (changed["value"], changed["created_at"]) == ({"text": "new"}, item["created_at"])
    assert changed["updated_at"] > item["updated_at"]


async def test_a_missing_item_is_null_and_can_be_deleted(client: LangGraphClient) -> None:
    assert await client.store.get_item(["a"], "k") is None
    await client.store.delete_item(["a"], "k")
    await client.store.put_item(["a"], "k", {"n": 1})
    await client.store.delete_item(["a"], "k")
    assert await client.store.get_item(["a"], "k") is None
    assert await search_keys(client) == []
    assert (await client.store.list_namespaces())["namespaces"] == []


@pytest.mark.parametrize("key", ["a.b", "ü/%2F", "a:b{c}", " ", "x" * 500, "\0"])
async def test_a_key_with_special_characters_is_kept_apart_from_others(
    client: LangGraphClient, key: str
) -> None:
    await client.store.put_item(["n"], key, {"mine": key})
    await client.store.put_item(["n", "deeper"], key, {"mine": "not"})
    item: Any = await client.store.get_item(["n"], key)
    assert item["value"] == {"mine": key}
    assert await search_keys(client, "n", filter={"mine": key}) == [key]


async def test_a_search_finds_items_below_its_prefix_newest_first(client: LangGraphClient) -> None:
    for namespace, key in ((["a"], "1"), (["a", "b"], "2"), (["ab"], "3"), (["a", "c", "d"], "4")):
        await client.store.put_item(namespace, key, {"k": key})
    assert await search_keys(client, "a") == ["4", "2", "1"]
    assert await search_keys(client) == ["4", "3", "2", "1"]
    assert await search_keys(client, "a", limit=1, offset=1) == ["2"]
    await client.store.put_item(["a"], "1", {"k": "1"})
    assert await search_keys(client, "a") == ["1", "4", "2"]


async def test_a_filter_compares_as_langgraphs_own_stores(client: LangGraphClient) -> None:
    for n in range(5):
        value = {"n": n, "name": f"n{n}", "deep": {"odd": bool(n % 2)}, "list": [n]}
        await client.store.put_item(["n"], str(n), value)
    await client.store.put_item(["n"], "text", {"n": "much"})

    async def matching_keys(**options: Any) -> set[str]:
        return set(await search_keys(client, "n", filter=options))

    assert await matching_keys(n=2) == {"2"}
    assert await matching_keys(n={"$gt": 2}) == {"3", "4"}
    assert await matching_keys(n={"$gte": 2, "$lt": 4}) == {"2", "3"}
    assert await matching_keys(n={"$lte": 0}) == {"0"}
    assert await matching_keys(n={"$ne": 2}) == {"0", "1", "3", "4", "text"}
    assert await matching_keys(n={"$eq": "much"}) == {"text"}
    assert await matching_keys(name={"$gt": "n3"}) == {"4"}
    assert await matching_keys(deep={"odd": True}, n={"$gt": 1}) == {"3"}
    assert await matching_keys(list=[4]) == {"4"}
    assert await matching_keys(missing=1) == set()
    with pytest.raises(UnprocessableEntityError, match=r"operator '\$like'"):
        await matching_keys(n={"$like": 1})


async def test_a_query_scores_items_by_its_words(client: LangGraphClient) -> None:
    await client.store.put_item(["m"], "tea", {"text": "Ana drinks green tea", "tags": ["drinks"]})
    await client.store.put_item(["m"], "dog", {"text": "Ana has a dog"})
    await client.store.put_item(["m"], "sea", {"text": "Oslo lies at the sea"})
    reply: Any = await client.store.search_items(["m"], query="What tea does ANA like?")
    assert [(item["key"], item["score"]) for item in reply["items"]] == [
        ("tea", 0.4),
        ("dog", 0.2),
        ("sea", 0.0),
    ]
    plain: Any = await client.store.search_items(["m"], limit=1)
    assert plain["items"][0]["score"] is None


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(client: LangGraphClient) -> None:
    for namespace in (["a", "x"], ["a", "y", "z"], ["b", "z"], ["ab", "x"]):
        await client.store.put_item(namespace, "k", {})
        await client.store.put_item(namespace, "k2", {})

    async def list_namespaces(**options: Any) -> list[list[str]]:
        return list((await client.store.list_namespaces(**options))["namespaces"])

    assert await list_namespaces() == [["a", "x"], ["a", "y", "z"], ["ab", "x"], ["b", "z"]]
    assert await list_namespaces(prefix=["a"]) == [["a", "x"], ["a", "y", "z"]]
    assert await list_namespaces(suffix=["z"]) == [["a", "y", "z"], ["b", "z"]]
    assert await list_namespaces(prefix=["*", "y"]) == [["a", "y", "z"]]
    assert await list_namespaces(prefix=["a"], suffix=["x"]) == [["a", "x"]]
    assert await list_namespaces(max_depth=1) == [["a"], ["ab"], ["b"]]
    assert await list_namespaces(max_depth=1, limit=1, offset=1) == [["ab"]]


async def test_an_invalid_namespace_is_refused(client: LangGraphClient, url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as http:
        for namespace in ([], ["a.b"], [""], ["langgraph", "x"], ["a\0"]):
            reply = await http.put("/store/items", json={"namespace": namespace, "key": "k", "value": {}})
            assert reply.status_code == 422, (namespace, reply.text)
            assert "amespace" in reply.json()["detail"]
        body = {"namespace": ["a"], "key": "k", "value": {}, "ttl": 0}
        assert (await http.put("/store/items", json=body)).status_code == 422
    assert await search_keys(client) == []


async def ttl_ms(storage: Storage, namespace: str, key: str) -> int:
    return int(await storage.redis.pttl(keys.store_item("local", f"{namespace}.\0{key}")))


async def test_the_ttl_of_an_item_is_refreshed_when_it_is_read(
    client: LangGraphClient, storage: Storage
) -> None:
    await client.store.put_item(["t"], "k", {"n": 1}, ttl=5)
    assert 4 * MINUTE_MS < await ttl_ms(storage, "t", "k") <= 5 * MINUTE_MS
    item = keys.store_item("local", "t.\0k")
    for refreshing_call in (
        client.store.get_item(["t"], "k"),
        client.store.search_items(["t"]),
        client.store.get_item(["t"], "k", refresh_ttl=True),
    ):
        await storage.redis.pexpire(item, MINUTE_MS)
        await refreshing_call
        assert await ttl_ms(storage, "t", "k") > 4 * MINUTE_MS
    for other_call in (
        client.store.get_item(["t"], "k", refresh_ttl=False),
        client.store.search_items(["t"], refresh_ttl=False),
        client.store.list_namespaces(),
    ):
        await storage.redis.pexpire(item, MINUTE_MS)
        await other_call
        assert await ttl_ms(storage, "t", "k") <= MINUTE_MS
    await client.store.put_item(["t"], "k", {"n": 2})
    assert await ttl_ms(storage, "t", "k") == -1, "putting it without a TTL removes the TTL"


@pytest.mark.parametrize("read_by", ["search", "namespaces"])
async def test_an_expired_item_leaves_no_index_entry(
    client: LangGraphClient, storage: Storage, read_by: str
) -> None:
    await client.store.put_item(["t"], "k", {"n": 1}, ttl=5)
    await client.store.put_item(["t"], "stays", {"n": 1})
    await storage.redis.pexpire(keys.store_item("local", "t.\0k"), 1)

    async def is_expired() -> bool:
        return await ttl_ms(storage, "t", "k") == -2

    await eventually(is_expired, "the item expires")
    assert await client.store.get_item(["t"], "k") is None
    if read_by == "search":
        assert await search_keys(client, "t") == ["stays"]
    else:
        assert (await client.store.list_namespaces())["namespaces"] == [["t"]]
    assert await storage.redis.zrange(keys.store_index("local"), 0, -1) == [b"t.\0stays"]


@pytest.mark.slow
async def test_a_search_over_more_items_than_one_batch_finds_all(
    client: LangGraphClient, store: RedisStore
) -> None:
    await store.abatch([PutOp(("many",), str(n), {"n": n}) for n in range(1_100)])
    items = await store.asearch(("many",), filter={"n": {"$gte": 3}}, limit=2_000)
    assert {item.value["n"] for item in items} == set(range(3, 1_100))
    assert len(await search_keys(client, "many", limit=1_000)) == 1_000


async def test_a_search_reads_few_items_at_once_and_pages_as_if_it_read_all(
    client: LangGraphClient, store: RedisStore, storage: Storage
) -> None:
    """Between two chunks other requests have their turn."""
    dice = random.Random(3)
    numbers = dice.sample(range(450), 450)
    words = ["red", "red bike", "blue bike", "blue"]
    for number in numbers:
        await store.aput(("all", str(number % 7)), str(number), {"text": words[number % 4], "n": number})
    before = await storage.redis.info("commandstats")
    newest = [str(number) for number in reversed(numbers)]
    for offset, limit in ((0, 3), (99, 3), (440, 100), (0, 450)):
        assert await search_keys(client, "all", limit=limit, offset=offset) == newest[offset:][:limit]
    after = await storage.redis.info("commandstats")
    reads = after["cmdstat_mget"]["calls"] - before.get("cmdstat_mget", {"calls": 0})["calls"]
    assert reads == 4 * 5
    odd = [key for key in newest if int(key) % 4 == 1]
    assert await search_keys(client, "all", filter={"text": "red bike"}, limit=9, offset=40) == odd[40:49]
    assert await search_keys(client, "all", query="red bike", limit=9, offset=40) == odd[40:49]


async def test_owners_do_not_see_each_others_items(client: LangGraphClient, store: RedisStore) -> None:
    await store.for_owner("ana").aput(("n",), "k", {"whose": "ana"})
    await store.for_owner("bo").aput(("n",), "k", {"whose": "bo"})
    assert await client.store.get_item(["n"], "k") is None
    assert await search_keys(client) == []
    assert (await client.store.list_namespaces())["namespaces"] == []
    await client.store.delete_item(["n"], "k")
    item = await store.for_owner("ana").aget(("n",), "k")
    assert item is not None
    assert item.value == {"whose": "ana"}
    assert [entry.value["whose"] for entry in await store.for_owner("bo").asearch(())] == ["bo"]


async def test_a_graph_stores_items_for_the_owner_of_its_run_across_threads(
    client: LangGraphClient, store: RedisStore
) -> None:
    graph = GRAPHS["memory"].copy(update={"store": store})
    assert graph.store is store
    for turn in range(3):
        values = await graph.ainvoke({"x": 0, "log": []}, {"configurable": {"thread_id": str(turn)}})
        assert values["x"] == 2 * turn + 2, "one node awaits, the other blocks in a thread"
    values_of_ana = await graph.ainvoke({"x": 0, "log": []}, {"configurable": {OWNER_KEY: "ana"}})
    assert values_of_ana["x"] == 2
    item: Any = await client.store.get_item(["counts"], "runs")
    assert item["value"] == {"runs": 6}


async def test_the_store_works_in_other_threads_and_refuses_blocking_calls_in_the_loop(
    store: RedisStore,
) -> None:
    with pytest.raises(Invalid, match="would block"):
        store.put(("a",), "k", {})
    items: list[Any] = []

    def use_store() -> None:
        store.put(("a",), "k", {"n": 1})
        items.append(store.get(("a",), "k"))
        items.append(asyncio.run(store.aget(("a",), "k")))

    thread = threading.Thread(target=use_store)
    thread.start()

    async def has_ended() -> bool:
        return not thread.is_alive()

    await eventually(has_ended, "the thread ends")
    assert [item.value for item in items] == [{"n": 1}, {"n": 1}]


async def test_a_batch_is_executed_in_order(store: RedisStore) -> None:
    results: Any = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 1}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", None),
            GetOp(("a",), "k"),
            SearchOp(("a",)),
        ]
    )
    assert results[1].value == {"n": 1}
    assert results[3:] == [None, []]
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("a",), "j", {"n": 1}), GetOp(("a.b",), "k")])
    assert await store.aget(("a",), "j") is None


async def test_a_store_can_have_a_default_ttl(storage: Storage) -> None:
    store = RedisStore(storage, lambda: "local", {"default_ttl": 2, "refresh_on_read": False})
    await store.aput(("t",), "k", {})
    await store.aput(("t",), "for ever", {}, ttl=None)
    assert MINUTE_MS < await ttl_ms(storage, "t", "k") <= 2 * MINUTE_MS
    assert await ttl_ms(storage, "t", "for ever") == -1
    await storage.redis.pexpire(keys.store_item("local", "t.\0k"), MINUTE_MS)
    await store.aget(("t",), "k")
    assert await ttl_ms(storage, "t", "k") <= MINUTE_MS

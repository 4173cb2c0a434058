"""X4: LangGraph's API on a Redis cluster and on a Redis without modules."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.errors import NotFoundError

from callsheet.storage import connect
from callsheet.storage.embedded import watchdog
from tests.doubles.needs import need
from tests.doubles.redis_server import one_node_cluster, running_redis
from tests.doubles.wire_server import run_on_new_thread, running_server

SERVERS = (pytest.param("cluster", marks=pytest.mark.slow), "redis-server")


@pytest.fixture(params=SERVERS)
def redis_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "cluster":
        with one_node_cluster(watchdog.binary(), tmp_path) as server:
            yield server.url.replace("redis://", "redis+cluster://")
    else:
        with running_redis(need("redis-server"), tmp_path) as server:
            yield server.url


async def test_threads_states_assistants_and_items_work_on_any_redis(redis_url: str) -> None:
    with running_server(redis_url) as url:
        async with get_client(url=url) as client, connect(redis_url) as storage:
            ids = [await run_on_new_thread(client, storage, "counter", {"x": n}) for n in range(3)]
            threads: Any = await client.threads.search(metadata={"graph_id": "counter"})
            assert [entry["thread_id"] for entry in threads] == ids[::-1]
            assert [entry["values"]["x"] for entry in threads] == [5, 4, 3]
            copy: Any = await client.threads.copy(ids[0])  # type: ignore[func-returns-value]  # it does
            await client.threads.update_state(copy["thread_id"], {"x": 50}, as_node="c")
            assert await client.threads.prune(ids[:2]) == {"pruned_count": 2}
            await client.threads.delete(ids[2])
            with pytest.raises(NotFoundError):
                await client.threads.get(ids[2])
            assert await client.threads.count(values={"x": 50}) == 1

            assistant: Any = await client.assistants.create("agent", name="mine")
            changed: Any = await client.assistants.update(assistant["assistant_id"], name="new")
            assert changed["version"] == 2
            assert len(await client.assistants.get_versions(assistant["assistant_id"])) == 2
            await client.assistants.delete(assistant["assistant_id"])

            for key in "abc":
                await client.store.put_item(["users", key], key, {"k": key}, ttl=5)
            items = await client.store.search_items(["users"])
            assert [entry["key"] for entry in items["items"]] == ["c", "b", "a"]
            await client.store.delete_item(["users", "a"], "a")
            assert len((await client.store.list_namespaces())["namespaces"]) == 2

"""Artefacts of runs that are started through LangGraph's API are on their owner's lists and in the export."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from callsheet.storage.redis.connection import connect
from tests.doubles.auth_cases import bearer, create_key
from tests.doubles.served import BRIEF
from tests.doubles.wire_served import create_thread, new_id
from tests.doubles.wire_server import running_server
from tests.lessons.lesson_material import material

OFFLINE: Any = {"provider": "offline"}
INPUTS: Mapping[str, Any] = {
    "ad_creation": {"brief": BRIEF},
    "page_builder": {"messages": [{"role": "user", "content": "Change the headline to “Bread at four”"}]},
}
PATHS: Mapping[str, str] = {"ad_creation": "ads", "page_builder": "pages"}
STREAMS: Mapping[str, frozenset[str]] = {
    "ad_creation": frozenset({"voices", "music", "sfx"}),
    "page_builder": frozenset({"page"}),
}
LESSON = "My student is 10.\n\n" + material("photosynthesis").text


@pytest.fixture(scope="module")
def url(redis: str) -> Iterator[str]:
    with running_server(redis, None, auth=("keys",)) as server_url:
        yield server_url


@pytest.fixture(scope="module")
def api_keys(redis: str) -> Mapping[str, str]:
    async def create_keys() -> dict[str, str]:
        async with connect(redis) as storage:
            return {owner: await create_key(storage, owner) for owner in ("alice", "bob")}

    return asyncio.run(create_keys())


@pytest.fixture
async def client(url: str, api_keys: Mapping[str, str]) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=url, headers=bearer(api_keys["alice"])) as sdk_client:
        yield sdk_client


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http_client:
        yield http_client


async def list_ids(http: httpx.AsyncClient, key: str, path: str) -> list[str]:
    """Return the ids on a list of the key's owner."""
    reply = await http.get(path, headers=bearer(key))
    assert reply.status_code == 200, reply.text
    [entries] = [value for value in reply.json().values() if isinstance(value, list)]
    return [
        next(value for name, value in entry.items() if name in {"id", "adId", "pageId"}) for entry in entries
    ]


async def exported_streams(http: httpx.AsyncClient, key: str, thread: str) -> set[str]:
    """Return the streams that have versions in the thread's export."""
    reply = await http.get(f"/api/threads/{thread}/export", headers=bearer(key))
    assert reply.status_code == 200, reply.text
    lines = [json.loads(line) for line in reply.text.splitlines()]
    return {line["data"]["stream"] for line in lines if line["type"] == "version"}


async def run_and_wait(client: LangGraphClient, graph: str) -> str:
    thread = await create_thread(client)
    await client.runs.wait(thread, graph, input=INPUTS[graph], context=OFFLINE)
    return thread


async def run_on_own_thread(client: LangGraphClient, graph: str) -> str:
    run = await client.runs.create(None, graph, input=INPUTS[graph], context=OFFLINE, on_completion="keep")
    await client.runs.join(run["thread_id"], run["run_id"])
    return str(run["thread_id"])


async def run_by_protocol(client: LangGraphClient, graph: str) -> str:
    async with client.threads.stream(new_id(), assistant_id=graph) as thread:
        await thread.run.start(input=INPUTS[graph])
        await thread.output
        return str(thread.thread_id)


@pytest.mark.parametrize("graph", list(INPUTS))
@pytest.mark.parametrize("start_run", [run_and_wait, run_on_own_thread, run_by_protocol])
async def test_an_artefact_of_a_run_is_on_its_owners_list_and_in_the_export(
    client: LangGraphClient, http: httpx.AsyncClient, api_keys: Mapping[str, str], graph: str, start_run: Any
) -> None:
    """A29, A50, X7: for each way to start a run."""
    path = f"/api/{PATHS[graph]}"
    bobs_ids = await list_ids(http, api_keys["bob"], path)
    thread = await start_run(client, graph)
    assert (await list_ids(http, api_keys["alice"], path))[0] == thread
    assert await exported_streams(http, api_keys["alice"], thread) == STREAMS[graph]
    assert await list_ids(http, api_keys["bob"], path) == bobs_ids
    for path_of_alice in (f"{path}/{thread}", f"/api/threads/{thread}/export"):
        assert (await http.get(path_of_alice, headers=bearer(api_keys["bob"]))).status_code == 404


async def test_an_ad_with_an_id_of_its_own_is_listed_by_that_id(
    client: LangGraphClient, http: httpx.AsyncClient, api_keys: Mapping[str, str]
) -> None:
    """A50: another owner does not see it."""
    name = f"ad-{new_id()}"
    thread = await create_thread(client)
    graph_input: Any = {"brief": BRIEF, "ad_id": name}
    await client.runs.wait(thread, "ad_creation", input=graph_input, context=OFFLINE)
    assert (await list_ids(http, api_keys["alice"], "/api/ads"))[0] == name
    assert name not in await list_ids(http, api_keys["bob"], "/api/ads")
    assert await exported_streams(http, api_keys["alice"], thread) == STREAMS["ad_creation"]
    ad = (await http.get(f"/api/ads/{name}", headers=bearer(api_keys["alice"]))).json()
    assert ad["conversationId"] == thread


async def test_a_lesson_is_listed_exported_and_imported_as_a_copy(
    client: LangGraphClient, http: httpx.AsyncClient, api_keys: Mapping[str, str], url: str
) -> None:
    """B38, X7: the copy is listed, too."""
    thread = await create_thread(client)
    graph_input: Any = {"messages": [{"role": "user", "content": LESSON}]}
    await client.runs.wait(thread, "fact_narration", input=graph_input, context=OFFLINE)
    sessions = "/api/agent-create/sessions"
    assert thread in await list_ids(http, api_keys["alice"], sessions)
    assert thread not in await list_ids(http, api_keys["bob"], sessions)
    assert "facts" in await exported_streams(http, api_keys["alice"], thread)
    alice = bearer(api_keys["alice"])
    file = (await http.get(f"/api/threads/{thread}/export", headers=alice)).content
    copy = new_id()
    reply = await http.post(f"/api/threads/import?as={copy}", content=file, headers=alice)
    assert reply.status_code == 201, reply.text
    assert copy in await list_ids(http, api_keys["alice"], sessions)
    assert "facts" in await exported_streams(http, api_keys["alice"], copy)


async def test_a_thread_without_an_artefact_is_on_no_list(
    client: LangGraphClient, http: httpx.AsyncClient, api_keys: Mapping[str, str]
) -> None:
    thread = await create_thread(client)
    graph_input: Any = {"messages": [{"role": "user", "content": "Which elements are there?"}]}
    await client.runs.wait(thread, "page_builder", input=graph_input, context=OFFLINE)
    assert thread not in await list_ids(http, api_keys["alice"], "/api/pages")
    assert await exported_streams(http, api_keys["alice"], thread) == set()

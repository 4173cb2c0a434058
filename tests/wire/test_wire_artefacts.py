"""What runs begun over LangGraph's wire make is their owner's: on the lists, and in the thread's file."""

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
SAID: Mapping[str, Any] = {
    "ad_creation": {"brief": BRIEF},
    "page_builder": {"messages": [{"role": "user", "content": "Change the headline to “Bread at four”"}]},
}
PATHS: Mapping[str, str] = {"ad_creation": "ads", "page_builder": "pages"}
MADE: Mapping[str, frozenset[str]] = {
    "ad_creation": frozenset({"voices", "music", "sfx"}),
    "page_builder": frozenset({"page"}),
}
LESSON = "My student is 10.\n\n" + material("photosynthesis").text


@pytest.fixture(scope="module")
def url(redis: str) -> Iterator[str]:
    with running_server(redis, None, auth=("keys",)) as found:
        yield found


@pytest.fixture(scope="module")
def keys(redis: str) -> Mapping[str, str]:
    async def made() -> dict[str, str]:
        async with connect(redis) as storage:
            return {who: await create_key(storage, who) for who in ("alice", "bob")}

    return asyncio.run(made())


@pytest.fixture
async def client(url: str, keys: Mapping[str, str]) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=url, headers=bearer(keys["alice"])) as found:
        yield found


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as found:
        yield found


async def listed(http: httpx.AsyncClient, who: str, path: str) -> list[str]:
    """The ids on a list of the key's owner."""
    reply = await http.get(path, headers=bearer(who))
    assert reply.status_code == 200, reply.text
    [entries] = [value for value in reply.json().values() if isinstance(value, list)]
    return [next(value for name, value in one.items() if name in {"id", "adId", "pageId"}) for one in entries]


async def kept(http: httpx.AsyncClient, who: str, thread: str) -> set[str]:
    """The streams of which the thread's file has versions."""
    reply = await http.get(f"/api/threads/{thread}/export", headers=bearer(who))
    assert reply.status_code == 200, reply.text
    lines = [json.loads(line) for line in reply.text.splitlines()]
    return {line["data"]["stream"] for line in lines if line["type"] == "version"}


async def waited(client: LangGraphClient, graph: str) -> str:
    thread = await create_thread(client)
    await client.runs.wait(thread, graph, input=SAID[graph], context=OFFLINE)
    return thread


async def on_a_thread_of_its_own(client: LangGraphClient, graph: str) -> str:
    run = await client.runs.create(None, graph, input=SAID[graph], context=OFFLINE, on_completion="keep")
    await client.runs.join(run["thread_id"], run["run_id"])
    return str(run["thread_id"])


async def by_the_second_wire(client: LangGraphClient, graph: str) -> str:
    async with client.threads.stream(new_id(), assistant_id=graph) as thread:
        await thread.run.start(input=SAID[graph])
        await thread.output
        return str(thread.thread_id)


@pytest.mark.parametrize("graph", list(SAID))
@pytest.mark.parametrize("start_run", [waited, on_a_thread_of_its_own, by_the_second_wire])
async def test_what_a_run_makes_is_on_its_owners_list_and_in_the_file(
    client: LangGraphClient, http: httpx.AsyncClient, keys: Mapping[str, str], graph: str, start_run: Any
) -> None:
    """A29, A50, X7: whichever door the run came through."""
    path = f"/api/{PATHS[graph]}"
    before = await listed(http, keys["bob"], path)
    thread = await start_run(client, graph)
    assert (await listed(http, keys["alice"], path))[0] == thread
    assert await kept(http, keys["alice"], thread) == MADE[graph]
    assert await listed(http, keys["bob"], path) == before
    for where in (f"{path}/{thread}", f"/api/threads/{thread}/export"):
        assert (await http.get(where, headers=bearer(keys["bob"]))).status_code == 404


async def test_an_ad_of_its_own_name_is_listed_by_it(
    client: LangGraphClient, http: httpx.AsyncClient, keys: Mapping[str, str]
) -> None:
    """A50: two owners may call an ad the same, and each finds their own."""
    name = f"ad-{new_id()}"
    thread = await create_thread(client)
    given: Any = {"brief": BRIEF, "ad_id": name}
    await client.runs.wait(thread, "ad_creation", input=given, context=OFFLINE)
    assert (await listed(http, keys["alice"], "/api/ads"))[0] == name
    assert name not in await listed(http, keys["bob"], "/api/ads")
    assert await kept(http, keys["alice"], thread) == MADE["ad_creation"]
    ad = (await http.get(f"/api/ads/{name}", headers=bearer(keys["alice"]))).json()
    assert ad["conversationId"] == thread


async def test_a_lesson_is_among_the_sessions_and_goes_with_its_file(
    client: LangGraphClient, http: httpx.AsyncClient, keys: Mapping[str, str], url: str
) -> None:
    """B38, X7: and comes back whole, as a copy that is listed, too."""
    thread = await create_thread(client)
    given: Any = {"messages": [{"role": "user", "content": LESSON}]}
    await client.runs.wait(thread, "fact_narration", input=given, context=OFFLINE)
    sessions = "/api/agent-create/sessions"
    assert thread in await listed(http, keys["alice"], sessions)
    assert thread not in await listed(http, keys["bob"], sessions)
    assert "facts" in await kept(http, keys["alice"], thread)
    alice = bearer(keys["alice"])
    file = (await http.get(f"/api/threads/{thread}/export", headers=alice)).content
    copy = new_id()
    reply = await http.post(f"/api/threads/import?as={copy}", content=file, headers=alice)
    assert reply.status_code == 201, reply.text
    assert copy in await listed(http, keys["alice"], sessions)
    assert "facts" in await kept(http, keys["alice"], copy)


async def test_a_thread_on_which_nothing_was_made_is_about_nothing(
    client: LangGraphClient, http: httpx.AsyncClient, keys: Mapping[str, str]
) -> None:
    thread = await create_thread(client)
    given: Any = {"messages": [{"role": "user", "content": "Which elements are there?"}]}
    await client.runs.wait(thread, "page_builder", input=given, context=OFFLINE)
    assert thread not in await listed(http, keys["alice"], "/api/pages")
    assert await kept(http, keys["alice"], thread) == set()

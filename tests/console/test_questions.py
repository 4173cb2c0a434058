"""The inbox of questions: listed, followed, answered once, and recorded with who decided."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.graphs import page_builder, scene_edit
from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from callsheet.storage import Storage
from callsheet.storage import api_keys as stored_keys
from callsheet.storage.redis import keys
from tests.console.own_graph import SCHEMA, ordering
from tests.doubles.auth_cases import create_key
from tests.doubles.served import app_client, parse_events
from tests.doubles.waiting import eventually
from tests.doubles.wire_server import running_server


@asynccontextmanager
async def serve_graphs(url: str, **chosen: Any) -> AsyncIterator[httpx.AsyncClient]:
    graphs = {"ordering": ordering(), "page_builder": page_builder.graph, "scene_edit": scene_edit.graph}
    app = create_app(Settings(redis_url=url, **chosen), graphs)
    async with app.router.lifespan_context(app), app_client(app) as client:
        yield client


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with serve_graphs(valkey_url) as client:
        yield client


async def order(client: httpx.AsyncClient, item: str, new: Any = MappingProxyType({}), **headers: str) -> str:
    """Start a run that asks; return its thread."""
    created = await client.post("/threads", json=dict(new), headers=headers)
    thread = str(created.json()["thread_id"])
    body = {"assistant_id": "ordering", "input": {"item": item}}
    reply = await client.post(f"/threads/{thread}/runs/wait", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return thread


async def list_questions(
    client: httpx.AsyncClient, headers: Mapping[str, str] = MappingProxyType({}), **query: Any
) -> list[Any]:
    reply = await client.get("/api/questions", params=query, headers=dict(headers))
    assert reply.status_code == 200, reply.text
    return list(reply.json()["questions"])


async def wait_for_end(
    client: httpx.AsyncClient, thread: str, headers: Mapping[str, str] = MappingProxyType({})
) -> Any:
    async def state() -> Any:
        body = (await client.get(f"/threads/{thread}", headers=dict(headers))).json()
        return body if body["status"] != "busy" else None

    await eventually(state, "the end of the run")
    return await state()


async def test_a_question_of_any_graph_is_listed_with_what_it_asks_and_answered(
    client: httpx.AsyncClient,
) -> None:
    thread = await order(client, "loaves")
    [question] = await list_questions(client)
    assert question["title"] == "How many loaves?"
    assert question["wouldChange"] == ["They are ordered at once"]
    assert (question["kind"], question["workflow"], question["thread"]) == ("interrupt", "ordering", thread)
    assert (question["responseSchema"], question["choices"]) == (SCHEMA, [1, 2, 3])
    assert question["link"] == f"/c/{thread}"
    assert question["ageSeconds"] >= 0
    reply = await client.post(f"/api/questions/{question['id']}/answer", json={"answer": {"count": 3}})
    assert (reply.status_code, reply.json()["thread"]) == (200, thread)
    assert (await wait_for_end(client, thread))["values"]["count"] == 3
    assert await list_questions(client) == []


async def test_the_run_that_an_answer_starts_streams_what_the_page_shows_live(
    client: httpx.AsyncClient,
) -> None:
    thread = await order(client, "loaves")
    [question] = await list_questions(client)
    reply = await client.post(f"/api/questions/{question['id']}/answer", json={"answer": {"count": 3}})
    await wait_for_end(client, thread)
    address = f"/threads/{thread}/runs/{reply.json()['run']}/stream"
    text = (await client.get(address, headers={"Last-Event-ID": "-1"})).text
    assert "event: updates" in text
    assert "event: values" not in text


async def test_a_question_is_due_when_its_thread_is_deleted(client: httpx.AsyncClient) -> None:
    for new in ({"ttl": 60}, {"ttl": {"ttl": 60, "strategy": "keep_latest"}}, {}):
        await order(client, "loaves", new)
    due, kept, endless = await list_questions(client)
    created, ends = (datetime.fromisoformat(due[name]) for name in ("createdAt", "dueAt"))
    assert timedelta(minutes=59) < ends - created < timedelta(minutes=61)
    assert kept["dueAt"] is endless["dueAt"] is None


async def test_questions_are_listed_oldest_first_in_pages_and_by_workflow(client: httpx.AsyncClient) -> None:
    threads = [await order(client, item) for item in ("one", "two", "three")]
    reply = (await client.get("/api/questions", params={"limit": 2})).json()
    rest = (await client.get("/api/questions", params={"limit": 2, "cursor": reply["next"]})).json()
    assert [one["thread"] for one in reply["questions"] + rest["questions"]] == threads
    assert rest["next"] is None
    assert len(await list_questions(client, workflow="ordering")) == 3
    assert await list_questions(client, workflow="page_builder") == []
    assert (await client.get("/api/questions", params={"cursor": "nonsense"})).status_code == 422


async def test_of_two_answers_the_first_wins_and_the_second_learns_who_gave_it(valkey_url: str) -> None:
    async with serve_graphs(valkey_url, auth=("keys",)) as client, _storage(valkey_url) as storage:
        first, second = [{"X-Api-Key": await create_key(storage, "alice")} for _ in range(2)]
        thread = await order(client, "loaves", **first)
        [question] = await list_questions(client, first)
        path = f"/api/questions/{question['id']}/answer"
        assert (await client.post(path, json={"answer": {"count": 3}}, headers=first)).status_code == 200
        await wait_for_end(client, thread, first)
        reply = await client.post(path, json={"answer": {"count": 4}}, headers=second)
        assert reply.status_code == 409
        key_id = first["X-Api-Key"].split("_")[1]
        assert key_id in reply.json()["error"]
        assert reply.json()["details"]["keyId"] == key_id


async def test_of_simultaneous_answers_one_wins(client: httpx.AsyncClient) -> None:
    thread = await order(client, "loaves")
    [question] = await list_questions(client)
    path = f"/api/questions/{question['id']}/answer"
    replies = await asyncio.gather(
        *(client.post(path, json={"answer": {"count": number}}) for number in range(8))
    )
    assert sorted(reply.status_code for reply in replies) == [200, *[409] * 7]
    [winner] = [number for number, reply in enumerate(replies) if reply.status_code == 200]
    assert (await wait_for_end(client, thread))["values"]["count"] == winner
    assert [one["answer"] for one in await list_questions(client, state="answered")] == [{"count": winner}]


async def test_an_answer_that_cannot_start_a_run_is_409_with_the_reason(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """Not 404, since the question is there and still waits."""
    thread = await order(client, "loaves")
    [question] = await list_questions(client)
    with Redis.from_url(valkey_url) as redis:
        redis.hset(keys.thread_meta(thread), "graph", "page_builder")
    path = f"/api/questions/{question['id']}/answer"
    reply = await client.post(path, json={"answer": {"count": 3}})
    assert (reply.status_code, "there is no question" in reply.text) == (409, False), reply.text
    assert len(await list_questions(client)) == 1


async def test_an_answer_of_another_shape_is_422_with_the_schema(client: httpx.AsyncClient) -> None:
    await order(client, "loaves")
    [question] = await list_questions(client)
    for wrong in ({"count": "three"}, {}, "three"):
        reply = await client.post(f"/api/questions/{question['id']}/answer", json={"answer": wrong})
        assert reply.status_code == 422
        assert reply.json()["details"]["responseSchema"] == SCHEMA
    assert len(await list_questions(client)) == 1


async def test_questions_of_others_do_not_exist(valkey_url: str) -> None:
    async with serve_graphs(valkey_url, auth=("keys",)) as client, _storage(valkey_url) as storage:
        alice, bob = [{"X-Api-Key": await create_key(storage, owner)} for owner in ("alice", "bob")]
        await order(client, "loaves", **alice)
        [question] = await list_questions(client, alice)
        assert await list_questions(client, bob) == []
        path = f"/api/questions/{question['id']}/answer"
        assert (await client.post(path, json={"answer": {"count": 3}}, headers=bob)).status_code == 404
        assert await list_questions(client, alice) == [question | {"ageSeconds": pytest.approx(0, abs=60)}]
        assert await list_questions(client, bob, state="answered") == []


@pytest.mark.parametrize("name", ["x", ":", "0" * 32, "0" * 32 + ":nothing"])
async def test_a_question_that_never_was_is_404(client: httpx.AsyncClient, name: str) -> None:
    reply = await client.post(f"/api/questions/{name}/answer", json={"answer": 1})
    assert reply.status_code == 404


async def test_the_record_of_an_answer_says_who_decided_what_about_what(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """Also of an answer over LangGraph's wire, until the thread is deleted."""
    thread = await order(client, "loaves")
    body = {"assistant_id": "ordering", "command": {"resume": {"count": 5}}}
    await client.post(f"/threads/{thread}/runs/wait", json=body)
    [record] = await list_questions(client, state="answered")
    assert (record["title"], record["answer"]) == ("How many loaves?", {"count": 5})
    assert (record["answeredBy"], record["owner"], record["keyId"]) == ("local", "local", None)
    assert len(record["shown"]) == 64
    assert record["answeredAt"]
    runs = (await client.get(f"/threads/{thread}/runs")).json()
    assert record["run"] == runs[0]["run_id"]
    await client.delete(f"/threads/{thread}/runs/{record['run']}")
    assert len(await list_questions(client, state="answered")) == 1
    await client.delete(f"/threads/{thread}")
    assert await list_questions(client, state="answered") == []
    assert not await storage.redis.exists(keys.thread_answers(thread))


async def test_answers_are_listed_in_pages_also_those_of_one_thread(client: httpx.AsyncClient) -> None:
    first = await order(client, "loaves")
    for thread, counts in ((first, range(3)), (await order(client, "rolls"), range(3, 5))):
        for count in counts:
            resume = {"assistant_id": "ordering", "command": {"resume": {"count": count}}}
            await client.post(f"/threads/{thread}/runs/wait", json=resume)
            again = {"assistant_id": "ordering", "input": {"item": "more"}}
            await client.post(f"/threads/{thread}/runs/wait", json=again)
    answers: list[int] = []
    cursor = None
    for size in (2, 2, 1):
        query: dict[str, Any] = {"state": "answered", "limit": 2, **({"cursor": cursor} if cursor else {})}
        reply = (await client.get("/api/questions", params=query)).json()
        assert len(reply["questions"]) == size
        answers += [one["answer"]["count"] for one in reply["questions"]]
        cursor = reply["next"]
    assert (answers, cursor) == ([4, 3, 2, 1, 0], None)
    wrong = {"state": "answered", "cursor": "1~nothing"}
    assert (await client.get("/api/questions", params=wrong)).status_code == 422


async def test_one_request_looks_at_a_bounded_number_of_threads(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """Pages are short if few of many match, and the cursor leads on."""
    thread = await order(client, "loaves")
    record = await storage.redis.hgetall(keys.thread_meta(thread))
    pipeline = storage.redis.pipeline(transaction=False)
    for number in range(600):
        pipeline.hset(keys.thread_meta(f"t{number}"), mapping=record)
    lists = (keys.waiting_threads("local"), keys.answered_threads("local"))
    for name in lists:
        pipeline.zadd(name, {f"t{number}": number + 1 for number in range(600)})
    await pipeline.execute()
    for state in ("waiting", "answered"):
        query = {"state": state, "workflow": "page_builder", "limit": 100}
        page = (await client.get("/api/questions", params=query)).json()
        assert (page["questions"], bool(page["next"])) == ([], True)
        page = (await client.get("/api/questions", params={**query, "cursor": page["next"]})).json()
        assert (page["questions"], page["next"]) == ([], None)


async def test_a_silent_stream_of_the_inbox_reads_no_threads(valkey_url: str, storage: Storage) -> None:
    """It compares the list's revision, and still notices what nobody announced."""
    with running_server(valkey_url, {"ordering": ordering()}, heartbeat_s=0.05) as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client, AsyncExitStack() as stack:
            thread = await order(client, "loaves")
            reply = await stack.enter_async_context(client.stream("GET", "/api/questions/events"))
            lines = reply.aiter_lines()
            await _next_data(lines)
            before = await _calls(storage)
            for _ in range(20):
                await anext(lines)
            after = await _calls(storage)
            await storage.redis.zrem(keys.waiting_threads("local"), thread)
            line = await _next_data(lines)
    assert after["zcard"] - before["zcard"] > 5
    assert after["hgetall"] - before["hgetall"] <= 1, "but for one late announcement"
    assert '"count":0' in line.replace(" ", "")


async def _next_data(lines: AsyncIterator[str]) -> str:
    while not (line := await anext(lines)).startswith("data:"):
        pass
    return line


async def _calls(storage: Storage) -> dict[str, int]:
    """Return how often some commands were called."""
    info = await storage.redis.info("commandstats")
    return {name: info.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("zcard", "hgetall")}


async def test_a_deletion_on_a_page_is_a_question_about_a_plan(client: httpx.AsyncClient) -> None:
    for message in ("make a landing page for Miel, a bakery in Lyon", "clear the page"):
        reply = await client.post("/api/pages/p-1/chat", json={"message": message, "provider": "offline"})
        assert reply.status_code == 200, reply.text
    [question] = await list_questions(client)
    assert (question["kind"], question["workflow"]) == ("plan", "page_builder")
    assert question["artefact"] == {"kind": "page", "id": "p-1", "title": "Miel"}
    assert "approval" in question["title"]
    assert question["wouldChange"]
    path = f"/api/questions/{question['id']}/answer"
    assert (await client.post(path, json={"answer": {"decisions": "all"}})).status_code == 422
    reply = await client.post(path, json={"answer": {"decisions": [{"type": "reject"}]}})
    assert reply.status_code == 200, reply.text
    await wait_for_end(client, question["thread"])
    assert await list_questions(client) == []


async def test_changes_of_the_inbox_are_streamed(valkey_url: str) -> None:
    counts: list[int] = []

    async def follow(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", "/api/questions/events") as reply:
            async for text in reply.aiter_text():
                counts.extend(data["count"] for name, data in parse_events(text) if name == "questions")

    with running_server(valkey_url, {"ordering": ordering()}) as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            reader = asyncio.create_task(follow(client))
            try:
                await eventually(_async(lambda: counts == [0]), "the first event")
                thread = await order(client, "loaves")
                await eventually(_async(lambda: counts == [0, 1]), "the question")
                body = {"assistant_id": "ordering", "command": {"resume": {"count": 5}}}
                await client.post(f"/threads/{thread}/runs/wait", json=body)
                await eventually(_async(lambda: counts == [0, 1, 0]), "the answer")
            finally:
                reader.cancel()
                await asyncio.wait([reader])


async def test_the_list_reads_only_threads_that_wait(client: httpx.AsyncClient, storage: Storage) -> None:
    """An entry whose thread does not wait is dropped, once it cannot be one that begins to wait."""
    key = keys.waiting_threads("local")
    await storage.redis.zadd(key, {"never-was": 1})
    thread = await order(client, "loaves")
    await client.post("/threads", json={})
    assert len(await list_questions(client)) == 1
    assert [name.decode() for name in await storage.redis.zrange(key, 0, -1)] == [thread]


def _async(condition: Any) -> Any:
    async def check() -> Any:
        return condition()

    return check


@asynccontextmanager
async def _storage(url: str) -> AsyncIterator[Storage]:
    from callsheet.storage import connect

    async with connect(url) as storage:
        yield storage


async def _read_to_the_end(lines: AsyncIterator[str]) -> None:
    with suppress(httpx.RemoteProtocolError):
        async with asyncio.timeout(10):
            _ = [line async for line in lines]


async def test_a_revoked_key_ends_the_stream(valkey_url: str) -> None:
    server = running_server(valkey_url, {"ordering": ordering()}, auth=("keys",), heartbeat_s=0.1)
    with server as url:
        async with _storage(valkey_url) as storage, httpx.AsyncClient(base_url=url, timeout=20) as client:
            key = await create_key(storage, "alice")
            async with client.stream("GET", "/api/questions/events", headers={"X-Api-Key": key}) as reply:
                lines = reply.aiter_lines()
                assert await anext(lines) == "event: questions"
                await stored_keys.revoke(storage, key.split("_")[1])
                await _read_to_the_end(lines)

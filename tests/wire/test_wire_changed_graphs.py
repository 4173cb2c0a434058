"""Threads whose graph has changed since: a node that is gone, and another graph."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.threads import threads
from tests.doubles.served import generate_ad, served_app
from tests.doubles.wire_server import running_server


class PostState(TypedDict):
    text: str


def write(state: PostState) -> dict[str, str]:
    return {"text": f"{state['text']}!"}


def ask(state: PostState) -> dict[str, str]:
    return {"text": f"{state['text']} {interrupt('publish?')}"}


def post(question: str) -> Any:
    """A graph that writes and then asks, in a node of this name."""
    builder: Any = StateGraph(PostState)
    builder.add_node("write", write)
    builder.add_node(question, ask)
    builder.add_edge(START, "write")
    builder.add_edge("write", question)
    return builder.compile(name="post")


@asynccontextmanager
async def serving(url: str, **graphs: Any) -> AsyncIterator[httpx.AsyncClient]:
    with running_server(url, graphs) as address:
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            yield client


async def ask_on_thread(client: httpx.AsyncClient) -> None:
    """Leave the thread `t` at its question."""
    await client.post("/threads", json={"thread_id": "t"})
    body = {"assistant_id": "post", "input": {"text": "news"}}
    reply = await client.post("/threads/t/runs/wait", json=body)
    assert "__interrupt__" in reply.json(), reply.text


async def thread(client: httpx.AsyncClient) -> dict[str, Any]:
    row: dict[str, Any] = (await client.get("/threads/t")).json()
    return row


@pytest.mark.parametrize(
    "body", [{"command": {"resume": "yes"}}, {"input": None}], ids=["resume", "no input"]
)
async def test_a_thread_that_waits_at_a_node_that_is_gone_is_named_and_keeps_its_question(
    valkey_url: str, body: dict[str, Any]
) -> None:
    async with serving(valkey_url, post=post("ask")) as client:
        await ask_on_thread(client)
        before = await thread(client)
    async with serving(valkey_url, post=post("question")) as client:
        reply = await client.post("/threads/t/runs", json={"assistant_id": "post", **body})
        assert reply.status_code == 409, reply.text
        assert "waits at 'ask', which graph 'post' no longer has" in reply.json()["detail"]
        after = await thread(client)
        assert (after["status"], after["interrupts"]) == ("interrupted", before["interrupts"])
        assert len((await client.get("/threads/t/runs")).json()) == 1
    async with serving(valkey_url, post=post("ask")) as client:
        reply = await client.post("/threads/t/runs/wait", json={"assistant_id": "post", **YES})
        assert reply.json() == {"text": "news! yes"}


YES = {"command": {"resume": "yes"}}


async def test_a_changed_graph_id_moves_a_thread_to_that_graph(valkey_url: str) -> None:
    """As after a graph was renamed: the thread goes on under the new name."""
    async with serving(valkey_url, post=post("ask")) as client:
        await ask_on_thread(client)
    async with serving(valkey_url, article=post("ask")) as client:
        assert (await client.get("/threads/t/state")).status_code == 400
        reply = await client.patch("/threads/t", json={"metadata": {"graph_id": "post-2"}})
        assert (reply.status_code, "is not served" in reply.text) == (400, True)
        reply = await client.patch("/threads/t", json={"metadata": {"graph_id": []}})
        assert (reply.status_code, "no text" in reply.text) == (422, True)
        reply = await client.patch("/threads/t", json={"metadata": {"graph_id": "article"}})
        assert (reply.status_code, reply.json()["metadata"]["graph_id"]) == (200, "article")
        assert (await client.get("/threads/t/state")).json()["next"] == ["ask"]
        reply = await client.post("/threads/t/runs/wait", json={"assistant_id": "article", **YES})
        assert reply.json() == {"text": "news! yes"}


async def test_a_busy_thread_and_that_of_an_artefact_keep_their_graphs(
    valkey_url: str, storage: Storage
) -> None:
    async with serving(valkey_url, post=post("ask"), article=post("ask")) as client:
        await ask_on_thread(client)
        async with threads.hold(storage, "t", "local"):
            reply = await client.patch("/threads/t", json={"metadata": {"graph_id": "article"}})
            assert reply.status_code == 409, reply.text
        assert (await thread(client))["metadata"]["graph_id"] == "post"
    async with served_app(valkey_url) as client:
        await generate_ad(client)
        reply = await client.patch("/threads/ad-1", json={"metadata": {"graph_id": "page_builder"}})
        assert (reply.status_code, "runs 'ad_creation'" in reply.text) == (409, True)


async def test_runs_of_a_graph_that_is_not_served_any_more_are_named(
    valkey_url: str, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(valkey_url, post=post("ask")) as client:
        assert (await client.get("/health")).json()["status"] == "ok"
    settings = {"carry_runs": False}
    with running_server(valkey_url, {"post": post("ask")}, **settings) as address:
        async with httpx.AsyncClient(base_url=address) as client:
            body = {"assistant_id": "post", "input": {"text": "news"}, "if_not_exists": "create"}
            assert (await client.post("/threads/t/runs", json=body)).is_success
    [member] = await storage.redis.zrange(keys.waiting_runs().all, 0, -1)
    await storage.redis.zincrby(keys.waiting_runs().all, -61_000, member)
    async with serving(valkey_url, article=post("ask")) as client:
        for _ in range(2):
            health = (await client.get("/health")).json()
            assert (health["status"], health["degraded"]) == ("degraded", ["graphs"])
            assert "1 run has waited for over a minute for graph 'post'" in health["error"]
    assert len([line for line in caplog.messages if "wait for graph 'post'" in line]) == 1

"""Connections that break after the command and before its answer: all goes on, and nothing is done twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.graphs import ad_creation
from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from tests.doubles.served import BRIEF, app_client
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import new_id
from tests.storage.saver_proxy import CountingProxy

LOST = 0.1
"""The share of Redis's messages that are lost, each with its connection."""
AT_ONCE = 10
# A connection of redis-py that is cut while it connects is left to be collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
TALK: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}}
COUNT: dict[str, Any] = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[CountingProxy]:
    async with CountingProxy(tmp_path, valkey_url) as one:
        yield one


@pytest.fixture
async def http(proxy: CountingProxy) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings(redis_url=f"unix://{proxy.socket}"), {"ad_creation": ad_creation.graph, **GRAPHS}
    )
    async with app.router.lifespan_context(app), app_client(app, timeout=30) as client:
        dice = random.Random(4)
        proxy.losing = lambda _: dice.random() < LOST
        yield client
        proxy.losing = None


async def asked(http: httpx.AsyncClient, method: str, path: str, want: int = 200, **more: Any) -> Any:
    reply = await http.request(method, path, **more)
    assert reply.status_code == want, f"{method} {path}: {reply.status_code} {reply.text[:500]}"
    return reply.json() if reply.content else None


async def at_once(proxy: CountingProxy, one: Callable[[], Awaitable[None]]) -> None:
    """Have it done several times, and no run taken up again because nobody seemed to be at it."""
    before = proxy.connections
    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    assert proxy.connections > before + 3, "hardly anything was lost"
    proxy.losing = None
    async with proxy.client() as redis:
        runs = [key async for key in redis.scan_iter("thread:*:run:*")]
        assert {await redis.hget(run, "attempt") for run in runs} <= {b"1"}


async def threaded(http: httpx.AsyncClient) -> str:
    return f"/threads/{(await asked(http, 'POST', '/threads', json={}))['thread_id']}"


async def test_questions_are_asked_and_answered(http: httpx.AsyncClient, proxy: CountingProxy) -> None:
    """X8."""

    async def one() -> None:
        thread = await threaded(http)
        assert "__interrupt__" in await asked(http, "POST", f"{thread}/runs/wait", json=TALK)
        answer = {"assistant_id": "agent", "command": {"resume": {"type": "approve"}}}
        done = await asked(http, "POST", f"{thread}/runs/wait", json=answer)
        assert done["steps"] == ["plan", "review", "finish"]

    await at_once(proxy, one)


async def test_streams_tell_everything_once(http: httpx.AsyncClient, proxy: CountingProxy) -> None:
    async def one() -> None:
        thread = await threaded(http)
        for _ in range(3):
            reply = await http.post(f"{thread}/runs/stream", json=COUNT | {"stream_mode": ["updates"]})
            names = [line for line in reply.text.splitlines() if line.startswith("event:")]
            assert names == ["event: metadata", *["event: updates"] * 3], reply.text
        assert len(await asked(http, "POST", f"{thread}/history", json={"limit": 100})) == 15

    await at_once(proxy, one)


@pytest.mark.slow
async def test_runs_have_their_turn_and_each_its_effect(
    http: httpx.AsyncClient, proxy: CountingProxy
) -> None:
    async def one() -> None:
        thread = await threaded(http)
        path = f"{thread}/runs/wait"
        await asyncio.gather(*(asked(http, "POST", path, json=COUNT) for _ in range(4)))
        assert len((await asked(http, "GET", f"{thread}/state"))["values"]["log"]) == 12
        assert len(await asked(http, "GET", f"{thread}/runs")) == 4

    await at_once(proxy, one)


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_runs_are_cancelled_and_threads_copied_and_deleted(
    http: httpx.AsyncClient, proxy: CountingProxy, action: str
) -> None:
    async def one() -> None:
        thread = await threaded(http)
        slow = {"assistant_id": "slow", "input": {"x": 100}}
        run = await asked(http, "POST", f"{thread}/runs", json=slow)
        way = {"action": action, "wait": "true"}
        await asked(http, "POST", f"{thread}/runs/{run['run_id']}/cancel", params=way)
        copied = await asked(http, "POST", f"{thread}/copy")
        await asked(http, "DELETE", thread, 204)
        await asked(http, "GET", thread, 404)
        await asked(http, "DELETE", f"/threads/{copied['thread_id']}", 204)

    await at_once(proxy, one)


@pytest.mark.slow
async def test_an_ad_has_the_versions_that_were_asked_for(
    http: httpx.AsyncClient, proxy: CountingProxy
) -> None:
    """A29: v1 and v2, and no other; what was said is in the conversation once."""

    async def one() -> None:
        ad = new_id()
        made = {"adId": ad, "brief": BRIEF, "provider": "offline"}
        await asked(http, "POST", "/api/ai/generate", json=made)
        said = {"message": "make the music more upbeat and add a whoosh at the start", "provider": "offline"}
        await asked(http, "POST", f"/api/ads/{ad}/chat", json=said)
        streams = {
            name: await asked(http, "GET", f"/api/ads/{ad}/{name}") for name in ("voices", "music", "sfx")
        }
        found = {name: [one["id"] for one in stream["versions"]] for name, stream in streams.items()}
        assert found == {"voices": ["v1"], "music": ["v1", "v2"], "sfx": ["v1", "v2"]}
        told = (await asked(http, "GET", f"/api/ads/{ad}/conversation"))["messages"]
        assert sum(message["role"] == "user" for message in told) == 2

    await at_once(proxy, one)

"""Connections that break between a command and its answer: every operation completes and happens once."""

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

LOSS_RATE = 0.1
"""The share of Redis's replies that are lost, each with its connection."""
CONCURRENCY = 10
# A connection of redis-py that is cut while it connects is left to be collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
TALK: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}}
COUNT: dict[str, Any] = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[CountingProxy]:
    async with CountingProxy(tmp_path, valkey_url) as running:
        yield running


@pytest.fixture
async def http(proxy: CountingProxy) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings(redis_url=f"unix://{proxy.socket}"), {"ad_creation": ad_creation.graph, **GRAPHS}
    )
    async with app.router.lifespan_context(app), app_client(app, timeout=30) as client:
        dice = random.Random(4)
        proxy.loses_reply = lambda _: dice.random() < LOSS_RATE
        yield client
        proxy.loses_reply = None


async def request(http: httpx.AsyncClient, method: str, path: str, status: int = 200, **more: Any) -> Any:
    reply = await http.request(method, path, **more)
    assert reply.status_code == status, f"{method} {path}: {reply.status_code} {reply.text[:500]}"
    return reply.json() if reply.content else None


async def repeat_concurrently(proxy: CountingProxy, operation: Callable[[], Awaitable[None]]) -> None:
    """Execute an operation several times at once; no run may need a second attempt."""
    before = proxy.connections
    await asyncio.gather(*(operation() for _ in range(CONCURRENCY)))
    assert proxy.connections > before + 3, "hardly anything was lost"
    proxy.loses_reply = None
    async with proxy.client() as redis:
        runs = [key async for key in redis.scan_iter("thread:*:run:*")]
        assert {await redis.hget(run, "attempt") for run in runs} <= {b"1"}


async def create_thread(http: httpx.AsyncClient) -> str:
    return f"/threads/{(await request(http, 'POST', '/threads', json={}))['thread_id']}"


async def test_interrupts_are_raised_and_resumed_once(http: httpx.AsyncClient, proxy: CountingProxy) -> None:
    """X8."""

    async def operation() -> None:
        thread = await create_thread(http)
        assert "__interrupt__" in await request(http, "POST", f"{thread}/runs/wait", json=TALK)
        answer = {"assistant_id": "agent", "command": {"resume": {"type": "approve"}}}
        done = await request(http, "POST", f"{thread}/runs/wait", json=answer)
        assert done["steps"] == ["plan", "review", "finish"]

    await repeat_concurrently(proxy, operation)


async def test_streams_send_every_event_once(http: httpx.AsyncClient, proxy: CountingProxy) -> None:
    async def operation() -> None:
        thread = await create_thread(http)
        for _ in range(3):
            reply = await http.post(f"{thread}/runs/stream", json=COUNT | {"stream_mode": ["updates"]})
            names = [line for line in reply.text.splitlines() if line.startswith("event:")]
            assert names == ["event: metadata", *["event: updates"] * 3], reply.text
        assert len(await request(http, "POST", f"{thread}/history", json={"limit": 100})) == 15

    await repeat_concurrently(proxy, operation)


@pytest.mark.slow
async def test_queued_runs_all_execute_and_each_has_its_effect_once(
    http: httpx.AsyncClient, proxy: CountingProxy
) -> None:
    async def operation() -> None:
        thread = await create_thread(http)
        path = f"{thread}/runs/wait"
        await asyncio.gather(*(request(http, "POST", path, json=COUNT) for _ in range(4)))
        assert len((await request(http, "GET", f"{thread}/state"))["values"]["log"]) == 12
        assert len(await request(http, "GET", f"{thread}/runs")) == 4

    await repeat_concurrently(proxy, operation)


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_runs_are_cancelled_and_threads_copied_and_deleted(
    http: httpx.AsyncClient, proxy: CountingProxy, action: str
) -> None:
    async def operation() -> None:
        thread = await create_thread(http)
        slow = {"assistant_id": "slow", "input": {"x": 100}}
        run = await request(http, "POST", f"{thread}/runs", json=slow)
        options = {"action": action, "wait": "true"}
        await request(http, "POST", f"{thread}/runs/{run['run_id']}/cancel", params=options)
        copied = await request(http, "POST", f"{thread}/copy")
        await request(http, "DELETE", thread, 204)
        await request(http, "GET", thread, 404)
        await request(http, "DELETE", f"/threads/{copied['thread_id']}", 204)

    await repeat_concurrently(proxy, operation)


@pytest.mark.slow
async def test_an_ad_has_exactly_the_requested_versions(
    http: httpx.AsyncClient, proxy: CountingProxy
) -> None:
    """A29: v1 and v2, and no other; each message is in the conversation once."""

    async def operation() -> None:
        ad = new_id()
        ad_request = {"adId": ad, "brief": BRIEF, "provider": "offline"}
        await request(http, "POST", "/api/ai/generate", json=ad_request)
        chat = {
            "message": "make the music more upbeat and add a whoosh at the start",
            "provider": "offline",
        }
        await request(http, "POST", f"/api/ads/{ad}/chat", json=chat)
        streams = {
            name: await request(http, "GET", f"/api/ads/{ad}/{name}") for name in ("voices", "music", "sfx")
        }
        version_ids = {
            name: [version["id"] for version in stream["versions"]] for name, stream in streams.items()
        }
        assert version_ids == {"voices": ["v1"], "music": ["v1", "v2"], "sfx": ["v1", "v2"]}
        messages = (await request(http, "GET", f"/api/ads/{ad}/conversation"))["messages"]
        assert sum(message["role"] == "user" for message in messages) == 2

    await repeat_concurrently(proxy, operation)

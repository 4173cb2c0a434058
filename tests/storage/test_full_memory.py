"""A Redis that is full, evicts keys, or is emptied: operations that still work, and reports of the server."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter
from redis import Redis

from callsheet import storage
from callsheet.server.langgraph import retention
from callsheet.server.operations.health_routes import Health
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.embedded import watchdog
from tests.doubles.documented import OURS
from tests.doubles.needs import need
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.served import generate_ad, served_app
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server
from tests.wire.test_wire_threads import SweepContext

COUNTER = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture(params=["valkey", "redis-server"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own."""
    program = watchdog.binary() if request.param == "valkey" else need("redis-server")
    with running_redis(program, tmp_path) as one:
        yield one


@pytest.fixture
def redis(server: RedisServer) -> Iterator["Redis"]:
    """A client of it; its memory has no limit at the end."""
    with Redis.from_url(server.url) as one:
        yield one
        one.config_set("maxmemory", 0)


@pytest.fixture
def url(server: RedisServer, redis: Redis) -> Iterator[str]:
    with running_server(server.url, {**GRAPHS, **OURS.graphs}) as server_url:
        yield server_url
        redis.config_set("maxmemory", 0)


async def health(http: httpx.AsyncClient) -> tuple[int, dict[str, Any]]:
    reply = await http.get("/health")
    parsed: dict[str, Any] = reply.json()
    TypeAdapter(Health).validate_python(parsed)
    return reply.status_code, parsed


async def send(http: httpx.AsyncClient, method: str, path: str, **body: Any) -> Any:
    reply = await http.request(method, path, json=body)
    assert reply.is_success, (method, path, reply.text)
    return reply.json() if reply.content else None


async def test_operations_that_free_memory_work_while_memory_is_full(
    redis: Redis, http: httpx.AsyncClient
) -> None:
    """X13: other operations are 503, and so is /health."""
    one, two, three = [(await send(http, "POST", "/threads"))["thread_id"] for _ in range(3)]
    for thread in (one, two):
        await send(http, "POST", f"/threads/{thread}/runs/wait", **COUNTER)
    (run,) = await send(http, "GET", f"/threads/{one}/runs")
    cron = await send(http, "POST", "/runs/crons", assistant_id="counter", schedule="0 0 1 1 *")
    assistant = await send(http, "POST", "/assistants", graph_id="counter")
    item = {"namespace": ["a"], "key": "k"}
    await send(http, "PUT", "/store/items", **item, value={"a": 1})
    await generate_ad(http)
    await send(http, "PUT", "/api/ads/ad-1/locks/music")
    redis.config_set("maxmemory", 1)
    code, report = await health(http)
    assert (code, report["degraded"], report["storage"]["ok"]) == (503, ["storage"], False)
    assert "out of memory" in report["error"]
    assert "delete threads" in report["remedy"]
    assert (await http.post(f"/threads/{three}/runs", json=COUNTER)).status_code == 503
    await send(http, "DELETE", "/store/items", **item)
    await send(http, "DELETE", f"/runs/crons/{cron['cron_id']}")
    await send(http, "DELETE", f"/assistants/{assistant['assistant_id']}")
    await send(http, "DELETE", f"/threads/{one}/runs/{run['run_id']}")
    await send(http, "POST", "/threads/prune", thread_ids=[two], strategy="keep_latest")
    assert len(await send(http, "GET", f"/threads/{two}/history")) == 1
    await send(http, "POST", "/threads/prune", thread_ids=[two])
    await send(http, "DELETE", "/api/ads/ad-1/locks/music")
    await send(http, "DELETE", "/api/ads/ad-1/conversation")
    for thread in (one, three, "ad-1"):
        await send(http, "DELETE", f"/threads/{thread}")
    redis.config_set("maxmemory", 0)
    assert (await health(http))[0] == 200
    await send(http, "POST", "/runs/wait", **COUNTER)


async def test_threads_expire_while_memory_is_full(
    server: RedisServer, redis: Redis, http: httpx.AsyncClient
) -> None:
    thread = (await send(http, "POST", "/threads", ttl=1))["thread_id"]
    redis.config_set("maxmemory", 1)
    async with storage.connect(server.url) as opened:
        saver = RedisSaver(opened.redis)
        assert await retention.sweep(SweepContext(opened, saver), int(time.time() * 1000) + 90_000) == 1
        await saver.aclose()
    assert (await http.get(f"/threads/{thread}")).status_code == 404


async def test_redis_settings_that_can_lose_data_are_warned_of_at_the_start(
    server: RedisServer, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in /health, which stays ok."""
    redis.config_set("maxmemory-policy", "volatile-lru")
    async with served_app(server.url) as http:
        code, report = await health(http)
        warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert (code, report["status"]) == (200, "ok")
        persistence, eviction = report["warnings"]
        assert "append-only" in persistence
        assert "volatile-lru" in eviction
        assert all(any(warning in line for line in warnings) for warning in report["warnings"])
        redis.config_set("maxmemory-policy", "noeviction")
        redis.config_set("appendonly", "yes")
        assert "warnings" not in (await health(http))[1]


async def test_an_emptied_redis_is_reported_by_every_server(
    server: RedisServer, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_app(server.url) as one, served_app(server.url) as other:
        for http in (one, other):
            assert (await health(http))[1]["status"] == "ok"
        redis.flushall()
        for http in (one, other, one):
            code, report = await health(http)
            assert (code, report["degraded"]) == (200, ["persistence"])
            assert "was emptied" in report["error"]
    assert len([line for line in caplog.messages if "was emptied" in line]) == 2
    async with served_app(server.url) as http:
        assert (await health(http))[1]["status"] == "ok"


@pytest.mark.slow
async def test_an_ad_with_an_evicted_key_causes_no_internal_error(
    server: RedisServer, redis: Redis, http: httpx.AsyncClient
) -> None:
    """With any key missing: other parts are shown, or 404 names the missing part; no list fails."""
    await generate_ad(http)
    ad = "/api/ads/ad-1"
    paths = [ad, *(f"{ad}/{part}" for part in ("voices", "music/v1", "timeline", "mixer", "conversation"))]
    paths += ["/api/artefacts/ad/ad-1", "/threads/ad-1", "/threads/ad-1/state", "/threads/ad-1/history"]
    paths += ["/api/ads", "/threads/ad-1/runs"]
    errors = set()
    for key in [key for key in redis.scan_iter() if b"{ad-1}" in key]:
        dump, left_ms = redis.dump(key), redis.pttl(key)
        assert dump
        redis.delete(key)
        for path in paths:
            reply = await http.get(path)
            assert reply.status_code in {200, 404}, (key, path, reply.text)
            errors |= {reply.text} if reply.status_code == 404 else set()
        assert (await http.post("/threads/search", json={})).status_code == 200, key
        redis.restore(key, max(0, left_ms), dump, replace=True)
    assert any("'music' is gone from storage" in one for one in errors)
    assert any("Restore all keys" in one for one in errors)

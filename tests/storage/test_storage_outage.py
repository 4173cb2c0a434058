"""Storage that is away for a while: 503 with Retry-After within 2 s, then success again (X13)."""

import asyncio
import contextlib
import re
import resource
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from starlette.types import Receive, Scope, Send

from callsheet.server.http.outage import StorageOutageMiddleware, StorageProbe
from callsheet.state.errors import StorageDown
from callsheet.storage import Storage, connect
from callsheet.storage.embedded import watchdog
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.served import GENERATE, generate_ad, served_app
from tests.doubles.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SOON_S = 2.0
ROOM = 8_000
REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/api/ads", None),
    ("GET", "/api/ads/ad-1", None),
    ("GET", "/api/ads/ad-1/voices", None),
    ("GET", "/api/ads/ad-1/conversation", None),
    ("PATCH", "/api/ads/ad-1/mixer", {"voices": {"track-0": -3}}),
    ("POST", "/api/ads/ad-1/chat", {"message": "make the music calmer", "provider": "offline"}),
    ("POST", "/api/ai/generate", {**GENERATE, "adId": "ad-2"}),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Valkey of the test's own that keeps its data over a restart."""
    one = RedisServer(watchdog.binary(), tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    one.start()
    yield one
    one.go_on()
    one.kill()


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(server.url) as one:
        yield one
        # A test that failed must not leave the application waiting for its end.
        server.go_on()


async def timed_request(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> tuple[str, httpx.Response, float]:
    """The reply to a request, and the seconds that it took."""
    began = time.monotonic()
    reply = await client.request(method, path, json=body)
    return f"{method} {path}", reply, time.monotonic() - began


async def request_all(client: httpx.AsyncClient) -> list[tuple[str, httpx.Response, float]]:
    """The replies to all requests, sent at once."""
    return await asyncio.gather(*(timed_request(client, *request) for request in REQUESTS))


async def assert_all_refused(client: httpx.AsyncClient) -> None:
    """Every request is answered with 503 and Retry-After, and soon."""
    for request, reply, took_s in await request_all(client):
        assert (reply.status_code, reply.json()["type"]) == (503, "storage_down"), (request, reply.text)
        assert int(reply.headers["retry-after"]) >= 1, request
        assert took_s < SOON_S, (request, took_s)


async def healthy(client: httpx.AsyncClient) -> bool:
    return (await client.get("/health")).status_code == 200


async def assert_recovered(client: httpx.AsyncClient, ad: dict[str, Any]) -> None:
    await eventually(lambda: healthy(client), "a healthy server")
    assert (await client.get("/api/ads/ad-1")).json()["streams"] == ad["streams"]
    await generate_ad(client, adId="ad-3")


async def test_requests_during_a_hang_of_redis_are_503_in_time_and_succeed_afterwards(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    await generate_ad(client)
    ad = (await client.get("/api/ads/ad-1")).json()
    server.hang()
    await assert_all_refused(client)
    began = time.monotonic()
    health = await client.get("/health")
    assert (health.status_code, health.json()["degraded"]) == (503, ["storage"])
    assert time.monotonic() - began < SOON_S
    assert (await client.get("/ok")).status_code == 200
    server.go_on()
    await assert_recovered(client, ad)


WITHOUT_STORAGE = {
    "/ok",
    "/ready",
    "/health",
    "/metrics",
    "/info",
    "/api/voices",
    "/api/session",
    "/api/questions/events",
}
"""Paths that answer without storage, and a stream that waits for it."""


async def test_no_documented_operation_hangs_or_is_an_internal_error_during_an_outage(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    """Every operation is 503, or a refusal that needs no storage; the voices are in the program."""
    spec = (await client.get("/openapi.json")).json()
    server.hang()
    requests = [
        timed_request(client, method, re.sub(r"{(\w+)}", _example_id, path))
        for path, methods in spec["paths"].items()
        for method in methods
        if path
        not in {
            "/ok",
            "/ready",
            "/health",
            "/metrics",
            "/info",
            "/api/voices",
            "/api/session",
            "/api/questions/events",
        }
    ]
    assert len(requests) > 10
    # Not all at once, which would measure the machine.
    answers = [one for some in chunks(requests, 20) for one in await asyncio.gather(*some)]
    for request, reply, took_s in answers:
        assert reply.status_code == 503 or 400 <= reply.status_code < 500, (request, reply.text)
        assert took_s < SOON_S, (request, took_s)
    assert sum(reply.status_code == 503 for _, reply, _ in answers) > 10
    server.go_on()


def chunks(requests: list[Any], size: int) -> list[list[Any]]:
    return [requests[at : at + size] for at in range(0, len(requests), size)]


def _example_id(placeholder: re.Match[str]) -> str:
    examples = {"stream": "music", "version_id": "v1", "ad_id": "ad-1"}
    return examples.get(placeholder[1], "11111111-1111-4111-8111-111111111111")


async def test_requests_after_a_kill_of_redis_are_503_in_time_and_succeed_after_its_restart(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    await generate_ad(client)
    ad = (await client.get("/api/ads/ad-1")).json()
    server.kill()
    await assert_all_refused(client)
    server.start()
    await assert_recovered(client, ad)


async def test_a_refused_connection_is_named_and_a_silent_server_with_rounded_seconds(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    server.hang()
    silent = await client.post("/threads", json={})
    server.go_on()
    server.kill()
    refused = await client.post("/threads", json={})
    assert (silent.status_code, refused.status_code) == (503, 503)
    assert "did not answer within 0.7 s" in silent.text
    assert "Start the server, or correct REDIS_URL." in refused.text
    assert "cannot be used: Error 111" in refused.text
    assert "did not answer" not in refused.text
    health = (await client.get("/health")).text
    assert "cannot be used: Error 111" in health
    assert "did not answer" not in health


async def test_a_request_under_way_when_redis_hangs_is_503(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    """An ad that was complete before the hang is tried again under another id."""
    await client.get("/api/ads")
    for number in range(10):
        ad = {**GENERATE, "adId": f"ad-{number}"}
        request = asyncio.create_task(client.post("/api/ai/generate", json=ad))
        with Redis.from_url(server.url) as redis:
            await eventually(lambda of=redis, n=number: _run_exists(of, n), "a run")  # type: ignore[misc]  # both are bound
        server.hang()
        began = time.monotonic()
        reply = await request
        assert time.monotonic() - began < SOON_S
        server.go_on()
        if reply.status_code != 200:
            break
    assert (reply.status_code, reply.headers.get("retry-after")) == (503, "1"), reply.text
    again = await client.post("/api/ai/generate", json=ad)
    assert again.json()["drafts"]["voices"] == "v1", again.text


async def _run_exists(redis: Redis, number: int) -> bool:
    return bool(list(redis.scan_iter(f"thread:{{ad-{number}}}:*")))


async def test_a_redis_password_changed_at_run_time_is_503_for_callers(
    server: RedisServer,
) -> None:
    async with served_app(server.url) as client:
        await generate_ad(client)
        with Redis.from_url(server.url) as redis:
            redis.config_set("requirepass", "hunter2")
            redis.execute_command("CLIENT", "KILL", "TYPE", "normal")
        for request, reply, took_s in await request_all(client):
            assert (reply.status_code, reply.json()["type"]) == (503, "storage_down"), (request, reply.text)
            assert "hunter2" not in reply.text
            assert took_s < SOON_S


async def _slow_app(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.2)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def _call_middleware(middleware: StorageOutageMiddleware) -> list[int]:
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> Any:
        return {"type": "http.request"}

    await middleware({"type": "http", "path": "/api/ads", "headers": []}, receive, send)
    return statuses


async def test_a_slow_request_is_not_ended_while_storage_answers(storage: Storage) -> None:
    """Storage is probed many times meanwhile and answers."""
    probe = StorageProbe(storage, 1.0)
    assert await _call_middleware(StorageOutageMiddleware(_slow_app, lambda: probe, 0.03)) == [204]


async def test_concurrent_probes_share_one_command(server: RedisServer) -> None:
    async with connect(server.url) as opened:
        probe = StorageProbe(opened, 1.0)
        with Redis.from_url(server.url) as redis:
            before = redis.info("commandstats").get("cmdstat_info", {}).get("calls", 0)
            assert await asyncio.gather(*(probe.unavailable_reason() for _ in range(100))) == [None] * 100
            # One is the INFO above.
            assert redis.info("commandstats")["cmdstat_info"]["calls"] == before + 1 + 1


async def test_a_busy_process_does_not_take_storage_for_silent(storage: Storage) -> None:
    """The answer has arrived, and the process is too busy to read it."""
    reason = asyncio.create_task(StorageProbe(storage, 0.1).unavailable_reason())
    for _ in range(5):
        await asyncio.sleep(0)
        time.sleep(0.12)  # noqa: ASYNC251 -- what keeps the process busy
    assert await reason is None


async def test_a_disconnected_caller_cancels_the_request(storage: Storage) -> None:
    ended = asyncio.Event()

    async def forever(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    probe = StorageProbe(storage, 1.0)
    calling = asyncio.create_task(_call_middleware(StorageOutageMiddleware(forever, lambda: probe, 1.0)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    assert ended.is_set()


async def test_an_answer_and_an_error_after_the_503_are_dropped(tmp_path: Path) -> None:
    """The application's late error is retrieved, too."""
    one = RedisServer(watchdog.binary(), tmp_path)
    one.start()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise StorageDown("still away")

    try:
        async with connect(one.url) as opened:
            one.hang()
            probe = StorageProbe(opened, 0.05)
            assert await _call_middleware(StorageOutageMiddleware(late, lambda: probe, 0.03)) == [503]
            await asyncio.sleep(0)
            one.go_on()
    finally:
        one.kill()


@pytest.fixture
def limited_disk(tmp_path: Path) -> Iterator[RedisServer]:
    """A server whose log may be limited: a write beyond is an error, as on a full disk."""
    program = tmp_path / "redis-server"
    program.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {watchdog.binary()} \"$@\"\n")
    program.chmod(0o700)
    with running_redis(program, tmp_path, "--appendonly", "yes") as server:
        yield server


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits another process")
async def test_a_request_whose_run_waits_for_a_full_disk_is_503_in_time(limited_disk: RedisServer) -> None:
    """The request is recorded before Redis has noticed; its run then waits until there is space again."""
    with Redis.from_url(limited_disk.url) as redis:
        async with served_app(limited_disk.url) as client:
            await generate_ad(client)
            info: Any = redis.info()
            # Room for the record of a run, and not for all of its steps.
            size = info["aof_current_size"] + ROOM
            resource.prlimit(info["process_id"], resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            started_s = time.monotonic()
            reply = await client.post("/api/ai/generate", json={**GENERATE, "adId": "ad-2"})
            assert (reply.status_code, "cannot write to its disk" in reply.text) == (503, True)
            assert time.monotonic() - started_s < 10
            infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(info["process_id"], resource.RLIMIT_FSIZE, infinite)

            async def can_write() -> bool:
                return (await client.get("/ready")).status_code == 200

            await eventually(can_write, "the end of the outage")
            assert (await generate_ad(client, adId="ad-2"))["drafts"]["voices"] == "v1"

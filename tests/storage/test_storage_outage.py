"""Storage that goes away for a while: 503 with Retry-After within 2 s, then all as before (X13)."""

import asyncio
import contextlib
import re
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
from tests.doubles.redis_server import RedisServer
from tests.doubles.served import GENERATE, generate_ad, served_app
from tests.doubles.waiting import eventually

pytestmark = pytest.mark.slow

SOON_S = 2.0
QUESTIONS: list[tuple[str, str, Any]] = [
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
    """A Valkey of the test's own that remembers over a restart."""
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


async def timed(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> tuple[str, httpx.Response, float]:
    """The reply to a question, and the seconds it took."""
    began = time.monotonic()
    reply = await client.request(method, path, json=body)
    return f"{method} {path}", reply, time.monotonic() - began


async def asked(client: httpx.AsyncClient) -> list[tuple[str, httpx.Response, float]]:
    """The replies to every question, asked at once."""
    return await asyncio.gather(*(timed(client, *question) for question in QUESTIONS))


async def refused(client: httpx.AsyncClient) -> None:
    """Every question is answered with 503, when to ask again, and soon."""
    for question, reply, took_s in await asked(client):
        assert (reply.status_code, reply.json()["type"]) == (503, "storage_down"), (question, reply.text)
        assert int(reply.headers["retry-after"]) >= 1, question
        assert took_s < SOON_S, (question, took_s)


async def healthy(client: httpx.AsyncClient) -> bool:
    return (await client.get("/health")).status_code == 200


async def as_before(client: httpx.AsyncClient, ad: dict[str, Any]) -> None:
    await eventually(lambda: healthy(client), "a healthy server")
    assert (await client.get("/api/ads/ad-1")).json()["streams"] == ad["streams"]
    await generate_ad(client, adId="ad-3")


async def test_a_redis_that_hangs_is_503_in_time_and_then_all_is_as_before(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    await generate_ad(client)
    ad = (await client.get("/api/ads/ad-1")).json()
    server.hang()
    await refused(client)
    began = time.monotonic()
    health = await client.get("/health")
    assert (health.status_code, health.json()["degraded"]) == (503, ["storage"])
    assert time.monotonic() - began < SOON_S
    assert (await client.get("/ok")).status_code == 200
    server.go_on()
    await as_before(client, ad)


async def test_no_operation_there_is_hangs_or_fails_as_if_it_were_a_bug(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    """Every operation of the description: 503, or a refusal that needs no storage."""
    spec = (await client.get("/openapi.json")).json()
    server.hang()
    asking = [
        timed(client, method, re.sub(r"{(\w+)}", _named, path))
        for path, methods in spec["paths"].items()
        for method in methods
        if path not in {"/ok", "/health", "/metrics", "/info"}
    ]
    assert len(asking) > 10
    # Not all at once, which would measure how many requests this machine can make in a second.
    answers = [one for some in batched(asking, 20) for one in await asyncio.gather(*some)]
    for question, reply, took_s in answers:
        assert reply.status_code == 503 or 400 <= reply.status_code < 500, (question, reply.text)
        assert took_s < SOON_S, (question, took_s)
    assert sum(reply.status_code == 503 for _, reply, _ in answers) > 10
    server.go_on()


def batched(asking: list[Any], size: int) -> list[list[Any]]:
    return [asking[at : at + size] for at in range(0, len(asking), size)]


def _named(found: re.Match[str]) -> str:
    known = {"stream": "music", "version_id": "v1", "ad_id": "ad-1"}
    return known.get(found[1], "11111111-1111-4111-8111-111111111111")


async def test_a_redis_that_is_killed_is_503_in_time_and_then_all_is_as_before(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    await generate_ad(client)
    ad = (await client.get("/api/ads/ad-1")).json()
    server.kill()
    await refused(client)
    server.start()
    await as_before(client, ad)


async def test_a_request_under_way_when_redis_hangs_is_503_too(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    """One that was done just before is begun again under another id."""
    await client.get("/api/ads")
    for number in range(10):
        ad = {**GENERATE, "adId": f"ad-{number}"}
        asking = asyncio.create_task(client.post("/api/ai/generate", json=ad))
        with Redis.from_url(server.url) as redis:
            await eventually(lambda of=redis, n=number: _begun(of, n), "a run")  # type: ignore[misc]  # both are bound
        server.hang()
        began = time.monotonic()
        reply = await asking
        assert time.monotonic() - began < SOON_S
        server.go_on()
        if reply.status_code != 200:
            break
    assert (reply.status_code, reply.headers.get("retry-after")) == (503, "1"), reply.text
    again = await client.post("/api/ai/generate", json=ad)
    assert again.json()["drafts"]["voices"] == "v1", again.text


async def _begun(redis: Redis, number: int) -> bool:
    return bool(list(redis.scan_iter(f"thread:{{ad-{number}}}:*")))


async def test_a_password_changed_at_run_time_is_the_operators_trouble_not_the_callers(
    server: RedisServer,
) -> None:
    async with served_app(server.url) as client:
        await generate_ad(client)
        with Redis.from_url(server.url) as redis:
            redis.config_set("requirepass", "hunter2")
            redis.execute_command("CLIENT", "KILL", "TYPE", "normal")
        for question, reply, took_s in await asked(client):
            assert (reply.status_code, reply.json()["type"]) == (503, "storage_down"), (question, reply.text)
            assert "hunter2" not in reply.text
            assert took_s < SOON_S


async def _slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.2)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def _called(lesson_driver: StorageOutageMiddleware) -> list[int]:
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> Any:
        return {"type": "http.request"}

    await lesson_driver({"type": "http", "path": "/api/ads", "headers": []}, receive, send)
    return statuses


async def test_a_request_that_only_takes_long_is_left_alone(storage: Storage) -> None:
    """Storage is asked many times meanwhile and answers."""
    watch = StorageProbe(storage, 1.0)
    assert await _called(StorageOutageMiddleware(_slow, lambda: watch, 0.03)) == [204]


async def test_many_that_wait_share_one_question(server: RedisServer) -> None:
    async with connect(server.url) as opened:
        watch = StorageProbe(opened, 1.0)
        with Redis.from_url(server.url) as redis:
            before = redis.info("commandstats").get("cmdstat_info", {}).get("calls", 0)
            assert await asyncio.gather(*(watch.unavailable_reason() for _ in range(100))) == [None] * 100
            # One is the question above.
            assert redis.info("commandstats")["cmdstat_info"]["calls"] == before + 1 + 1


async def test_a_process_that_is_busy_does_not_take_storage_for_silent(storage: Storage) -> None:
    """The answer is there all the time, and nobody has the time to read it."""
    asked = asyncio.create_task(StorageProbe(storage, 0.1).unavailable_reason())
    for _ in range(5):
        await asyncio.sleep(0)
        time.sleep(0.12)  # noqa: ASYNC251 -- what keeps the process busy
    assert await asked is None


async def test_who_goes_away_takes_the_request_along(storage: Storage) -> None:
    ended = asyncio.Event()

    async def forever(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    watch = StorageProbe(storage, 1.0)
    calling = asyncio.create_task(_called(StorageOutageMiddleware(forever, lambda: watch, 1.0)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    assert ended.is_set()


async def test_what_fails_after_the_503_is_said_to_nobody_twice(tmp_path: Path) -> None:
    """The application's own late answer is dropped, and its late error is no unretrieved one."""
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
            watch = StorageProbe(opened, 0.05)
            assert await _called(StorageOutageMiddleware(late, lambda: watch, 0.03)) == [503]
            await asyncio.sleep(0)
            one.go_on()
    finally:
        one.kill()

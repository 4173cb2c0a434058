"""Limits per owner over all processes: requests per minute, and open streams."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.server.http.auth import ANYONE, Caller, set_caller
from callsheet.server.http.limits import OpenStreams, RateLimitMiddleware, opens_stream
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Limited
from callsheet.storage import Storage, connect, rate_limits
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis import caller_keys
from tests.doubles.auth_cases import create_key
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.served import scope_with_policy, served_app
from tests.doubles.waiting import eventually

ROOT = Path(__file__).parents[2]


async def make_older(storage: Storage, name: str, by_s: float, unit: float) -> None:
    """Backdate all entries of a counter by `by_s` seconds."""
    for entry, score in await storage.redis.zrange(name, 0, -1, withscores=True):
        await storage.redis.zadd(name, {entry: score - by_s * unit})


async def test_a_request_over_the_limit_is_429_with_retry_after(valkey_url: str) -> None:
    async with served_app(valkey_url, requests_per_minute=3) as client:
        replies = [await client.get("/api/ads") for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 429]
    assert [reply.headers["x-ratelimit-remaining"] for reply in replies] == ["2", "1", "0", "0"]
    assert {reply.headers["x-ratelimit-limit"] for reply in replies} == {"3"}
    assert all(0 < int(reply.headers["x-ratelimit-reset"]) <= 60 for reply in replies)
    refusal = replies[-1]
    assert 0 < int(refusal.headers["retry-after"]) <= 60
    assert refusal.json()["type"] == "limited"
    assert "CALLSHEET_REQUESTS_PER_MINUTE" in refusal.json()["remedy"]


async def test_all_processes_share_one_count(valkey_url: str) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(served_app(valkey_url, requests_per_minute=5)) for _ in range(2)
        ]
        requests = [client.get("/api/ads") for client in clients for _ in range(5)]
        replies = await asyncio.gather(*requests)
    assert sorted(reply.status_code for reply in replies) == [200] * 5 + [429] * 5


async def test_owners_are_counted_separately_and_unauthenticated_requests_not_at_all(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url, auth=("keys",), requests_per_minute=1) as client:
        for owner in ("alice", "bob"):
            headers = {"X-Api-Key": await create_key(storage, owner)}
            assert (await client.get("/api/ads", headers=headers)).status_code == 200
            assert (await client.get("/api/ads", headers=headers)).status_code == 429
        assert (await client.get("/api/ads")).status_code == 401
        assert (await client.get("/ok")).status_code == 200
    assert sorted(await storage.redis.keys("owner:*")) == [b"owner:{alice}:requests", b"owner:{bob}:requests"]


async def test_a_preflight_request_is_not_counted(valkey_url: str) -> None:
    headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "GET"}
    async with served_app(valkey_url, requests_per_minute=1) as client:
        for _ in range(3):
            assert (await client.options("/api/ads", headers=headers)).status_code == 200
        reply = await client.get("/api/ads", headers={"Origin": "http://localhost:3000"})
    assert reply.status_code == 200
    assert "X-RateLimit-Remaining" in reply.headers["access-control-expose-headers"]


async def test_a_429_on_a_langgraph_route_has_the_field_detail_alone(valkey_url: str) -> None:
    async with served_app(valkey_url, requests_per_minute=1) as client:
        await client.get("/api/ads")
        reply = await client.get("/threads/nothing")
    assert (reply.status_code, list(reply.json())) == (429, ["detail"])
    assert reply.headers["x-ratelimit-remaining"] == "0"


async def test_the_window_slides_so_that_no_60_seconds_exceed_the_limit(storage: Storage) -> None:
    counts = [await rate_limits.count_request(storage, "alice", f"r{i}", 2) for i in range(3)]
    assert [(count.allowed, count.remaining) for count in counts] == [(True, 1), (True, 0), (False, 0)]
    await make_older(storage, caller_keys.request_window("alice"), 50, 1e6)
    refused = await rate_limits.count_request(storage, "alice", "r3", 2)
    assert (refused.allowed, 0 < refused.retry_after_s <= 10) == (False, True)
    await make_older(storage, caller_keys.request_window("alice"), 10, 1e6)
    assert (await rate_limits.count_request(storage, "alice", "r4", 2)).remaining == 1


async def test_a_refused_request_does_not_extend_the_wait(storage: Storage) -> None:
    await rate_limits.count_request(storage, "alice", "r0", 1)
    await make_older(storage, caller_keys.request_window("alice"), 30, 1e6)
    waits = {
        (await rate_limits.count_request(storage, "alice", f"more{i}", 1)).retry_after_s for i in range(20)
    }
    assert 0 < max(waits) <= 30


async def test_a_request_that_arrives_twice_is_counted_once(storage: Storage) -> None:
    """A command whose reply was lost is sent again."""
    first = await rate_limits.count_request(storage, "alice", "same", 1)
    again = await rate_limits.count_request(storage, "alice", "same", 1)
    assert (first.allowed, again.allowed, again.remaining) == (True, True, 0)


def fake_app(storage: Storage) -> Any:
    """Return the parts of a started application that the limits use."""
    state = type("State", (), {"context": type("Context", (), {"storage": storage})})
    return type("App", (), {"state": state})


class HeldStreams:
    """An application whose streams stay open until `release` is set."""

    def __init__(self) -> None:
        self.open = 0
        self.release = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.open += 1
        await self.release.wait()
        await send({"type": "http.response.body", "body": b""})


def client_of(app: RateLimitMiddleware, storage: Storage, owner: str = "alice") -> httpx.AsyncClient:
    """Return a client whose requests come from this owner."""

    async def as_owner(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, Caller(owner, ANYONE.permissions, owner), partial(asyncio.sleep, 0))
        await app(scope_with_policy({**scope, "app": fake_app(storage)}), receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(as_owner), base_url="http://127.0.0.1")


async def test_a_stream_over_the_limit_of_all_processes_is_refused_before_it_opens(storage: Storage) -> None:
    app = HeldStreams()
    first, second = (RateLimitMiddleware(app, Settings(streams_per_owner=2)) for _ in range(2))
    async with client_of(first, storage) as client, client_of(second, storage) as second_client:
        streams = [asyncio.create_task(client.get("/threads/t/stream")) for client in (client, second_client)]

        async def both_are_open() -> bool:
            return app.open == 2

        await eventually(both_are_open, "two open streams")
        reply = await client.post("/threads/t/runs/stream")
        assert (reply.status_code, app.open) == (429, 2)
        assert "2 streams are open already" in reply.json()["detail"]
        async with client_of(first, storage, "bob") as bobs:
            theirs = asyncio.create_task(bobs.get("/threads/t/stream"))
            app.release.set()
            assert (await theirs).status_code == 200
        assert [(await stream).status_code for stream in streams] == [200, 200]
        assert (await client.get("/threads/t/stream")).status_code == 200, "the slots are free again"
    assert await storage.redis.keys("owner:*") == []


async def test_a_request_that_is_no_stream_needs_no_slot(storage: Storage) -> None:
    app = HeldStreams()
    app.release.set()
    limited = RateLimitMiddleware(app, Settings(streams_per_owner=1))
    async with client_of(limited, storage) as client, OpenStreams(1).hold(storage, "alice"):
        assert (await client.get("/threads/t/runs/r/join")).status_code == 200
        assert (await client.get("/threads/t/stream")).status_code == 429


@pytest.mark.parametrize(
    ("method", "path", "accept", "stream"),
    [
        ("GET", "/threads/t/stream", "*/*", True),
        ("POST", "/threads/t/runs/stream", "*/*", True),
        ("POST", "/runs/stream", "*/*", True),
        ("GET", "/threads/t/runs/r/stream", "*/*", True),
        ("POST", "/threads/t/stream/events", "*/*", True),
        ("GET", "/api/conversations/c/events", "*/*", True),
        ("POST", "/api/ai/generate", "text/event-stream", True),
        ("POST", "/api/ai/generate", "application/json", False),
        ("POST", "/threads/t/runs/wait", "*/*", False),
        ("GET", "/api/ads/stream", "text/event-stream", False),
    ],
)
def test_streams_are_recognised_by_method_path_and_accept_header(
    method: str, path: str, accept: str, *, stream: bool
) -> None:
    scope = {"type": "http", "method": method, "path": path, "headers": [(b"accept", accept.encode())]}
    assert opens_stream(scope_with_policy(scope)) is stream


def test_a_web_socket_counts_as_a_stream() -> None:
    for path in ("/ws", "/threads/t/stream/events"):
        assert opens_stream(scope_with_policy({"type": "websocket", "path": path}))


async def test_the_lease_of_an_open_stream_is_renewed_until_the_stream_ends(storage: Storage) -> None:
    """Well beyond one lease; after the stream its slot is free at once."""
    streams, name = OpenStreams(1, lease_s=0.6), caller_keys.open_streams("alice")
    async with streams.hold(storage, "alice"):
        ends = {(await storage.redis.zrange(name, 0, 0, withscores=True))[0][1]}

        async def is_renewed() -> bool:
            ends.add((await storage.redis.zrange(name, 0, 0, withscores=True))[0][1])
            return len(ends) > 3

        await eventually(is_renewed, "three renewals")
        with pytest.raises(Limited, match="1 streams"):
            async with OpenStreams(1).hold(storage, "alice"):
                pass
    assert not await storage.redis.exists(name)


@pytest.fixture
def holding_process(valkey_url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a stream open."""
    code = f"""
import asyncio
from callsheet.server.http.limits import OpenStreams
from callsheet.storage import connect

async def main():
    async with connect({valkey_url!r}) as storage, OpenStreams(1, lease_s=1.2).hold(storage, "alice"):
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.fault
async def test_the_slots_of_a_killed_process_become_free(
    storage: Storage, holding_process: subprocess.Popen[str]
) -> None:
    """kill -9, on a real process."""
    assert holding_process.stdout is not None
    assert await asyncio.to_thread(holding_process.stdout.readline) == "open\n"
    assert not await rate_limits.open_stream(storage, "alice", "mine", 1, 30)
    holding_process.send_signal(signal.SIGKILL)

    async def free() -> bool:
        return await rate_limits.open_stream(storage, "alice", "mine", 1, 30)

    await eventually(free, "a free slot")


async def test_a_slot_with_an_expired_lease_becomes_free_while_others_are_renewed(storage: Storage) -> None:
    assert await rate_limits.open_stream(storage, "alice", "of a killed process", 2, 30)
    await make_older(storage, caller_keys.open_streams("alice"), 31, 1e3)
    assert await rate_limits.open_stream(storage, "alice", "alive", 2, 30)
    await rate_limits.renew_streams(storage, "alice", ["alive"], 30)
    assert await rate_limits.open_stream(storage, "alice", "new", 2, 30)
    assert not await rate_limits.open_stream(storage, "alice", "one more", 2, 30)


async def test_opening_or_closing_a_stream_twice_is_safe(storage: Storage) -> None:
    assert await rate_limits.open_stream(storage, "alice", "s", 1, 30)
    assert await rate_limits.open_stream(storage, "alice", "s", 1, 30)
    for _ in range(2):
        await rate_limits.close_stream(storage, "alice", "s")
    assert await rate_limits.open_stream(storage, "alice", "other", 1, 30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Valkey that the test may kill or suspend."""
    with running_redis(watchdog.binary(), tmp_path) as server:
        yield server
        server.go_on()


async def test_during_an_outage_of_storage_new_streams_are_503_and_open_ones_stay_open(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit that an outage lifts would be none."""
    app = HeldStreams()
    app.release.set()
    async with AsyncExitStack() as stack:
        storage = await stack.enter_async_context(connect(server.url, timeout_s=0.2))
        await stack.enter_async_context(OpenStreams(1, lease_s=0.15).hold(storage, "alice"))
        server.kill()
        for settings in (Settings(requests_per_minute=9), Settings(streams_per_owner=9)):
            client = await stack.enter_async_context(client_of(RateLimitMiddleware(app, settings), storage))
            assert (await client.get("/threads/t/stream")).status_code == 503

        async def is_logged() -> bool:
            return "may stop being counted" in caplog.text

        await eventually(is_logged, "a warning")
    assert app.open == 0
    assert "until its lease ends" in caplog.text


async def test_health_answers_in_time_with_a_known_key_while_storage_hangs(
    server: RedisServer,
) -> None:
    async with connect(server.url) as storage:
        headers = {"X-Api-Key": await create_key(storage, "alice")}
    settings = {"auth": ("keys",), "requests_per_minute": 1, "storage_patience_s": 0.5}
    async with served_app(server.url, **settings) as client:
        for _ in range(3):
            assert (await client.get("/health", headers=headers)).status_code == 200, (
                "not counted by the limit"
            )
        server.hang()
        start_s = time.monotonic()
        reply = await client.get("/health", headers=headers)
        assert (reply.status_code, time.monotonic() - start_s < 3) == (503, True)
        assert reply.headers["retry-after"] == "1"
        server.go_on()
        assert (await client.get("/health", headers=headers)).status_code == 200


async def test_without_limits_no_request_is_counted(valkey_url: str, storage: Storage) -> None:
    async with served_app(valkey_url) as client:
        reply = await client.get("/api/ads")
    assert "x-ratelimit-limit" not in reply.headers
    assert await storage.redis.keys("owner:*") == []


async def test_closing_one_stream_during_a_renewal_does_not_stop_later_renewals(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, renew, closing = OpenStreams(9, lease_s=0.03), rate_limits.renew_streams, AsyncExitStack()
    tasks: list[asyncio.Task[None]] = []
    renewals = 0

    async def is_closed() -> bool:
        return len(streams._open) == 1

    async def renew_slowly(*arguments: Any) -> None:
        nonlocal renewals
        renewals += 1
        if not tasks:
            tasks.append(asyncio.create_task(closing.aclose()))
            await eventually(is_closed, "the other owner's stream is closed")
        await renew(*arguments)

    monkeypatch.setattr(rate_limits, "renew_streams", renew_slowly)
    async with streams.hold(storage, "alice"):
        await closing.enter_async_context(streams.hold(storage, "bob"))

        async def is_renewed_again() -> bool:
            return renewals > 3

        await eventually(is_renewed_again, "another renewal")
        await tasks[0]

"""How often a caller may ask, and how many streams it may have open, over all processes."""

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
from callsheet.storage.redis import keys
from tests.doubles.auth_cases import create_key
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.served import scope_with_policy, served_app
from tests.doubles.waiting import eventually

ROOT = Path(__file__).parents[2]


async def age(storage: Storage, name: str, by_s: float, unit: float) -> None:
    """Make the entries of a counter older, as if they had been written `by_s` seconds before."""
    for entry, score in await storage.redis.zrange(name, 0, -1, withscores=True):
        await storage.redis.zadd(name, {entry: score - by_s * unit})


async def test_requests_over_the_limit_are_told_when_to_come_again(valkey_url: str) -> None:
    async with served_app(valkey_url, requests_per_minute=3) as client:
        replies = [await client.get("/api/ads") for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 429]
    assert [reply.headers["x-ratelimit-remaining"] for reply in replies] == ["2", "1", "0", "0"]
    assert {reply.headers["x-ratelimit-limit"] for reply in replies} == {"3"}
    assert all(0 < int(reply.headers["x-ratelimit-reset"]) <= 60 for reply in replies)
    refused = replies[-1]
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert refused.json()["type"] == "limited"
    assert "CALLSHEET_REQUESTS_PER_MINUTE" in refused.json()["remedy"]


async def test_the_count_is_one_for_all_processes(valkey_url: str) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(served_app(valkey_url, requests_per_minute=5)) for _ in range(2)
        ]
        asked = [client.get("/api/ads") for client in clients for _ in range(5)]
        replies = await asyncio.gather(*asked)
    assert sorted(reply.status_code for reply in replies) == [200] * 5 + [429] * 5


async def test_each_owner_is_counted_alone_and_strangers_are_not_counted(
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


async def test_a_browser_that_only_asks_what_is_allowed_is_not_counted(valkey_url: str) -> None:
    asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "GET"}
    async with served_app(valkey_url, requests_per_minute=1) as client:
        for _ in range(3):
            assert (await client.options("/api/ads", headers=asked)).status_code == 200
        reply = await client.get("/api/ads", headers={"Origin": "http://localhost:3000"})
    assert reply.status_code == 200
    assert "X-RateLimit-Remaining" in reply.headers["access-control-expose-headers"]


async def test_on_the_wire_too_many_requests_are_a_detail(valkey_url: str) -> None:
    async with served_app(valkey_url, requests_per_minute=1) as client:
        await client.get("/api/ads")
        reply = await client.get("/threads/nothing")
    assert (reply.status_code, list(reply.json())) == (429, ["detail"])
    assert reply.headers["x-ratelimit-remaining"] == "0"


async def test_the_window_slides_so_no_60_seconds_have_more(storage: Storage) -> None:
    counts = [await rate_limits.count_request(storage, "alice", f"r{i}", 2) for i in range(3)]
    assert [(one.allowed, one.remaining) for one in counts] == [(True, 1), (True, 0), (False, 0)]
    await age(storage, keys.request_window("alice"), 50, 1e6)
    late = await rate_limits.count_request(storage, "alice", "r3", 2)
    assert (late.allowed, 0 < late.retry_after_s <= 10) == (False, True)
    await age(storage, keys.request_window("alice"), 10, 1e6)
    assert (await rate_limits.count_request(storage, "alice", "r4", 2)).remaining == 1


async def test_a_refused_request_does_not_make_the_wait_longer(storage: Storage) -> None:
    await rate_limits.count_request(storage, "alice", "r0", 1)
    await age(storage, keys.request_window("alice"), 30, 1e6)
    waits = {
        (await rate_limits.count_request(storage, "alice", f"more{i}", 1)).retry_after_s for i in range(20)
    }
    assert 0 < max(waits) <= 30


async def test_a_request_that_arrives_twice_is_counted_once(storage: Storage) -> None:
    """A command whose answer was lost is sent again."""
    first = await rate_limits.count_request(storage, "alice", "same", 1)
    again = await rate_limits.count_request(storage, "alice", "same", 1)
    assert (first.allowed, again.allowed, again.remaining) == (True, True, 0)


def parts(storage: Storage) -> Any:
    """As much of a started application as the limits look at."""
    state = type("State", (), {"context": type("Context", (), {"storage": storage})})
    return type("App", (), {"state": state})


class Held:
    """An application whose streams stay open until they are let go."""

    def __init__(self) -> None:
        self.open = 0
        self.let_go = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.open += 1
        await self.let_go.wait()
        await send({"type": "http.response.body", "body": b""})


def asking(app: RateLimitMiddleware, storage: Storage, owner: str = "alice") -> httpx.AsyncClient:
    """A client whose requests come from this owner."""

    async def as_owner(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, Caller(owner, ANYONE.permissions, owner), partial(asyncio.sleep, 0))
        await app(scope_with_policy({**scope, "app": parts(storage)}), receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(as_owner), base_url="http://127.0.0.1")


async def test_streams_over_the_limit_are_refused_before_anything_is_begun(storage: Storage) -> None:
    held = Held()
    first, second = (RateLimitMiddleware(held, Settings(streams_per_owner=2)) for _ in range(2))
    async with asking(first, storage) as one, asking(second, storage) as other:
        streams = [asyncio.create_task(client.get("/threads/t/stream")) for client in (one, other)]

        async def both() -> bool:
            return held.open == 2

        await eventually(both, "two open streams")
        reply = await one.post("/threads/t/runs/stream")
        assert (reply.status_code, held.open) == (429, 2)
        assert "2 streams are open already" in reply.json()["detail"]
        async with asking(first, storage, "bob") as bobs:
            theirs = asyncio.create_task(bobs.get("/threads/t/stream"))
            held.let_go.set()
            assert (await theirs).status_code == 200
        assert [(await stream).status_code for stream in streams] == [200, 200]
        assert (await one.get("/threads/t/stream")).status_code == 200, "the slots are free again"
    assert await storage.redis.keys("owner:*") == []


async def test_what_is_no_stream_takes_no_slot(storage: Storage) -> None:
    held = Held()
    held.let_go.set()
    limited = RateLimitMiddleware(held, Settings(streams_per_owner=1))
    async with asking(limited, storage) as client, OpenStreams(1).hold(storage, "alice"):
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
def test_streams_are_known_before_they_begin(method: str, path: str, accept: str, *, stream: bool) -> None:
    scope = {"type": "http", "method": method, "path": path, "headers": [(b"accept", accept.encode())]}
    assert opens_stream(scope_with_policy(scope)) is stream


def test_a_web_socket_is_a_stream() -> None:
    for path in ("/ws", "/threads/t/stream/events"):
        assert opens_stream(scope_with_policy({"type": "websocket", "path": path}))


async def test_an_open_stream_is_renewed_for_as_long_as_it_lasts(storage: Storage) -> None:
    """Longer than its lease by far, and then it is gone at once."""
    streams, name = OpenStreams(1, lease_s=0.6), keys.open_streams("alice")
    async with streams.hold(storage, "alice"):
        ends = {(await storage.redis.zrange(name, 0, 0, withscores=True))[0][1]}

        async def renewed() -> bool:
            ends.add((await storage.redis.zrange(name, 0, 0, withscores=True))[0][1])
            return len(ends) > 3

        await eventually(renewed, "three renewals")
        with pytest.raises(Limited, match="1 streams"):
            async with OpenStreams(1).hold(storage, "alice"):
                pass
    assert not await storage.redis.exists(name)


@pytest.fixture
def elsewhere(valkey_url: str) -> Iterator[subprocess.Popen[str]]:
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
async def test_the_streams_of_a_killed_process_are_soon_counted_no_more(
    storage: Storage, elsewhere: subprocess.Popen[str]
) -> None:
    """kill -9, on a real process."""
    assert elsewhere.stdout is not None
    assert await asyncio.to_thread(elsewhere.stdout.readline) == "open\n"
    assert not await rate_limits.open_stream(storage, "alice", "mine", 1, 30)
    elsewhere.send_signal(signal.SIGKILL)

    async def free() -> bool:
        return await rate_limits.open_stream(storage, "alice", "mine", 1, 30)

    await eventually(free, "a free slot")


async def test_a_stream_whose_lease_ended_makes_room_though_others_are_renewed(storage: Storage) -> None:
    assert await rate_limits.open_stream(storage, "alice", "of a killed process", 2, 30)
    await age(storage, keys.open_streams("alice"), 31, 1e3)
    assert await rate_limits.open_stream(storage, "alice", "alive", 2, 30)
    await rate_limits.renew_streams(storage, "alice", ["alive"], 30)
    assert await rate_limits.open_stream(storage, "alice", "new", 2, 30)
    assert not await rate_limits.open_stream(storage, "alice", "one more", 2, 30)


async def test_opening_or_closing_twice_is_safe(storage: Storage) -> None:
    assert await rate_limits.open_stream(storage, "alice", "s", 1, 30)
    assert await rate_limits.open_stream(storage, "alice", "s", 1, 30)
    for _ in range(2):
        await rate_limits.close_stream(storage, "alice", "s")
    assert await rate_limits.open_stream(storage, "alice", "other", 1, 30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Valkey of the test's own."""
    with running_redis(watchdog.binary(), tmp_path) as one:
        yield one
        one.go_on()


async def test_what_cannot_be_counted_is_refused_and_open_streams_stay_open(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit that lets all in while storage is away would be none."""
    held = Held()
    held.let_go.set()
    async with AsyncExitStack() as stack:
        storage = await stack.enter_async_context(connect(server.url, timeout_s=0.2))
        await stack.enter_async_context(OpenStreams(1, lease_s=0.15).hold(storage, "alice"))
        server.kill()
        for chosen in (Settings(requests_per_minute=9), Settings(streams_per_owner=9)):
            client = await stack.enter_async_context(asking(RateLimitMiddleware(held, chosen), storage))
            assert (await client.get("/threads/t/stream")).status_code == 503

        async def told() -> bool:
            return "may stop being counted" in caplog.text

        await eventually(told, "a warning")
    assert held.open == 0
    assert "until its lease ends" in caplog.text


async def test_the_health_is_told_in_time_though_storage_hangs_and_keys_cannot_be_checked(
    server: RedisServer,
) -> None:
    async with connect(server.url) as storage:
        made = {"X-Api-Key": await create_key(storage, "alice")}
    chosen = {"auth": ("keys",), "requests_per_minute": 1, "storage_patience_s": 0.5}
    async with served_app(server.url, **chosen) as client:
        for _ in range(3):
            assert (await client.get("/health", headers=made)).status_code == 200, "and is not counted"
        server.hang()
        began = time.monotonic()
        reply = await client.get("/health", headers=made)
        assert (reply.status_code, time.monotonic() - began < 3) == (503, True)
        assert reply.headers["retry-after"] == "1"
        server.go_on()
        assert (await client.get("/health", headers=made)).status_code == 200


async def test_without_limits_nothing_is_counted(valkey_url: str, storage: Storage) -> None:
    async with served_app(valkey_url) as client:
        reply = await client.get("/api/ads")
    assert "x-ratelimit-limit" not in reply.headers
    assert await storage.redis.keys("owner:*") == []


async def test_a_stream_that_closes_while_others_are_renewed_keeps_none_from_being_renewed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, renew, closing = OpenStreams(9, lease_s=0.03), rate_limits.renew_streams, AsyncExitStack()
    tasks: list[asyncio.Task[None]] = []
    renewed = 0

    async def closed() -> bool:
        return len(streams._open) == 1

    async def late(*asked: Any) -> None:
        nonlocal renewed
        renewed += 1
        if not tasks:
            tasks.append(asyncio.create_task(closing.aclose()))
            await eventually(closed, "the end of the other's stream")
        await renew(*asked)

    monkeypatch.setattr(rate_limits, "renew_streams", late)
    async with streams.hold(storage, "alice"):
        await closing.enter_async_context(streams.hold(storage, "bob"))

        async def again() -> bool:
            return renewed > 3

        await eventually(again, "another renewal")
        await tasks[0]

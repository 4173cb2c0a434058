"""Announcements of a thread reach every subscriber of this process (X10)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from callsheet.server.engine.event_bus import EventBus
from callsheet.state.errors import StorageDown
from callsheet.storage import Storage, connect
from callsheet.storage.redis import keys
from callsheet.storage.runs.events import Announcements, append
from tests.doubles.tcp_proxy import TcpProxy
from tests.doubles.waiting import eventually


@asynccontextmanager
async def listening_announcements(storage: Storage) -> AsyncIterator[Announcements]:
    announcements = Announcements(storage)
    await announcements.open()
    listening = asyncio.create_task(announcements.listen())
    try:
        yield announcements
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await announcements.aclose()


async def is_reliable(announcements: Announcements) -> bool:
    return announcements.is_reliable


async def test_a_silent_stream_reads_nothing_while_announcements_arrive(storage: Storage) -> None:
    async with listening_announcements(storage) as announcements:
        bus = EventBus(storage, announcements, 0.01)

        readable = [True]

        async def is_readable() -> bool:
            checks.append(None)
            return readable[0]

        checks: list[None] = []
        await eventually(partial(is_reliable, announcements), "the first message")
        async with aclosing(bus.follow("t", "0-0", is_readable, 3600)) as source:
            assert await anext(source) is None
            before = await storage.redis.info("commandstats")
            assert [await anext(source) for _ in range(30)] == [None] * 30
            after = await storage.redis.info("commandstats")
            reads = [stats.get("cmdstat_xrange", {"calls": 0})["calls"] for stats in (before, after)]
            assert reads[1] - reads[0] <= 1
            await append(storage, "t", "greeting", b'"hello"')
            while (event := await anext(source)) is None:
                pass
            assert event.name == "greeting"
            assert checks == []
            await storage.redis.publish(keys.run_keys("t").events, "gone")
            readable[0] = False
            assert [each async for each in source if each] == []
            assert checks == [None]


@pytest.mark.slow
async def test_a_connection_that_is_lost_without_a_sign_is_noticed_and_replaced(valkey_url: str) -> None:
    socket = valkey_url.removeprefix("unix://").partition("?")[0]
    async with (
        TcpProxy(socket) as proxy,
        connect(proxy.url) as storage,
        listening_announcements(storage) as announcements,
        announcements.subscribe("t") as signal,
    ):
        await eventually(partial(is_reliable, announcements), "the first message")
        signal.clear()
        proxy.cut(half=True)
        await eventually(signal_is_set(signal), "subscribers look for themselves", patience_s=20)
        assert not announcements.is_reliable
        proxy.heal()
        await eventually(partial(is_reliable, announcements), "a new connection", patience_s=20)


def signal_is_set(signal: asyncio.Event) -> Callable[[], Awaitable[bool]]:
    async def is_set() -> bool:
        return signal.is_set()

    return is_set


async def test_a_second_subscriber_gets_announcements_although_the_first_failed_to_subscribe(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    announcements = Announcements(storage)
    await announcements.open()
    listening = asyncio.create_task(announcements.listen())
    subscribe = announcements._pubsub.subscribe
    first_is_subscribing, second_has_subscribed = asyncio.Event(), asyncio.Event()

    async def fail_first_call(*_: Any) -> None:
        monkeypatch.setattr(announcements._pubsub, "subscribe", subscribe)
        first_is_subscribing.set()
        await second_has_subscribed.wait()
        raise RedisConnectionError

    async def subscribe_first() -> None:
        async with announcements.subscribe("t"):
            pass

    monkeypatch.setattr(announcements._pubsub, "subscribe", fail_first_call)
    first_subscriber = asyncio.create_task(subscribe_first())
    await first_is_subscribing.wait()
    async with announcements.subscribe("t", "end") as signal:
        second_has_subscribed.set()
        with pytest.raises(StorageDown):
            await first_subscriber
        signal.clear()

        async def signal_is_set() -> bool:
            await storage.redis.publish(keys.run_keys("t").events, "end")
            return signal.is_set()

        await eventually(signal_is_set, "the announcement")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await announcements.aclose()

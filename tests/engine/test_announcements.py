"""Announcements of a thread reach every subscriber of this process (X10)."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from callsheet.state.errors import StorageDown
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs.events import Announcements
from tests.doubles.waiting import eventually


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

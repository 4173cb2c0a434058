"""Hearing what is announced on a thread, whoever else listens to it in this process (X10)."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as Lost

from callsheet.state.errors import StorageDown
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs.events import Announcements
from tests.doubles.waiting import eventually


async def test_who_comes_while_the_first_listener_fails_hears_all_the_same(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    announcements = Announcements(storage)
    await announcements.open()
    listening = asyncio.create_task(announcements.listen())
    subscribe, going = announcements._pubsub.subscribe, asyncio.Event()

    async def lost(*_: Any) -> None:
        monkeypatch.setattr(announcements._pubsub, "subscribe", subscribe)
        going.set()
        await failing.wait()
        raise Lost

    async def first() -> None:
        async with announcements.subscribe("t"):
            pass

    failing = asyncio.Event()
    monkeypatch.setattr(announcements._pubsub, "subscribe", lost)
    one = asyncio.create_task(first())
    await going.wait()
    async with announcements.subscribe("t", "end") as bell:
        failing.set()
        with pytest.raises(StorageDown):
            await one
        bell.clear()

        async def heard() -> bool:
            await storage.redis.publish(keys.run_keys("t").events, "end")
            return bell.is_set()

        await eventually(heard, "the bell")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await announcements.aclose()

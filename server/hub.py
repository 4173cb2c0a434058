"""Following what runs tell, from any process, without a gap and without a repetition."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from storage import events
from storage.announcements import Announcements, rung
from storage.connection import Storage
from storage.events import END, Event

_LOOK_S: Final = 2.0
"""How long an announcement may be missed before one looks without it."""


class Hub:
    """The events of all threads."""

    def __init__(self, storage: Storage, announcements: Announcements) -> None:
        self._storage = storage
        self._announcements = announcements

    async def follow(
        self, thread: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events that follow the id `after`, for ever; None after a silence."""
        loop = asyncio.get_running_loop()
        async with self._announcements.listening(thread) as bell:
            said = loop.time()
            while True:
                bell.clear()
                found = await events.after(self._storage, thread, after)
                for event in found:
                    after = event.id
                    said = loop.time()
                    yield event
                if found:
                    continue
                await rung(bell, min(_LOOK_S, heartbeat_s or _LOOK_S))
                if heartbeat_s and loop.time() - said >= heartbeat_s:
                    said = loop.time()
                    yield None

    async def ends(self, thread: str, heartbeat_s: float) -> AsyncGenerator[bool, None]:
        """Yield True whenever a run of the thread may have ended, for ever; False after a silence."""
        loop = asyncio.get_running_loop()
        async with self._announcements.listening(thread, "end") as bell:
            said = loop.time()
            while True:
                await rung(bell, min(_LOOK_S, heartbeat_s))
                bell.clear()
                yield True
                if loop.time() - said >= heartbeat_s:
                    said = loop.time()
                    yield False

    async def of_run(
        self, thread: str, run: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield one run's events that follow `after`, its end among them, and stop there."""
        async for event in self.follow(thread, after, heartbeat_s=heartbeat_s):
            if event is None:
                yield None
            elif event.run == run:
                yield event
                if event.name == END:
                    return

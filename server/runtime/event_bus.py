"""Follow the events of runs from any process, without gaps or repetitions."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from callsheet.server.runtime.event_buffer import LocalEventBuffer, LocalEventBuffers
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.announcements import Announcements, wait_for_signal
from callsheet.storage.runs.events import END, Event
from callsheet.storage.runs.runs import Runs

_POLL_S: Final = 2.0
"""Seconds until a reader checks Redis without an announcement."""


class EventBus:
    """The events of all threads."""

    def __init__(self, storage: Storage, announcements: Announcements) -> None:
        self._storage = storage
        self._announcements = announcements
        self._runs = Runs(storage)
        self.buffers = LocalEventBuffers()
        """Events of the runs of this process."""

    async def follow(
        self, thread: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events after the id `after`, for ever.

        Yields None after `heartbeat_s` of silence, and when the thread was deleted.
        """
        loop = asyncio.get_running_loop()
        cursor = events.EventCursor(self._storage, thread, after)
        async with self._announcements.subscribe(thread) as bell:
            last_s = loop.time()
            while True:
                bell.clear()
                batch = await cursor.read_next()
                for event in batch:
                    last_s = loop.time()
                    yield event
                if batch:
                    continue
                if not bell.thread_deleted:
                    await wait_for_signal(bell, _wait_s(loop.time() - last_s, heartbeat_s))
                if bell.thread_deleted or (heartbeat_s and loop.time() - last_s >= heartbeat_s):
                    bell.thread_deleted, last_s = False, loop.time()
                    yield None

    def has_local_follower(self, thread: str, buffer: LocalEventBuffer | None) -> bool:
        """Return True if anything in this process follows the thread, or the run of this buffer."""
        return bool(buffer and buffer.followers) or self._announcements.has_subscriber(thread)

    async def last_events(self, thread: str, run: str, among: int) -> Mapping[str, Event]:
        """Return the newest events of a run by name, from the `among` newest events of its thread."""
        return self.buffers.last(run) or await events.newest_of_run(self._storage, thread, run, among)

    async def run_ends(self, thread: str, heartbeat_s: float) -> AsyncGenerator[bool, None]:
        """Yield True whenever a run of the thread may have ended, for ever; False after a silence.

        The caller reads the run's status to be sure.
        """
        loop = asyncio.get_running_loop()
        async with self._announcements.subscribe(thread, "end") as bell:
            last_s = loop.time()
            while True:
                await wait_for_signal(bell, _wait_s(loop.time() - last_s, heartbeat_s))
                bell.clear()
                yield True
                if loop.time() - last_s >= heartbeat_s:
                    last_s = loop.time()
                    yield False

    async def follow_run(
        self, thread: str, run: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield one run's events after `after`, to its end; None after `heartbeat_s` of silence."""
        if buffer := self.buffers.find(run, after):
            async with aclosing(buffer.follow(after, heartbeat_s)) as events_:
                async for event in events_:
                    yield event
                    after = event.id if event else after
            if buffer.over:
                return
        async with aclosing(self._follow_stored(thread, run, after, heartbeat_s)) as source:
            async for event in source:
                yield event

    async def _follow_stored(
        self, thread: str, run: str, after: str, heartbeat_s: float | None
    ) -> AsyncGenerator[Event | None, None]:
        async with aclosing(self.follow(thread, after, heartbeat_s=heartbeat_s)) as source:
            async for event in source:
                if event and event.run != run:
                    continue
                yield event
                after = event.id if event else after
                if event and event.name == END:
                    return
                # The end event may be trimmed from the log, or the thread deleted.
                if event is None and await self._runs.has_ended(thread, run):
                    break
        # It may have ended just now, with events since the last read.
        async for event in self.stored_events(thread, run, after):
            yield event

    async def stored_events(self, thread: str, run: str, after: str) -> AsyncGenerator[Event, None]:
        """Yield the stored events of one run after `after`."""
        cursor = events.EventCursor(self._storage, thread, after)
        while batch := await cursor.read_next():
            for event in (one for one in batch if one.run == run):
                yield event


def _wait_s(silence_s: float, heartbeat_s: float | None) -> float:
    """Return the seconds to wait: until the next check or the next heartbeat."""
    return min(_POLL_S, max(0.0, heartbeat_s - silence_s)) if heartbeat_s else _POLL_S

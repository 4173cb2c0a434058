"""Follow the events of runs from any process, without gaps or repetitions."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.events import (
    ATTEMPT_STARTED,
    END,
    GAP,
    STATE_UPDATED,
    Announcements,
    Event,
    wait_for_signal,
)
from callsheet.storage.runs.records import OPEN_STATUSES, Run
from callsheet.storage.runs.runs import Runs

_POLL_S: Final = 2.0
"""Seconds until a reader checks Redis while announcements may be lost."""
_GONE: Final = Event("", "", "gone", b"")
"""Stands for the deletion of the thread."""
_CHECKED: Final = frozenset({ATTEMPT_STARTED, STATE_UPDATED, _GONE.name})
"""First events of a thread that was created again, and its deletion."""
_Frame = TypeVar("_Frame")


class EventBus:
    """The events of all threads.

    Every reader, of a thread or a run, gets None after `heartbeat_s` of silence.
    """

    def __init__(self, storage: Storage, announcements: Announcements, heartbeat_s: float) -> None:
        self._storage = storage
        self.announcements: Final = announcements
        """Subscriptions of this process."""
        self._runs = Runs(storage)
        self.heartbeat_s: Final = heartbeat_s

    async def follow(
        self,
        thread: str,
        after: str,
        is_readable: Callable[[], Awaitable[object]],
        check_every_s: float = 0.0,
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events after the id `after` until it is not readable; None after a silence.

        `GAP` stands for events that were trimmed before the reader came to them, here as for a run.

        `is_readable` is asked whenever the thread may be gone or another owner's: after a silence or a
        deletion, and when a run starts. Its answer counts as a truth value. After a silence it is asked at
        most every `check_every_s` seconds, as long as announcements tell of deletions.
        """
        loop = asyncio.get_running_loop()
        checked_s = loop.time()
        async with aclosing(self._follow(thread, after, self.heartbeat_s)) as source:
            async for event in source:
                is_recent = self.announcements.is_reliable and loop.time() - checked_s < check_every_s
                is_due = event.name in _CHECKED if event else not is_recent
                if is_due and not await is_readable():
                    return
                checked_s = loop.time() if is_due else checked_s
                yield None if event is _GONE else event

    async def translate(
        self,
        source: AsyncGenerator[Event | None, None],
        translate: Callable[[Event], Awaitable[Sequence[_Frame]]],
    ) -> AsyncGenerator[_Frame | None, None]:
        """Yield what `translate` makes of each event; None after a silence.

        Events that make nothing are silence, too, such as a long answer's pieces for who reads steps alone.
        """
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        async with aclosing(source):
            async for event in source:
                frames = await translate(event) if event else ()
                for frame in frames:
                    yield frame
                if frames:
                    last_s = loop.time()
                elif event is None or loop.time() - last_s >= self.heartbeat_s:
                    last_s = loop.time()
                    yield None

    async def _follow(
        self, thread: str, after: str, heartbeat_s: float
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events for ever; None after a silence, `_GONE` when the thread was deleted."""
        loop = asyncio.get_running_loop()
        cursor = events.EventCursor(self._storage, thread, after)
        async with self.announcements.subscribe(thread) as bell:
            last_s, reads = loop.time(), True
            while True:
                # It may have rung while the reader was busy with the last event or silence.
                reads = reads or bell.is_set()
                bell.clear()
                batch = await cursor.read_next() if reads else []
                for event in batch:
                    last_s = loop.time()
                    yield event
                if batch:
                    # Later events are announced.
                    reads = not cursor.is_at_end
                    continue
                if not bell.thread_deleted:
                    reads = await self._must_read(bell, loop.time() - last_s, heartbeat_s)
                if bell.thread_deleted or loop.time() - last_s >= heartbeat_s:
                    sign = _GONE if bell.thread_deleted else None
                    bell.thread_deleted, last_s = False, loop.time()
                    yield sign

    async def _must_read(self, bell: asyncio.Event, silence_s: float, heartbeat_s: float) -> bool:
        """Wait for an announcement until the next heartbeat; return whether there may be something to read.

        Without announcements to rely on, it returns after `_POLL_S` at the latest.
        """
        left_s = max(0.0, heartbeat_s - silence_s)
        if not self.announcements.is_reliable:
            await wait_for_signal(bell, min(_POLL_S, left_s))
            return True
        return await wait_for_signal(bell, left_s)

    async def run_ends(self, thread: str) -> AsyncGenerator[bool, None]:
        """Yield True whenever a run of the thread may have ended, for ever; False after a silence.

        The caller reads the run's status to be sure.
        """
        loop = asyncio.get_running_loop()
        async with self.announcements.subscribe(thread, "end") as bell:
            last_s = loop.time()
            while True:
                if await self._must_read(bell, loop.time() - last_s, self.heartbeat_s):
                    bell.clear()
                    yield True
                if loop.time() - last_s >= self.heartbeat_s:
                    last_s = loop.time()
                    yield False

    async def wait_for_end(self, thread: str, run: str) -> Run | None:
        """Wait until a run has ended and return its record; None if it was deleted. Reads no events."""
        async with aclosing(self.run_ends(thread)) as ends:
            while True:
                await anext(ends)
                record = await self._runs.find(thread, run)
                if record is None or record.status not in OPEN_STATUSES:
                    return record

    async def follow_run(
        self, thread: str, run: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield one run's events after the id `after`, to its end; None after a silence."""
        async with aclosing(self._follow(thread, after, heartbeat_s or self.heartbeat_s)) as source:
            async for each in source:
                event = None if each is _GONE else each
                if event and event.run != run and event.name != GAP:
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
        while not cursor.is_at_end:
            for event in await cursor.read_next():
                if event.run == run or event.name == GAP:
                    yield event

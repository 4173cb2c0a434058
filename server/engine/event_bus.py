"""Follow the events of runs from any process, without gaps or repetitions.

Events of the runs of this process are kept in memory, so that local followers need not read Redis.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.events import (
    ATTEMPT_STARTED,
    END,
    GAP,
    START_ID,
    STATE_UPDATED,
    Announcements,
    Event,
    order_of,
    wait_for_signal,
)
from callsheet.storage.runs.runs import Runs

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes kept of one run; followers of a longer one go on reading from Redis."""
_ENDED_TTL_S: Final = 5.0
"""Seconds that an ended run is kept for followers that start late."""
_ENDED_MAX_BYTES: Final = 64 * 1024
"""Bytes kept of an ended run; late followers of a longer one read it from Redis."""
_POLL_S: Final = 2.0
"""Seconds until a reader checks Redis without an announcement."""
_CHECKED: Final = frozenset({ATTEMPT_STARTED, STATE_UPDATED})
"""First events of a thread that was created again."""
_Frame = TypeVar("_Frame")


class LocalEventBuffer:
    """All events of one run, while this process executes it."""

    def __init__(self, first: Event) -> None:
        self.run = first.run
        self.last: dict[str, Event] = {first.name: first}
        """Newest event by name."""
        self._events = [first]
        self.bytes = len(first.data)
        """Size of the kept events and the answer."""
        self.followers = 0
        """Number of present followers."""
        self.answer: Mapping[str, Any] | None = None
        """Answer of the run, once it has been stored."""
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """True if nothing is added any more; later events are in Redis."""
        return self._closed.is_set()

    @property
    def over(self) -> bool:
        """True if the run has ended."""
        return END in self.last

    def add(self, ids: Iterable[str], events: Iterable[tuple[str, bytes]]) -> None:
        """Add events with the ids that Redis gave them."""
        if self.closed:
            return
        for event_id, (name, data) in zip(ids, events, strict=True):
            event = Event(event_id, self.run, name, data)
            self._events.append(event)
            self.bytes += len(data)
            self.last[name] = event
        if self.over or self.bytes > _MAX_BYTES:
            self.close()
        self._notify()

    def set_answer(self, text: str) -> None:
        """Keep the answer, as JSON, in the form in which another process reads it; added before the end."""
        self.answer = json.loads(text)
        self.bytes += len(text)

    def close(self) -> None:
        """Stop adding."""
        self._closed.set()
        self._notify()

    async def wait_closed(self, patience_s: float) -> bool:
        """Wait at most `patience_s`; return True if it is closed."""
        return self.closed or await wait_for_signal(self._closed, patience_s)

    async def follow(self, after: str, heartbeat_s: float) -> AsyncGenerator[Event | None, None]:
        """Yield the events after the id `after` until it is closed; None after `heartbeat_s` of silence."""
        position = 0
        self.followers += 1
        try:
            while position < len(self._events) or not self.closed:
                fresh = self._events[position:]
                position += len(fresh)
                for event in (one for one in fresh if order_of(one.id) > order_of(after)):
                    yield event
                if (
                    position == len(self._events)
                    and not self.closed
                    and not await wait_for_signal(self._changed, heartbeat_s)
                ):
                    yield None
        finally:
            self.followers -= 1

    def _notify(self) -> None:
        # Wakes the present waiters; a later one checks first.
        self._changed.set()
        self._changed.clear()


class LocalEventBuffers:
    """The event buffers of this process, by run."""

    def __init__(self) -> None:
        self._of: dict[str, LocalEventBuffer] = {}

    def begin(self, first: Event) -> LocalEventBuffer:
        """Create a run's buffer with its first event."""
        buffer = self._of[first.run] = LocalEventBuffer(first)
        return buffer

    def end(self, buffer: LocalEventBuffer) -> None:
        """Close a buffer, and drop it: a large one now, others after `_ENDED_TTL_S`."""
        buffer.close()
        kept_s = _ENDED_TTL_S if buffer.bytes <= _ENDED_MAX_BYTES else 0
        asyncio.get_running_loop().call_later(kept_s, self._drop, buffer)

    def find(self, run: str, after: str = START_ID) -> LocalEventBuffer | None:
        """Return a run's buffer; None if this process has none with events after the id `after`.

        Only a run's first attempt has a buffer. A failed run may continue in another process.
        """
        buffer = self._of.get(run)
        end = buffer.last.get(END) if buffer else None
        return None if end and order_of(end.id) <= order_of(after) else buffer

    def last(self, run: str) -> Mapping[str, Event] | None:
        """Return the newest events of an ended run by name; None if it did not end here."""
        buffer = self._of.get(run)
        return buffer.last if buffer and buffer.over else None

    def answer(self, run: str) -> Mapping[str, Any] | None:
        """Return the answer of a run that ended here just now; else None."""
        buffer = self._of.get(run)
        return buffer.answer if buffer else None

    def _drop(self, buffer: LocalEventBuffer) -> None:
        if self._of.get(buffer.run) is buffer:
            del self._of[buffer.run]


class EventBus:
    """The events of all threads.

    Every reader, of a thread or a run, gets None after `heartbeat_s` of silence.
    """

    def __init__(self, storage: Storage, announcements: Announcements, heartbeat_s: float) -> None:
        self._storage = storage
        self._announcements = announcements
        self._runs = Runs(storage)
        self.heartbeat_s: Final = heartbeat_s
        self.buffers = LocalEventBuffers()
        """Events of the runs of this process."""

    async def follow(
        self, thread: str, after: str, is_readable: Callable[[], Awaitable[object]]
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events after the id `after` until it is not readable; None after a silence.

        `GAP` stands for events that were trimmed before the reader came to them, here as for a run.

        `is_readable` is asked whenever the thread may be gone or another owner's: after a silence or a
        deletion, and when a run starts. Its answer counts as a truth value.
        """
        async with aclosing(self._follow(thread, after, self.heartbeat_s)) as source:
            async for event in source:
                if (event is None or event.name in _CHECKED) and not await is_readable():
                    return
                yield event

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
        self, thread: str, after: str, heartbeat_s: float, *, has_read: bool = False
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events for ever; None after a silence, and when the thread was deleted."""
        loop = asyncio.get_running_loop()
        cursor = events.EventCursor(self._storage, thread, after, has_read=has_read)
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
                if bell.thread_deleted or loop.time() - last_s >= heartbeat_s:
                    bell.thread_deleted, last_s = False, loop.time()
                    yield None

    def has_local_follower(self, thread: str, buffer: LocalEventBuffer | None) -> bool:
        """Return True if anything in this process follows the thread, or the run of this buffer."""
        return bool(buffer and buffer.followers) or self._announcements.has_subscriber(thread)

    async def last_events(self, thread: str, run: str, among: int) -> Mapping[str, Event]:
        """Return the newest events of a run by name, from the `among` newest events of its thread."""
        return self.buffers.last(run) or await events.newest_of_run(self._storage, thread, run, among)

    async def run_ends(self, thread: str) -> AsyncGenerator[bool, None]:
        """Yield True whenever a run of the thread may have ended, for ever; False after a silence.

        The caller reads the run's status to be sure.
        """
        loop = asyncio.get_running_loop()
        async with self._announcements.subscribe(thread, "end") as bell:
            last_s = loop.time()
            while True:
                await wait_for_signal(bell, _wait_s(loop.time() - last_s, self.heartbeat_s))
                bell.clear()
                yield True
                if loop.time() - last_s >= self.heartbeat_s:
                    last_s = loop.time()
                    yield False

    async def follow_run(
        self, thread: str, run: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield one run's events after the id `after`, to its end; None after a silence."""
        heartbeat_s, has_read = heartbeat_s or self.heartbeat_s, False
        if buffer := self.buffers.find(run, after):
            async with aclosing(buffer.follow(after, heartbeat_s)) as events_:
                async for event in events_:
                    yield event
                    after, has_read = (event.id, True) if event else (after, has_read)
            if buffer.over:
                return
        stored = self._follow_stored(thread, run, after, heartbeat_s, has_read=has_read)
        async with aclosing(stored) as source:
            async for event in source:
                yield event

    async def _follow_stored(
        self, thread: str, run: str, after: str, heartbeat_s: float, *, has_read: bool
    ) -> AsyncGenerator[Event | None, None]:
        async with aclosing(self._follow(thread, after, heartbeat_s, has_read=has_read)) as source:
            async for event in source:
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
        while batch := await cursor.read_next():
            for event in (one for one in batch if one.run == run or one.name == GAP):
                yield event


def _wait_s(silence_s: float, heartbeat_s: float) -> float:
    """Return the seconds to wait: until the next check or the next heartbeat."""
    return min(_POLL_S, max(0.0, heartbeat_s - silence_s))

"""Events of the runs of this process, in memory: local followers need not read Redis."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Final

from callsheet.storage.runs.announcements import wait_for_signal
from callsheet.storage.runs.events import END, START_ID, Event, order_of

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes kept of one run; followers of a longer one go on reading from Redis."""
_ENDED_TTL_S: Final = 5.0
"""Seconds that an ended run is kept for followers that start late."""
_ENDED_MAX_BYTES: Final = 64 * 1024
"""Bytes kept of an ended run; late followers of a longer one read it from Redis."""


class LocalEventBuffer:
    """All events of one run, while this process executes it."""

    def __init__(self, first: Event) -> None:
        self.run = first.run
        self.last: dict[str, Event] = {first.name: first}
        """Newest event by name."""
        self._events = [first]
        self.bytes = len(first.data)
        """Size of the kept events."""
        self.followers = 0
        """Number of present followers."""
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

    def _drop(self, buffer: LocalEventBuffer) -> None:
        if self._of.get(buffer.run) is buffer:
            del self._of[buffer.run]

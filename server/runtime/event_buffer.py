"""What runs told that this process carries out: who follows one here need not ask Redis."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Final

from callsheet.storage.runs.announcements import wait_for_signal
from callsheet.storage.runs.events import BEGINNING, END, Event

_MOST_BYTES: Final = 4 * 1024 * 1024
"""How much of one run is kept; who follows a longer one reads on in Redis."""
_KEPT_S: Final = 5.0
"""How long a run that has ended is kept, for who asked for it and was slow to follow."""


class LocalEventBuffer:
    """All that one run told, from its first event on, as long as this process is at it."""

    def __init__(self, begun: Event) -> None:
        self.run = begun.run
        self.last: dict[str, Event] = {begun.name: begun}
        """The newest event of each name."""
        self._events = [begun]
        self._bytes = len(begun.data)
        self.followers = 0
        """How many follow it now."""
        self._bell = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether nothing is added any more; what follows, if anything, is in Redis."""
        return self._closed.is_set()

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return END in self.last

    def add(self, ids: Iterable[str], told: Iterable[tuple[str, bytes]]) -> None:
        """Add events with the ids they were given."""
        if self.closed:
            return
        for event_id, (name, data) in zip(ids, told, strict=True):
            event = Event(event_id, self.run, name, data)
            self._events.append(event)
            self._bytes += len(data)
            self.last[name] = event
        if self.over or self._bytes > _MOST_BYTES:
            self.close()
        self._ring()

    def close(self) -> None:
        """Add no more."""
        self._closed.set()
        self._ring()

    async def wait_closed(self, patience_s: float) -> bool:
        """Wait until it is closed, or for as long as that; return whether it is."""
        return self.closed or await wait_for_signal(self._closed, patience_s)

    async def follow(self, after: str, heartbeat_s: float | None) -> AsyncGenerator[Event | None, None]:
        """Yield the events that follow the id `after`, until no more are added; None after a silence."""
        told = 0
        self.followers += 1
        try:
            while told < len(self._events) or not self.closed:
                fresh = self._events[told:]
                told += len(fresh)
                for event in (one for one in fresh if _place(one.id) > _place(after)):
                    yield event
                if (
                    told == len(self._events)
                    and not self.closed
                    and not await wait_for_signal(self._bell, heartbeat_s)
                ):
                    yield None
        finally:
            self.followers -= 1

    def _ring(self) -> None:
        # Wakes all who wait now; whoever comes later looks first.
        self._bell.set()
        self._bell.clear()


class LocalEventBuffers:
    """The transcripts of this process."""

    def __init__(self) -> None:
        self._of: dict[str, LocalEventBuffer] = {}

    def begin(self, begun: Event) -> LocalEventBuffer:
        """Begin a run's transcript with its first event; it is dropped some time after it was closed."""
        made = self._of[begun.run] = LocalEventBuffer(begun)
        return made

    def end(self, transcript: LocalEventBuffer) -> None:
        """Close a transcript, and drop it when who asked for its run has had the time to follow it."""
        transcript.close()
        asyncio.get_running_loop().call_later(_KEPT_S, self._drop, transcript)

    def find(self, run: str, after: str = BEGINNING) -> LocalEventBuffer | None:
        """Return a run's transcript; None where this process has none that goes beyond the event `after`.

        It has none where it was not at the run from its beginning; and one that failed may go on elsewhere.
        """
        found = self._of.get(run)
        end = found.last.get(END) if found else None
        return None if end and _place(end.id) <= _place(after) else found

    def last(self, run: str) -> Mapping[str, Event] | None:
        """Return by name the newest events of a run that has ended; None where this process does not know."""
        found = self._of.get(run)
        return found.last if found and found.over else None

    def _drop(self, transcript: LocalEventBuffer) -> None:
        if self._of.get(transcript.run) is transcript:
            del self._of[transcript.run]


def _place(event_id: str) -> tuple[int, int]:
    ms, _, number = event_id.partition("-")
    return int(ms), int(number)

"""Events of runs: one Redis stream per thread, written by the scripts of runs and read by any process."""

import re
from dataclasses import dataclass
from typing import Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import scripts

ATTEMPT_STARTED = "metadata"
"""Name of the first event of an attempt; its data is `{run_id, attempt}`."""
END = "end"
"""Name of the last event of a run; its data is the ending, or `PAUSED`, as plain text instead of JSON."""
PAUSED = "paused"
"""Ending of a run that succeeded and waits for a person's answer."""
PROTOCOL_PREFIX = "v2/"
"""Name prefix of events that only the second stream protocol sends."""
START_ID = "0-0"
"""Id before the first event."""
STATE_UPDATED = "state_update"
"""Name of the event after a manual state update; its data is the checkpoint as JSON."""
_ID: Final = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
_MAX_COUNTER: Final = 2**64 - 1
_MAX_EVENTS: Final = 500
"""Most events per read."""
_TARGET_BYTES: Final = 256 * 1024
"""Approximate bytes per read, which bounds the memory of many readers of large events."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a thread."""

    id: str
    """Grows from event to event within a thread."""
    run: str
    """Empty for an event of the thread itself."""
    name: str
    data: bytes
    """JSON."""
    checkpoint: str = ""
    """For values of a graph: the newest checkpoint of their namespace that the run had stored, if any."""


class EventCursor:
    """Reader of a thread's events from a position on, about a quarter of a megabyte at a time."""

    def __init__(self, storage: Storage, thread: str, after: str) -> None:
        self._storage = storage
        self._thread = thread
        self.after = after
        """Id of the last event that was read."""
        self._limit = 16

    async def read_next(self) -> list[Event]:
        """Return the next events, oldest first; an empty list if there are none yet."""
        events = await read_after(self._storage, self._thread, self.after, self._limit)
        if events:
            self.after = events[-1].id
            average_bytes = max(1, sum(len(event.data) for event in events) / len(events))
            self._limit = int(max(1, min(_MAX_EVENTS, self._limit * 8, _TARGET_BYTES / average_bytes)))
        return events


def is_event_id(text: str) -> bool:
    """Return whether a text has the form of an event id; Redis refuses any other one as a position."""
    return bool(_ID.fullmatch(text)) and max(order_of(text)) <= _MAX_COUNTER


def order_of(event_id: str) -> tuple[int, int]:
    """Return the sort key of an event id."""
    ms, _, counter = event_id.partition("-")
    return int(ms), int(counter)


def id_before(event_id: str) -> str:
    """Return the greatest id before this one; `ms-0` is before all events of a Unix time in milliseconds."""
    ms, counter = order_of(event_id)
    return f"{ms}-{counter - 1}" if counter else f"{ms - 1}-{_MAX_COUNTER}"


async def append(storage: Storage, thread: str, name: str, data: bytes) -> None:
    """Append an event that belongs to no run."""
    await scripts.APPEND_EVENT(storage.redis, keys.run_keys(thread), [name, data])


async def read_after(storage: Storage, thread: str, event_id: str, limit: int = _MAX_EVENTS) -> list[Event]:
    """Return the thread's events after `event_id`, oldest first."""
    entries = await storage.redis.xrange(keys.run_keys(thread).events, min=f"({event_id}", count=limit)
    return [_event(entry_id, fields) for entry_id, fields in entries]


async def find(storage: Storage, thread: str, event_id: str) -> Event | None:
    """Return the thread's event with this id; None if it has none, or none any more."""
    entries = await storage.redis.xrange(keys.run_keys(thread).events, min=event_id, max=event_id)
    return _event(*entries[0]) if entries else None


async def newest_id(storage: Storage, thread: str) -> str:
    """Return the id of the thread's newest event, or the id before the first."""
    entries = await storage.redis.xrevrange(keys.run_keys(thread).events, count=1)
    return entries[0][0].decode() if entries else START_ID


async def newest_of_run(storage: Storage, thread: str, run: str, among: int) -> dict[str, Event]:
    """Return the run's newest event of each name, by name, from the thread's `among` newest events."""
    entries = await storage.redis.xrevrange(keys.run_keys(thread).events, count=among)
    events = [_event(entry_id, fields) for entry_id, fields in reversed(entries)]
    return {event.name: event for event in events if event.run == run}


def _event(entry_id: bytes, fields: dict[bytes, bytes]) -> Event:
    run, name, checkpoint = (fields.get(key, b"").decode() for key in (b"run", b"event", b"checkpoint"))
    return Event(entry_id.decode(), run, name, fields[b"data"], checkpoint)

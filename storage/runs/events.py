"""What runs told, one stream per thread: written by the runs' scripts, read from any process."""

from dataclasses import dataclass
from typing import Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import scripts

BEGUN = "metadata"
"""Name of the event that an attempt at a run has begun; its data is `{run_id, attempt}`."""
END = "end"
"""Name of a run's last event; its data is how the run ended, `PAUSED` where it asks something. Not JSON."""
PAUSED = "paused"
"""The end of a run that succeeded so far, and asks a person something."""
PROTOCOL = "v2/"
"""How the names of events begin that are the second wire's alone."""
BEGINNING = "0-0"
"""The id before the first event."""
STATE = "state_update"
"""Name of the event that a thread's state was changed by hand; its data is the checkpoint's JSON."""
_MOST: Final = 500
"""Events that are read at once, at most."""
_BYTES: Final = 256 * 1024
"""About how much is read at once, so that many readers of large events need not much memory."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something a run told."""

    id: str
    """Grows from event to event of a thread."""
    run: str
    """Empty for what is the thread's own."""
    name: str
    data: bytes
    """JSON."""


class EventCursor:
    """A place in a thread's events, from which one reads on in pieces of about a quarter of a megabyte."""

    def __init__(self, storage: Storage, thread: str, after: str) -> None:
        self._storage = storage
        self._thread = thread
        self.after = after
        """The id of the newest event that was read."""
        self._limit = 16

    async def read_next(self) -> list[Event]:
        """Return the events that follow, oldest first; none where there are none yet."""
        found = await read_after(self._storage, self._thread, self.after, self._limit)
        if found:
            self.after = found[-1].id
            each = sum(len(event.data) for event in found) / len(found)
            self._limit = int(max(1, min(_MOST, self._limit * 8, _BYTES / max(1, each))))
        return found


async def append(storage: Storage, thread: str, name: str, data: bytes) -> None:
    """Add an event that is of no run."""
    await scripts.APPEND_EVENT(storage.redis, keys.run_keys(thread), [name, data])


async def read_after(storage: Storage, thread: str, event_id: str, limit: int = _MOST) -> list[Event]:
    """Return the thread's events that follow `event_id`, oldest first."""
    found = await storage.redis.xrange(keys.run_keys(thread).events, min=f"({event_id}", count=limit)
    return [_event(entry, fields) for entry, fields in found]


async def newest_id(storage: Storage, thread: str) -> str:
    """Return the id of the thread's newest event, or the id before the first."""
    found = await storage.redis.xrevrange(keys.run_keys(thread).events, count=1)
    return found[0][0].decode() if found else BEGINNING


async def newest_of_run(storage: Storage, thread: str, run: str, among: int) -> dict[str, Event]:
    """Return by name the newest of a run's events that are among so many of the thread's newest."""
    found = await storage.redis.xrevrange(keys.run_keys(thread).events, count=among)
    told = [_event(entry, fields) for entry, fields in reversed(found)]
    return {event.name: event for event in told if event.run == run}


def _event(entry: bytes, fields: dict[bytes, bytes]) -> Event:
    return Event(entry.decode(), fields[b"run"].decode(), fields[b"event"].decode(), fields[b"data"])

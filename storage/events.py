"""What runs told, one stream per thread: written by the runs' scripts, read from any process."""

from dataclasses import dataclass

from storage import keys
from storage.connection import Storage

END = "end"
"""Name of a run's last event; its data is how the run ended, `PAUSED` where it asks something. Not JSON."""
PAUSED = "paused"
"""The end of a run that succeeded so far, and asks a person something."""
PROTOCOL = "v2/"
"""How the names of events begin that are the second wire's alone."""
BEGINNING = "0-0"
"""The id before the first event."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something a run told."""

    id: str
    """Grows from event to event of a thread."""
    run: str
    name: str
    data: bytes
    """JSON."""


async def after(storage: Storage, thread: str, event_id: str, limit: int = 500) -> list[Event]:
    """Return the thread's events that follow `event_id`, oldest first."""
    found = await storage.redis.xrange(keys.run_keys(thread).events, min=f"({event_id}", count=limit)
    return [_event(entry, fields) for entry, fields in found]


async def newest(storage: Storage, thread: str) -> str:
    """Return the id of the thread's newest event, or the id before the first."""
    found = await storage.redis.xrevrange(keys.run_keys(thread).events, count=1)
    return found[0][0].decode() if found else BEGINNING


async def newest_of(storage: Storage, thread: str, run: str, among: int) -> dict[str, Event]:
    """Return by name the newest of a run's events that are among so many of the thread's newest."""
    found = await storage.redis.xrevrange(keys.run_keys(thread).events, count=among)
    told = [_event(entry, fields) for entry, fields in reversed(found)]
    return {event.name: event for event in told if event.run == run}


def _event(entry: bytes, fields: dict[bytes, bytes]) -> Event:
    return Event(entry.decode(), fields[b"run"].decode(), fields[b"event"].decode(), fields[b"data"])

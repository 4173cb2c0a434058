"""How a thread goes, or loses its past."""

from typing import Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver

from storage import thread_records
from storage.connection import Storage
from storage.thread_records import Record


class Home(Protocol):
    """Where threads are kept; `Parts` is one."""

    @property
    def storage(self) -> Storage:
        """All but the checkpoints."""
        ...

    @property
    def saver(self) -> BaseCheckpointSaver[int]:
        """The checkpoints."""
        ...


async def drop(here: Home, record: Record) -> None:
    """Take a thread away with all it has; raises `Busy` while a run is at it, and `Missing` for none."""
    async with thread_records.held(here.storage, record.id, record.owner):
        await _dropped(here, record)


async def forget(here: Home, record: Record) -> None:
    """Take away a thread's past; its newest state stays. Raises as `drop`."""
    async with thread_records.held(here.storage, record.id, record.owner):
        await _forgotten(here, record)


async def expire(here: Home, record: Record, now_ms: int) -> bool:
    """Do to a thread what is due, and return whether it was due still at `now_ms`; raises as `drop`."""
    async with thread_records.held(here.storage, record.id, record.owner):
        found = await thread_records.get(here.storage, record.id, record.owner)
        if found.expires_ms is None or found.expires_ms > now_ms:
            return False
        await (_forgotten if found.keeps_latest else _dropped)(here, found)
    return True


async def _dropped(here: Home, record: Record) -> None:
    # The record last: while it is there, a deletion that was cut off can be asked for again.
    await here.saver.adelete_thread(record.id)
    await thread_records.remove(here.storage, record)


async def _forgotten(here: Home, record: Record) -> None:
    await here.saver.aprune([record.id], strategy="keep_latest")

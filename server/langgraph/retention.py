"""Retention: threads whose lifetime is over are deleted or pruned."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.runtime import background
from callsheet.state.errors import Busy, Missing
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord


class ThreadStorage(Protocol):
    """Where threads are kept; `Parts` is one."""

    @property
    def storage(self) -> Storage:
        """All but the checkpoints."""
        ...

    @property
    def saver(self) -> BaseCheckpointSaver[int]:
        """The checkpoints."""
        ...


async def delete_thread(here: ThreadStorage, record: ThreadRecord) -> None:
    """Take a thread away with all it has; raises `Busy` while a run is at it, and `Missing` for none."""
    async with thread_records.hold(here.storage, record.id, record.owner):
        await _dropped(here, record)


async def prune_thread(here: ThreadStorage, record: ThreadRecord) -> None:
    """Take away a thread's past; its newest state stays. Raises as `drop`."""
    async with thread_records.hold(here.storage, record.id, record.owner):
        await _forgotten(here, record)


async def expire_thread(here: ThreadStorage, record: ThreadRecord, now_ms: int) -> bool:
    """Do to a thread what is due, and return whether it was due still at `now_ms`; raises as `drop`."""
    async with thread_records.hold(here.storage, record.id, record.owner):
        found = await thread_records.get(here.storage, record.id, record.owner)
        if found.expires_ms is None or found.expires_ms > now_ms:
            return False
        await (_forgotten if found.keeps_latest else _dropped)(here, found)
    return True


async def _dropped(here: ThreadStorage, record: ThreadRecord) -> None:
    # The record last: while it is there, a deletion that was cut off can be asked for again.
    await here.saver.adelete_thread(record.id)
    await thread_records.delete(here.storage, record)


async def _forgotten(here: ThreadStorage, record: ThreadRecord) -> None:
    await here.saver.aprune([record.id], strategy="keep_latest")


EVERY_S: Final = 30.0
"""Seconds between two looks; a lifetime is in minutes."""
_MOST: Final = 100
_LEAST_MS: Final = 60_000
"""Until a thread is looked at again."""


def start_sweeping(here: ThreadStorage) -> Callable[[], Awaitable[object]]:
    """Begin to look again and again, and return what ends that."""
    return background.start_periodic(
        lambda: sweep(here, int(time.time() * 1000)), EVERY_S, "threads whose time is over stay for now"
    )


async def sweep(here: ThreadStorage, now_ms: int) -> int:
    """Deal with every thread whose time is over at `now_ms`, and return how many there were.

    One that a run is at is left for the next look, and one that was used meanwhile until its new time.
    """
    done = 0
    while found := await thread_records.list_expired(here.storage, now_ms, _MOST):
        for record in found:
            # However short its time is: a thread that was due again at once would keep this look from ending.
            again_ms = max(_LEAST_MS, record.lifetime_ms if record.keeps_latest else 0)
            await thread_records.postpone(here.storage, record, now_ms + again_ms)
            with contextlib.suppress(Busy, Missing):
                done += await expire_thread(here, record, now_ms)
    return done

"""Threads whose time is over are taken away, or lose their past, by whichever process looks first."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final

from server import repeating
from server.wire import removal
from server.wire.removal import Home
from state.errors import Busy
from storage import thread_records

EVERY_S: Final = 30.0
"""Seconds between two looks; a lifetime is in minutes."""
_MOST: Final = 100


def begun(here: Home) -> Callable[[], Awaitable[object]]:
    """Begin to look again and again, and return what ends that."""
    return repeating.begun(
        lambda: swept(here, int(time.time() * 1000)), EVERY_S, "threads whose time is over stay for now"
    )


async def swept(here: Home, now_ms: int) -> int:
    """Deal with every thread whose time is over at `now_ms`, and return how many there were.

    One that a run is at is left for the next look.
    """
    done = 0
    while found := await thread_records.expired(here.storage, now_ms, _MOST):
        for record in found:
            keeps = record.ttl is not None and record.ttl.get("strategy") == "keep_latest"
            again_ms = now_ms + int(record.ttl["ttl"] * 60_000) if keeps and record.ttl else now_ms + 60_000
            await thread_records.postpone(here.storage, record, again_ms)
            with contextlib.suppress(Busy):
                await (removal.forget if keeps else removal.drop)(here, record)
                done += 1
    return done

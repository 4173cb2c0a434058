"""Threads whose time is over are taken away, or lose their past, by whichever process looks first."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final

from server import repeating
from server.wire import removal
from server.wire.removal import Home
from state.errors import Busy, Missing
from storage import thread_records

EVERY_S: Final = 30.0
"""Seconds between two looks; a lifetime is in minutes."""
_MOST: Final = 100
_LEAST_MS: Final = 60_000
"""Until a thread is looked at again."""


def begun(here: Home) -> Callable[[], Awaitable[object]]:
    """Begin to look again and again, and return what ends that."""
    return repeating.begun(
        lambda: swept(here, int(time.time() * 1000)), EVERY_S, "threads whose time is over stay for now"
    )


async def swept(here: Home, now_ms: int) -> int:
    """Deal with every thread whose time is over at `now_ms`, and return how many there were.

    One that a run is at is left for the next look, and one that was used meanwhile until its new time.
    """
    done = 0
    while found := await thread_records.expired(here.storage, now_ms, _MOST):
        for record in found:
            # However short its time is: a thread that was due again at once would keep this look from ending.
            again_ms = max(_LEAST_MS, record.lifetime_ms if record.keeps_latest else 0)
            await thread_records.postpone(here.storage, record, now_ms + again_ms)
            with contextlib.suppress(Busy, Missing):
                done += await removal.expire(here, record, now_ms)
    return done

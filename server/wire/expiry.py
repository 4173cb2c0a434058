"""Threads whose time is over are taken away, or lose their past, by whichever process looks first."""

import asyncio
import contextlib
import logging
import time
from typing import Final

from server.wire import removal
from server.wire.removal import Home
from state.errors import Busy, CallsheetError
from storage import thread_records

EVERY_S: Final = 30.0
"""Seconds between two looks; a lifetime is in minutes."""
_MOST: Final = 100
_log = logging.getLogger(__name__)


class Sweep:
    """Looks again and again until it is stopped; to be made in an event loop."""

    def __init__(self, here: Home, every_s: float = EVERY_S) -> None:
        self._here = here
        self._every_s = every_s
        self._task = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """End it."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await swept(self._here, int(time.time() * 1000))
            except CallsheetError as error:
                _log.warning("threads whose time is over stay for now: %s", error)


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

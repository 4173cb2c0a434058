"""How many runs a process carries out at once: places, taken before a run is claimed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from server.execution import Elsewhere

_PATIENCE_S: Final = 2.0
"""How long a run that was brought here waits for a place before another process may have it."""


class Room:
    """The places of one process."""

    def __init__(self, places: int, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._left = asyncio.Semaphore(places)
        self._taken = 0
        self._share = max(1, places // 2)
        """So many of the runs it records a process begins itself; the rest goes to whoever has the time."""

    async def taken(self) -> bool:
        """Take a place for a run that this process is about to record, if it may have one; never waits."""
        if self._taken >= self._share or self._left.locked():
            return False
        await self._left.acquire()
        self._taken += 1
        return True

    def leave(self) -> None:
        """Give a place back."""
        self._taken -= 1
        self._left.release()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place; raises `Elsewhere` where none becomes free for a while."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._left.acquire()
        except TimeoutError:
            raise Elsewhere("this process has as many runs as it may") from None
        self._taken += 1
        try:
            yield
        finally:
            self.leave()

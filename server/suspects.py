"""Runs that may have ended the processes that were at them: a process is at one of those at a time.

So that which kills dies alone, and those that merely shared its processes come further. One that has come
further is none any more, and what takes hours is not waited for.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from server.execution import Elsewhere
from state.errors import Unavailable

_LOOK_S: Final = 0.5
"""How often one looks whether a suspect has come further."""
_AGAIN_S: Final = 1.0
"""How long one waits that was delivered to a process that is at another."""


class Suspects:
    """The suspect that this process is at, if it is at one."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver
        self._taken = asyncio.Lock()

    @asynccontextmanager
    async def alone(self, thread: str) -> AsyncIterator[None]:
        """Be at no other suspect until this thread has a new checkpoint, or the `async with` ends.

        Raises `Elsewhere` while this process is at another.
        """
        if self._taken.locked():
            raise Elsewhere("another run that may end its process is under way here", again_s=_AGAIN_S)
        await self._taken.acquire()
        try:
            # Before anything is done here: what comes later is further.
            place = await self._place(thread)
        except BaseException:
            self._taken.release()
            raise
        watching = asyncio.create_task(self._further(thread, place))
        watching.add_done_callback(lambda _: self._taken.release())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _further(self, thread: str, place: str) -> None:
        """Wait until the thread's newest checkpoint is another than `place`."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with suppress(Unavailable):
                if await self._place(thread) != place:
                    return

    async def _place(self, thread: str) -> str:
        newest = await self._saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        return newest.checkpoint["id"] if newest else ""

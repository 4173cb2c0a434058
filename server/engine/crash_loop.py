"""Crash-loop isolation: a run that kills its process dies alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.engine.execution import Redeliver
from callsheet.state.errors import Unavailable

_CHECK_S: Final = 0.5
"""Seconds between two checks whether a suspect has a new checkpoint."""
_RETRY_S: Final = 1.0
"""Seconds until a suspect that met a busy process is delivered again."""


class CrashLoopIsolation:
    """Crash-loop isolation: a process executes at most one run that has crashed before.

    So a run that kills its process dies alone. A run with a new checkpoint is suspect no more.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver
        self._taken = asyncio.Lock()

    @asynccontextmanager
    async def isolate(self, thread: str) -> AsyncIterator[None]:
        """Admit no other suspect until this thread has a new checkpoint, or the `async with` ends.

        Raises `Redeliver` while another suspect runs here.
        """
        if self._taken.locked():
            raise Redeliver(
                "another run that has crashed before is executing in this process", retry_s=_RETRY_S
            )
        await self._taken.acquire()
        try:
            # Read before the run starts: a different checkpoint later is progress.
            place = await self.newest_checkpoint(thread)
        except BaseException:
            self._taken.release()
            raise
        watching = asyncio.create_task(self._wait_for_progress(thread, place))
        watching.add_done_callback(lambda _: self._taken.release())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _wait_for_progress(self, thread: str, checkpoint: str) -> None:
        """Wait until the thread's newest checkpoint differs from `checkpoint`."""
        while True:
            await asyncio.sleep(_CHECK_S)
            with suppress(Unavailable):
                if await self.newest_checkpoint(thread) != checkpoint:
                    return

    async def newest_checkpoint(self, thread: str) -> str:
        """Return the id of the thread's newest checkpoint; "" if there is none."""
        newest = await self._saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        return newest.checkpoint["id"] if newest else ""

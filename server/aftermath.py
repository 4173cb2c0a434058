"""What is left to do once a run has ended: its webhook is told, and a thread that goes with it goes.

Whatever is left stays on the list of open runs, so that another process does it where this one dies.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from server.beside import Beside
from state.errors import Missing
from storage.run_records import Run
from storage.runs import Runs

Tell = Callable[[Run], Awaitable[None]]
"""Tells a run's webhook how it ended; tries again by itself, and gives up without raising."""
KEPT_S: Final = 60.0
"""How long a thread that goes with its run is there for those who still read."""
AGAIN_S: Final = 120.0
"""After how long another process tells a webhook; longer than all tries of the first take."""


class Aftermath:
    """What this process does about runs that have ended."""

    def __init__(self, runs: Runs, saver: BaseCheckpointSaver[Any], tell: Tell | None) -> None:
        self._runs = runs
        self._saver = saver
        self._tell = tell
        self._beside = Beside()

    def after_s(self, record: Run) -> float:
        """Return after how long another process looks after the run once it has ended; 0 for never."""
        if record.request["webhook"]:
            return AGAIN_S
        return KEPT_S if record.temporary else 0

    def begin(self, thread: str, run: str) -> None:
        """Do what is left to do, beside everything else."""
        self.beside(self.settle(thread, run))

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work beside everything else; nobody waits for it."""
        self._beside.begin(work)

    async def settle(self, thread: str, run: str) -> None:
        """Do what is left to do of a run that has ended; twice is safe."""
        try:
            record = await self._runs.get(thread, run)
        except Missing:
            record = None
        if record and record.request["webhook"] and not record.webhook_told:
            if self._tell is None:
                # Left to a process that may.
                return
            await self._tell(record)
            await self._runs.webhook_told(thread, run)
        # Only a thread that goes with its run has the run's own id.
        if thread != run:
            await self._runs.forget(thread, run)
        elif record is None or record.updated_ms + KEPT_S * 1000 <= time.time() * 1000:
            await self._saver.adelete_thread(thread)
            await self._runs.remove(thread)
            await self._runs.forget(thread, run)
        else:
            await self._runs.look_later(thread, run, KEPT_S)

    async def stop(self) -> None:
        """End what is under way; another process does it."""
        await self._beside.stop()

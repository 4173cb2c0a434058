"""What is left to do once a run has ended: its webhook is told, and a thread that goes with it goes.

Whatever is left stays on the list of open runs, so that another process does it where this one dies.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.runtime.background import BackgroundTasks
from callsheet.state.errors import Missing
from callsheet.storage.runs.records import Run
from callsheet.storage.runs.runs import Runs

CallWebhook = Callable[[Run], Awaitable[None]]
"""Tells a run's webhook how it ended; tries again by itself, and gives up without raising."""
FINISHED_RUN_TTL_S: Final = 60.0
"""How long a thread that goes with its run is there for those who still read."""
RETRY_S: Final = 120.0
"""After how long another process tells a webhook; longer than all tries of the first take."""


class RunFinalizer:
    """What this process does about runs that have ended."""

    def __init__(self, runs: Runs, saver: BaseCheckpointSaver[Any], tell: CallWebhook | None) -> None:
        self._runs = runs
        self._saver = saver
        self._tell = tell
        self._beside = BackgroundTasks()

    def recheck_after_s(self, record: Run) -> float:
        """Return after how long another process looks after the run once it has ended; 0 for never."""
        if record.request["webhook"]:
            return RETRY_S
        return FINISHED_RUN_TTL_S if record.is_stateless else 0

    def start(self, thread: str, run: str) -> None:
        """Do what is left to do, beside everything else."""
        self.start_task(self.finalize(thread, run))

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work beside everything else; nobody waits for it."""
        self._beside.start(work)

    async def finalize(self, thread: str, run: str) -> None:
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
            await self._runs.mark_webhook_called(thread, run)
        # Only a thread that goes with its run has the run's own id.
        if thread != run:
            await self._runs.unschedule_check(thread, run)
        elif record is None or record.updated_ms + FINISHED_RUN_TTL_S * 1000 <= time.time() * 1000:
            await self._saver.adelete_thread(thread)
            await self._runs.delete_all(thread)
            await self._runs.unschedule_check(thread, run)
        else:
            await self._runs.schedule_check(thread, run, FINISHED_RUN_TTL_S)

    async def stop(self) -> None:
        """End what is under way; another process does it."""
        await self._beside.stop()

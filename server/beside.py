"""Work that is done beside everything else, and that nobody waits for."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from server.ending import ended
from state.errors import CallsheetError

_END_S: Final = 2.0
_log = logging.getLogger(__name__)


class Beside:
    """What is under way, until it has ended; what fails is logged, for somebody else will do it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Do some work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End what is under way."""
        await ended(*self._tasks, within_s=_END_S)

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CallsheetError):
            _log.warning("left for later: %s", error)
        elif error:
            _log.error("left for later", exc_info=error)

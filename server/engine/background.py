"""Background tasks: started, repeated, cancelled and awaited."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from callsheet.state.errors import CallsheetError

_CANCELS: Final = 4
"""Cancellations of one task: each ends one step of its clean-up."""
_log = logging.getLogger(__name__)


async def cancel_and_wait(*tasks: "asyncio.Task[Any]", within_s: float) -> bool:
    """Cancel the tasks; return True if all ended within `within_s`. Others are abandoned.

    Without the limit, a task whose clean-up waits for a silent server would block for ever.
    """
    left = {task for task in tasks if not task.done()}
    for _ in range(_CANCELS):
        if not left:
            break
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=within_s / _CANCELS)
    if left:
        _log.warning("%d tasks did not end within %g s", len(left), within_s)
    return not left


_END_S: Final = 2.0


class BackgroundTasks:
    """Tasks that nobody awaits. A failure is logged; the periodic checks do the work again."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._log_failure)

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        await cancel_and_wait(*self._tasks, within_s=_END_S)

    def _log_failure(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CallsheetError):
            _log.warning("a background task failed and is repeated later: %s", error)
        elif error:
            _log.error("a background task failed and is repeated later", exc_info=error)


_STOP_S = 2.0


async def run_periodically(
    step: Callable[[], Awaitable[object]],
    every_s: float,
    trouble: str,
    *,
    despite: type[Exception] = CallsheetError,
) -> None:
    """Call `step`, and again `every_s` after it returned, until cancelled.

    An error of type `despite` is logged as `trouble`, and the loop goes on; any other error is raised.
    """
    while True:
        try:
            await step()
        except CallsheetError as error:
            _log.warning("%s: %s", trouble, error)
        except despite:
            _log.exception(trouble)
        await asyncio.sleep(every_s)


def start_periodic(
    step: Callable[[], Awaitable[object]], every_s: float, trouble: str
) -> Callable[[], Awaitable[object]]:
    """Start `run_periodically` in a task; return the function that stops it.

    A bug in `step` ends the task and is logged as critical.
    """

    def log_failure(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()):
            _log.critical("%s until the next start", trouble, exc_info=error)

    task = asyncio.create_task(run_periodically(step, every_s, trouble))
    task.add_done_callback(log_failure)
    return partial(cancel_and_wait, task, within_s=_STOP_S)

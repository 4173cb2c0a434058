"""Background tasks: started, repeated, cancelled and awaited."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from callsheet.state.errors import CallsheetError

_CANCELS: Final = 4
"""How often a task is cancelled: each time breaks off one step of its own ending."""
_log = logging.getLogger(__name__)


async def cancel_and_wait(*tasks: "asyncio.Task[Any]", within_s: float) -> bool:
    """Cancel the tasks and return whether all have ended in that time; what still clings on then is left.

    A task that ends by asking a server which does not answer would otherwise be waited for without an end.
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
    """What is under way, until it has ended; what fails is logged, for somebody else will do it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Do some work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End what is under way."""
        await cancel_and_wait(*self._tasks, within_s=_END_S)

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CallsheetError):
            _log.warning("left for later: %s", error)
        elif error:
            _log.error("left for later", exc_info=error)


_STOP_S = 2.0


async def run_periodically(
    step: Callable[[], Awaitable[object]],
    every_s: float,
    trouble: str,
    *,
    despite: type[Exception] = CallsheetError,
) -> None:
    """Take the step, and take it again `every_s` after it was done, until cancelled.

    A step that fails with `despite` is logged as `trouble`, and the next one is taken all the same; any other
    error ends this, and is raised.
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
    """Begin to repeat the step, and return what ends that; to be called in an event loop.

    A bug ends it at once, and is logged as what it is.
    """

    def complain(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()):
            _log.critical("%s until the next start", trouble, exc_info=error)

    task = asyncio.create_task(run_periodically(step, every_s, trouble))
    task.add_done_callback(complain)
    return partial(cancel_and_wait, task, within_s=_STOP_S)

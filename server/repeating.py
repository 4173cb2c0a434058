"""Doing something again and again, beside everything else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from server.ending import ended
from state.errors import CallsheetError

_STOP_S = 2.0
_log = logging.getLogger(__name__)


async def repeated(
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


def begun(
    step: Callable[[], Awaitable[object]], every_s: float, trouble: str
) -> Callable[[], Awaitable[object]]:
    """Begin to repeat the step, and return what ends that; to be called in an event loop.

    A bug ends it at once, and is logged as what it is.
    """

    def complain(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()):
            _log.critical("%s until the next start", trouble, exc_info=error)

    task = asyncio.create_task(repeated(step, every_s, trouble))
    task.add_done_callback(complain)
    return partial(ended, task, within_s=_STOP_S)

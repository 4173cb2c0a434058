"""Ending tasks in time, whatever they wait for."""

import asyncio
import logging
from typing import Any, Final

_CANCELS: Final = 4
"""How often a task is cancelled: each time breaks off one step of its own ending."""
_log = logging.getLogger(__name__)


async def ended(*tasks: "asyncio.Task[Any]", within_s: float) -> bool:
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

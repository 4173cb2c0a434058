"""Doing something again and again, beside everything else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from server.ending import ended
from state.errors import CallsheetError

_STOP_S = 2.0
_log = logging.getLogger(__name__)


async def repeated(step: Callable[[], Awaitable[object]], every_s: float, trouble: str) -> None:
    """Take the step, and take it again `every_s` after it was done, until cancelled.

    A step that fails is logged as `trouble`, and the next one is taken all the same.
    """
    while True:
        try:
            await step()
        except CallsheetError as error:
            _log.warning("%s: %s", trouble, error)
        except Exception:  # noqa: BLE001 -- one of the places that may: a bug must not end all steps to come
            _log.exception(trouble)
        await asyncio.sleep(every_s)


def begun(
    step: Callable[[], Awaitable[object]], every_s: float, trouble: str
) -> Callable[[], Awaitable[object]]:
    """Begin to repeat the step, and return what ends that; to be called in an event loop."""
    return partial(ended, asyncio.create_task(repeated(step, every_s, trouble)), within_s=_STOP_S)

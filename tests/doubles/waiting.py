"""Waiting for a condition instead of sleeping for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 20.0
"""A process that is started beside others on a slow machine needs more than ten seconds."""
_PAUSE_S = 0.005
_MAX_PAUSE_S = 0.05
"""The pause between two checks grows, so that a long wait is not checked two hundred times a second."""


def until(condition: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """Return once `condition` holds; fail with the name of the condition, `what`, if that takes too long."""
    deadline, pause_s = time.monotonic() + patience_s, _PAUSE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(pause_s)
        pause_s = min(_MAX_PAUSE_S, 1.5 * pause_s)


async def eventually(
    condition: Callable[[], Awaitable[object]], what: str, *, patience_s: float = PATIENCE_S
) -> None:
    """As `until`, without blocking the event loop."""
    deadline, pause_s = time.monotonic() + patience_s, _PAUSE_S
    while not await condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        await asyncio.sleep(pause_s)
        pause_s = min(_MAX_PAUSE_S, 1.5 * pause_s)

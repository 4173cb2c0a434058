"""Waiting for a condition instead of sleeping for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 10.0
_PAUSE_S = 0.005


def until(condition: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """Return once `condition` holds; fail, saying that `what` did not happen, if that takes too long."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(_PAUSE_S)


async def eventually(
    condition: Callable[[], Awaitable[object]], what: str, *, patience_s: float = PATIENCE_S
) -> None:
    """As `until`, without blocking the event loop."""
    deadline = time.monotonic() + patience_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        await asyncio.sleep(_PAUSE_S)

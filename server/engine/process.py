"""The process of a server or worker: its event loop and its garbage collection."""

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_ALLOCATIONS: Final = 20_000
"""Net allocations between two collections of the youngest generation."""


def run_event_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on uvloop (asyncio on Windows) and return its result."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop  # noqa: PLC0415 -- not made for Windows

    return uvloop.run(work)


def tune_garbage_collection() -> None:
    """Exclude the objects of the start from collections, and collect less often.

    Half a million objects of libraries live as long as the process; scanning them takes a seventh of a busy
    server's time.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])

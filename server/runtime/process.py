"""The process of a server or worker: its event loop and its garbage collection."""

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_ALLOCATIONS: Final = 20_000
"""Objects that are made and not given back between two looks at the youngest."""


def run_event_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, in uvloop where it is to be had; Ctrl-C raises `KeyboardInterrupt`."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop  # noqa: PLC0415 -- not made for Windows

    return uvloop.run(work)


def tune_garbage_collection() -> None:
    """Leave what a start has made out of every later look for garbage, and look less often.

    Half a million objects of libraries live as long as the process. Without this, going through them takes a
    seventh of a busy server's time.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])

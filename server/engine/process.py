"""The process of a server or worker: its event loop, garbage collection and open files."""

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")
_ALLOCATIONS: Final = 20_000
"""Net allocations between two collections of the youngest generation."""
_UNLIMITED: Final = 2**20
"""Open files to ask for where the system names no limit."""
_RESERVE: Final = 100
"""Open files that streams leave to all other requests."""


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


def open_files_limits() -> tuple[int, int] | None:
    """Return how many files the process may open, and how many it may allow itself; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 -- not made for Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    return most if soft == resource.RLIM_INFINITY else soft, most


def raise_open_files_limit() -> None:
    """Let the process open as many files as the system allows it: each connection is one."""
    if sys.platform == "win32" or not (limits := open_files_limits()):
        return
    import resource  # noqa: PLC0415 -- not made for Windows

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A system may refuse what it says it allows, as macOS does; the limit then stays.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits), hard))


def is_short_of_files() -> bool:
    """Return whether fewer files can still be opened than other requests need beside streams."""
    limits = open_files_limits()
    if limits is None:
        return False
    try:
        # The lowest number that is free: all below it are in use.
        lowest = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return True
    os.close(lowest)
    return lowest >= limits[0] - _RESERVE

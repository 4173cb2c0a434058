"""Storage in Redis; no other package sends Redis commands.

`connect(url)` opens a storage for an `async with`; `current()` returns the one shared by this process.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callsheet.storage.redis.connection import Storage, connect, open_storage

__all__ = ["Storage", "connect", "current", "open_storage", "use"]


def __getattr__(name: str) -> Any:
    # Imported on first use: the terminal needs the folders of `storage.embedded`, and no client of Redis.
    from callsheet.storage.redis import connection  # noqa: PLC0415

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(connection, name)


@dataclass(slots=True)
class _Shared:
    """Storages by event loop, because a connection works only in its own loop."""

    used: dict[asyncio.AbstractEventLoop, "Storage"] = field(default_factory=dict)
    """Set by `use`."""
    opened: dict[asyncio.AbstractEventLoop, "asyncio.Task[Storage]"] = field(default_factory=dict)
    """Opened by `current`."""
    closers: dict[asyncio.AbstractEventLoop, "AsyncGenerator[Storage]"] = field(default_factory=dict)
    """Generators that close the storages of `opened`."""


_shared = _Shared()


def use(storage: "Storage | None") -> None:
    """Make `current` return `storage` in the running event loop; None undoes that."""
    loop = asyncio.get_running_loop()
    if storage:
        _shared.used[loop] = storage
    else:
        _shared.used.pop(loop, None)


async def current() -> "Storage":
    """Return the storage set by `use`, else one that the loop's first call opens from the environment.

    The latter is closed when the loop shuts down its asynchronous generators, as `asyncio.run` does at its
    end. Raises as `connect`; the next call then tries again.
    """
    loop = asyncio.get_running_loop()
    if used := _shared.used.get(loop):
        return used
    if loop not in _shared.opened:
        _shared.opened[loop] = loop.create_task(_open(loop), context=Context())
    return await asyncio.shield(_shared.opened[loop])


async def _open(loop: asyncio.AbstractEventLoop) -> "Storage":
    closer = _open_until_shutdown(loop)
    try:
        storage = await anext(closer)
    except BaseException:
        _shared.opened.pop(loop, None)
        raise
    _shared.closers[loop] = closer
    return storage


async def _open_until_shutdown(loop: asyncio.AbstractEventLoop) -> "AsyncGenerator[Storage]":
    """Yield a storage and close it at the loop's shutdown, which closes every asynchronous generator."""
    from callsheet.storage.migrations import require_known  # noqa: PLC0415 -- see above
    from callsheet.storage.redis.connection import open_storage  # noqa: PLC0415 -- see above

    newest = next(reversed(_shared.used.values()), None)
    storage = await open_storage(newest.url if newest else None)
    try:
        await require_known(storage)
        yield storage
    finally:
        _shared.opened.pop(loop, None)
        _shared.closers.pop(loop, None)
        await storage.aclose()

"""The only folder that speaks Redis, and the one place where a backend is chosen.

`connect(url)` opens a storage for an `async with`, `current()` is the storage that this process shares.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from callsheet.storage.redis.connection import Storage, connect, open_storage

__all__ = ["Storage", "connect", "current", "open_storage", "use"]


@dataclass(slots=True)
class _Shared:
    """What `use` was given, and what `current` opened for each event loop."""

    used: dict[asyncio.AbstractEventLoop, Storage] = field(default_factory=dict)
    """By the loop in which `use` was called; a connection works in its own loop only."""
    opened: dict[asyncio.AbstractEventLoop, asyncio.Task[Storage]] = field(default_factory=dict)
    keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[Storage]] = field(default_factory=dict)


_shared = _Shared()


def use(storage: Storage | None) -> None:
    """Make `storage` what `current` returns, as the server does at its start; None takes it back.

    It holds for the event loop it is called in: a server that ends takes nothing from another in its process.
    """
    loop = asyncio.get_running_loop()
    if storage:
        _shared.used[loop] = storage
    else:
        _shared.used.pop(loop, None)


async def current() -> Storage:
    """The storage in use, else one that is opened from the environment at the first call in an event loop.

    That one is closed when the loop shuts its asynchronous generators down, as `asyncio.run` does at its end.
    Raises what `connect` raises; the next call then tries again.
    """
    loop = asyncio.get_running_loop()
    if used := _shared.used.get(loop):
        return used
    if loop not in _shared.opened:
        _shared.opened[loop] = loop.create_task(_open(loop))
    return await asyncio.shield(_shared.opened[loop])


async def _open(loop: asyncio.AbstractEventLoop) -> Storage:
    keeper = _kept(loop)
    try:
        storage = await anext(keeper)
    except BaseException:
        _shared.opened.pop(loop, None)
        raise
    _shared.keepers[loop] = keeper
    return storage


async def _kept(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Storage]:
    """An asynchronous generator, because a loop remembers those and closes them at its end."""
    newest = next(reversed(_shared.used.values()), None)
    storage = await open_storage(newest.url if newest else None)
    try:
        yield storage
    finally:
        _shared.opened.pop(loop, None)
        _shared.keepers.pop(loop, None)
        await storage.aclose()

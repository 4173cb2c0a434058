"""Deletion of all keys with a common beginning, for deletions that must leave nothing.

It reads the names of all keys of the server, about a million a second, and is for rare requests only.
"""

from collections.abc import Collection
from typing import Final

from callsheet.storage.redis.connection import Storage

_COUNT: Final = 1_000
"""Keys that one `SCAN` looks at, and most keys that one `UNLINK` deletes."""
_SPECIAL: Final = str.maketrans({character: f"\\{character}" for character in "\\*?[]"})


async def keys_below(storage: Storage, stem: str) -> list[str]:
    """Return the names of the keys that begin with `stem`, in no order."""
    pattern = f"{stem.translate(_SPECIAL)}*"
    # A set, because SCAN may return a name twice.
    return list({name.decode() async for name in storage.redis.scan_iter(pattern, count=_COUNT)})


async def delete_below(storage: Storage, stem: str, *, kept: Collection[str] = ()) -> None:
    """Delete the keys that begin with `stem`, which ends in a hash tag, except `kept`. Twice is safe."""
    names = [name for name in await keys_below(storage, stem) if name not in kept]
    for start in range(0, len(names), _COUNT):
        await storage.redis.unlink(*names[start : start + _COUNT])

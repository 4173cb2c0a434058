"""An owner's pronunciations of names, for everything of theirs that is spoken."""

import json
from collections.abc import Mapping

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage


async def read(storage: Storage, owner: str) -> dict[str, str]:
    """Return the owner's pronunciations by name; empty for none."""
    text: bytes | None = await storage.redis.get(keys.pronunciations(owner))
    names: dict[str, str] = json.loads(text) if text else {}
    return names


async def create(storage: Storage, owner: str, names: Mapping[str, str]) -> None:
    """Store the owner's pronunciations unless there are any. Twice is safe."""
    if names:
        text = json.dumps(names, ensure_ascii=False)
        await storage.redis.set(keys.pronunciations(owner), text, nx=True)


async def replace(storage: Storage, owner: str, names: Mapping[str, str]) -> None:
    """Replace the owner's pronunciations; none delete them. Twice is safe."""
    if names:
        await storage.redis.set(keys.pronunciations(owner), json.dumps(names, ensure_ascii=False))
    else:
        await storage.redis.delete(keys.pronunciations(owner))

"""Saved searches of an owner: questions with their filters, by name."""

import json
from typing import Any, Final

from callsheet.state.errors import Invalid, Missing
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import hgetall

MAX_SEARCHES: Final = 200


async def list_all(storage: Storage, owner: str) -> dict[str, Any]:
    """Return the owner's saved searches by name."""
    fields = await hgetall(storage.redis, keys.saved_searches(owner))
    return {name.decode(): json.loads(value) for name, value in sorted(fields.items())}


async def save(storage: Storage, owner: str, name: str, search: dict[str, Any]) -> None:
    """Save a search, replacing an earlier one of the name; raise `Invalid` for too many."""
    known = await list_all(storage, owner)
    if name not in known and len(known) >= MAX_SEARCHES:
        raise Invalid(
            f"an owner has at most {MAX_SEARCHES} saved searches", remedy="delete one that you no longer need"
        )
    value = json.dumps(search, ensure_ascii=False)
    await storage.redis.hset(keys.saved_searches(owner), mapping={name: value})


async def delete(storage: Storage, owner: str, name: str) -> None:
    """Delete a saved search; raise `Missing` if there is none."""
    if not await storage.redis.hdel(keys.saved_searches(owner), name):
        raise Missing(f"there is no saved search {name!r}", remedy="list them with GET /api/searches")


async def delete_all(storage: Storage, owner: str) -> None:
    """Delete all searches of the owner. Twice is safe."""
    await storage.redis.unlink(keys.saved_searches(owner))

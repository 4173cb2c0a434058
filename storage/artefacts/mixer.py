"""Mixer settings of an artefact (A35), by its storage id."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

_SWAP: Final = Script("""
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
""")


async def read(storage: Storage, kind: str, stored_id: str) -> dict[str, Any]:
    """Return what was set; empty where nothing was."""
    return _parsed(await storage.redis.get(keys.mixer(kind, stored_id)))


async def change(
    storage: Storage, kind: str, stored_id: str, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Set the mixer to what `changed` makes of it and return that; changes made meanwhile are not lost.

    `changed` may be called several times.
    """
    key = keys.mixer(kind, stored_id)
    while True:
        before: bytes | None = await storage.redis.get(key)
        after = changed(_parsed(before))
        # A swap whose answer was lost finds its own text and changes nothing.
        text = json.dumps(after, ensure_ascii=False, sort_keys=True)
        if await _SWAP(storage.redis, [key], [before or "", text]):
            return after


def _parsed(text: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text) if text else {}
    return found

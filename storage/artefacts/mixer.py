"""Mixer settings of an artefact."""

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
    """Return the settings; empty if none were set."""
    return _parse(await storage.redis.get(keys.mixer(kind, stored_id)))


async def change(
    storage: Storage, kind: str, stored_id: str, update: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Replace the settings by `update(settings)` and return the result; no concurrent change is lost.

    `update` may be called several times.
    """
    key = keys.mixer(kind, stored_id)
    while True:
        before: bytes | None = await storage.redis.get(key)
        after = update(_parse(before))
        # Sorted: a swap that is sent again because its reply was lost must find the same text.
        text = json.dumps(after, ensure_ascii=False, sort_keys=True)
        if await _SWAP(storage.redis, [key], [before or "", text]):
            return after


def _parse(text: bytes | None) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(text) if text else {}
    return settings

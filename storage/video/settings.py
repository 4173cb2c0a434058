"""Settings of an owner for all videos: presets, preferences, and durations of steps."""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from callsheet.state.errors import Invalid, Missing
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, hgetall

MAX_PRESETS: Final = 200
MAX_PREFERENCES: Final = 100
_PRESETS: Final = "presets"
_PREFERENCES: Final = "preferences"
_TIMINGS: Final = "timings"
_OLD_WEIGHT: Final = 0.8
"""Weight of the average until now when a new duration comes."""
# The average is text, because cjson and Lua's tostring round differently.
_MEASURE: Final = Script("""
local held = redis.call('HGET', KEYS[1], ARGV[1])
local average = tonumber(ARGV[2])
if held then average = tonumber(held) * tonumber(ARGV[3]) + average * (1 - tonumber(ARGV[3])) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.4f', average))
return 1
""")


async def presets(storage: Storage, owner: str) -> dict[str, str]:
    """Return the owner's presets: messages by name."""
    fields = await hgetall(storage.redis, keys.video_settings(owner, _PRESETS))
    return {name.decode(): value.decode() for name, value in sorted(fields.items())}


async def save_preset(storage: Storage, owner: str, name: str, message: str) -> None:
    """Save a message under a name, replacing an earlier one; raise `Invalid` for too many."""
    known = await presets(storage, owner)
    if name not in known and len(known) >= MAX_PRESETS:
        raise Invalid(
            f"an owner has at most {MAX_PRESETS} presets", remedy="delete one that you no longer need"
        )
    await storage.redis.hset(keys.video_settings(owner, _PRESETS), mapping={name: message})


async def delete_preset(storage: Storage, owner: str, name: str) -> None:
    """Delete a preset; raise `Missing` if there is none."""
    if not await storage.redis.hdel(keys.video_settings(owner, _PRESETS), name):
        raise Missing(f"there is no preset {name!r}", remedy="list them with GET /api/presets")


async def preferences(storage: Storage, owner: str) -> list[dict[str, Any]]:
    """Return the owner's preferences, oldest first: `{id, text, at_ms}`."""
    fields = await hgetall(storage.redis, keys.video_settings(owner, _PREFERENCES))
    known = [{"id": name.decode(), **json.loads(value)} for name, value in fields.items()]
    return sorted(known, key=lambda one: (one["at_ms"], one["id"]))


async def add_preference(storage: Storage, owner: str, text: str, at_ms: int) -> None:
    """Remember what a person corrected; the oldest is dropped if there are too many."""
    known = await preferences(storage, owner)
    if any(one["text"] == text for one in known):
        return
    name = keys.video_settings(owner, _PREFERENCES)
    value = json.dumps({"text": text, "at_ms": at_ms}, ensure_ascii=False)
    await storage.redis.hset(name, mapping={uuid.uuid4().hex[:12]: value})
    for one in known[: max(0, len(known) + 1 - MAX_PREFERENCES)]:
        await storage.redis.hdel(name, one["id"])


async def delete_preference(storage: Storage, owner: str, preference: str) -> None:
    """Forget a preference; raise `Missing` if there is none."""
    if not await storage.redis.hdel(keys.video_settings(owner, _PREFERENCES), preference):
        raise Missing(f"there is no preference {preference!r}", remedy="list them with GET /api/preferences")


async def durations(storage: Storage, owner: str) -> Mapping[str, float]:
    """Return the average seconds of a step, by tool."""
    fields = await hgetall(storage.redis, keys.video_settings(owner, _TIMINGS))
    return {name.decode(): float(value) for name, value in fields.items()}


async def add_duration(storage: Storage, owner: str, tool: str, seconds: float) -> None:
    """Count the duration of a step into its tool's average."""
    await _MEASURE(storage.redis, [keys.video_settings(owner, _TIMINGS)], [tool, seconds, _OLD_WEIGHT])

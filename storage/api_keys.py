"""API keys in storage: owner, permissions and the hash of the key's text, never the text itself."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Missing
from callsheet.storage.redis import caller_keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

_CREATE: Final = Script.with_clock("""
if redis.call('HEXISTS', KEYS[1], 'hash') == 1 then return redis.call('HGET', KEYS[1], 'createdMs') end
local ms = now_ms()
redis.call('HSET', KEYS[1], 'hash', ARGV[1], 'owner', ARGV[2], 'permissions', ARGV[3], 'name', ARGV[4],
  'createdMs', ms, 'usedMs', '')
if tonumber(ARGV[5]) > 0 then
  redis.call('HSET', KEYS[1], 'expiresMs', string.format('%.0f', tonumber(ms) + tonumber(ARGV[5])))
end
return ms
""")

_FIND: Final = Script.with_clock("""
return {now_ms(), redis.call('HGETALL', KEYS[1])}
""")

_REVOKE: Final = Script.with_clock("""
if redis.call('HEXISTS', KEYS[1], 'hash') == 0 then return 0 end
redis.call('HSETNX', KEYS[1], 'revokedMs', now_ms())
return 1
""")

_EXPIRE: Final = Script.with_clock("""
local created = redis.call('HGET', KEYS[1], 'createdMs')
if not created then return false end
local ms = tonumber(now_ms())
local ends, expires = ms + tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[1], 'expiresMs') or 'inf')
if expires > ends then
  local lifetime = expires < math.huge and expires - tonumber(created) or 0
  redis.call('HSETNX', KEYS[1], 'lifetimeMs', string.format('%.0f', lifetime))
  redis.call('HSET', KEYS[1], 'expiresMs', string.format('%.0f', ends))
end
return string.format('%.0f', math.max(0, math.min(ends, expires) - ms))
""")

_NOTE_USE: Final = Script.with_clock("""
if redis.call('HEXISTS', KEYS[1], 'hash') == 1 then redis.call('HSET', KEYS[1], 'usedMs', now_ms()) end
return 1
""")


@dataclass(frozen=True)
class NewKey:
    """A key to store."""

    id: str
    hash: str
    """SHA-256 of its text, in hex."""
    owner: str
    permissions: tuple[str, ...]
    name: str = ""
    """Label for people."""
    lifetime_s: float = 0
    """Seconds until it expires; 0 for never."""


@dataclass(frozen=True)
class StoredKey:
    """A key and the time at which it was read, by the clock of Redis."""

    id: str
    hash: str
    owner: str
    permissions: tuple[str, ...]
    name: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None
    used_ms: int | None
    """About the time of its last use; None for a key that was not used since this is noted."""
    use_is_known: bool
    """False if it was created before uses were noted, and was not used since."""
    lifetime_ms: int
    """Time from its creation to the end that it was created with; 0 for none."""
    now_ms: int
    """Time of the read."""

    @property
    def status(self) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_ms is not None:
            return "revoked"
        return "expired" if self.expires_ms is not None and self.expires_ms <= self.now_ms else "active"


async def create(storage: Storage, new: NewKey) -> None:
    """Store a key. Twice is safe."""
    created_ms = await _CREATE(
        storage.redis,
        [caller_keys.api_key(new.id)],
        [new.hash, new.owner, " ".join(new.permissions), new.name, math.ceil(new.lifetime_s * 1000)],
    )
    await storage.redis.zadd(caller_keys.API_KEYS, {new.id: int(created_ms)})


async def find(storage: Storage, key_id: str) -> StoredKey | None:
    """Return the key with this id, whatever its status, or None."""
    now_ms, fields = await _FIND(storage.redis, [caller_keys.api_key(key_id)])
    return _stored_key(key_id, int(now_ms), fields) if fields else None


async def list_keys(storage: Storage, owner: str | None = None) -> list[StoredKey]:
    """Return all keys, or one owner's, oldest first."""
    ids: list[bytes] = await storage.redis.zrange(caller_keys.API_KEYS, 0, -1)
    stored = await asyncio.gather(*(find(storage, key_id.decode()) for key_id in ids))
    return [key for key in stored if key and owner in {None, key.owner}]


async def revoke(storage: Storage, key_id: str) -> None:
    """Invalidate a key at once for all processes; raises `Missing`. Twice is safe."""
    if not await _REVOKE(storage.redis, [caller_keys.api_key(key_id)]):
        raise unknown_key(key_id)


async def expire(storage: Storage, key_id: str, after_s: float) -> float:
    """Let a key end after so many seconds, or when it would have ended before; return the seconds left.

    Raises `Missing`.
    """
    left_ms = await _EXPIRE(storage.redis, [caller_keys.api_key(key_id)], [math.ceil(after_s * 1000)])
    if left_ms is None:
        raise unknown_key(key_id)
    return int(left_ms) / 1000


async def note_use(storage: Storage, key_id: str) -> None:
    """Record that a key is used now."""
    await _NOTE_USE(storage.redis, [caller_keys.api_key(key_id)])


def unknown_key(key_id: str) -> Missing:
    """Return the error for a key that does not exist."""
    return Missing(f"there is no key {key_id!r}", remedy="list the keys with `callsheet keys list`")


def _stored_key(key_id: str, now_ms: int, reply: Sequence[Any]) -> StoredKey:
    texts = [part.decode() for part in reply]
    fields = dict(zip(texts[::2], texts[1::2], strict=True))
    expires, revoked, used = (fields.get(name) for name in ("expiresMs", "revokedMs", "usedMs"))
    created_ms = int(fields["createdMs"])
    lifetime_ms = int(expires) - created_ms if expires else 0
    return StoredKey(
        id=key_id,
        hash=fields["hash"],
        owner=fields["owner"],
        permissions=tuple(fields["permissions"].split()),
        name=fields["name"],
        created_ms=created_ms,
        expires_ms=int(expires) if expires else None,
        revoked_ms=int(revoked) if revoked else None,
        used_ms=int(used) if used else None,
        use_is_known=used is not None,
        lifetime_ms=int(fields.get("lifetimeMs", lifetime_ms)),
        now_ms=now_ms,
    )

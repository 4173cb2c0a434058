"""Sessions of browsers: each names the API key that was signed in with, and lives as long as that at most.

A cookie has 32 random bytes and nothing else; Redis knows it by its digest, so that neither a copy of the
data nor a cookie gives away a key.
"""

from typing import Final

from callsheet.storage.redis import caller_keys
from callsheet.storage.redis.connection import Storage

_TTL_S: Final = int(caller_keys.SESSION_TTL_S)


async def create(storage: Storage, digest: str, key_id: str) -> None:
    """Store a session. Twice is safe."""
    await storage.redis.set(caller_keys.session(digest), key_id, ex=_TTL_S)


async def find(storage: Storage, digest: str) -> str | None:
    """Return the id of the session's API key, which may be revoked meanwhile; None for no session."""
    key_id = await storage.redis.get(caller_keys.session(digest))
    return key_id.decode() if key_id else None


async def delete(storage: Storage, digest: str) -> None:
    """End a session. Twice is safe."""
    await storage.redis.delete(caller_keys.session(digest))

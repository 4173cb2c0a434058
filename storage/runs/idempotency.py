"""Idempotency keys of requests that create something: which body each key belongs to."""

import hashlib
import json

from callsheet.state.errors import Conflict
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage


async def find(storage: Storage, owner: str, path: str, key: str) -> str | None:
    """Return the digest of the body that was sent to `path` with this key in the last day; None for none."""
    digest: bytes | None = await storage.redis.get(_name(owner, path, key))
    return digest.decode() if digest else None


async def record(storage: Storage, owner: str, path: str, key: str, digest: str) -> None:
    """Remember for a day that the request with this key and body has been carried out."""
    await storage.redis.set(_name(owner, path, key), digest, ex=int(keys.DAY_S))


def reused_key(key: str | None) -> Conflict:
    """Return the error for a key that was sent with another body."""
    return Conflict(
        f"idempotency key {key!r} is already used for another request",
        remedy="use a new key for a new request",
    )


def _name(owner: str, path: str, key: str) -> str:
    return keys.keyed_request(owner, hashlib.sha256(json.dumps([path, key]).encode()).hexdigest())

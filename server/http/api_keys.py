"""API keys: created and shown once, stored as a hash.

A key reads `cs_<id>_<secret>`. The id finds the record and may be shown; the secret has 32 random bytes, so
a plain SHA-256 is enough where a password would need a slow hash.
"""

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from dataclasses import dataclass
from typing import Final

from callsheet.server.engine.permissions import PERMISSIONS, implied_permissions
from callsheet.state.errors import CallsheetError, Conflict, Invalid, Unauthenticated
from callsheet.state.owners import MAX_OWNER, is_owner
from callsheet.storage import api_keys
from callsheet.storage.api_keys import NewKey, StoredKey
from callsheet.storage.redis.connection import Storage

PREFIX: Final = "cs_"
"""Prefix of every key, for scanners of leaked secrets."""
_USE_INTERVAL_MS: Final = 60_000
_USE_PATIENCE_S: Final = 0.2
_log = logging.getLogger(__name__)
_SECRET_BYTES: Final = 32
_SHAPE: Final = re.compile(r"cs_([0-9a-f]{12})_[\w-]{43}", re.ASCII)
_REMEDY: Final = "send a key made with: callsheet keys create"


@dataclass(frozen=True)
class CreatedKey:
    """A new key."""

    text: str
    """The key itself, which is stored nowhere."""
    id: str

    def __repr__(self) -> str:
        return f"CreatedKey({self.id!r})"


async def create_key(
    storage: Storage, owner: str, permission: str, *, name: str = "", lifetime_s: float = 0
) -> CreatedKey:
    """Create a key for `owner` with `permission` and those it implies, and store its hash.

    `lifetime_s` 0 is for ever. Raises `Invalid` for a bad owner, permission or lifetime.
    """
    if not is_owner(owner):
        raise Invalid(
            f"owner {owner[:40]!r} must have 1 to {MAX_OWNER} printable characters", remedy="choose another"
        )
    if permission not in PERMISSIONS:
        raise Invalid(f"there is no permission {permission!r}", remedy=f"use one of {', '.join(PERMISSIONS)}")
    if not 0 <= lifetime_s < float("inf"):
        raise Invalid(f"a key cannot live {lifetime_s} seconds", remedy="give a number of days above 0")
    key_id = secrets.token_hex(6)
    created = CreatedKey(f"{PREFIX}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}", key_id)
    new = NewKey(key_id, _hash(created.text), owner, implied_permissions(permission), name, lifetime_s)
    await api_keys.create(storage, new)
    return created


async def rotate_key(storage: Storage, key_id: str, grace_s: float) -> tuple[CreatedKey, float]:
    """Create a key like another one, which ends after `grace_s` seconds, or earlier where that was its end.

    Return it and the seconds that the other one has left. It lives as long as that was to live when created.
    Raises `Missing`, and `Conflict` for a key that has ended.
    """
    old = await api_keys.find(storage, key_id)
    if old is None:
        raise api_keys.unknown_key(key_id)
    if old.status != "active":
        raise Conflict(f"key {key_id!r} is {old.status}", remedy="create one: callsheet keys create OWNER")
    if not 0 <= grace_s < float("inf"):
        raise Invalid(f"a key cannot go on for {grace_s} seconds", remedy="give 0 hours or more")
    created = await create_key(
        storage, old.owner, old.permissions[-1], name=old.name, lifetime_s=max(0, old.lifetime_ms) / 1000
    )
    return created, await api_keys.expire(storage, key_id, grace_s)


async def note_use(storage: Storage, record: StoredKey) -> None:
    """Record the use of a key, at most once a minute; no request fails or waits long because of it."""
    if record.used_ms is not None and record.now_ms - record.used_ms < _USE_INTERVAL_MS:
        return
    try:
        async with asyncio.timeout(_USE_PATIENCE_S):
            await api_keys.note_use(storage, record.id)
    except (CallsheetError, TimeoutError) as error:
        _log.debug("the use of key %s is not recorded: %s", record.id, error)


async def authenticate_key(storage: Storage, text: str) -> StoredKey:
    """Return the record of a key; raises `Unauthenticated` unless it is active."""
    shaped = _SHAPE.fullmatch(text)
    record = await api_keys.find(storage, shaped[1]) if shaped else None
    # The id may be known to others: reveal nothing about the key before the secret matches.
    if record is None or not hmac.compare_digest(_hash(text), record.hash):
        raise Unauthenticated("the API key is unknown", remedy=_REMEDY)
    return require_active(record)


def require_active(record: StoredKey) -> StoredKey:
    """Return the record of a key; raises `Unauthenticated` for a revoked or expired one."""
    if record.status != "active":
        raise Unauthenticated(f"API key {record.id!r} is {record.status}", remedy=_REMEDY)
    return record


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""API keys: made once, shown once, and known ever after by their hash.

A key reads `cs_<id>_<secret>`: the id finds its record and may be shown, the secret is 32 random bytes. With
that much chance in it a plain SHA-256 cannot be guessed backwards, so no slow hash is needed.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

from callsheet.server.http.callers import PERMISSIONS, implied_permissions
from callsheet.state.errors import Invalid, Unauthenticated
from callsheet.state.owners import MAX_OWNER, is_owner
from callsheet.storage import api_keys
from callsheet.storage.api_keys import NewKey, StoredKey
from callsheet.storage.redis.connection import Storage

PREFIX: Final = "cs_"
"""What every key begins with, so that scanners for leaked secrets find it."""
_SECRET_BYTES: Final = 32
_SHAPE: Final = re.compile(r"cs_([0-9a-f]{12})_[\w-]{43}", re.ASCII)
_REMEDY: Final = "send a key made with: callsheet keys create"


@dataclass(frozen=True)
class CreatedKey:
    """A key that was just made."""

    text: str
    """The key itself; nothing remembers it."""
    id: str

    def __repr__(self) -> str:
        return f"Made({self.id!r})"


async def create_key(
    storage: Storage, owner: str, permission: str, *, name: str = "", lifetime_s: float = 0
) -> CreatedKey:
    """Make a key for `owner` that allows `permission` and what that includes, and keep its hash.

    `lifetime_s` 0 is for ever. Raises `Invalid` for an owner, permission or lifetime that cannot be.
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
    made = CreatedKey(f"{PREFIX}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}", key_id)
    new = NewKey(key_id, _hashed(made.text), owner, implied_permissions(permission), name, lifetime_s)
    await api_keys.create(storage, new)
    return made


async def authenticate_key(storage: Storage, text: str) -> StoredKey:
    """Return the record of the key that reads `text`; raises `Unauthenticated` unless it is in force."""
    shaped = _SHAPE.fullmatch(text)
    found = await api_keys.find(storage, shaped[1]) if shaped else None
    # The id alone may be known to others, so no more is said before the secret is right.
    if found is None or not hmac.compare_digest(_hashed(text), found.hash):
        raise Unauthenticated("the API key is not known here", remedy=_REMEDY)
    if found.status != "active":
        raise Unauthenticated(f"API key {found.id!r} is {found.status}", remedy=_REMEDY)
    return found


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

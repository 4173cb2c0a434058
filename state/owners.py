"""Whose things are whose, and how two owners' things of one name are kept apart."""

import hashlib
import json
import uuid
from functools import lru_cache
from typing import Final

LOCAL: Final = "local"
"""Owner of everything while nobody has to say who they are."""
MAX_OWNER: Final = 255
"""Characters of an owner's name."""


def is_owner(name: object) -> bool:
    """Return whether `name` can be an owner's: 1 to 255 printable characters."""
    return isinstance(name, str) and 0 < len(name) <= MAX_OWNER and name.isprintable()


@lru_cache(maxsize=1024)
def storage_id(owner: str, kind: str, name: str) -> str:
    """Return the id under which what `owner` calls `name` is stored.

    `kind` says what it is. The local owner's things are stored under their own names; every other owner's
    under a UUID made of all three, so that two owners may both have an ad `ad-1`, and neither can name the
    other's.
    """
    if owner == LOCAL:
        return name
    digest = hashlib.sha256(json.dumps([owner, kind, name]).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))

"""Owners, and storage ids that keep their things apart."""

import hashlib
import json
import uuid
from functools import lru_cache
from typing import Final

LOCAL: Final = "local"
"""Owner of everything while authentication is off."""
MAX_OWNER: Final = 255
"""Characters of an owner's name."""


def is_owner(name: object) -> bool:
    """Return whether `name` is a valid owner: 1 to 255 printable characters."""
    return isinstance(name, str) and 0 < len(name) <= MAX_OWNER and name.isprintable()


@lru_cache(maxsize=1024)
def storage_id(owner: str, kind: str, name: str) -> str:
    """Return the storage id of the `kind` that `owner` calls `name`.

    It is the name itself for the local owner, and a UUID derived from all three for others: two owners may
    use the same name, and neither can address the other's.
    """
    if owner == LOCAL:
        return name
    digest = hashlib.sha256(json.dumps([owner, kind, name]).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))

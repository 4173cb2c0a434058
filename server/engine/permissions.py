"""Permissions of callers."""

from typing import Final, Literal

Permission = Literal["public", "read", "write", "admin"]
"""Permission that a request needs; `public` needs no credential."""
PERMISSIONS: Final = ("read", "write", "admin")
"""Permissions; each includes those before it."""


def implied_permissions(*permissions: str) -> tuple[str, ...]:
    """Return these permissions and those they imply; unknown words are ignored."""
    known = [PERMISSIONS.index(word) for word in permissions if word in PERMISSIONS]
    return PERMISSIONS[: max(known) + 1] if known else ()

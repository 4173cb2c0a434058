"""How keys look: a family of them as one pattern with type and lifetime, and ids as hash tags."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal

from state.errors import Invalid

KeyType = Literal["string", "hash", "list", "set", "zset", "stream", "any"]
"""What Redis answers to TYPE; any, where a library chooses."""

Lifetime = float | Literal["forever", "chosen"]
"""Seconds; or no expiry at all; or whichever of the two the caller of an option chose."""

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Key:
    """A family of keys that share type, lifetime and purpose."""

    pattern: str
    type: KeyType
    lifetime: Lifetime
    purpose: str


@lru_cache(maxsize=1024)
def tagged(name: str) -> str:
    """`name` as a hash tag, in braces; two names never give the same tag.

    An empty tag would be no tag to Redis Cluster, which then hashes the whole key: `Invalid`.
    """
    if not name:
        raise Invalid("an empty id cannot name a key", remedy="Give an id of 1 to 255 printable characters.")
    escaped = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{{{escaped}}}"


def found(name: str, declarations: Iterable[Key]) -> Key | None:
    """The declaration that the concrete key `name` falls under, or None."""
    return next((key for key in declarations if _regex(key.pattern).fullmatch(name)), None)


_PLACEHOLDER: Final = re.compile(r"(\{<\w+>\}|<\w+\*>|<\w+>)")


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_matcher(part) for part in _PLACEHOLDER.split(pattern)), re.DOTALL)


def _matcher(part: str) -> str:
    if not _PLACEHOLDER.fullmatch(part):
        return re.escape(part)
    if part.startswith("{"):
        return r"\{[^{}]+\}"
    return ".+" if part.endswith("*>") else "[^:{}]+"

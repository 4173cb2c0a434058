"""Keys on a server that are not as storage/redis/key_table.py declares them."""

import re
from collections.abc import Callable, Iterator
from functools import cache

from redis import Redis

from callsheet.storage.redis import key_table

Declared = Callable[[str], key_table.Key | None]
_PLACEHOLDER = re.compile(r"(\{<\w+>\}|<\w+\*>|<\w+>)")


def declaration_of(name: str) -> key_table.Key | None:
    """Return the declaration that the key `name` matches, or None."""
    return next((key for key in key_table.KEYS if _regex(key.pattern).fullmatch(name)), None)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_part_regex(part) for part in _PLACEHOLDER.split(pattern)), re.DOTALL)


def _part_regex(part: str) -> str:
    if not _PLACEHOLDER.fullmatch(part):
        return re.escape(part)
    if part.startswith("{"):
        return r"\{[^{}]+\}"
    return ".+" if part.endswith("*>") else "[^:{}]+"


# One trip: most keys of a test are its runs', and there are many.
_INSPECT = """
local entries = {}
for _, database in ipairs(ARGV) do
  redis.call('SELECT', database)
  for _, name in ipairs(redis.call('KEYS', '*')) do
    entries[#entries + 1] = {name, redis.call('TYPE', name).ok, redis.call('PTTL', name)}
  end
end
return entries
"""


def leaks(server: Redis, declared: Declared = declaration_of) -> list[str]:
    """A sentence for each key, in any database of the server, that has no declaration or contradicts it."""
    if not (databases := [str(name).removeprefix("db") for name in server.info("keyspace")]):
        return []
    return [
        leak
        for name, kind, left_ms in server.eval(_INSPECT, 0, *databases)
        # A key that has just expired is no leak.
        if kind != b"none" and left_ms != -2
        for leak in _faults(name.decode(errors="backslashreplace"), kind.decode(), left_ms, declared)
    ]


def _faults(name: str, kind: str, left_ms: int, declared: Declared) -> Iterator[str]:
    declaration = declared(name)
    if declaration is None:
        yield f"{name!r} is declared nowhere in storage/redis/key_table.py"
        return
    if declaration.type not in {kind, "any"}:
        yield f"{name!r} is a {kind}, declared as a {declaration.type}"
    if not _lives_as(declaration.lifetime, left_ms):
        expiry = "does not expire" if left_ms < 0 else f"expires in {left_ms / 1000:g} s"
        yield f"{name!r} {expiry}, declared to live {declaration.lifetime}"


def _lives_as(lifetime: key_table.Lifetime, left_ms: int) -> bool:
    if lifetime == "chosen":
        return True
    if lifetime == "forever":
        return left_ms < 0
    # Zero is a key in its last millisecond.
    return 0 <= left_ms <= lifetime * 1000

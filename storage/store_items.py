"""The items of one owner's store: written, read and listed in one hash slot.

Namespaces are kept as text in which every label ends with a point, which no label contains; so all that is
below a namespace lies side by side in the index.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from langgraph.store.base import InvalidNamespaceError

from storage import keys
from storage.connection import Storage
from storage.scripts import Script

_PAGE: Final = 500
"""Items that are read in one step."""

_PUT: Final = Script("""
local t = redis.call('TIME')
local now = t[1] .. string.format('%06d', t[2])
local before = redis.call('GET', KEYS[1])
local made = before and string.match(before, '^%d+') or now
local text = made .. ' ' .. now .. ' ' .. ARGV[3] .. ' ' .. ARGV[2]
redis.call('SET', KEYS[1], text)
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
""")

_DELETE: Final = Script("""
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
""")

_REFRESH: Final = Script("""
for _, key in ipairs(KEYS) do
  local text = redis.call('GET', key)
  local ttl = text and string.match(text, '^%d+ %d+ (%d+) ')
  if ttl and ttl ~= '0' then redis.call('PEXPIRE', key, ttl) end
end
return 1
""")

# The first key is the index. What expired goes from it, unless it was written again meanwhile.
_PRESENT: Final = Script("""
local found = {}
for i = 2, #KEYS do
  found[i - 1] = redis.call('EXISTS', KEYS[i])
  if found[i - 1] == 0 then redis.call('ZREM', KEYS[1], ARGV[i - 1]) end
end
return found
""")


@dataclass(frozen=True)
class Kept:
    """An item as it is stored."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    made: datetime
    changed: datetime


@dataclass(frozen=True)
class Items:
    """The items of one owner."""

    storage: Storage
    owner: str

    async def put(
        self, namespace: Sequence[str], key: str, value: Mapping[str, Any], ttl_ms: int | None
    ) -> None:
        """Write an item; it expires after `ttl_ms`, if that is given. Twice is safe."""
        member = _member(namespace, key)
        await _PUT(
            self.storage.redis,
            [keys.store_item(self.owner, member), keys.store_index(self.owner)],
            [member, json.dumps(value, allow_nan=False), ttl_ms or 0],
        )

    async def delete(self, namespace: Sequence[str], key: str) -> None:
        """Take an item away; one that is not there is no mistake."""
        member = _member(namespace, key)
        redis = self.storage.redis
        await _DELETE(redis, [keys.store_item(self.owner, member), keys.store_index(self.owner)], [member])

    async def get(self, namespace: Sequence[str], key: str, *, refresh: bool) -> Kept | None:
        """Return an item or None; with `refresh` its lifetime begins anew."""
        member = _member(namespace, key)
        text = await self.storage.redis.get(keys.store_item(self.owner, member))
        if text is None:
            return None
        if refresh:
            await self.refresh([member])
        return _kept(member, text)

    async def below(self, prefix: Sequence[str]) -> list[Kept]:
        """Return every item of `prefix` and the namespaces below it."""
        found: list[Kept] = []
        for page in _pages(await self._members(prefix)):
            texts = await self.storage.redis.mget([keys.store_item(self.owner, one) for one in page])
            pairs = list(zip(page, texts, strict=True))
            found += [_kept(member, text) for member, text in pairs if text is not None]
            if gone := [member for member, text in pairs if text is None]:
                await self._present(gone)
        return found

    async def namespaces(self, prefix: Sequence[str]) -> set[tuple[str, ...]]:
        """Return the namespaces that have items, from `prefix` on down."""
        found: set[tuple[str, ...]] = set()
        for page in _pages(await self._members(prefix)):
            there = await self._present(page)
            found |= {_split(member)[0] for member, one in zip(page, there, strict=True) if one}
        return found

    async def refresh(self, members: Sequence[str]) -> None:
        """Let the lifetime of items begin anew."""
        if members:
            await _REFRESH(self.storage.redis, [keys.store_item(self.owner, one) for one in members])

    async def renew(self, found: Sequence[Kept]) -> None:
        """As `refresh`, for items that were read."""
        await self.refresh([_member(one.namespace, one.key) for one in found])

    async def _present(self, members: Sequence[str]) -> list[int]:
        items = [keys.store_item(self.owner, one) for one in members]
        there: list[int] = await _PRESENT(
            self.storage.redis, [keys.store_index(self.owner), *items], list(members)
        )
        return there

    async def _members(self, prefix: Sequence[str]) -> list[str]:
        begin = _text(prefix).encode()
        low, high = (b"[" + begin, b"[" + begin + b"\xff") if begin else (b"-", b"+")
        found = await self.storage.redis.zrangebylex(keys.store_index(self.owner), low, high)
        return [member.decode() for member in found]


def _text(namespace: Sequence[str]) -> str:
    text = "".join(f"{label}." for label in namespace)
    if "\0" in text:
        raise InvalidNamespaceError(f"namespace {tuple(namespace)!r} has a NUL, which no label may have")
    return text


def _member(namespace: Sequence[str], key: str) -> str:
    return f"{_text(namespace)}\0{key}"


def _split(member: str) -> tuple[tuple[str, ...], str]:
    text, _, key = member.partition("\0")
    return tuple(text.split(".")[:-1]), key


def _kept(member: str, text: bytes) -> Kept:
    made, changed, _, value = text.split(b" ", 3)
    namespace, key = _split(member)
    return Kept(namespace, key, json.loads(value), _when(made), _when(changed))


def _when(microseconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(microseconds) / 1e6, UTC)


def _pages(members: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(members), _PAGE):
        yield members[start : start + _PAGE]

"""Lists of what an owner has, newest change first.

An entry is written after the record it names, and again is safe. A list is a hint: readers check records.
"""

from dataclasses import dataclass
from typing import Final

from callsheet.state.errors import Invalid
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, ScriptCall

_TOUCH: Final = Script("""
local t = redis.call('TIME')
local ms = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
return redis.call('ZADD', KEYS[1], ms, ARGV[1])
""")

# Entries of one millisecond are ordered by name, so what a page begins after is a time and a name.
_PAGE: Final = Script("""
local most, skip = ARGV[1], 0
if most ~= '+inf' then
  for _, name in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1], most, most)) do
    if name >= ARGV[2] then skip = skip + 1 end
  end
end
return redis.call('ZREVRANGEBYSCORE', KEYS[1], most, '-inf', 'WITHSCORES', 'LIMIT', skip, ARGV[3])
""")


@dataclass(frozen=True)
class Page:
    """Some entries of a list."""

    ids: tuple[str, ...]
    """Newest change first."""
    next: str | None
    """What the next page begins after; None at the end."""


async def touch(storage: Storage, owner: str, kind: str, name: str) -> None:
    """Put an artefact at the head of its owner's list of that kind."""
    await storage.redis.execute_batch([touch_call(owner, kind, name)])


def touch_call(owner: str, kind: str, name: str) -> ScriptCall:
    """Return the script that `touch` runs."""
    return ScriptCall(_TOUCH, [keys.owned_artefacts(owner, kind)], [name])


async def touch_thread(storage: Storage, owner: str, thread_id: str) -> None:
    """Put a thread at the head of its owner's list."""
    await storage.redis.execute_batch([touch_thread_call(owner, thread_id)])


def touch_thread_call(owner: str, thread_id: str) -> ScriptCall:
    """Return the script that `touch_thread` runs."""
    return ScriptCall(_TOUCH, [keys.owned_threads(owner)], [thread_id])


async def list_owned(storage: Storage, owner: str, kind: str, *, after: str | None, limit: int) -> Page:
    """Return up to `limit` of the owner's artefacts of a kind, from the newest or `after` a page's `next`.

    Raises `Invalid` for an `after` that is no page's.
    """
    most, name = _begin(after) if after else ("+inf", "")
    found: list[bytes] = await _PAGE(
        storage.redis, [keys.owned_artefacts(owner, kind)], [most, name, limit + 1]
    )
    entries = [(found[i].decode(), found[i + 1].decode()) for i in range(0, len(found), 2)]
    shown = entries[:limit]
    more = f"{int(float(shown[-1][1]))}-{shown[-1][0]}" if len(entries) > limit else None
    return Page(tuple(name for name, _ in shown), more)


def _begin(after: str) -> tuple[str, str]:
    ms, found, name = after.partition("-")
    if not (found and ms.isascii() and ms.isdecimal() and name):
        raise Invalid(
            f"after {after[:80]!r} is not the place of a page", remedy="send the `next` of the page before"
        )
    return ms, name

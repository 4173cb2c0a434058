"""Lists of an owner's artefacts, runs and questions, by time.

An entry is written after its record; twice is safe. Entries may lack a record, so readers check. A list and a
record may be on two nodes of a cluster: so a touch looks for the record afterwards, and takes its entry back
if a deletion has removed it meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from callsheet.state import owners
from callsheet.state.errors import Invalid
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Command, Script, ScriptCall, execute_all

_TOUCH: Final = Script.with_clock("""
local ms = now_ms()
redis.call('ZADD', KEYS[1], ms, ARGV[1])
return ms
""")

_TAKE_BACK: Final = Script("""
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
""")

# An entry that is newer was written by a later attempt.
DROP_UNTIL: Final = Script("""
local since = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not since or tonumber(since) > tonumber(ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
""")

DROP_OLDER: Final = Script.with_clock("""
local since = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not since or now_ms() - since < tonumber(ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
""")

# Entries of the same millisecond are ordered by name, so a cursor is a time and a name.
_PAGE: Final = Script("""
local first, after, count, last = unpack(ARGV)
local range = last == '+inf' and 'ZRANGEBYSCORE' or 'ZREVRANGEBYSCORE'
local skip = 0
if after ~= '' then
  for _, name in ipairs(redis.call(range, KEYS[1], first, first)) do
    if name == after or (name < after) == (last == '+inf') then skip = skip + 1 end
  end
end
return redis.call(range, KEYS[1], first, last, 'WITHSCORES', 'LIMIT', skip, count)
""")


@dataclass(frozen=True)
class IndexPage:
    """One page of a list."""

    ids: tuple[str, ...]
    next: str | None
    """Cursor of the next page; None at the end."""
    times_ms: tuple[int, ...] = ()
    """Times of the entries."""


def cursor_at(ms: int, name: str) -> str:
    """Return the cursor of a list, newest first, whose next entry is this one."""
    return f"{ms}-{name}\0"


async def touch(storage: Storage, owner: str, kind: str, name: str) -> None:
    """Move an artefact to the head of its owner's list."""
    await storage.redis.execute_batch([touch_call(owner, kind, name)])


def touch_call(owner: str, kind: str, name: str) -> ScriptCall:
    """Return the script of `touch`."""
    return ScriptCall(_TOUCH, [keys.owned_artefacts(owner, kind)], [name])


async def remove(storage: Storage, owner: str, kind: str, name: str) -> None:
    """Remove an artefact from its owner's list. Twice is safe."""
    await storage.redis.zrem(keys.owned_artefacts(owner, kind), name)


@dataclass(frozen=True)
class Entry:
    """Entry of a list."""

    list: str
    """Key of the list."""
    name: str
    record: str
    """Key of the record that it stands for."""


def artefact_entry(owner: str, kind: str, name: str) -> Entry:
    """Return the entry of an artefact."""
    meta = keys.artefact_meta(kind, owners.storage_id(owner, kind, name))
    return Entry(keys.owned_artefacts(owner, kind), name, meta)


async def touch_existing(storage: Storage, entries: Sequence[Entry]) -> None:
    """Move entries to the heads of their lists, in one round trip; those without a record are not listed."""
    touches = [ScriptCall(_TOUCH, [entry.list], [entry.name]) for entry in entries]
    checks = [Command(("EXISTS", entry.record)) for entry in entries]
    replies = await execute_all(storage.redis, [*touches, *checks])
    times, exist = replies[: len(entries)], replies[len(entries) :]
    rows = zip(entries, times, exist, strict=True)
    late = [ScriptCall(_TAKE_BACK, [one.list], [one.name, ms]) for one, ms, exists in rows if not exists]
    if late:
        await execute_all(storage.redis, late)


def touch_run_call(owner: str, member: str) -> ScriptCall:
    """Return the script that lists an unfinished run of the owner."""
    return ScriptCall(_TOUCH, [keys.owned_runs(owner)], [member])


async def list_owned(storage: Storage, owner: str, kind: str, *, after: str | None, limit: int) -> IndexPage:
    """Return up to `limit` of the owner's artefacts of a kind, from the newest or from the cursor `after`.

    Raises `Invalid` for an `after` that is not a cursor.
    """
    return await read_page(storage, keys.owned_artefacts(owner, kind), after, limit)


async def read_page(
    storage: Storage, key: str, after: str | None, limit: int, *, oldest_first: bool = False
) -> IndexPage:
    """Return up to `limit` entries of a list, from its beginning or from the cursor `after`.

    Raises `Invalid` for an `after` that is not a cursor.
    """
    first, last = ("-inf", "+inf") if oldest_first else ("+inf", "-inf")
    start_ms, name = _parse_cursor(after) if after else (first, "")
    reply: list[bytes] = await _PAGE(storage.redis, [key], [start_ms, name, limit + 1, last])
    entries = [(reply[i].decode(), reply[i + 1].decode()) for i in range(0, len(reply), 2)]
    page = entries[:limit]
    cursor = f"{int(float(page[-1][1]))}-{page[-1][0]}" if len(entries) > limit else None
    times_ms = tuple(int(float(ms)) for _, ms in page)
    return IndexPage(tuple(name for name, _ in page), cursor, times_ms)


def _parse_cursor(after: str) -> tuple[str, str]:
    ms, separator, name = after.partition("-")
    if not (separator and ms.isascii() and ms.isdecimal() and name):
        raise Invalid(
            f"after {after[:80]!r} is not a page's `next`", remedy="send the `next` of the previous page"
        )
    return ms, name

"""The index of an owner's threads, by their times, status and metadata.

A thread's record and its owner's index may be on two nodes of a cluster, so no script writes both. Each write
of a record is announced in the owner's index before, and confirmed after, in one batch; the threads of
unfinished runs are announced by the owner's list of runs. A search first reads the records of the announced
threads and enters them. So it sees every write that was answered, and what a killed process has left.

An entry is a row: the sets that a thread is in. A row is entered only if no other was since its record was
read, and an announcement is removed only if it was confirmed before that. So wherever index and record
differ, there is an announcement.
"""

import asyncio
import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from callsheet.storage.redis import keys
from callsheet.storage.redis.scripts import Argument, Command, Script, ScriptCall, execute, execute_all

MAX_VALUES: Final = 64
"""Most values of a thread's metadata that are indexed; a thread with more makes filters by metadata read."""
_CHUNK: Final = 200
"""Threads that are entered in one script."""
_REFUSALS: Final[tuple[Any, ...]] = (-1, [b"", b"", b""])
"""Replies of scripts that changed nothing, beside those that are false."""
_FLUSH_EVERY: Final = 64
"""Announcements after which a writer enters them, so that no search has to enter many."""
_GRACE_S: Final = 60
"""Time after which a write that was announced and not confirmed will not happen any more."""
PARTIAL: Final = "partial"
"""Set of the threads with more values than are indexed."""
_COMPLETE: Final = "\0complete"
"""Field of the rows that exists once all threads of the owner are entered."""

# A full Redis refuses a script's first write only if it takes memory, so each begins with a removal.
_ANNOUNCE: Final = Script.with_clock("""
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], now_us() + ARGV[2], ARGV[1])
return redis.call('ZCARD', KEYS[1])
""")

# Removes a run from its owner's list and announces its thread. A negative limit counts from now.
DROP_RUN: Final = Script.with_clock("""
local runs, changes = unpack(KEYS)
local member, limit, thread = unpack(ARGV)
local since = redis.call('ZSCORE', runs, member)
limit = tonumber(limit)
if limit < 0 then limit = now_ms() + limit end
if not since or tonumber(since) > limit then return 0 end
redis.call('ZREM', runs, member)
redis.call('ZADD', changes, now_us(), thread)
return redis.call('ZCARD', changes)
""")

# Returns announcements: those confirmed until `limit`, and with an empty limit, until now, the others too.
_READ_CHANGES: Final = Script.with_clock("""
local limit, count, open = ARGV[1], ARGV[2], {}
if limit == '' then
  limit = now_us()
  open = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. limit, '+inf')
end
return {limit, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', limit, 'WITHSCORES', 'LIMIT', 0, count), open}
""")

_ENTER: Final = Script("""
local updated, created, state, ids, rows, changes = unpack(KEYS)
local next_arg = 0
local function take()
  next_arg = next_arg + 1
  return ARGV[next_arg]
end
local function take_list()
  local list = {}
  for i = 1, tonumber(take()) do list[i] = take() end
  return list
end

-- A call that is sent again because its reply was lost gets the same reply.
local token, answered = take(), redis.call('HGET', rows, '\\0answered')
if answered and string.sub(answered, 1, #token) == token then
  return cjson.decode(string.sub(answered, #token + 1))
end
local sets, since, refused = updated .. ':with:', tonumber(take()), {}
redis.call('ZREM', changes, '')
local removed = tonumber(redis.call('HGET', rows, '\\0removed') or 0)
local number = redis.call('HINCRBY', rows, '\\0number', 1)

local function leave(id, row, kept)
  for name in string.gmatch(row or '', ' (%S+)') do
    if not kept[name] then redis.call('ZREM', sets .. name, id) end
  end
end

while next_arg < #ARGV do
  local id, updated_ms, created_ms, state_ms = take(), take(), take(), take()
  local names, marks = take_list(), take_list()
  local row = redis.call('HGET', rows, id)
  local entered = row and tonumber(string.match(row, '^%d+')) or removed
  if entered > since then
    refused[#refused + 1] = id
  else
    local kept = {}
    if updated_ms == '' then
      for _, key in ipairs({updated, created, state, ids}) do redis.call('ZREM', key, id) end
      redis.call('HDEL', rows, id)
      redis.call('HSET', rows, '\\0removed', number)
    else
      redis.call('ZADD', updated, updated_ms, id)
      redis.call('ZADD', created, created_ms, id)
      redis.call('ZADD', state, state_ms, id)
      redis.call('ZADD', ids, 0, id)
      for _, name in ipairs(names) do
        kept[name] = true
        redis.call('ZADD', sets .. name, updated_ms, id)
      end
      redis.call('HSET', rows, id, number .. ' ' .. table.concat(names, ' '))
    end
    leave(id, row, kept)
    for i = 1, #marks, 2 do
      local is_same = redis.call('ZSCORE', changes, marks[i]) == marks[i + 1]
      if is_same then redis.call('ZREM', changes, marks[i]) end
    end
  end
end
redis.call('HSET', rows, '\\0answered', token .. cjson.encode(refused))
-- Of an owner without threads nothing stays but what refuses a row that was read before the last deletion.
if redis.call('ZCARD', ids) == 0 then redis.call('EXPIRE', rows, 600) else redis.call('PERSIST', rows) end
return refused
""")


class _IndexRow(NamedTuple):
    """Entry of a thread in the index; empty times for one that has no record."""

    updated_ms: Argument = ""
    created_ms: Argument = ""
    state_ms: Argument = ""
    sets: tuple[str, ...] = ()


async def write_announced(redis: Any, owner: str, thread: str, call: ScriptCall) -> Any:
    """Return the reply to a script that changes a thread's record, which the owner's searches then see.

    A write that was refused leaves no announcement, because the thread may be deleted.
    """
    mark = f"{thread}\0{uuid.uuid4().hex}"
    changes = [keys.thread_search(owner).changes]
    announcement = ScriptCall(_ANNOUNCE, changes, [mark, _GRACE_S * 1_000_000])
    confirmation = ScriptCall(_ANNOUNCE, changes, [mark, 0])
    _, reply, count = await execute_all(redis, [announcement, call, confirmation])
    if not reply or reply in _REFUSALS:
        await enter_announced(redis, owner)
    else:
        await enter_some(redis, owner, count)
    return reply


async def drop_run(redis: Any, owner: str, thread: str, member: str, limit_ms: int | str) -> bool:
    """Remove a run that was listed until `limit_ms` from its owner's list; its thread is announced.

    A negative limit counts from now. Returns whether the run was removed.
    """
    names = keys.thread_search(owner)
    count = await DROP_RUN(redis, [names.runs, names.changes], [member, limit_ms, f"{thread}\0"])
    await enter_some(redis, owner, count)
    return bool(count)


async def enter_some(redis: Any, owner: str, count: int) -> None:
    """Enter announced threads if there are many; `count` is the number of announcements."""
    if count and count % _FLUSH_EVERY == 0:
        await enter_announced(redis, owner)


async def enter(redis: Any, owner: str, threads: Iterable[str]) -> None:
    """Bring the index up to date with the records of these threads. Twice is safe."""
    listed = list(threads)
    for start in range(0, len(listed), _CHUNK):
        await _enter(redis, owner, {thread: [] for thread in listed[start : start + _CHUNK]})


async def refresh(redis: Any, owner: str) -> None:
    """Bring the index up to date with every write that was answered until now."""
    names = keys.thread_search(owner)
    reading = ScriptCall(_READ_CHANGES, [names.changes], ["", _CHUNK])
    runs, complete = Command(("ZRANGE", names.runs, 0, -1)), Command(("HGET", names.rows, _COMPLETE))
    (limit, marks, unconfirmed), open_runs, is_complete = await execute_all(redis, [reading, runs, complete])
    if not is_complete:
        await rebuild(redis, owner)
    threads = {member.decode().partition("\0")[0] for member in unconfirmed}
    await enter(redis, owner, threads | {member.decode().partition("\0")[2] for member in open_runs})
    await _enter_all(redis, owner, limit, marks)


async def enter_announced(redis: Any, owner: str) -> None:
    """Enter the threads whose writes were answered until now."""
    limit, marks, _ = await _READ_CHANGES(redis, [keys.thread_search(owner).changes], ["", _CHUNK])
    await _enter_all(redis, owner, limit, marks)


async def _enter_all(redis: Any, owner: str, limit: bytes, marks: Sequence[bytes]) -> None:
    """Enter the threads of these first announcements, and of all others until `limit`."""
    while marks:
        await _enter(redis, owner, _by_thread(marks))
        _, marks, _ = await _READ_CHANGES(redis, [keys.thread_search(owner).changes], [limit, _CHUNK])


async def rebuild(redis: Any, owner: str) -> None:
    """Enter all threads of an owner, as those that an earlier version has stored. Twice is safe."""
    names, chunk, is_empty = keys.thread_search(owner), list[str](), True
    async for member, _ in redis.zscan_iter(names.updated, count=_CHUNK):
        chunk.append(member.decode())
        is_empty = False
        if len(chunk) == _CHUNK:
            await enter(redis, owner, chunk)
            chunk = []
    await enter(redis, owner, chunk)
    if not is_empty:
        await execute(redis, "HSET", names.rows, _COMPLETE, 1)


async def _enter(redis: Any, owner: str, marks: Mapping[str, Sequence[bytes]]) -> None:
    """Enter threads; then remove these announcements of theirs, each with its score."""
    names = keys.thread_search(owner)
    while marks:
        number = await execute(redis, "HGET", names.rows, "\0number")
        rows = await asyncio.gather(*(_read_row(redis, owner, thread) for thread in marks))
        args: list[Argument] = [uuid.uuid4().hex, number or 0]
        for (thread, own_marks), row in zip(marks.items(), rows, strict=True):
            args += [thread, row.updated_ms, row.created_ms, row.state_ms, len(row.sets), *row.sets]
            args += [len(own_marks), *own_marks]
        # Another process entered these meanwhile, from what it read before or after.
        refused = {thread.decode() for thread in await _ENTER(redis, names[:6], args)}
        marks = {thread: own_marks for thread, own_marks in marks.items() if thread in refused}


async def _read_row(redis: Any, owner: str, thread: str) -> _IndexRow:
    fields = ("owner", "status", "metadata", "createdMs", "updatedMs", "stateUpdatedMs")
    reply = await execute(redis, "HMGET", keys.thread_meta(thread), *fields)
    its_owner, status, metadata, created_ms, updated_ms, state_ms = reply
    if its_owner is None or its_owner.decode() != owner or created_ms is None:
        return _IndexRow()
    sets = [status_set((status or b"").decode() or "idle")]
    digests = {value_set(path, value) for path, value in scalars(json.loads(metadata or b"{}") or {})}
    sets += sorted(digests)[:MAX_VALUES]
    if len(digests) > MAX_VALUES:
        sets.append(PARTIAL)
    return _IndexRow(updated_ms or created_ms, created_ms, state_ms or created_ms, tuple(sets))


def _by_thread(marks: Sequence[bytes]) -> dict[str, list[bytes]]:
    """Return announcements, given each before its score, by thread."""
    threads: dict[str, list[bytes]] = {}
    for mark, score in zip(marks[::2], marks[1::2], strict=True):
        threads.setdefault(mark.decode().partition("\0")[0], []).extend((mark, score))
    return threads


def status_set(status: str) -> str:
    """Return the name of the set of threads with this status."""
    return f"status={status}"


def value_set(path: Sequence[str], value: Any) -> str:
    """Return the name of the set of threads with this value at this path of their metadata."""
    # Python's equality, by which metadata are compared: True == 1 == 1.0.
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    digest = hashlib.blake2b(json.dumps([*path, value]).encode(), digest_size=12)
    return digest.hexdigest()


def scalars(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values in nested objects that are no object and no list, each with its path."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from scalars(part, (*path, name))
    elif not isinstance(value, list):
        yield path, value

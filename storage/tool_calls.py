"""The record of every call of a tool, refused ones too (C29-C32, C50).

A call is recorded once, under its own id: an attempt after a crash goes on with the record of the one before.
What is written is told by the guard; times are those of Redis.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall

MAX_RECORDS: Final = 10_000
"""Calls of one owner that are kept, the newest."""
_CHUNK: Final = 100
_KEPT_MS: Final = int(keys.RECORDED_S * 1000)

# Only its beginning puts a call into the lists, so that one that begins again stays in its place. A list is
# tidied, and its time begun anew, once in a minute at most: a reader drops what has expired meanwhile.
_WRITE: Final = Script("""
local record, all, thread = KEYS[1], KEYS[2], KEYS[3]
local id, kept, most, over = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local now = string.format('%.0f', ms)
if redis.call('HSETNX', record, 'startMs', now) == 1 then
  redis.call('PEXPIRE', record, ARGV[2])
  for _, list in ipairs({all, thread}) do
    redis.call('ZADD', list, now, id)
    if redis.call('PTTL', list) < kept - 60000 then
      redis.call('ZREMRANGEBYSCORE', list, '-inf', string.format('%.0f', ms - kept))
      redis.call('PEXPIRE', list, ARGV[2])
    end
  end
  for _, gone in ipairs(redis.call('ZRANGE', all, 0, -most - 1)) do
    redis.call('DEL', string.sub(record, 1, -#id - 1) .. gone)
    redis.call('ZREM', all, gone)
  end
else
  redis.call('HDEL', record, 'endMs', 'output', 'error', 'errorType', 'retryable')
end
if over == '1' then
  ARGV[#ARGV + 1] = 'endMs'
  ARGV[#ARGV + 1] = now
end
redis.call('HSET', record, unpack(ARGV, 5))
return 1
""")


@dataclass(frozen=True)
class CallFilter:
    """Which calls to list; None is any."""

    thread: str | None = None
    tool: str | None = None
    status: str | None = None
    before: str | None = None
    """The id of a call: only those that began before it."""


def write_call(
    owner: str, thread: str, call: str, fields: Mapping[str, str], *, over: bool, most: int = MAX_RECORDS
) -> ScriptCall:
    """Return the script that writes fields of the record of a call, and its end if it is `over`.

    Of the owner's calls the newest `most` are kept.
    """
    head: list[Argument] = [call, _KEPT_MS, most, int(over)]
    return ScriptCall(_WRITE, keys.tool_call_records(owner, thread, call), [*head, *chain(*fields.items())])


async def find(storage: Storage, owner: str, call: str) -> dict[str, Any] | None:
    """Return the record of one call of this owner's, or None."""
    found = await storage.redis.hgetall(keys.tool_call_records(owner, "-", call).record)
    return _read(call, found) if found else None


async def list_calls(storage: Storage, owner: str, wanted: CallFilter, limit: int) -> list[dict[str, Any]]:
    """Return the records of this owner's calls, the newest first, at most `limit`."""
    found: list[dict[str, Any]] = []
    async for record in _newest_first(storage, owner, wanted):
        if wanted.tool in {None, record.get("toolName")} and wanted.status in {None, record.get("status")}:
            found.append(record)
            if len(found) == limit:
                break
    return found


async def _newest_first(storage: Storage, owner: str, wanted: CallFilter) -> AsyncIterator[dict[str, Any]]:
    touched = keys.tool_call_records(owner, wanted.thread or "-", "")
    index = touched.all if wanted.thread is None else touched.thread
    start = 0
    if wanted.before is not None:
        place = await storage.redis.zrevrank(index, wanted.before)
        if place is None:
            return
        start = place + 1
    while names := await storage.redis.zrange(index, start, start + _CHUNK - 1, desc=True):
        for record in await _records(storage, owner, [name.decode() for name in names]):
            yield record
        start += _CHUNK


async def _records(storage: Storage, owner: str, calls: Sequence[str]) -> list[dict[str, Any]]:
    pipeline = storage.redis.pipeline(transaction=False)
    for call in calls:
        pipeline.hgetall(keys.tool_call_records(owner, "-", call).record)
    answers = await pipeline.execute()
    # What has expired, or was over the number that is kept, is in a list a moment longer.
    return [_read(call, found) for call, found in zip(calls, answers, strict=True) if found]


def _read(call: str, found: Mapping[bytes, bytes]) -> dict[str, Any]:
    text = {name.decode(): value.decode() for name, value in found.items()}
    return {"id": call, **{name: _value(name, value) for name, value in text.items()}}


def _value(name: str, text: str) -> Any:
    if name in {"startMs", "endMs", "tries"}:
        return int(text)
    return json.loads(text) if name in {"input", "output", "retryable", "cached"} else text

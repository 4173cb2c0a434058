"""Records of all tool calls, refused ones included.

A call has one record: an attempt after a crash continues the record of the attempt before. The guard chooses
the fields; times come from the clock of Redis.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall, execute_all


@dataclass(frozen=True)
class CallRetention:
    """The records that are kept of an owner's calls."""

    newest: int = 10_000
    lifetime_s: float = keys.TOOL_CALL_TTL_S
    """Seconds after the first start of a call, at most the default."""


KEEP_CALLS: Final = CallRetention()
_PAGE_SIZE: Final = 100

# Only the first start adds a call to the lists, so that a repeated call keeps its position. A list is trimmed
# and its expiry renewed at most once a minute; readers skip entries that have expired meanwhile.
_WRITE: Final = Script.with_clock("""
local record, all, thread = KEYS[1], KEYS[2], KEYS[3]
local id, lifetime, limit, ended = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local ms = tonumber(now_ms())
local now = string.format('%.0f', ms)
if redis.call('HSETNX', record, 'startMs', now) == 1 then
  redis.call('PEXPIRE', record, ARGV[2])
  for _, list in ipairs({all, thread}) do
    redis.call('ZADD', list, now, id)
    if redis.call('PTTL', list) < lifetime - 60000 then
      redis.call('ZREMRANGEBYSCORE', list, '-inf', string.format('%.0f', ms - lifetime))
      redis.call('PEXPIRE', list, ARGV[2])
    end
  end
  for _, old in ipairs(redis.call('ZRANGE', all, 0, -limit - 1)) do
    redis.call('DEL', string.sub(record, 1, -#id - 1) .. old)
    redis.call('ZREM', all, old)
  end
else
  redis.call('HDEL', record, 'endMs', 'output', 'error', 'errorType', 'retryable')
end
if ended == '1' then
  ARGV[#ARGV + 1] = 'endMs'
  ARGV[#ARGV + 1] = now
end
redis.call('HSET', record, unpack(ARGV, 5))
return 1
""")


_FORGET: Final = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[1], 'output', 'error')
return redis.call('HSET', KEYS[1], 'input', '{}')
""")


@dataclass(frozen=True)
class CallFilter:
    """Filter for listed calls; None matches any."""

    thread: str | None = None
    tool: str | None = None
    status: str | None = None
    before: str | None = None
    """Id of a call; only calls that started before it match."""


def write_call(
    owner: str,
    thread: str,
    call: str,
    fields: Mapping[str, str],
    *,
    ended: bool,
    retention: CallRetention = KEEP_CALLS,
) -> ScriptCall:
    """Return the script that writes fields of a call's record and, after its end, the end time.

    It also deletes the owner's oldest records beyond the retention.
    """
    args: list[Argument] = [
        *(call, int(retention.lifetime_s * 1000), retention.newest, int(ended)),
        *chain(*fields.items()),
    ]
    return ScriptCall(_WRITE, keys.tool_call_records(owner, thread, call), args)


async def forget_thread(storage: Storage, owner: str, thread: str) -> None:
    """Remove arguments, results and errors from the records of a thread's calls. Twice is safe."""
    index = keys.tool_call_records(owner, thread, "").thread
    while members := await storage.redis.zrange(index, 0, _PAGE_SIZE - 1):
        records = [keys.tool_call_records(owner, thread, member.decode()).record for member in members]
        await execute_all(storage.redis, [ScriptCall(_FORGET, [record]) for record in records])
        await storage.redis.zrem(index, *members)


async def find(storage: Storage, owner: str, call: str) -> dict[str, Any] | None:
    """Return the record of one of the owner's calls, or None."""
    fields = await storage.redis.hgetall(keys.tool_call_records(owner, "-", call).record)
    return _parse(call, fields) if fields else None


async def list_calls(
    storage: Storage, owner: str, call_filter: CallFilter, limit: int
) -> list[dict[str, Any]]:
    """Return up to `limit` records of the owner's calls, newest first."""
    records: list[dict[str, Any]] = []
    async for record in _newest_first(storage, owner, call_filter):
        is_match = call_filter.tool in {None, record.get("toolName")}
        if is_match and call_filter.status in {None, record.get("status")}:
            records.append(record)
            if len(records) == limit:
                break
    return records


async def _newest_first(
    storage: Storage, owner: str, call_filter: CallFilter
) -> AsyncIterator[dict[str, Any]]:
    call_keys = keys.tool_call_records(owner, call_filter.thread or "-", "")
    index = call_keys.all if call_filter.thread is None else call_keys.thread
    start = 0
    if call_filter.before is not None:
        rank = await storage.redis.zrevrank(index, call_filter.before)
        if rank is None:
            return
        start = rank + 1
    while members := await storage.redis.zrange(index, start, start + _PAGE_SIZE - 1, desc=True):
        for record in await _read(storage, owner, [member.decode() for member in members]):
            yield record
        start += _PAGE_SIZE


async def _read(storage: Storage, owner: str, calls: Sequence[str]) -> list[dict[str, Any]]:
    pipeline = storage.redis.pipeline(transaction=False)
    for call in calls:
        pipeline.hgetall(keys.tool_call_records(owner, "-", call).record)
    # A list may still name records that have expired or were trimmed.
    return [
        _parse(call, fields) for call, fields in zip(calls, await pipeline.execute(), strict=True) if fields
    ]


def _parse(call: str, fields: Mapping[bytes, bytes]) -> dict[str, Any]:
    text = {name.decode(): value.decode() for name, value in fields.items()}
    return {"id": call, **{name: _parse_value(name, value) for name, value in text.items()}}


def _parse_value(name: str, text: str) -> Any:
    if name in {"startMs", "endMs", "tries"}:
        return int(text)
    return json.loads(text) if name in {"input", "output", "retryable", "cached"} else text

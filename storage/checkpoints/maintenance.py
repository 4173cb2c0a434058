"""Deletion, pruning, copying and sizes of threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import thread_index
from callsheet.storage.checkpoints.codec import decode_name, encode_name
from callsheet.storage.checkpoints.context import Operation, SaverContext
from callsheet.storage.checkpoints.lua import HEADERS, THREAD
from callsheet.storage.checkpoints.message_log import new_mark
from callsheet.storage.checkpoints.pending import PENDING
from callsheet.storage.checkpoints.writing import FENCED, AttemptFence, takeover_error
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, ScriptCall

_FEW: Final = 10
"""Checkpoints beyond the limit that are worth a removal."""
_NOTHING: Final = -1
"""Reply of `_COPY` when neither source nor target exists."""

_SWEEP: Final = r"""
local function live_fields(kept)
  local live = {}
  for field in pairs(kept) do
    local prefix = namespace(field)
    for channel, version in string.gmatch(header(redis.call('HGET', records, field)), VERSIONS) do
      live[prefix .. channel .. '\0' .. version] = true
    end
  end
  return live
end

-- Delete every value that no kept checkpoint refers to, and return the piece tables among the others.
local function sweep_values(live)
  local tables = {}
  for _, field in ipairs(redis.call('HKEYS', values)) do
    local value = live[field] and redis.call('HGET', values, field)
    if not value then
      redis.call('HDEL', values, field)
    elseif string.sub(value, 1, 1) == 'L' then
      tables[field] = value
    end
  end
  return tables
end

-- The spans of the log that the tables refer to, sorted and merged: {first, one past its last}.
local function used_spans(tables)
  local spans, merged = {}, {}
  for _, text in pairs(tables) do
    each_piece(text, function(first, past) spans[#spans + 1] = {first, past} end)
  end
  table.sort(spans, function(a, b) return a[1] < b[1] end)
  for _, span in ipairs(spans) do
    local last = merged[#merged]
    if last and span[1] <= last[2] then
      last[2] = math.max(last[2], span[2])
    else
      merged[#merged + 1] = span
    end
  end
  return merged
end

local function compact_log(tables)
  local spans, moved, used = used_spans(tables), {}, {}
  for _, span in ipairs(spans) do
    moved[#moved + 1] = {span[1], span[2], #used - span[1]}
    for _, element in ipairs(redis.call('LRANGE', log, span[1], span[2] - 1)) do used[#used + 1] = element end
  end
  local function shifted(first)
    first = tonumber(first)
    for _, span in ipairs(moved) do
      if first >= span[1] and first < span[2] then return string.format('%.0f:', first + span[3]) end
    end
  end
  redis.call('DEL', log)
  in_slices('RPUSH', log, used, 1, #used)
  for field, text in pairs(tables) do
    local pieces = string.gsub(text, '(%d+):', shifted)
    redis.call('HSET', values, field, pieces)
  end
end

-- Delete every checkpoint that is not kept, with the data that only those used. Returns how many are left, or
-- -1 if none was deleted.
local function sweep(kept, fresh)
  local removed, left = 0, 0
  for _, member in ipairs(members()) do
    local field = field_of(member)
    if kept[field] then
      left = left + 1
    else
      removed = removed + 1
      redis.call('ZREM', ids, member)
      redis.call('HDEL', records, field)
      redis.call('ZREMRANGEBYLEX', writes, writes_range(field))
    end
  end
  if removed == 0 then return -1 end
  if left == 0 then
    redis.call('UNLINK', unpack(KEYS, 1, 5))
  else
    compact_log(sweep_values(live_fields(kept)))
    redis.call('HSET', records, GENERATION, fresh)
  end
  return left
end
"""

_KEEP_NEWEST: Final = Script(
    THREAD
    + HEADERS
    + _SWEEP
    + PENDING
    + r"""
local kept = {}

-- A channel stored as writes needs its ancestors, back to the last one that has its value.
local function keep_ancestors(field, record)
  local prefix, unsaved = namespace(field), {}
  for channel in string.gmatch(header(record), UNSAVED) do unsaved[channel] = true end
  while next(unsaved) and record do
    kept[field] = true
    local head, saved = header(record), {}
    for channel in pairs(unsaved) do
      local version = version_of(head, channel)
      local value = version and prefix .. channel .. '\0' .. version
      if value and redis.call('HEXISTS', values, value) == 1 then saved[#saved + 1] = channel end
    end
    for _, channel in ipairs(saved) do unsaved[channel] = nil end
    field = prefix .. parent_of(head)
    record = redis.call('HGET', records, field)
  end
end

local newest, most, thread = tonumber(ARGV[2]), tonumber(ARGV[3]), KEYS[6]
if redis.call('ZCARD', ids) <= most then return -1 end
if thread and redis.call('HEXISTS', thread, 'active') == 1 then return -1 end
local in_namespace = {}
for _, member in ipairs(members()) do
  local name = namespace(member)
  in_namespace[name] = in_namespace[name] or {}
  table.insert(in_namespace[name], field_of(member))
end
for _, fields in pairs(in_namespace) do
  for at = math.max(1, #fields - newest + 1), #fields do
    kept[fields[at]] = true
    keep_ancestors(fields[at], redis.call('HGET', records, fields[at]))
  end
end
local left = sweep(kept, ARGV[1])
if left > 0 then forget_pending() end
return left
"""
)

_DELETE_FOR_RUNS: Final = Script(
    THREAD
    + HEADERS
    + _SWEEP
    + PENDING
    + r"""
local deleted, kept = {}, {}
if fenced(ARGV[2]) then return -2 end
for at = 3, #ARGV do deleted[ARGV[at]] = true end
for _, member in ipairs(members()) do
  local field = field_of(member)
  if not deleted[run_of(header(redis.call('HGET', records, field)))] then kept[field] = true end
end
local left = sweep(kept, ARGV[1])
if ARGV[2] ~= '' and left ~= 0 then restore_pending(ARGV[3]) end
return left
"""
)

_DELETE: Final = Script("return redis.call('UNLINK', unpack(KEYS))")

_COPY: Final = Script(
    THREAD
    + r"""
if redis.call('EXISTS', ids) == 0 then return redis.call('EXISTS', KEYS[6]) - 1 end
local fresh, ttl_ms = ARGV[1], tonumber(ARGV[2])
for key = 1, 5 do
  redis.call('DEL', KEYS[key + 5])
  redis.call('COPY', KEYS[key], KEYS[key + 5])
end
redis.call('HSET', KEYS[7], GENERATION, fresh)
for key = 6, 10 do
  if ttl_ms > 0 then redis.call('PEXPIRE', KEYS[key], ttl_ms) else redis.call('PERSIST', KEYS[key]) end
end
return 1
"""
)

_DUMP: Final = Script(
    THREAD
    + r"""
if redis.call('EXISTS', ids) == 0 then return {} end
local dumps = {}
for key = 1, 5 do dumps[key] = redis.call('DUMP', KEYS[key]) or '' end
return dumps
"""
)

_RESTORE: Final = Script(
    THREAD
    + r"""
for key = 1, 5 do
  redis.call('DEL', KEYS[key])
  if ARGV[key + 2] ~= '' then redis.call('RESTORE', KEYS[key], 0, ARGV[key + 2]) end
end
redis.call('HSET', records, GENERATION, ARGV[1])
set_ttl(tonumber(ARGV[2]))
return 1
"""
)


def prune(context: SaverContext, thread: str, strategy: str) -> Operation[None]:
    """Keep the latest checkpoints of the thread (`keep_latest`), or none (`delete`)."""
    if strategy == "delete":
        yield from delete(context, thread)
    elif strategy == "keep_latest":
        yield [ScriptCall(_KEEP_NEWEST, context.policy.keys(thread), (new_mark(), 1, 0))]
    else:
        raise Invalid(f"unknown prune strategy {strategy!r}", remedy="Use 'keep_latest' or 'delete'.")


def keep_newest(context: SaverContext, thread: str, count: int) -> Operation[None]:
    """Keep the newest `count` checkpoints of each namespace, and the ancestors that they need.

    Does nothing while a run has the thread, which may have to be rolled back, nor for a few more than
    `count`, because it reads the whole thread.
    """
    most = count + max(_FEW, count // 4)
    thread_keys = (*context.policy.keys(thread), keys.thread_meta(thread))
    yield [ScriptCall(_KEEP_NEWEST, thread_keys, (new_mark(), count, most))]


def delete(context: SaverContext, thread: str) -> Operation[None]:
    """Delete the whole thread."""
    policy = context.policy
    yield [
        thread_index.remove(policy.thread_index, encode_name(thread)),
        ScriptCall(_DELETE, policy.keys(thread), ()),
    ]
    context.logs.remove(thread)


def delete_for_runs(
    context: SaverContext, runs: Sequence[str], thread: str = "", fence: AttemptFence | None = None
) -> Operation[None]:
    """Delete every checkpoint of the runs, on any thread.

    With a fence, which is that of the only run, what `keep_pending` kept for it is there again. Raises
    `Fenced`, with nothing deleted, if the attempt does not have its `thread` any more. A thread that loses
    its last checkpoint stays in the index, because another process may be writing to it.
    """
    policy, names = context.policy, list(map(encode_name, runs))
    if not names:
        return
    if fence:
        own_keys = (*policy.keys(thread), fence.key)
        (reply,) = yield [ScriptCall(_DELETE_FOR_RUNS, own_keys, (new_mark(), fence.epoch, *names))]
        if reply == FENCED:
            raise takeover_error(thread)
    (listed,) = yield [thread_index.threads_of_runs(policy.thread_index, names)]
    own = encode_name(thread) if fence else None
    threads = [name for name in listed if name != own]
    if threads:
        thread_keys = [policy.keys(decode_name(thread)) for thread in threads]
        yield [ScriptCall(_DELETE_FOR_RUNS, each, (new_mark(), "", *names)) for each in thread_keys]
    if listed:
        yield [thread_index.remove_runs(policy.thread_index, names)]


def copy(context: SaverContext, source: str, target: str) -> Operation[None]:
    """Replace `target` with a copy of `source`; do nothing if there is no source."""
    if source == target:
        return
    policy, target_name = context.policy, encode_name(target)
    index_call = thread_index.add_copy(
        policy.thread_index, encode_name(source), policy.entry_ttl_ms, target_name
    )
    source_keys, target_keys = policy.keys(source), policy.keys(target)
    if policy.clustered:
        (dumps,) = yield [ScriptCall(_DUMP, source_keys, ())]
        if dumps:
            restore = ScriptCall(_RESTORE, target_keys, (new_mark(), policy.ttl_ms, *dumps))
            yield [index_call, restore]
    else:
        call = ScriptCall(_COPY, (*source_keys, *target_keys), (new_mark(), policy.ttl_ms))
        _, copied = yield [index_call, call]
        if copied == _NOTHING:
            yield [thread_index.remove(policy.thread_index, target_name)]


_SIZE: Final = Script(
    THREAD
    + r"""
local function total(list) local n = 0; for _, item in ipairs(list) do n = n + #item end; return n end
local record_bytes = 0
for _, field in ipairs(redis.call('HKEYS', records)) do
  if field ~= GENERATION and field ~= COUNTER then
    record_bytes = record_bytes + redis.call('HSTRLEN', records, field)
  end
end
local names, versions, bytes = {}, {}, {}
for _, field in ipairs(redis.call('HKEYS', values)) do
  local channel = string.match(field, '^[^%z]*%z([^%z]*)')
  if not versions[channel] then
    names[#names + 1], versions[channel], bytes[channel] = channel, 0, 0
  end
  versions[channel] = versions[channel] + 1
  bytes[channel] = bytes[channel] + redis.call('HSTRLEN', values, field)
end
local channels = {}
for at, channel in ipairs(names) do channels[at] = {channel, versions[channel], bytes[channel]} end
local elements = 0
for first = 0, redis.call('LLEN', log) - 1, 1000 do
  elements = elements + total(redis.call('LRANGE', log, first, first + 999))
end
local pending = redis.call('ZRANGE', writes, 0, -1)
return {#members(), record_bytes, channels, elements, #pending, total(pending)}
"""
)


@dataclass(frozen=True)
class Size:
    """Stored size of a thread's checkpoints, in counts and bytes."""

    checkpoints: tuple[int, int]
    """Number of checkpoints, and their bytes without values."""
    channels: dict[str, tuple[int, int]]
    """Number of stored versions and their bytes, by channel."""
    elements: int
    """Bytes of list elements, which the versions of a list share."""
    writes: tuple[int, int]
    """Number of pending writes, and their bytes."""


async def size(storage: Storage, thread: str) -> Size:
    """Return the size of a thread; zeros if it has no checkpoints."""
    reply: Any = await _SIZE(storage.redis, keys.checkpoints(thread), [])
    count, record_bytes, channels, elements, pending, pending_bytes = reply
    by_channel = {decode_name(name): (versions, size_bytes) for name, versions, size_bytes in channels}
    return Size((count, record_bytes), by_channel, elements, (pending, pending_bytes))

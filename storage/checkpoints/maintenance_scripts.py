"""Scripts that delete, prune and copy threads."""

from collections.abc import Sequence
from typing import Final

from callsheet.storage.checkpoints.lua import HEADERS, THREAD
from callsheet.storage.redis.keys import CheckpointKeys
from callsheet.storage.redis.scripts import Script, ScriptCall

NOTHING: Final = -1
"""Reply of `copy` when neither source nor target exists."""

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
  push(used, 1, #used)
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

_KEEP_LATEST: Final = Script(
    THREAD
    + HEADERS
    + _SWEEP
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

local latest = {}
for _, member in ipairs(members()) do latest[namespace(member)] = field_of(member) end
for _, field in pairs(latest) do
  kept[field] = true
  keep_ancestors(field, redis.call('HGET', records, field))
end
return sweep(kept, ARGV[1])
"""
)

_DELETE_FOR_RUNS: Final = Script(
    THREAD
    + HEADERS
    + _SWEEP
    + r"""
local deleted, kept = {}, {}
for at = 2, #ARGV do deleted[ARGV[at]] = true end
for _, member in ipairs(members()) do
  local field = field_of(member)
  if not deleted[run_of(header(redis.call('HGET', records, field)))] then kept[field] = true end
end
return sweep(kept, ARGV[1])
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


def keep_latest(keys: CheckpointKeys, fresh: bytes) -> ScriptCall:
    """Keep the newest checkpoint of each namespace, and the ancestors its values are made from.

    Replies with the number of checkpoints left, or -1 if none was deleted. Deleting compacts the log, which
    then gets the generation `fresh`.
    """
    return ScriptCall(_KEEP_LATEST, keys, (fresh,))


def delete_for_runs(keys: CheckpointKeys, fresh: bytes, runs: Sequence[bytes]) -> ScriptCall:
    """Delete the checkpoints of the runs. Replies as `keep_latest`."""
    return ScriptCall(_DELETE_FOR_RUNS, keys, (fresh, *runs))


def delete(keys: CheckpointKeys) -> ScriptCall:
    """Delete the thread."""
    return ScriptCall(_DELETE, keys, ())


def copy(source: CheckpointKeys, target: CheckpointKeys, fresh: bytes, ttl_ms: int) -> ScriptCall:
    """Replace `target` with a copy of `source` on the same node; do nothing if there is no source.

    Replies 1; without a source, 0 if there is a target, else `NOTHING`.
    """
    return ScriptCall(_COPY, (*source, *target), (fresh, ttl_ms))


def dump(keys: CheckpointKeys) -> ScriptCall:
    """Dump the thread's keys for `restore` on another node. Replies with nothing if there is no thread."""
    return ScriptCall(_DUMP, keys, ())


def restore(keys: CheckpointKeys, dumps: Sequence[bytes], fresh: bytes, ttl_ms: int) -> ScriptCall:
    """Replace the thread with what was dumped."""
    return ScriptCall(_RESTORE, keys, (fresh, ttl_ms, *dumps))

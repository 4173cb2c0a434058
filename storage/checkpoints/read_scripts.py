"""Scripts that read checkpoints with their values, pending writes and the log elements not cached yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from callsheet.storage.checkpoints.lua import HEADERS, THREAD
from callsheet.storage.checkpoints.message_log import LogWitness, Piece, encode_table
from callsheet.storage.redis.keys import CheckpointKeys
from callsheet.storage.redis.scripts import Script, ScriptCall

_GAPS: Final = r"""
-- The parts of the needed spans that no cached span covers. A span is {first, one past its last}; the cached
-- ones are sorted.
local function gaps(needed, cached)
  table.sort(needed, function(a, b) return a[1] < b[1] end)
  local missing, at, done = {}, 1, 0
  for _, span in ipairs(needed) do
    local first = math.max(span[1], done)
    while first < span[2] do
      while cached[at] and cached[at][2] <= first do at = at + 1 end
      local past = cached[at] and cached[at][1] or span[2]
      if past > first then missing[#missing + 1] = {first, math.min(past, span[2])} end
      first = past > first and math.min(past, span[2]) or cached[at][2]
    end
    done = math.max(done, span[2])
  end
  return missing
end
"""

_VALUES: Final = r"""
-- Every value that the rows refer to, once, as alternating fields and values.
local function values_of(rows)
  local fields, seen, flat = {}, {}, {}
  for _, row in ipairs(rows) do
    local prefix = namespace(row[1])
    for channel, version in string.gmatch(header(row[2]), VERSIONS) do
      local field = prefix .. channel .. '\0' .. version
      if not seen[field] then seen[field] = true; fields[#fields + 1] = field end
    end
  end
  for at = 1, #fields, 500 do
    local batch = redis.call('HMGET', values, unpack(fields, at, math.min(at + 499, #fields)))
    for offset, value in ipairs(batch) do
      if value then flat[#flat + 1] = fields[at + offset - 1]; flat[#flat + 1] = value end
    end
  end
  return flat
end
"""

_REPLY: Final = r"""
local function elements_for(flat, cached_table)
  local needed, cached, elements = {}, {}, {}
  for at = 2, #flat, 2 do
    if string.sub(flat[at], 1, 1) == 'L' then
      each_piece(flat[at], function(first, past) needed[#needed + 1] = {first, past} end)
    end
  end
  each_piece(cached_table, function(first, past) cached[#cached + 1] = {first, past} end)
  for _, span in ipairs(gaps(needed, cached)) do
    elements[#elements + 1] = span[1]
    elements[#elements + 1] = redis.call('LRANGE', log, span[1], span[2] - 1)
  end
  return elements
end

local function reply(fields)
  local generation, position, mark, cached_table, ttl_ms = unpack(ARGV, 1, 5)
  local cache_valid, rows = log_matches(generation, position, mark), {}
  for _, field in ipairs(fields) do
    local record = redis.call('HGET', records, field)
    if record then
      rows[#rows + 1] = {field, record, redis.call('ZRANGEBYLEX', writes, writes_range(field))}
    end
  end
  local flat = values_of(rows)
  local elements = elements_for(flat, cache_valid and cached_table or '')
  if ttl_ms ~= '0' and #rows > 0 then set_ttl(tonumber(ttl_ms)) end
  return {redis.call('HGET', records, GENERATION) or '', cache_valid and 1 or 0, rows, flat, elements}
end
"""

_READ: Final = THREAD + HEADERS + _GAPS + _VALUES + _REPLY

_LATEST: Final = Script(
    _READ
    + r"""
local name = ARGV[6]
return reply(redis.call('ZREVRANGEBYLEX', ids, '(' .. name .. '\1', '[' .. name .. '\0', 'LIMIT', 0, 1))
"""
)

_GIVEN: Final = Script(_READ + "return reply({unpack(ARGV, 6)})")

_PAGE: Final = Script(
    _READ
    + r"""
local name, before, limit = unpack(ARGV, 6, 8)
local past = before ~= '' and '(' .. name .. '\0' .. before or '(' .. name .. '\1'
return reply(redis.call('ZREVRANGEBYLEX', ids, past, '[' .. name .. '\0', 'LIMIT', 0, limit))
"""
)

_FIELDS: Final = Script(THREAD + "return redis.call('ZRANGE', ids, 0, -1)")

_HISTORY: Final = Script(
    THREAD
    + HEADERS
    + r"""
local function elements_of(pieces)
  local elements = {}
  each_piece(pieces, function(first, past)
    local span = redis.call('LRANGE', log, first, past - 1)
    for _, element in ipairs(span) do elements[#elements + 1] = element end
  end)
  return elements
end

local name, id, needed = ARGV[1], ARGV[2], {}
for at = 3, #ARGV do needed[ARGV[at]] = true end

local function writes_at(field)
  local selected = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', writes, writes_range(field))) do
    local write = string.sub(member, #field + 2)
    local channel = string.match(write, '^[^%z]*%z[^%z]*%z[^%z]*%z([^%z]*)%z')
    if needed[channel] then selected[#selected + 1] = write end
  end
  return selected
end

-- Consecutive ancestors share most versions, so each version is looked up once.
local count_lookup = {}
local function value_of(channel, version)
  local field = name .. '\0' .. channel .. '\0' .. version
  if count_lookup[field] then return false end
  count_lookup[field] = true
  return redis.call('HGET', values, field)
end

-- The stored values of needed channels, which are then needed no longer.
local function seeds_at(head)
  local seeds = {}
  for channel in pairs(needed) do
    local version = version_of(head, channel)
    local value = version and value_of(channel, version)
    if value then
      local elements = string.sub(value, 1, 1) == 'L' and elements_of(value) or {}
      seeds[#seeds + 1] = {channel, value, elements}
    end
  end
  for _, seed in ipairs(seeds) do needed[seed[1]] = nil end
  return seeds
end

if id == '' then
  local newest = redis.call('ZREVRANGEBYLEX', ids, '(' .. name .. '\1', '[' .. name .. '\0', 'LIMIT', 0, 1)[1]
  if not newest then return {} end
  id = string.sub(newest, #name + 2)
end
local target = redis.call('HGET', records, name .. '\0' .. id)
id = target and parent_of(header(target)) or ''
local steps = {}
while id ~= '' and next(needed) do
  local field = name .. '\0' .. id
  local record = redis.call('HGET', records, field)
  if not record then break end
  local head = header(record)
  -- Before seeds_at, which removes channels from needed.
  local step_writes = writes_at(field)
  steps[#steps + 1] = {step_writes, seeds_at(head)}
  id = parent_of(head)
end
return steps
"""
)


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader's cached log, and the lifetime that its reads give the thread."""

    keys: CheckpointKeys
    spans: Sequence[Piece]
    """The cached elements, sorted."""
    witness: LogWitness
    ttl_ms: int
    """0 leaves the expiry unchanged."""


def latest(reader: Reader, namespace: bytes) -> ScriptCall:
    """Read the newest checkpoint of a namespace.

    Replies with generation, 1 if the cached log is valid, rows, values and elements. A row is field, record
    and writes; values alternate fields and values; elements alternate a first position and the marked
    elements from there.
    """
    return _read(_LATEST, reader, namespace)


def given(reader: Reader, fields: Sequence[bytes]) -> ScriptCall:
    """Read the checkpoints with these fields, in this order. Replies as `latest`."""
    return _read(_GIVEN, reader, *fields)


def page(reader: Reader, namespace: bytes, before: bytes, limit: int) -> ScriptCall:
    """Read up to `limit` checkpoints of a namespace, newest first, older than `before` if it is not empty."""
    return _read(_PAGE, reader, namespace, before, limit)


def fields(keys: CheckpointKeys) -> ScriptCall:
    """List the fields of all checkpoints of the thread."""
    return ScriptCall(_FIELDS, keys, ())


def history(
    keys: CheckpointKeys, namespace: bytes, checkpoint: bytes, channels: Sequence[bytes]
) -> ScriptCall:
    """Walk up from the parent of a checkpoint (the newest if empty) until each channel has a stored value.

    Replies with a step for each ancestor: its writes to those channels, and channel, value and marked
    elements of each stored value.
    """
    return ScriptCall(_HISTORY, keys, (namespace, checkpoint, *channels))


def _read(script: Script, reader: Reader, *args: bytes | int) -> ScriptCall:
    cached_table = encode_table(reader.spans)
    return ScriptCall(script, reader.keys, (*reader.witness, cached_table, reader.ttl_ms, *args))

"""Reading checkpoints, each with its values, its pending writes and the log elements the reader lacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from callsheet.storage.checkpoints.lua import HEADERS, THREAD
from callsheet.storage.checkpoints.message_log import LogWitness, Piece, encode_table
from callsheet.storage.redis.keys import CheckpointKeys
from callsheet.storage.redis.scripts import Script, ScriptCall

_PIECES: Final = r"""
local function each_piece(text, visit)
  for first, count in string.gmatch(text, '(%d+):(%d+)') do
    visit(tonumber(first), tonumber(first) + tonumber(count))
  end
end
"""

_GAPS: Final = r"""
-- The parts of the wanted spans that are in no known span. A span is {first, one past its last}; the known
-- ones are sorted.
local function gaps(wanted, known)
  table.sort(wanted, function(one, other) return one[1] < other[1] end)
  local found, at, done = {}, 1, 0
  for _, span in ipairs(wanted) do
    local first = math.max(span[1], done)
    while first < span[2] do
      while known[at] and known[at][2] <= first do at = at + 1 end
      local from = known[at] and known[at][1] or span[2]
      if from > first then found[#found + 1] = {first, math.min(from, span[2])} end
      first = from > first and math.min(from, span[2]) or known[at][2]
    end
    done = math.max(done, span[2])
  end
  return found
end
"""

_VALUES: Final = r"""
-- Every value that the records name, once, as field and value in turn.
local function values_of(rows)
  local wanted, seen, found = {}, {}, {}
  for _, row in ipairs(rows) do
    local stem = namespace(row[1])
    for channel, version in string.gmatch(header(row[2]), VERSIONS) do
      local field = stem .. channel .. '\0' .. version
      if not seen[field] then seen[field] = true; wanted[#wanted + 1] = field end
    end
  end
  for at = 1, #wanted, 500 do
    local batch = redis.call('HMGET', values, unpack(wanted, at, math.min(at + 499, #wanted)))
    for offset, value in ipairs(batch) do
      if value then found[#found + 1] = wanted[at + offset - 1]; found[#found + 1] = value end
    end
  end
  return found
end
"""

_ANSWER: Final = r"""
local function elements_for(found, known_text)
  local wanted, known, elements = {}, {}, {}
  for at = 2, #found, 2 do
    if string.sub(found[at], 1, 1) == 'L' then
      each_piece(found[at], function(first, past) wanted[#wanted + 1] = {first, past} end)
    end
  end
  each_piece(known_text, function(first, past) known[#known + 1] = {first, past} end)
  for _, span in ipairs(gaps(wanted, known)) do
    elements[#elements + 1] = span[1]
    elements[#elements + 1] = redis.call('LRANGE', log, span[1], span[2] - 1)
  end
  return elements
end

local function answer(fields)
  local generation, position, mark, known_text, ttl_ms = unpack(ARGV, 1, 5)
  local held, rows = holds(generation, position, mark), {}
  for _, field in ipairs(fields) do
    local record = redis.call('HGET', records, field)
    if record then rows[#rows + 1] = {field, record, redis.call('ZRANGEBYLEX', writes, pending(field))} end
  end
  local found = values_of(rows)
  local elements = elements_for(found, held and known_text or '')
  if ttl_ms ~= '0' and #rows > 0 then touch(tonumber(ttl_ms)) end
  return {redis.call('HGET', records, GENERATION) or '', held and 1 or 0, rows, found, elements}
end
"""

_READ: Final = THREAD + HEADERS + _PIECES + _GAPS + _VALUES + _ANSWER

_LATEST: Final = Script(
    _READ
    + r"""
local name = ARGV[6]
return answer(redis.call('ZREVRANGEBYLEX', ids, '(' .. name .. '\1', '[' .. name .. '\0', 'LIMIT', 0, 1))
"""
)

_GIVEN: Final = Script(_READ + "return answer({unpack(ARGV, 6)})")

_PAGE: Final = Script(
    _READ
    + r"""
local name, before, limit = unpack(ARGV, 6, 8)
local past = before ~= '' and '(' .. name .. '\0' .. before or '(' .. name .. '\1'
return answer(redis.call('ZREVRANGEBYLEX', ids, past, '[' .. name .. '\0', 'LIMIT', 0, limit))
"""
)

_FIELDS: Final = Script(THREAD + "return redis.call('ZRANGE', ids, 0, -1)")

_HISTORY: Final = Script(
    THREAD
    + HEADERS
    + _PIECES
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
  local found = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', writes, pending(field))) do
    local write = string.sub(member, #field + 2)
    if needed[string.match(write, '^[^%z]*%z[^%z]*%z[^%z]*%z([^%z]*)%z')] then found[#found + 1] = write end
  end
  return found
end

-- Most ancestors have the versions of the one before, so each is looked up once.
local looked_up = {}
local function value_of(channel, version)
  local field = name .. '\0' .. channel .. '\0' .. version
  if looked_up[field] then return false end
  looked_up[field] = true
  return redis.call('HGET', values, field)
end

-- Values the checkpoint itself has; no ancestor need be asked about those channels.
local function seeds_at(head)
  local found = {}
  for channel in pairs(needed) do
    local version = version_in(head, channel)
    local value = version and value_of(channel, version)
    if value then
      local elements = string.sub(value, 1, 1) == 'L' and elements_of(value) or {}
      found[#found + 1] = {channel, value, elements}
    end
  end
  for _, seed in ipairs(found) do needed[seed[1]] = nil end
  return found
end

if id == '' then
  local newest = redis.call('ZREVRANGEBYLEX', ids, '(' .. name .. '\1', '[' .. name .. '\0', 'LIMIT', 0, 1)[1]
  if not newest then return {} end
  id = string.sub(newest, #name + 2)
end
local target = redis.call('HGET', records, name .. '\0' .. id)
id = target and parent_in(header(target)) or ''
local steps = {}
while id ~= '' and next(needed) do
  local field = name .. '\0' .. id
  local record = redis.call('HGET', records, field)
  if not record then break end
  local head = header(record)
  local found = writes_at(field)
  steps[#steps + 1] = {found, seeds_at(head)}
  id = parent_in(head)
end
return steps
"""
)


@dataclass(frozen=True, slots=True)
class Reader:
    """What the reader has, and how long its reading keeps the thread alive."""

    keys: CheckpointKeys
    spans: Sequence[Piece]
    """The log elements it has, sorted."""
    known: LogWitness
    """What must hold for them to be of use."""
    ttl_ms: int
    """0 leaves the expiry as it is."""


def latest(reader: Reader, namespace: bytes) -> ScriptCall:
    """The newest checkpoint of a namespace. Replies with generation, held, rows, values, log elements.

    Held is 1 if what the reader knows holds; rows are field, record and writes; values are field and value in
    turn; elements are a first position and the marked elements from there in turn.
    """
    return _read(_LATEST, reader, namespace)


def given(reader: Reader, fields: Sequence[bytes]) -> ScriptCall:
    """The checkpoints of those fields, in that order; the reply is that of `latest`."""
    return _read(_GIVEN, reader, *fields)


def page(reader: Reader, namespace: bytes, before: bytes, limit: int) -> ScriptCall:
    """At most `limit` checkpoints of a namespace, older than `before` if not empty, newest first."""
    return _read(_PAGE, reader, namespace, before, limit)


def fields(keys: CheckpointKeys) -> ScriptCall:
    """The fields of all checkpoints of the thread."""
    return ScriptCall(_FIELDS, keys, ())


def history(
    keys: CheckpointKeys, namespace: bytes, checkpoint: bytes, channels: Sequence[bytes]
) -> ScriptCall:
    """From the parent of a checkpoint (the newest if empty) up, until each channel has a stored value.

    Replies with a step for each ancestor: its writes to those channels, and channel, value and marked
    elements of each stored value.
    """
    return ScriptCall(_HISTORY, keys, (namespace, checkpoint, *channels))


def _read(script: Script, reader: Reader, *args: bytes | int) -> ScriptCall:
    return ScriptCall(script, reader.keys, (*reader.known, encode_table(reader.spans), reader.ttl_ms, *args))

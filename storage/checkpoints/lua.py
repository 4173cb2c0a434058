"""Lua shared by the saver's scripts.

Every script of a thread gets its five keys in the order of `storage.redis.keys.CheckpointKeys`. Scripts that
check the fence get the key of the thread's own hash as a sixth.

Ids of checkpoints come from the clocks of processes, so the order of a thread's checkpoints is the one in
which they were first stored. A new checkpoint gets the next number of its thread, in 11 bytes: 255, which no
UTF-8 text has, and ten hexadecimal digits. The number begins its record. A member of `ids` is namespace, NUL,
number and id, so the members of a namespace sort by age. Checkpoints that an earlier version stored have no
number. They sort by their ids, below all others.

The counter has a member of `ids`, too, above all checkpoints of the main graph. An earlier version takes it
for the newest one and fails to read it. Otherwise it would find no checkpoint, and begin the thread anew.
"""

from typing import Final

THREAD: Final = r"""
local ids, records, values, log, writes = unpack(KEYS, 1, 5)
-- No encoded name begins like this: names escape U+0001.
local GENERATION = '\1g'
local COUNTER = '\0\255\255'
local NUMBERED, NUMBER_BYTES = 255, 11

-- The number before a record or an id; empty if there is none.
local function number_before(text)
  return string.byte(text) == NUMBERED and string.sub(text, 1, NUMBER_BYTES) or ''
end

-- A checkpoint's namespace and NUL, and then its number and id, or its id alone.
local function split(member)
  local nul = string.find(member, '\0', 1, true)
  return string.sub(member, 1, nul), string.sub(member, nul + 1)
end

-- The field of the checkpoint that a member of ids stands for.
local function field_of(member)
  local prefix, rest = split(member)
  return prefix .. string.sub(rest, #number_before(rest) + 1)
end

-- The members of ids that stand for checkpoints, oldest first within a namespace.
local function members()
  local all = redis.call('ZRANGE', ids, 0, -1)
  for at, member in ipairs(all) do
    if member == COUNTER then table.remove(all, at) break end
  end
  return all
end

-- The members of ids below the bound in a namespace, newest first.
local function newest_members(name, bound, limit)
  return redis.call('ZREVRANGEBYLEX', ids, '(' .. bound, '[' .. name .. '\0', 'LIMIT', 0, limit)
end

-- The fields of a namespace's newest checkpoint, in a table: one or none.
local function newest(name)
  local member = newest_members(name, name .. COUNTER, 1)[1]
  return {member and field_of(member)}
end

-- Whether a later attempt owns the thread. An empty epoch is not checked.
local function fenced(epoch)
  return epoch ~= '' and redis.call('HGET', KEYS[6], 'epoch') ~= epoch
end

-- Whether the log, whose generation is `stored`, has this one, and this mark on the element at position. A
-- server that lost its last writes, or was restored from a backup, may have another element there.
local function log_matches(stored, generation, position, mark)
  if stored ~= generation then return false end
  if mark == '' then return true end
  local element = redis.call('LINDEX', log, position)
  return element and string.sub(element, 1, #mark) == mark
end

-- Expire all five keys in ttl_ms, or never if it is 0, whatever an earlier writer chose.
local function set_ttl(ttl_ms)
  if ttl_ms > 0 then
    for key = 1, 5 do redis.call('PEXPIRE', KEYS[key], ttl_ms) end
  elseif redis.call('PTTL', records) >= 0 then
    for key = 1, 5 do redis.call('PERSIST', KEYS[key]) end
  end
end

-- Calls a command on a key with all the arguments from the first to the last, an even number of them at once,
-- because Lua's unpack is limited. Returns the last reply.
local function in_slices(command, key, items, first, last)
  local reply
  for at = first, last, 1000 do
    reply = redis.call(command, key, unpack(items, at, math.min(at + 999, last)))
  end
  return reply
end

-- The values of the fields of a hash, in their order; false for one that it lacks.
local function hmget(key, fields)
  local all = {}
  for at = 1, #fields, 500 do
    local batch = redis.call('HMGET', key, unpack(fields, at, math.min(at + 499, #fields)))
    for offset = 1, #batch do all[at + offset - 1] = batch[offset] end
  end
  return all
end
"""

HEADERS: Final = r"""
-- The header of a record; callsheet.storage.checkpoints.codec documents its format.
local function header(record)
  local first = #number_before(record) + 1
  local colon = string.find(record, ':', first, true)
  return string.sub(record, colon + 1, colon + tonumber(string.sub(record, first, colon - 1)))
end

local function parent_of(head) return string.match(head, '^[^%z]*') end

local function run_of(head) return string.match(head, '^[^%z]*%z([^%z]*)') end

-- Patterns for gmatch: channel and version; channels without a stored value of their own.
local VERSIONS, UNSAVED = '([^%z]*)\1=([^%z]*)', '([^%z]*)\1%-'

-- Much faster than matching every channel.
local function version_of(head, channel)
  local _, at = string.find(head, '\0' .. channel .. '\1=', 1, true)
  return at and string.match(head, '^[^%z]*', at + 1)
end

-- The namespace of a checkpoint's field, with the NUL that ends it.
local function namespace(field) return string.sub(field, 1, string.find(field, '\0', 1, true)) end

-- Calls visit with the first position of each piece in a table, and one past its last.
local function each_piece(text, visit)
  for first, count in string.gmatch(text, '(%d+):(%d+)') do
    visit(tonumber(first), tonumber(first) + tonumber(count))
  end
end

-- The lex range of a checkpoint's pending writes.
local function writes_range(field) return '[' .. field .. '\0', '[' .. field .. '\0\255' end
"""

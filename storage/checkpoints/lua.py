"""What several of the saver's scripts share, and the shape of their keys.

Every script of a thread gets its five keys in the order of `storage.redis.keys.CheckpointKeys`; those that
write for an attempt at a run get the thread's own key after them.
"""

from typing import Final

THREAD: Final = r"""
local ids, records, values, log, writes = unpack(KEYS, 1, 5)
-- No name begins like this: names escape U+0001.
local GENERATION = '\1g'

-- Whether a later attempt than this one has the thread; '' is nobody's attempt.
local function fenced(epoch)
  return epoch ~= '' and redis.call('HGET', KEYS[6], 'epoch') ~= epoch
end

-- Whether the log is still the one its caller knows: of that generation, with that mark on that element. A
-- server that lost its last writes, or was put back to an earlier state, may have another there by now.
local function holds(generation, position, mark)
  if redis.call('HGET', records, GENERATION) ~= generation then return false end
  if mark == '' then return true end
  local element = redis.call('LINDEX', log, position)
  return element and string.sub(element, 1, #mark) == mark
end

-- Let the thread live ttl_ms from now, or for ever; all of it or none, whoever wrote before.
local function touch(ttl_ms)
  if ttl_ms > 0 then
    for key = 1, 5 do redis.call('PEXPIRE', KEYS[key], ttl_ms) end
  elseif redis.call('PTTL', records) >= 0 then
    for key = 1, 5 do redis.call('PERSIST', KEYS[key]) end
  end
end

-- A command takes only so many arguments at once.
local function push(items, first, last)
  for at = first, last, 1000 do
    redis.call('RPUSH', log, unpack(items, at, math.min(at + 999, last)))
  end
end
"""

HEADERS: Final = r"""
-- A record's header, see callsheet.storage.checkpoints.codec.
local function header(record)
  local colon = string.find(record, ':', 1, true)
  return string.sub(record, colon + 1, colon + tonumber(string.sub(record, 1, colon - 1)))
end

local function parent_in(head) return string.match(head, '^[^%z]*') end

local function run_in(head) return string.match(head, '^[^%z]*%z([^%z]*)') end

-- For gmatch: channel and version; and channels that have no value of their own.
local VERSIONS, UNSAVED = '([^%z]*)\1=([^%z]*)', '([^%z]*)\1%-'

-- Much faster than looking at all of them.
local function version_in(head, channel)
  local _, at = string.find(head, '\0' .. channel .. '\1=', 1, true)
  return at and string.match(head, '^[^%z]*', at + 1)
end

-- A field is a namespace, NUL, and a checkpoint's id.
local function namespace(field) return string.sub(field, 1, string.find(field, '\0', 1, true)) end

local function pending(field) return '[' .. field .. '\0', '[' .. field .. '\0\255' end
"""

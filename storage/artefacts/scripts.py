"""Lua scripts for artefacts; each is one atomic step in the artefact's own slot.

A deletion first marks the record. From then on every script refuses to change the artefact, so that none of
its keys comes back. The record goes last, and a person's edit needs one: so an edit that arrives late makes
no second artefact.
"""

from typing import Final

from callsheet.storage.redis.scripts import Script

IS_MISSING: Final = """
local function is_missing(meta, by_hand)
  local owner, deleting = unpack(redis.call('HMGET', meta, 'owner', 'deleting'), 1, 2)
  return deleting or (by_hand and not owner), owner
end
"""
"""Lua function: true while a deletion is at work, or without a record for a person's edit; and the owner."""


def _script(source: str) -> Script:
    return Script.with_clock(IS_MISSING + source)


# A fence is `epoch:attempt:call`, with an x appended if no effect is in progress. If the effect is external
# and another call's fence is open, nobody knows whether that effect happened.
CLAIM: Final = _script("""
local receipts, fences, meta, locks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local step, epoch, owner, thread = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local call, unsure, by_hand, streams = ARGV[5], ARGV[6] == '1', ARGV[7] == '1', tonumber(ARGV[8])
local is_gone, current = is_missing(meta, by_hand)
if is_gone then return {'missing'} end
if current and current ~= owner then return {'forbidden'} end
local done = redis.call('HGET', receipts, step)
if done then return {'done', done} end
for i = 9, 8 + streams do
  if redis.call('HEXISTS', locks, ARGV[i]) == 1 then return {'locked', ARGV[i]} end
end
local attempt = 0
local held = redis.call('HGET', fences, step)
if held then
  local e, n, by, idle = string.match(held, '^(%d+):(%d+):?(%x*)(x?)$')
  if epoch < tonumber(e) then return {'fenced'} end
  -- The same call again, because its reply was lost.
  if by == call then return {'go', held} end
  if unsure and idle == '' then return {'unknown'} end
  attempt = tonumber(n)
end
local added, names = current and {} or {'owner', owner, 'thread', thread, 'createdMs', now_ms()}, {}
for i = 9 + streams, #ARGV, 2 do names[#names + 1] = ARGV[i] end
for i, value in ipairs(#names > 0 and redis.call('HMGET', meta, unpack(names)) or {}) do
  if not value then
    added[#added + 1] = names[i]
    added[#added + 1] = ARGV[8 + streams + 2 * i]
  end
end
if #added > 0 then redis.call('HSET', meta, unpack(added)) end
local fence = string.format('%d:%d:%s', epoch, attempt + 1, call)
redis.call('HSET', fences, step, fence)
return {'go', fence}
""")

READ_CACHE: Final = Script("""
local current = redis.call('HGET', KEYS[1], 'owner')
if current and current ~= ARGV[1] then return {'forbidden'} end
if #KEYS == 1 then return {'go', false} end
return {'go', redis.call('GET', KEYS[2])}
""")

WRITE_CACHE: Final = _script("""
if is_missing(KEYS[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1
""")

WRITE_RECEIPT: Final = _script("""
local receipts, fences, step, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if is_missing(KEYS[3]) then return {'fenced'} end
local done = redis.call('HGET', receipts, step)
if done then return {'done', done} end
if redis.call('HGET', fences, step) ~= fence then return {'fenced'} end
redis.call('HSET', receipts, step, ARGV[3])
redis.call('HDEL', fences, step)
return {'made', ARGV[3]}
""")

OPEN: Final = _script("""
if is_missing(KEYS[1]) then return {'', ''} end
local stored = redis.call('HMGET', KEYS[1], 'owner', 'thread')
if not stored[1] then
  local ms = now_ms()
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'thread', ARGV[2], 'createdMs', ms)
  stored = {ARGV[1], ARGV[2]}
end
if stored[1] == ARGV[1] and stored[2] == ARGV[2] then
  for i = 3, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
return stored
""")

REVOKE: Final = Script("""
local receipts, fences = KEYS[1], KEYS[2]
local done = redis.call('HGET', receipts, ARGV[1])
if done then return {'done', done} end
local e, n, call = string.match(ARGV[2], '^(%d+):(%d+):(%x+)$')
local moved = string.format('%d:%d:%s', tonumber(e), tonumber(n) + 1, call)
local held = redis.call('HGET', fences, ARGV[1])
-- The second condition recognizes a call that is sent again because its reply was lost.
if held ~= ARGV[2] and held ~= moved .. ARGV[3] then return {'fenced'} end
redis.call('HSET', fences, ARGV[1], moved .. ARGV[3])
return {'revoked', moved}
""")

# Records and results are concatenated as text, because cjson would change numbers. After four keys of the
# artefact come two keys and seven arguments a stream. Nothing is written if one stream is refused.
CREATE: Final = _script("""
local receipts, fences, meta, locks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local step, fence = ARGV[1], ARGV[2]
if is_missing(meta, fence == '') then return {'missing'} end
local count, named = (#ARGV - 4) / 7, ARGV[4] == 'named'
local done = redis.call('HGET', receipts, step)
if done then return {'done', done} end
if fence ~= '' and redis.call('HGET', fences, step) ~= fence then return {'fenced'} end
local newest, changes = {}, redis.call('HGET', meta, 'locks') or '0'
for i = 1, count do
  local base = 4 + (i - 1) * 7
  local name = ARGV[base + 4]
  newest[i] = redis.call('LINDEX', KEYS[3 + 2 * i], -1)
  if redis.call('HEXISTS', locks, name) == 1 then return {'locked', name} end
  -- Refuse a version that was derived from an outdated head or outdated locks.
  if ARGV[base + 5] == 'yes' then
    if (newest[i] or '') ~= ARGV[base + 6] or changes ~= ARGV[base + 7] then return {'moved', name} end
  end
end
local ms = now_ms()
local ids, made = {}, {}
for i = 1, count do
  local base = 4 + (i - 1) * 7
  local parent = ARGV[base + 2]
  if parent == '' then parent = newest[i] or '' end
  local id = 'v' .. redis.call('INCR', KEYS[4 + 2 * i])
  local quoted = parent == '' and 'null' or '"' .. parent .. '"'
  local head = '{"id":"' .. id .. '","parent":' .. quoted .. ',"created_ms":' .. ms
  redis.call('SET', ARGV[base + 1] .. id, head .. ARGV[base + 3])
  redis.call('RPUSH', KEYS[3 + 2 * i], id)
  ids[i], made[i] = id, '"' .. ARGV[base + 4] .. '":"' .. id .. '"'
end
redis.call('HSET', meta, 'updatedMs', ms)
local result = '{"versionId":"' .. ids[1] .. '"'
if named then result = result .. ',"versions":{' .. table.concat(made, ',') .. '}' end
result = result .. ARGV[3]
redis.call('HSET', receipts, step, result)
redis.call('HDEL', fences, step)
return {'made', result}
""")

# Reads some versions of each stream, because a list of versions grows for ever: the newest ones, or those
# before a version; and always the newest and the active one. The count is -1 for an unknown version.
READ: Final = Script("""
local before, out = ARGV[1], {}
-- All values of a stage are read by one command.
local values, missing = {}, {}
local function need(key)
  if values[key] == nil then values[key] = false; missing[#missing + 1] = key end
end
local function fetch()
  for at = 1, #missing, 500 do
    local part = {unpack(missing, at, math.min(at + 499, #missing))}
    for i, value in ipairs(redis.call('MGET', unpack(part))) do values[part[i]] = value end
  end
  missing = {}
end
for i = 1, #KEYS / 2 do
  local list, limit, prefix = KEYS[2 * i - 1], tonumber(ARGV[2 * i]), ARGV[2 * i + 1]
  local count, ids, head = redis.call('LLEN', list), {}, nil
  local finish = count
  if before ~= '' then
    finish = redis.call('LPOS', list, before, 'RANK', -1)
    head = redis.call('LINDEX', list, -1)
    if head then need(prefix .. head) end
  end
  if finish then
    local first = math.max(finish - limit, 0)
    if first < finish then ids = redis.call('LRANGE', list, first, finish - 1) end
    finish = first
  else
    count = -1
  end
  for _, id in ipairs(ids) do need(prefix .. id) end
  need(KEYS[2 * i])
  out[i] = {count, finish or 0, ids, head or false}
end
fetch()
for i = 1, #out do
  local active = values[KEYS[2 * i]]
  if active then need(ARGV[2 * i + 1] .. active) end
end
fetch()
for i, stream in ipairs(out) do
  local prefix, active = ARGV[2 * i + 1], values[KEYS[2 * i]]
  for j, id in ipairs(stream[3]) do stream[3][j] = values[prefix .. id] end
  stream[4] = stream[4] and values[prefix .. stream[4]]
  stream[5], stream[6] = active, active and values[prefix .. active]
end
return out
""")

ACTIVATE: Final = _script("""
if is_missing(KEYS[3], true) then return -1 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
return 1
""")

DELETE: Final = _script("""
local meta, call = KEYS[4], ARGV[3]
if is_missing(meta, true) then return 'gone' end
-- The same call again, because its reply was lost.
if redis.call('HGET', meta, 'deletion') == call then return 'deleted' end
if redis.call('GET', KEYS[2]) == ARGV[1] then return 'active' end
if redis.call('LINDEX', KEYS[1], -1) ~= ARGV[2] then return 'moved' end
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'missing' end
redis.call('DEL', KEYS[3])
redis.call('HSET', meta, 'deletion', call)
return 'deleted'
""")

# Removes versions from the list's place `at` on, so many at most, but none of the newest `kept`; a version
# goes with its place in the list. Returns the number of removed ones and the place to go on at, -1 for none.
# The field `removed:<stream>` of the record is the highest number that was removed.
REMOVE_OLD: Final = _script("""
local list, active, meta, locks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, stream, kept = ARGV[1], ARGV[2], tonumber(ARGV[3])
local at, most = tonumber(ARGV[4]), tonumber(ARGV[5])
-- What names versions was read before: a process that was stopped meanwhile knows nothing.
if is_missing(meta, true) or tonumber(now_ms()) > tonumber(ARGV[6]) then return {0, -1} end
-- A version that was written meanwhile may need others.
if redis.call('LINDEX', list, -1) ~= ARGV[7] then return {0, -1} end
local excess = redis.call('LLEN', list) - kept
if at >= excess or redis.call('HEXISTS', locks, stream) == 1 then return {0, -1} end
local named = {[redis.call('GET', active) or ''] = true}
for i = 8, #ARGV do named[ARGV[i]] = true end
local field, removed = 'removed:' .. stream, 0
local highest = tonumber(redis.call('HGET', meta, field) or '') or 0
for _, id in ipairs(redis.call('LRANGE', list, at, math.min(at + most, excess) - 1)) do
  if named[id] then
    at = at + 1
  else
    redis.call('LREM', list, 1, id)
    redis.call('UNLINK', prefix .. id)
    highest, removed = math.max(highest, tonumber(string.sub(id, 2))), removed + 1
  end
end
if removed > 0 then redis.call('HSET', meta, field, string.format('%d', highest)) end
return {removed, at < excess - removed and at or -1}
""")

# `locks` in the artefact's record counts the changes to its locks, so that a writer can detect them.
READ_HEADS: Final = Script("""
local keys, at, heads = {}, {}, {}
for i = 1, #ARGV do keys[i] = KEYS[2 * i + 2] end
for i = 1, #ARGV do
  local newest = redis.call('LINDEX', KEYS[2 * i + 1], -1)
  if newest then
    keys[#keys + 1] = ARGV[i] .. newest
    at[i] = #keys
  end
end
local values = redis.call('MGET', unpack(keys))
for i = 1, #ARGV do heads[i] = {at[i] and values[at[i]] or false, values[i]} end
return {heads, redis.call('HKEYS', KEYS[1]), redis.call('HGET', KEYS[2], 'locks') or '0'}
""")

LOCK: Final = _script("""
if is_missing(KEYS[2], true) then return -1 end
local ms = now_ms()
local lock = '{"by":' .. ARGV[2] .. ',"at_ms":' .. ms .. '}'
if redis.call('HSETNX', KEYS[1], ARGV[1], lock) == 0 then return 0 end
redis.call('HINCRBY', KEYS[2], 'locks', 1)
return 1
""")

UNLOCK: Final = _script("""
if is_missing(KEYS[2], true) then return -1 end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[2], 'locks', 1)
return 1
""")

SET_FACTS: Final = _script("""
if is_missing(KEYS[1], true) then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
""")

SWAP_MIXER: Final = _script("""
if is_missing(KEYS[2], true) then return -1 end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
""")

# A conversation about an artefact that was never made has no record, and is marked by one of its own.
BEGIN_DELETION: Final = _script("""
-- A full Redis refuses a script's first write only, and never an HDEL: so deletions can free memory.
redis.call('HDEL', KEYS[1], 'deleting')
local current = redis.call('HGET', KEYS[1], 'owner')
if current and current ~= ARGV[1] then return 0 end
if not current then redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'thread', ARGV[2]) end
redis.call('HSET', KEYS[1], 'deleting', 1)
return 1
""")

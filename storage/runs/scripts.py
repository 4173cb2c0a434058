"""Scripts of runs: one atomic step each.

All scripts get the keys of `keys.RunKeys` in its order, but for NOTE and LOOK, which get the list of open
runs. A thread's *active* run is the one that may write to it; the others wait in the queue. The thread's
*epoch* counts attempts and fences them: whoever holds an older one may neither emit events nor end the run.
"""

from typing import Final

from callsheet.storage.redis.keys import DAY_S
from callsheet.storage.redis.scripts import Script

MAX_EVENTS: Final = 10_000
"""Events of a thread that are kept, about."""

OTHERS: Final = 1_000
"""The most ends of other runs that may be told between two events of one, about."""

COMMON: Final = (
    rf"""
local meta, runs, queue, lease, events = unpack(KEYS, 1, 5)
local MAX_EVENTS, OTHERS, DAY_MS = {MAX_EVENTS}, {OTHERS}, {int(DAY_S * 1000)}
"""
    r"""
local function now_ms()
  local t = redis.call('TIME')
  return t[1] .. string.format('%03d', math.floor(t[2] / 1000))
end

-- The keys of the thread's other runs are in the same slot, as all that has its tag.
local function key_of(run) return string.sub(meta, 1, -5) .. 'run:' .. run end

local function put(run, ...) redis.call('HSET', key_of(run), 'updatedMs', now_ms(), ...) end

local function tell(run, name, data)
  return redis.call('XADD', events, 'MAXLEN', '~', MAX_EVENTS, '*', 'run', run, 'event', name, 'data', data)
end

-- Announces events, or, to whoever is at the active run, that it is to be cancelled.
local function announce(what)
  if redis.call('EXISTS', events) == 1 then redis.call('PEXPIRE', events, DAY_MS) end
  redis.call('PUBLISH', events, what or 'events')
end

local function mark(status, interrupts, error)
  redis.call('HSET', meta, 'status', status, 'updatedMs', now_ms())
  if interrupts then redis.call('HSET', meta, 'interrupts', interrupts, 'stateUpdatedMs', now_ms()) end
  if error and error ~= '' then redis.call('HSET', meta, 'error', error)
  elseif error then redis.call('HDEL', meta, 'error') end
end

local function remove(run)
  redis.call('UNLINK', key_of(run))
  redis.call('ZREM', runs, run)
end

-- Ends a run that is not the active one any more; `status` is rolled-back where no trace shall stay.
-- `told` is what its viewers are told of that, where it is not the status. Returns the id of that event.
local function close(run, status, told)
  if status == 'rolled-back' then remove(run) else put(run, 'status', status) end
  local last = tell(run, 'end', told or status)
  redis.call('PUBLISH', events, 'end')
  return last
end

-- Gives the thread to an attempt at its active run, and tells so; returns the attempt's epoch and number, and
-- the id and data of what was told.
local function take(run, lease_ms)
  local epoch = redis.call('HINCRBY', meta, 'epoch', 1)
  local attempt = redis.call('HINCRBY', key_of(run), 'attempt', 1)
  redis.call('HDEL', meta, 'batch')
  put(run, 'status', 'running')
  mark('busy')
  redis.call('SET', lease, epoch, 'PX', lease_ms)
  local begun = string.format('{"run_id":%s,"attempt":%d}', cjson.encode(run), attempt)
  local id = tell(run, 'metadata', begun)
  announce()
  return epoch, attempt, id, begun
end

-- Gives the thread to the next run in the queue, or to nobody; returns whom.
local function hand_on()
  redis.call('DEL', lease)
  local next = redis.call('LPOP', queue)
  if next then redis.call('HSET', meta, 'active', next) else redis.call('HDEL', meta, 'active') end
  return next or ''
end
"""
)

ONCE: Final = (
    COMMON
    + r"""
-- The same call once more, because its answer was lost on the way, is answered as it was. One answer is kept
-- for each thread: the newest.
local token = table.remove(ARGV, 1)
local answered = redis.call('HGET', meta, 'answered')
if answered and string.sub(answered, 1, #token) == token then
  return cjson.decode(string.sub(answered, #token + 1))
end

local function once(reply)
  redis.call('HSET', meta, 'answered', token .. cjson.encode(reply))
  return reply
end
"""
)
"""Begins a script that must not act twice: its first argument names the call, whose answer `once` keeps."""

CREATE: Final = Script(
    ONCE
    + r"""
local memo = KEYS[6]
local id, print, strategy, keyed = unpack(ARGV, 1, 4)
local due_ms, verdict, questions, lease_ms = tonumber(ARGV[5]), 'start', ARGV[7], ARGV[8]
local active = redis.call('HGET', meta, 'active') or ''
local newest = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
local since = newest and newest[1] or '0-0'

local function known(run, until_told)
  local status, told = unpack(redis.call('HMGET', key_of(run), 'status', 'told'))
  if status == 'success' and not (until_told and told) then return {'replay', run, since} end
  if status == 'pending' or status == 'running' then return {'attached', run, since} end
end

-- The same call once more, and others came between; the run may have told much by now.
local made_ms = redis.call('HGET', key_of(id), 'createdMs')
if made_ms then
  since = string.format('%.0f-18446744073709551615', made_ms - 1)
  return {active == id and 'start' or 'queued', id, since}
end

if keyed == '1' then
  local seen = redis.call('GET', memo)
  if seen and string.sub(seen, 1, 64) ~= print then return {'mismatch', '', since} end
  local found = seen and known(string.sub(seen, 65))
  if found then return found end
end
if print ~= '' then
  local latest = redis.call('ZREVRANGE', runs, 0, 0)[1]
  if latest and redis.call('HGET', key_of(latest), 'print') == print then
    local status = redis.call('HGET', key_of(latest), 'status')
    -- One that ended and whose caller may never have heard of it is answered; after that, it is asked anew.
    local found = known(latest, true)
    if found then return found end
    -- A run that failed is gone on with, where it stopped.
    if status ~= 'success' and active == '' then
      put(latest, 'status', 'pending', 'error', '', 'spared', 1)
      redis.call('HDEL', key_of(latest), 'cancel')
      redis.call('HSET', meta, 'active', latest)
      mark('busy')
      return once({'start', latest, since})
    end
  end
end

-- A thread is its owner's still; one without a graph becomes one of this run's, unless it was changed.
local owner, before, metadata, graph = unpack(ARGV, 9, 12)
if owner ~= '' then
  local theirs, told, its = unpack(redis.call('HMGET', meta, 'owner', 'metadata', 'graph'))
  if told == '' then told = '{}' end
  if its == '' then its = nil end
  local other = metadata ~= '' and (told or '{}') ~= before
  if theirs ~= owner or (its or graph) ~= graph or other then return {'changed', '', since} end
  if metadata ~= '' then redis.call('HSET', meta, 'metadata', metadata, 'graph', graph) end
end

-- Whoever is about to be ended answers nothing any more.
if active ~= '' and (strategy == 'enqueue' or strategy == 'reject') then
  local before = redis.call('LRANGE', queue, 0, -1)
  before[#before + 1] = active
  for _, run in ipairs(before) do
    local theirs = redis.call('HGET', key_of(run), 'answering') or ''
    for question in string.gmatch(questions, '%S+') do
      if string.find(theirs, question, 1, true) then return {'answered', run, since} end
    end
  end
end
if active ~= '' and strategy == 'reject' then return {'busy', active, since} end
if active ~= '' and (strategy == 'interrupt' or strategy == 'rollback') then
  local status = strategy == 'rollback' and 'rolled-back' or 'interrupted'
  for _, run in ipairs(redis.call('LRANGE', queue, 0, -1)) do close(run, status) end
  redis.call('DEL', queue)
  put(active, 'cancel', strategy)
  announce('cancel')
end

local fields = {'id', id, 'print', print, 'strategy', strategy, 'status', 'pending'}
for _, part in ipairs({'createdMs', now_ms(), 'dueMs', due_ms}) do fields[#fields + 1] = part end
for i = 13, #ARGV do fields[#fields + 1] = ARGV[i] end
put(id, unpack(fields))
redis.call('ZADD', runs, redis.call('HINCRBY', meta, 'runs', 1), id)
if keyed == '1' then redis.call('SET', memo, print .. id, 'EX', ARGV[6]) end
if due_ms > 0 then verdict = 'later'
elseif active ~= '' then redis.call('RPUSH', queue, id); verdict = 'queued'
else
  redis.call('HSET', meta, 'active', id)
  -- Whoever holds a thread without a run is changing it.
  if lease_ms ~= '0' and redis.call('EXISTS', lease) == 0 then
    return once({verdict, id, since, take(id, lease_ms)})
  end
  mark('busy')
end
announce()
return {verdict, id, since}
"""
)

ADMIT: Final = Script(
    COMMON
    + r"""
local id = ARGV[1]
if redis.call('HGET', key_of(id), 'status') ~= 'pending' then return 'over' end
redis.call('HSET', key_of(id), 'dueMs', 0)
local active = redis.call('HGET', meta, 'active')
if active == id then return 'start' end
if active then
  redis.call('LREM', queue, 0, id)
  redis.call('RPUSH', queue, id)
  return 'queued'
end
redis.call('HSET', meta, 'active', id)
mark('busy')
return 'start'
"""
)

APPEND_EVENT: Final = Script(
    COMMON
    + r"""
local newest = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
-- The same call once more, because its answer was lost.
if newest and newest[2][4] == ARGV[1] and newest[2][6] == ARGV[2] then return newest[1] end
local id = tell('', ARGV[1], ARGV[2])
announce()
return id
"""
)

CANCEL: Final = Script(
    ONCE
    + r"""
local id, action = ARGV[1], ARGV[2]
local status = redis.call('HGET', key_of(id), 'status')
if not status then return {'missing', ''} end
if status ~= 'pending' and status ~= 'running' then return {'over', ''} end
local closed = action == 'rollback' and 'rolled-back' or 'interrupted'
if redis.call('HGET', meta, 'active') ~= id then
  redis.call('LREM', queue, 0, id)
  close(id, closed)
  announce()
  return once({'ended', ''})
end
put(id, 'cancel', action)
if redis.call('EXISTS', lease) == 1 then
  announce('cancel')
  return {'asked', ''}
end
-- Nobody is at it: not yet, or no more. Whoever comes late is fenced.
redis.call('HINCRBY', meta, 'epoch', 1)
close(id, closed)
local next = hand_on()
local left = action == 'rollback' and 'idle' or 'interrupted'
mark(next ~= '' and 'busy' or left, nil, '')
announce()
return once({'ended', next})
"""
)

MARK_ANSWERED: Final = Script(
    COMMON
    + r"""
if redis.call('EXISTS', key_of(ARGV[1])) == 1 then redis.call('HSET', key_of(ARGV[1]), 'told', 1) end
return 1
"""
)

MARK_WEBHOOK_CALLED: Final = Script(
    COMMON
    + r"""
if redis.call('EXISTS', key_of(ARGV[1])) == 0 then return 0 end
return redis.call('HSET', key_of(ARGV[1]), 'webhookTold', 1)
"""
)

DELETE: Final = Script(
    ONCE
    + r"""
local status = redis.call('HGET', key_of(ARGV[1]), 'status')
if not status then return {'missing'} end
if status == 'pending' or status == 'running' then return {'open'} end
remove(ARGV[1])
return once({'deleted'})
"""
)

REMOVE: Final = Script(
    COMMON
    + r"""
for _, run in ipairs(redis.call('ZRANGE', runs, 0, -1)) do redis.call('UNLINK', key_of(run)) end
redis.call('UNLINK', meta, runs, queue, lease, events)
return redis.call('PUBLISH', events, 'gone')
"""
)

STANDING: Final = Script(
    COMMON
    + r"""
local status, due_ms = unpack(redis.call('HMGET', key_of(ARGV[1]), 'status', 'dueMs'))
if status ~= 'pending' and status ~= 'running' then return 'over' end
if tonumber(due_ms) > 0 then return tonumber(due_ms) <= tonumber(now_ms()) and 'due' or 'later' end
if redis.call('HGET', meta, 'active') ~= ARGV[1] then return 'queued' end
return redis.call('EXISTS', lease) == 1 and 'held' or 'free'
"""
)

SCHEDULE_CHECK: Final = Script(r"""
local t = redis.call('TIME')
local now_ms = t[1] * 1000 + math.floor(t[2] / 1000)
return redis.call('ZADD', KEYS[1], math.max(tonumber(ARGV[2]), now_ms) + ARGV[3], ARGV[1])
""")

# What is returned is moved on, so that no two processes look after the same, and no run hides another.
POLL_DUE_CHECKS: Final = Script(r"""
local t = redis.call('TIME')
local now_ms = t[1] * 1000 + math.floor(t[2] / 1000)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, ARGV[2])
for _, member in ipairs(found) do redis.call('ZADD', KEYS[1], now_ms + ARGV[1], member) end
return found
""")


CLAIM: Final = Script(
    ONCE
    + r"""
local id, lease_ms, alone = unpack(ARGV)
if redis.call('HGET', meta, 'active') ~= id then return {'over'} end
local left_ms = redis.call('PTTL', lease)
if left_ms > 0 then return {'held', left_ms} end
-- Two attempts have died, as far as one can tell before one knows how far the run came.
local died, spared = unpack(redis.call('HMGET', key_of(id), 'died', 'spared'))
if alone == '0' and not spared and tonumber(died or 0) > 0 then return {'suspect'} end
return once({'yours', take(id, lease_ms)})
"""
)

# A lease that ran out while nobody else took the thread is taken again: the epoch tells.
RENEW: Final = Script(
    COMMON
    + r"""
if redis.call('HGET', meta, 'epoch') ~= ARGV[2] then return 'fenced' end
redis.call('SET', lease, ARGV[2], 'PX', ARGV[3])
return redis.call('HGET', key_of(ARGV[1]), 'cancel') or ''
"""
)

EMIT: Final = Script(
    COMMON
    + r"""
local run, epoch, batch = unpack(ARGV, 1, 3)
local held, last = unpack(redis.call('HMGET', meta, 'epoch', 'batch'))
if held ~= epoch then return {} end
local ids, count = {}, (#ARGV - 3) / 2
if last == batch then
  -- The same call once more, because its answer was lost: these are the run's newest events.
  for _, entry in ipairs(redis.call('XREVRANGE', events, '+', '-', 'COUNT', count + OTHERS)) do
    if entry[2][2] == run and #ids < count then table.insert(ids, 1, entry[1]) end
  end
  return ids
end
for i = 4, #ARGV, 2 do ids[#ids + 1] = tell(run, ARGV[i], ARGV[i + 1]) end
redis.call('HSET', meta, 'batch', batch)
announce()
return ids
"""
)

FINISH: Final = Script(
    ONCE
    + r"""
local id, epoch, status, last, thread_status, interrupts, error, answer = unpack(ARGV, 1, 8)
local held = redis.call('HGET', meta, 'epoch') == epoch and redis.call('HGET', meta, 'active') == id
if not held then return {} end
local ids = {}
put(id, 'error', error, 'answer', answer)
for i = 9, #ARGV, 2 do ids[#ids + 1] = tell(id, ARGV[i], ARGV[i + 1]) end
ids[#ids + 1] = close(id, status, last)
local next = hand_on()
mark(next == '' and thread_status or 'busy', interrupts, thread_status == 'error' and error or '')
announce()
return once({next, unpack(ids)})
"""
)

# An attempt is told how many died before it; the one before it did not if it let the thread go, or ended.
RECORD_CRASH: Final = Script(
    ONCE
    + r"""
local id, epoch, place = unpack(ARGV)
if redis.call('HGET', meta, 'epoch') ~= epoch then return {-1} end
local at, died, spared = unpack(redis.call('HMGET', key_of(id), 'diedAt', 'died', 'spared'))
died = spared and 0 or at == place and died + 1 or 1
redis.call('HDEL', key_of(id), 'spared')
redis.call('HSET', key_of(id), 'diedAt', place, 'died', died)
return once({died})
"""
)

RELEASE: Final = Script(
    COMMON
    + r"""
if redis.call('GET', lease) ~= ARGV[2] then return 0 end
put(ARGV[1], 'status', 'pending', 'spared', 1)
return redis.call('DEL', lease)
"""
)

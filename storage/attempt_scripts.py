"""What an attempt at a run may do, one atomic step each, as long as no later one has the thread."""

from typing import Final

from storage.run_scripts import COMMON, ONCE
from storage.scripts import Script

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
DIED: Final = Script(
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

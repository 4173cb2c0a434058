"""Lua scripts for runs; each is one atomic step.

The keys are those of `keys.RunKeys`, in order; SCHEDULE_CHECK and POLL_DUE_CHECKS take the list of open runs
instead. Only a thread's *active* run may write to the thread; other runs wait in its queue. The thread's
*epoch* counts attempts and fences them: with an older epoch, one can neither emit events nor end the run.
"""

from typing import Final

from callsheet.storage.redis.keys import DAY_S
from callsheet.storage.redis.renamed_fields import RUN_FIELDS, rename_function
from callsheet.storage.redis.scripts import Script

MAX_EVENTS: Final = 10_000
"""Approximate number of events kept per thread."""
ENTRY_BYTES: Final = 100
"""Bytes that an event takes beside its name and data, approximately."""
SHARES: Final = 16
"""Parts of the limit in bytes; the oldest events are removed once per part."""
TRIM_COUNT: Final = 64
"""Events or runs read at once to find the oldest one to keep."""
MIN_RUN_AGE_S: Final = 600.0
"""Seconds after its end in which a run is kept, whatever their number."""
RUNS_AT_ONCE: Final = 1_000
"""Most runs that one script reads or deletes."""

_COMMON: Final = rf"""
local meta, runs, queue, lease, events = unpack(KEYS, 1, 5)

-- All runs of the thread share its hash tag, so their keys are in the same slot.
local function run_key(run) return string.sub(meta, 1, -5) .. 'run:' .. run end

local function update_run(run, ...) redis.call('HSET', run_key(run), 'updatedMs', now_ms(), ...) end

local function add_event(run, name, data, ...)
  local fields = {{'run', run, 'event', name, 'data', data, ...}}
  return redis.call('XADD', events, 'MAXLEN', '~', {MAX_EVENTS}, '*', unpack(fields))
end

-- Adds the events in `argv` from `first` on, and removes the oldest ones beyond the limits. Each entry holds
-- the number of bytes up to it, so the bytes that are kept are known however entries are removed. `total` is
-- the number before; returns the new one.
local function add_events(run, argv, first, total, max_bytes, max_age_ms)
  local before, newest = total, nil
  for i = first, #argv, 4 do
    local extra = {{}}
    if argv[i + 2] ~= '' then extra[1], extra[2] = 'checkpoint', argv[i + 2] end
    if argv[i + 3] ~= '' then extra[#extra + 1], extra[#extra + 2] = 'names', argv[i + 3] end
    total = total + #argv[i] + #argv[i + 1] + #argv[i + 2] + #argv[i + 3] + {ENTRY_BYTES}
    extra[#extra + 1], extra[#extra + 2] = 'total', string.format('%.0f', total)
    newest = add_event(run, argv[i], argv[i + 1], unpack(extra))
  end
  if not newest then return total end
  local oldest_ms = tonumber(string.match(newest, '^%d+')) - max_age_ms
  redis.call('XTRIM', events, 'MINID', '~', string.format('%.0f', oldest_ms))
  -- Look for the oldest bytes only after each share of the limit: that reads what it then removes.
  local share = max_bytes / {SHARES}
  if math.floor(before / share) == math.floor(total / share) then return total end
  local after, is_over = '-', false
  while total > max_bytes do
    local entries = redis.call('XRANGE', events, after, '+', 'COUNT', {TRIM_COUNT})
    for _, entry in ipairs(entries) do
      for i = 1, #entry[2], 2 do
        if entry[2][i] == 'total' and tonumber(entry[2][i + 1]) <= total - max_bytes then
          is_over = true
        elseif entry[2][i] == 'total' then
          if is_over then redis.call('XTRIM', events, 'MINID', entry[1]) end
          return total
        end
      end
    end
    if #entries == 0 then return total end
    after = '(' .. entries[#entries][1]
  end
  return total
end

-- Publishes 'events', or 'cancel' for the process that executes the active run.
local function announce(topic)
  redis.call('PEXPIRE', events, {int(DAY_S * 1000)})
  redis.call('PUBLISH', events, topic or 'events')
end

-- Updates the thread, with further fields and values after the first three arguments.
local function update_thread(status, interrupts, error, ...)
  local fields = {{'status', status, 'updatedMs', now_ms(), ...}}
  local function add(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if interrupts then
    add('interrupts', interrupts)
    add('stateUpdatedMs', now_ms())
  end
  if error and error ~= '' then add('error', error)
  elseif error then redis.call('HDEL', meta, 'error') end
  redis.call('HSET', meta, unpack(fields))
end

-- Runs that wait for their time, in no order.
local later = string.sub(meta, 1, -5) .. 'later'

local function delete_run(run)
  redis.call('UNLINK', run_key(run))
  redis.call('ZREM', runs, run)
end

-- Ends a run that is no longer active; the status rolled-back deletes its record. `reason` is the data of the
-- end event, by default the status; after it come further fields and values of the record.
local function end_run(run, status, reason, ...)
  redis.call('SREM', later, run)
  if status == 'rolled-back' then delete_run(run) else update_run(run, 'status', status, ...) end
  add_event(run, 'end', reason or status)
  redis.call('PUBLISH', events, 'end')
end

-- Makes the next run in the queue the active one and returns its id; '' for an empty queue.
local function activate_next()
  redis.call('DEL', lease)
  local next = redis.call('LPOP', queue)
  if next then redis.call('HSET', meta, 'active', next) else redis.call('HDEL', meta, 'active') end
  return next or ''
end
"""

_ONCE: Final = """
-- A call that is sent again because its reply was lost gets the same reply. Each thread keeps the newest one.
local token = table.remove(ARGV, 1)
local last = redis.call('HGET', meta, 'lastReply')
if last and string.sub(last, 1, #token) == token then
  return cjson.decode(string.sub(last, #token + 1))
end

local function once(reply)
  redis.call('HSET', meta, 'lastReply', token .. cjson.encode(reply))
  return reply
end
"""


_RENAME: Final = rename_function("rename_fields", RUN_FIELDS)
_DELETE_OLDEST: Final = f"""
-- Deletes the oldest runs beyond the newest `kept`. Unfinished ones stay, and those that a repeated request
-- or a webhook still needs. One call looks at a few, so that a lowered limit is reached in steps.
local function delete_oldest(kept)
  local over = redis.call('ZCARD', runs) - kept
  if kept == 0 or over <= 0 then return end
  for _, run in ipairs(redis.call('ZRANGE', runs, 0, math.min(over, {TRIM_COUNT}) - 1)) do
    local status, updated_ms, keyed, webhook, is_called =
      unpack(redis.call('HMGET', run_key(run), 'status', 'updatedMs', 'keyed', 'webhook', 'webhookCalled'))
    local age_ms = tonumber(now_ms()) - tonumber(updated_ms or 0)
    local is_old = age_ms > (keyed and {int(DAY_S * 1000)} or {int(MIN_RUN_AGE_S * 1000)})
    local has_ended = status ~= 'pending' and status ~= 'running' and (is_called or not webhook)
    if is_old and has_ended then delete_run(run) end
  end
end
"""


def _script(body: str) -> Script:
    return Script.with_clock(_COMMON + body)


def _once(body: str) -> Script:
    """Return a script that must not act twice: the first argument names the call; `once` stores its reply."""
    return Script.with_clock(_COMMON + _ONCE + body)


CREATE: Final = _once(
    _RENAME
    + _DELETE_OLDEST
    + """
local memo = KEYS[6]
local id, print, strategy, keyed = unpack(ARGV, 1, 4)
local due_ms, verdict, questions = tonumber(ARGV[5]), 'start', ARGV[7]
local thread = redis.call('HMGET', meta, 'active', 'deleting', 'owner', 'metadata', 'graph', 'import')
local active = thread[1] or ''
local newest = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
local since = newest and newest[1] or '0-0'

local function existing(run, until_answered)
  rename_fields(run_key(run))
  local status, was_answered = unpack(redis.call('HMGET', run_key(run), 'status', 'answerSent'))
  if status == 'success' and not (until_answered and was_answered) then return {'replay', run, since} end
  if status == 'pending' or status == 'running' then return {'attached', run, since} end
end

-- The same call again, after other calls; the run may have emitted events since.
local created_ms = redis.call('HGET', run_key(id), 'createdMs')
if created_ms then
  since = string.format('%.0f-18446744073709551615', created_ms - 1)
  return {active == id and 'start' or 'queued', id, since}
end

if keyed == '1' then
  local seen = redis.call('GET', memo)
  if seen and string.sub(seen, 1, 64) ~= print then return {'mismatch', '', since} end
  local reply = seen and existing(string.sub(seen, 65))
  if reply then return reply end
end
if print ~= '' then
  local latest = redis.call('ZREVRANGE', runs, 0, 0)[1]
  local before = latest and redis.call('HMGET', run_key(latest), 'print', 'status') or {}
  local status = before[2]
  if before[1] == print then
    -- Replay a finished run until its caller has the answer; after that, the same request is a new run.
    local reply = existing(latest, true)
    if reply then return reply end
    -- A failed run is resumed where it stopped.
    if status ~= 'success' and active == '' then
      update_run(latest, 'status', 'pending', 'error', '', 'released', 1)
      redis.call('HDEL', run_key(latest), 'cancel')
      update_thread('busy', nil, nil, 'active', latest)
      return once({'start', latest, since})
    end
  end
end

-- Check the precondition; a thread without a graph, or of `replaced`, takes this run's, unless its metadata
-- changed.
local owner, before, metadata, graph, replaced = unpack(ARGV, 9, 13)
if owner ~= '' then
  if thread[2] then return {'deleting', '', since} end
  if thread[6] then return {'importing', '', since} end
  local its_owner, its_metadata, its_graph = unpack(thread, 3, 5)
  if its_metadata == '' then its_metadata = '{}' end
  if its_graph == '' or (replaced ~= '' and its_graph == replaced) then its_graph = nil end
  local changed = metadata ~= '' and (its_metadata or '{}') ~= before
  if its_owner ~= owner or (its_graph or graph) ~= graph or changed then return {'changed', '', since} end
  if metadata ~= '' then redis.call('HSET', meta, 'metadata', metadata, 'graph', graph) end
end

-- Refuse a second answer to a question; runs that this one is about to end do not count.
if active ~= '' and (strategy == 'enqueue' or strategy == 'reject') then
  local before = redis.call('LRANGE', queue, 0, -1)
  before[#before + 1] = active
  for _, run in ipairs(before) do
    local answering = redis.call('HGET', run_key(run), 'answering') or ''
    for question in string.gmatch(questions, '%S+') do
      if string.find(answering, question, 1, true) then return {'answered', run, since} end
    end
  end
end
if active ~= '' and strategy == 'reject' then return {'busy', active, since} end
if active ~= '' and (strategy == 'interrupt' or strategy == 'rollback') then
  local status = strategy == 'rollback' and 'rolled-back' or 'interrupted'
  for _, run in ipairs(redis.call('LRANGE', queue, 0, -1)) do end_run(run, status) end
  redis.call('DEL', queue)
  update_run(active, 'cancel', strategy)
  announce('cancel')
end

local fields = {'id', id, 'print', print, 'strategy', strategy, 'status', 'pending'}
for _, part in ipairs({'createdMs', now_ms(), 'dueMs', due_ms}) do fields[#fields + 1] = part end
if keyed == '1' then fields[#fields + 1], fields[#fields + 2] = 'keyed', 1 end
local answers = tonumber(ARGV[14])
for i = 15, 14 + answers do
  redis.call('RPUSH', string.sub(meta, 1, -5) .. 'answers', now_ms() .. ' ' .. ARGV[i])
end
for i = 15 + answers, #ARGV do fields[#fields + 1] = ARGV[i] end
update_run(id, unpack(fields))
redis.call('ZADD', runs, redis.call('HINCRBY', meta, 'runs', 1), id)
delete_oldest(tonumber(ARGV[8]))
if keyed == '1' then redis.call('SET', memo, print .. id, 'EX', ARGV[6]) end
if due_ms > 0 then
  redis.call('SADD', later, id)
  verdict = 'later'
elseif active ~= '' then redis.call('RPUSH', queue, id); verdict = 'queued'
else update_thread('busy', nil, nil, 'active', id) end
announce()
return {verdict, id, since}
"""
)

ADMIT: Final = _script("""
local id = ARGV[1]
if redis.call('HGET', run_key(id), 'status') ~= 'pending' then return 'over' end
redis.call('HSET', run_key(id), 'dueMs', 0)
redis.call('SREM', later, id)
local active = redis.call('HGET', meta, 'active')
if active == id then return 'start' end
if active then
  redis.call('LREM', queue, 0, id)
  redis.call('RPUSH', queue, id)
  return 'queued'
end
update_thread('busy', nil, nil, 'active', id)
return 'start'
""")

APPEND_EVENT: Final = _script("""
local newest = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
-- The same call again, because its reply was lost.
if newest and newest[2][4] == ARGV[1] and newest[2][6] == ARGV[2] then return newest[1] end
local id = add_event('', ARGV[1], ARGV[2])
announce()
return id
""")

CANCEL: Final = _once("""
local id, action = ARGV[1], ARGV[2]
local status, attempt = unpack(redis.call('HMGET', run_key(id), 'status', 'attempt'))
if not status then return {'missing', ''} end
if status ~= 'pending' and status ~= 'running' then return {'over', ''} end
local ending = action == 'rollback' and 'rolled-back' or 'interrupted'
if redis.call('HGET', meta, 'active') ~= id then
  redis.call('LREM', queue, 0, id)
  end_run(id, ending)
  announce()
  return once({'ended', ''})
end
update_run(id, 'cancel', action)
if redis.call('EXISTS', lease) == 1 then
  announce('cancel')
  return {'asked', ''}
end
-- No process executes it. Whoever ends it reads what its attempts have left, or removes it.
if action == 'rollback' or attempt then return {'free', ''} end
-- The new epoch fences a process that is late.
redis.call('HINCRBY', meta, 'epoch', 1)
end_run(id, ending)
local next = activate_next()
update_thread(next ~= '' and 'busy' or 'interrupted', nil, '')
announce()
return once({'ended', next})
""")

MARK_ANSWERED: Final = _script("""
if redis.call('EXISTS', run_key(ARGV[1])) == 1 then redis.call('HSET', run_key(ARGV[1]), 'answerSent', 1) end
return 1
""")

MARK_WEBHOOK_CALLED: Final = _script("""
if redis.call('EXISTS', run_key(ARGV[1])) == 0 then return 0 end
return redis.call('HSET', run_key(ARGV[1]), 'webhookCalled', 1)
""")

MARK_FAILURE_LISTED: Final = _script("""
if redis.call('EXISTS', run_key(ARGV[1])) == 0 then return 0 end
return redis.call('HSET', run_key(ARGV[1]), 'failureListedMs', ARGV[2])
""")

DELETE: Final = _once("""
local status = redis.call('HGET', run_key(ARGV[1]), 'status')
if not status then return {'missing'} end
if status == 'pending' or status == 'running' then return {'open'} end
delete_run(ARGV[1])
return once({'deleted'})
""")

# Returns 1 if it has to be called again.
REMOVE: Final = _script(f"""
local oldest = redis.call('ZRANGE', runs, 0, {RUNS_AT_ONCE - 1})
for _, run in ipairs(oldest) do redis.call('UNLINK', run_key(run)) end
if #oldest == {RUNS_AT_ONCE} then
  redis.call('ZREM', runs, unpack(oldest))
  return 1
end
local thread = string.sub(meta, 1, -5)
redis.call('UNLINK', meta, runs, queue, lease, events, later, thread .. 'answers', thread .. 'card')
redis.call('PUBLISH', events, 'gone')
return 0
""")

# The unfinished runs, newest first: the active one, those behind it, and those that wait for their time.
UNFINISHED: Final = _script("""
local entries, active = {}, redis.call('HGET', meta, 'active')
local function add(run)
  local number = redis.call('ZSCORE', runs, run)
  if number then entries[#entries + 1] = {tonumber(number), run} end
end
if active then add(active) end
for _, run in ipairs(redis.call('LRANGE', queue, 0, -1)) do add(run) end
for _, run in ipairs(redis.call('SMEMBERS', later)) do add(run) end
table.sort(entries, function(one, other) return one[1] > other[1] end)
local ids = {}
for i, entry in ipairs(entries) do ids[i] = entry[2] end
return ids
""")

# The number of runs looked at, the newest after the first ones, and the ids of those with the status.
WITH_STATUS: Final = _script(f"""
local first = tonumber(ARGV[2])
local ids = redis.call('ZREVRANGE', runs, first, first + {RUNS_AT_ONCE - 1})
local matching = {{#ids}}
for _, run in ipairs(ids) do
  if redis.call('HGET', run_key(run), 'status') == ARGV[1] then matching[#matching + 1] = run end
end
return matching
""")

STANDING: Final = _script("""
local status, due_ms = unpack(redis.call('HMGET', run_key(ARGV[1]), 'status', 'dueMs'))
if status ~= 'pending' and status ~= 'running' then return 'over' end
if tonumber(due_ms) > 0 then return tonumber(due_ms) <= tonumber(now_ms()) and 'due' or 'later' end
if redis.call('HGET', meta, 'active') ~= ARGV[1] then return 'queued' end
return redis.call('EXISTS', lease) == 1 and 'held' or 'free'
""")

SCHEDULE_CHECK: Final = Script.with_clock("""
local now_ms = tonumber(now_ms())
return redis.call('ZADD', KEYS[1], math.max(tonumber(ARGV[2]), now_ms) + ARGV[3], ARGV[1])
""")

# Postpones what it returns, so that no two processes check the same run and no run starves another.
POLL_DUE_CHECKS: Final = Script.with_clock("""
local now_ms = tonumber(now_ms())
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, ARGV[2])
for _, member in ipairs(due) do redis.call('ZADD', KEYS[1], now_ms + ARGV[1], member) end
return due
""")


CLAIM: Final = _once(
    _RENAME
    + """
local id, lease_ms, isolated = unpack(ARGV)
local active, deleting, epoch = unpack(redis.call('HMGET', meta, 'active', 'deleting', 'epoch'), 1, 3)
if active ~= id or deleting then return {'over'} end
local left_ms = redis.call('PTTL', lease)
if left_ms > 0 then return {'held', left_ms} end
-- At least two attempts have crashed; a checkpoint may have been written between them.
rename_fields(run_key(id))
local crashes, released, at, attempt =
  unpack(redis.call('HMGET', run_key(id), 'crashes', 'released', 'crashedAt', 'attempt'), 1, 4)
if isolated == '0' and not released and tonumber(crashes or 0) > 0 then return {'suspect', at} end
epoch, attempt = (epoch or 0) + 1, (attempt or 0) + 1
local epoch_text = string.format('%.0f', epoch)
update_run(id, 'status', 'running', 'attempt', string.format('%.0f', attempt))
update_thread('busy', nil, nil, 'epoch', epoch_text, 'batch', '')
redis.call('SET', lease, epoch_text, 'PX', lease_ms)
local data = string.format('{"run_id":%s,"attempt":%d}', cjson.encode(id), attempt)
local started = add_event(id, 'metadata', data)
announce()
return once({'yours', epoch, attempt, started})
"""
)

# An expired lease is taken again if the epoch shows that no other attempt has started.
# The first write is one that Redis accepts while its memory is full; then it accepts the rest of the script.
RENEW: Final = _script("""
if redis.call('HGET', meta, 'epoch') ~= ARGV[2] then return 'fenced' end
redis.call('PEXPIRE', lease, ARGV[3])
redis.call('SET', lease, ARGV[2], 'PX', ARGV[3])
return redis.call('HGET', run_key(ARGV[1]), 'cancel') or ''
""")

EMIT: Final = _script("""
local run, epoch, batch, max_bytes, max_age_ms = unpack(ARGV, 1, 5)
local current, last, total = unpack(redis.call('HMGET', meta, 'epoch', 'batch', 'eventBytes'))
if current ~= epoch then return 0 end
-- The same call again, because its reply was lost.
if last == batch then return 1 end
total = add_events(run, ARGV, 6, tonumber(total or 0), tonumber(max_bytes), tonumber(max_age_ms))
redis.call('HSET', meta, 'batch', batch, 'eventBytes', string.format('%.0f', total))
announce()
return 1
""")

FINISH: Final = _once("""
local id, epoch, status, reason, thread_status, interrupts, error, answer, max_bytes, max_age_ms =
  unpack(ARGV, 1, 10)
local current, active, total = unpack(redis.call('HMGET', meta, 'epoch', 'active', 'eventBytes'))
if current ~= epoch or active ~= id then return {} end
local answers = tonumber(ARGV[11])
for i = 12, 11 + answers do
  redis.call('RPUSH', string.sub(meta, 1, -5) .. 'answers', now_ms() .. ' ' .. ARGV[i])
end
total = add_events(id, ARGV, 12 + answers, tonumber(total or 0), tonumber(max_bytes), tonumber(max_age_ms))
end_run(id, status, reason, 'error', error, 'answer', answer)
local next = activate_next()
local thread_error = thread_status == 'error' and error or ''
local bytes = string.format('%.0f', total)
update_thread(next == '' and thread_status or 'busy', interrupts, thread_error, 'eventBytes', bytes)
announce()
return once({next})
""")

# Counts the attempts that crashed at one checkpoint; one that released the thread or ended did not crash.
RECORD_CRASH: Final = _once(
    _RENAME
    + """
local id, epoch, checkpoint = unpack(ARGV)
if redis.call('HGET', meta, 'epoch') ~= epoch then return {-1} end
rename_fields(run_key(id))
local at, crashes, released = unpack(redis.call('HMGET', run_key(id), 'crashedAt', 'crashes', 'released'))
crashes = released and 0 or at == checkpoint and crashes + 1 or 1
redis.call('HDEL', run_key(id), 'released')
redis.call('HSET', run_key(id), 'crashedAt', checkpoint, 'crashes', crashes)
return once({crashes})
"""
)

# Also after the lease has expired, unless another attempt has begun; and while memory is full.
RELEASE: Final = _script("""
local epoch, active = unpack(redis.call('HMGET', meta, 'epoch', 'active'))
if epoch ~= ARGV[2] or active ~= ARGV[1] then return 0 end
redis.call('DEL', lease)
update_run(ARGV[1], 'status', 'pending', 'released', 1)
return 1
""")

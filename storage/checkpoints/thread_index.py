"""Index of all threads that have checkpoints, and of the threads of a run.

A thread is added before it is created and removed before it is deleted. So a thread that is not in the index
does not exist; one that is in it may be gone.
"""

from collections.abc import Sequence
from typing import Final

from callsheet.storage.redis.keys import ThreadIndexKeys
from callsheet.storage.redis.scripts import Script, ScriptCall

_INDEX: Final = r"""
local threads, runs = unpack(KEYS, 1, 2)

-- The members that link a thread ('t') to its runs, or a run ('r') to its threads; and where the other name
-- begins in each.
local function links(side, name)
  local prefix = side .. name .. '\0'
  return redis.call('ZRANGEBYLEX', runs, '[' .. prefix, '[' .. prefix .. '\255'), #prefix + 1
end

local function remove(thread)
  local members, from = links('t', thread)
  for _, member in ipairs(members) do
    redis.call('ZREM', runs, member, 'r' .. string.sub(member, from) .. '\0' .. thread)
  end
  redis.call('ZREM', threads, thread)
end

local function link(thread, run)
  redis.call('ZADD', runs, 0, 't' .. thread .. '\0' .. run, 0, 'r' .. run .. '\0' .. thread)
end

-- The index expires with its last thread.
local function set_index_ttl()
  local _, last = unpack(redis.call('ZREVRANGE', threads, 0, 0, 'WITHSCORES'))
  for _, key in ipairs(KEYS) do
    if last == 'inf' then redis.call('PERSIST', key) elseif last then redis.call('PEXPIREAT', key, last) end
  end
end

local function add(thread, ttl_ms)
  if ttl_ms > 0 then
    local now = tonumber(now_ms())
    for _, expired in ipairs(redis.call('ZRANGEBYSCORE', threads, '-inf', now, 'LIMIT', 0, 100)) do
      remove(expired)
    end
    redis.call('ZADD', threads, string.format('%.0f', now + ttl_ms), thread)
  else
    redis.call('ZADD', threads, 'inf', thread)
  end
end
"""

_ADD: Final = Script.with_clock(
    _INDEX
    + r"""
local thread, ttl_ms, run = ARGV[1], tonumber(ARGV[2]), ARGV[3]
add(thread, ttl_ms)
if run ~= '' then link(thread, run) end
set_index_ttl()
return 1
"""
)

_ADD_COPY: Final = Script.with_clock(
    _INDEX
    + r"""
local source, target = ARGV[1], ARGV[3]
add(target, tonumber(ARGV[2]))
local members, from = links('t', source)
for _, member in ipairs(members) do link(target, string.sub(member, from)) end
set_index_ttl()
return 1
"""
)

_REMOVE: Final = Script.with_clock(_INDEX + "remove(ARGV[1]); set_index_ttl(); return 1")

_THREADS: Final = Script.with_clock(
    _INDEX + "return redis.call('ZRANGEBYSCORE', threads, '(' .. now_ms(), 'inf')"
)

_THREADS_OF_RUNS: Final = Script.with_clock(
    _INDEX
    + r"""
local seen, names = {}, {}
for _, run in ipairs(ARGV) do
  local members, from = links('r', run)
  for _, member in ipairs(members) do
    local thread = string.sub(member, from)
    if not seen[thread] then seen[thread] = true; names[#names + 1] = thread end
  end
end
return names
"""
)

_REMOVE_RUNS: Final = Script.with_clock(
    _INDEX
    + r"""
for _, run in ipairs(ARGV) do
  local members, from = links('r', run)
  for _, member in ipairs(members) do
    redis.call('ZREM', runs, member, 't' .. string.sub(member, from) .. '\0' .. run)
  end
end
return 1
"""
)


def add(index: ThreadIndexKeys, thread: bytes, ttl_ms: int, run: bytes) -> ScriptCall:
    """Add the thread for `ttl_ms` (0 for no expiry), and link it to `run` if it is not empty."""
    return ScriptCall(_ADD, index, (thread, ttl_ms, run))


def add_copy(index: ThreadIndexKeys, source: bytes, ttl_ms: int, target: bytes) -> ScriptCall:
    """Add `target` and link it to every run of `source`."""
    return ScriptCall(_ADD_COPY, index, (source, ttl_ms, target))


def remove(index: ThreadIndexKeys, thread: bytes) -> ScriptCall:
    """Remove the thread and its links."""
    return ScriptCall(_REMOVE, index, (thread,))


def threads(index: ThreadIndexKeys) -> ScriptCall:
    """List every thread that may exist."""
    return ScriptCall(_THREADS, index, ())


def threads_of_runs(index: ThreadIndexKeys, runs: Sequence[bytes]) -> ScriptCall:
    """List every thread that one of the runs wrote to."""
    return ScriptCall(_THREADS_OF_RUNS, index, runs)


def remove_runs(index: ThreadIndexKeys, runs: Sequence[bytes]) -> ScriptCall:
    """Remove the links of the runs."""
    return ScriptCall(_REMOVE_RUNS, index, runs)

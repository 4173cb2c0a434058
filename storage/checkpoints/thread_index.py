"""Index of all threads that have checkpoints, and of the threads of a run.

A thread is entered before it is created and forgotten before it is deleted, so what is missing in the
register does not exist; what is in it may be gone.
"""

from collections.abc import Sequence
from typing import Final

from callsheet.storage.redis.keys import ThreadIndexKeys
from callsheet.storage.redis.scripts import Script, ScriptCall

_REGISTER: Final = r"""
local threads, runs = unpack(KEYS, 1, 2)

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function members(side, name)
  local stem = side .. name .. '\0'
  return redis.call('ZRANGEBYLEX', runs, '[' .. stem, '[' .. stem .. '\255'), #stem + 1
end

local function forget(thread)
  local found, from = members('t', thread)
  for _, member in ipairs(found) do
    redis.call('ZREM', runs, member, 'r' .. string.sub(member, from) .. '\0' .. thread)
  end
  redis.call('ZREM', threads, thread)
end

local function link(thread, run)
  redis.call('ZADD', runs, 0, 't' .. thread .. '\0' .. run, 0, 'r' .. run .. '\0' .. thread)
end

-- The register expires with the last thread in it.
local function touch_register()
  local _, last = unpack(redis.call('ZREVRANGE', threads, 0, 0, 'WITHSCORES'))
  for _, key in ipairs(KEYS) do
    if last == 'inf' then redis.call('PERSIST', key) elseif last then redis.call('PEXPIREAT', key, last) end
  end
end

local function enter(thread, ttl_ms)
  if ttl_ms > 0 then
    local now = now_ms()
    for _, expired in ipairs(redis.call('ZRANGEBYSCORE', threads, '-inf', now, 'LIMIT', 0, 100)) do
      forget(expired)
    end
    redis.call('ZADD', threads, string.format('%.0f', now + ttl_ms), thread)
  else
    redis.call('ZADD', threads, 'inf', thread)
  end
end
"""

_ENTER: Final = Script(
    _REGISTER
    + r"""
local thread, ttl_ms, run = ARGV[1], tonumber(ARGV[2]), ARGV[3]
enter(thread, ttl_ms)
if run ~= '' then link(thread, run) end
touch_register()
return 1
"""
)

_ENTER_COPY: Final = Script(
    _REGISTER
    + r"""
local source, target = ARGV[1], ARGV[3]
enter(target, tonumber(ARGV[2]))
local found, from = members('t', source)
for _, member in ipairs(found) do link(target, string.sub(member, from)) end
touch_register()
return 1
"""
)

_FORGET: Final = Script(_REGISTER + "forget(ARGV[1]); touch_register(); return 1")

_THREADS: Final = Script(_REGISTER + "return redis.call('ZRANGEBYSCORE', threads, '(' .. now_ms(), 'inf')")

_THREADS_OF_RUNS: Final = Script(
    _REGISTER
    + r"""
local seen, found = {}, {}
for _, run in ipairs(ARGV) do
  local there, from = members('r', run)
  for _, member in ipairs(there) do
    local thread = string.sub(member, from)
    if not seen[thread] then seen[thread] = true; found[#found + 1] = thread end
  end
end
return found
"""
)

_FORGET_RUNS: Final = Script(
    _REGISTER
    + r"""
for _, run in ipairs(ARGV) do
  local there, from = members('r', run)
  for _, member in ipairs(there) do
    redis.call('ZREM', runs, member, 't' .. string.sub(member, from) .. '\0' .. run)
  end
end
return 1
"""
)


def enter(register: ThreadIndexKeys, thread: bytes, ttl_ms: int, run: bytes) -> ScriptCall:
    """Make the thread findable, and by `run` if it is not empty, for `ttl_ms`; 0 is for ever."""
    return ScriptCall(_ENTER, register, (thread, ttl_ms, run))


def enter_copy(register: ThreadIndexKeys, source: bytes, ttl_ms: int, target: bytes) -> ScriptCall:
    """Make `target` findable, and by every run of `source`."""
    return ScriptCall(_ENTER_COPY, register, (source, ttl_ms, target))


def forget(register: ThreadIndexKeys, thread: bytes) -> ScriptCall:
    """Make the thread and its runs unfindable."""
    return ScriptCall(_FORGET, register, (thread,))


def threads(register: ThreadIndexKeys) -> ScriptCall:
    """Every thread that may exist."""
    return ScriptCall(_THREADS, register, ())


def threads_of_runs(register: ThreadIndexKeys, runs: Sequence[bytes]) -> ScriptCall:
    """Every thread one of the runs wrote on."""
    return ScriptCall(_THREADS_OF_RUNS, register, runs)


def forget_runs(register: ThreadIndexKeys, runs: Sequence[bytes]) -> ScriptCall:
    """Make the runs unfindable."""
    return ScriptCall(_FORGET_RUNS, register, runs)

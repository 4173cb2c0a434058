"""How much a thread's checkpoints take up."""

from dataclasses import dataclass
from typing import Any, Final

from storage import keys
from storage.checkpoints.lua import THREAD
from storage.checkpoints.records import text
from storage.connection import Storage
from storage.scripts import Script

_SIZE: Final = Script(
    THREAD
    + r"""
local function all(list) local n = 0; for _, one in ipairs(list) do n = n + #one end; return n end
local kept = 0
for _, field in ipairs(redis.call('HKEYS', records)) do
  if field ~= GENERATION then kept = kept + redis.call('HSTRLEN', records, field) end
end
local names, versions, bytes = {}, {}, {}
for _, field in ipairs(redis.call('HKEYS', values)) do
  local channel = string.match(field, '^[^%z]*%z([^%z]*)')
  if not versions[channel] then
    names[#names + 1], versions[channel], bytes[channel] = channel, 0, 0
  end
  versions[channel] = versions[channel] + 1
  bytes[channel] = bytes[channel] + redis.call('HSTRLEN', values, field)
end
local channels = {}
for at, channel in ipairs(names) do channels[at] = {channel, versions[channel], bytes[channel]} end
local elements = 0
for first = 0, redis.call('LLEN', log) - 1, 1000 do
  elements = elements + all(redis.call('LRANGE', log, first, first + 999))
end
local waiting = redis.call('ZRANGE', writes, 0, -1)
return {redis.call('ZCARD', ids), kept, channels, elements, #waiting, all(waiting)}
"""
)


@dataclass(frozen=True)
class Size:
    """What a thread's checkpoints take up, in bytes as they are stored."""

    checkpoints: tuple[int, int]
    """How many, and their bytes without values."""
    channels: dict[str, tuple[int, int]]
    """By channel, how many versions of its value there are, and their bytes."""
    elements: int
    """Bytes of the elements of lists, which the versions of a list share."""
    writes: tuple[int, int]
    """How many writes wait to be part of a checkpoint, and their bytes."""


async def size(storage: Storage, thread: str) -> Size:
    """Return what a thread takes up; of one without checkpoints, zeros."""
    told: Any = await _SIZE(storage.redis, keys.checkpoints(thread), [])
    count, kept, channels, elements, waiting, waiting_bytes = told
    by_channel = {text(name): (versions, taken) for name, versions, taken in channels}
    return Size((count, kept), by_channel, elements, (waiting, waiting_bytes))

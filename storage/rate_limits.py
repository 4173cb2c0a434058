"""How much an owner asks for, counted by all processes together; time is that of Redis."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

# Entries are requests, their scores the microseconds at which they came. A call whose answer was lost
# comes again under its own name and is counted once.
_COUNT: Final = Script("""
local requests, most, name = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local t = redis.call('TIME')
local now, window = t[1] * 1000000 + t[2], tonumber(ARGV[3]) * 1000
redis.call('ZREMRANGEBYSCORE', requests, '-inf', string.format('%.0f', now - window))
local counted = redis.call('ZCARD', requests)
local fits = redis.call('ZSCORE', requests, name) and 1 or 0
if fits == 0 and counted < most then
  redis.call('ZADD', requests, string.format('%.0f', now), name)
  redis.call('PEXPIRE', requests, ARGV[3])
  fits, counted = 1, counted + 1
end
local oldest = redis.call('ZRANGE', requests, 0, 0, 'WITHSCORES')[2]
local newest = redis.call('ZRANGE', requests, -1, -1, 'WITHSCORES')[2]
local function left(score) return math.max(0, math.ceil((score + window - now) / 1000)) end
return {fits, counted, left(oldest or now), left(newest or now)}
""")

# A stream whose lease ended belongs to a process that is gone.
_OPEN: Final = Script("""
local streams, most, name = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', streams, '-inf', string.format('%.0f', now))
if not redis.call('ZSCORE', streams, name) and redis.call('ZCARD', streams) >= most then return 0 end
redis.call('ZADD', streams, string.format('%.0f', now + ARGV[3]), name)
redis.call('PEXPIRE', streams, ARGV[3])
return 1
""")

_RENEW: Final = Script("""
local t = redis.call('TIME')
local ends = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
""")

_WINDOW_MS: Final = int(keys.RATE_WINDOW_S * 1000)


@dataclass(frozen=True)
class RequestCount:
    """How an owner's requests stand."""

    allowed: bool
    """Whether this one is within the limit; one that is not is not counted."""
    left: int
    """How many more fit now."""
    next_s: int
    """Seconds until another one may fit again that does not now."""
    all_s: int
    """Seconds until none of them counts any more."""


async def count_request(storage: Storage, owner: str, request: str, most: int) -> RequestCount:
    """Count a request of the owner, unless `most` came in the last `RATE_WINDOW_S` seconds.

    `request` names it; the same name again is the same request.
    """
    fits, counted, next_ms, all_ms = await _COUNT(
        storage.redis, [keys.requests(owner)], [most, request, _WINDOW_MS]
    )
    return RequestCount(
        fits == 1, max(0, most - counted), math.ceil(next_ms / 1000), math.ceil(all_ms / 1000)
    )


async def open_stream(storage: Storage, owner: str, stream: str, most: int, lease_s: float) -> bool:
    """Count a stream as open for `lease_s` s, unless the owner has `most`; return whether it is."""
    opened = await _OPEN(storage.redis, [keys.open_streams(owner)], [most, stream, _ms(lease_s)])
    return bool(opened)


async def renew_streams(storage: Storage, owner: str, streams: Collection[str], lease_s: float) -> None:
    """Count these streams as open for another `lease_s` seconds, at most `STREAM_LEASE_S`."""
    await _RENEW(storage.redis, [keys.open_streams(owner)], [_ms(lease_s), *streams])


async def close_stream(storage: Storage, owner: str, stream: str) -> None:
    """Count a stream no more. Twice is safe."""
    await storage.redis.zrem(keys.open_streams(owner), stream)


def _ms(lease_s: float) -> int:
    return int(min(lease_s, keys.STREAM_LEASE_S) * 1000)

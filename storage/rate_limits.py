"""Rate limits per owner, counted by all processes together with the clock of Redis."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from callsheet.storage.redis import caller_keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

# Members are requests, scores their arrival in microseconds. A call that is sent again because its reply was
# lost has the same name and is counted once.
_COUNT: Final = Script.with_clock("""
local requests, limit, name = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local now, window = tonumber(now_us()), tonumber(ARGV[3]) * 1000
redis.call('ZREMRANGEBYSCORE', requests, '-inf', string.format('%.0f', now - window))
local counted = redis.call('ZCARD', requests)
local fits = redis.call('ZSCORE', requests, name) and 1 or 0
if fits == 0 and counted < limit then
  redis.call('ZADD', requests, string.format('%.0f', now), name)
  redis.call('PEXPIRE', requests, ARGV[3])
  fits, counted = 1, counted + 1
end
local oldest = redis.call('ZRANGE', requests, 0, 0, 'WITHSCORES')[2]
local newest = redis.call('ZRANGE', requests, -1, -1, 'WITHSCORES')[2]
local function left(score) return math.max(0, math.ceil((score + window - now) / 1000)) end
return {fits, counted, left(oldest or now), left(newest or now)}
""")

# An expired lease belongs to a process that has crashed.
_OPEN: Final = Script.with_clock("""
local streams, limit, name = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local now = tonumber(now_ms())
redis.call('ZREMRANGEBYSCORE', streams, '-inf', string.format('%.0f', now))
if not redis.call('ZSCORE', streams, name) and redis.call('ZCARD', streams) >= limit then return 0 end
redis.call('ZADD', streams, string.format('%.0f', now + ARGV[3]), name)
redis.call('PEXPIRE', streams, ARGV[3])
return 1
""")

_RENEW: Final = Script.with_clock("""
local ends = string.format('%.0f', now_ms() + ARGV[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
""")

_WINDOW_MS: Final = int(caller_keys.RATE_WINDOW_S * 1000)


@dataclass(frozen=True)
class RequestCount:
    """Result of counting a request."""

    allowed: bool
    """False if the request exceeds the limit; it is not counted then."""
    remaining: int
    """Further requests allowed now."""
    retry_after_s: int
    """Seconds until one more request fits."""
    reset_s: int
    """Seconds until the window is empty."""


async def count_request(storage: Storage, owner: str, request: str, limit: int) -> RequestCount:
    """Count a request of the owner, unless `limit` came in the last `RATE_WINDOW_S` seconds.

    `request` names it; the same name again is the same request.
    """
    return await _count(storage, caller_keys.request_window(owner), request, limit)


async def count_sign_in(storage: Storage, address: str, attempt: str, limit: int) -> RequestCount:
    """Count an attempt to sign in from this address, as `count_request` counts requests of an owner."""
    return await _count(storage, caller_keys.sign_ins(address), attempt, limit)


async def forget_sign_in(storage: Storage, address: str, attempt: str) -> None:
    """Stop counting an attempt that succeeded. Twice is safe."""
    await storage.redis.zrem(caller_keys.sign_ins(address), attempt)


async def _count(storage: Storage, window: str, name: str, limit: int) -> RequestCount:
    fits, counted, next_ms, all_ms = await _COUNT(storage.redis, [window], [limit, name, _WINDOW_MS])
    next_s, all_s = math.ceil(next_ms / 1000), math.ceil(all_ms / 1000)
    return RequestCount(fits == 1, max(0, limit - counted), next_s, all_s)


async def open_stream(storage: Storage, owner: str, stream: str, limit: int, lease_s: float) -> bool:
    """Count a stream as open for `lease_s` seconds; return False if the owner has `limit` open already."""
    opened = await _OPEN(
        storage.redis, [caller_keys.open_streams(owner)], [limit, stream, _lease_ms(lease_s)]
    )
    return bool(opened)


async def renew_streams(storage: Storage, owner: str, streams: Collection[str], lease_s: float) -> None:
    """Count these streams as open for another `lease_s` seconds, at most `STREAM_LEASE_S`."""
    await _RENEW(storage.redis, [caller_keys.open_streams(owner)], [_lease_ms(lease_s), *streams])


async def close_stream(storage: Storage, owner: str, stream: str) -> None:
    """Stop counting a stream. Twice is safe."""
    await storage.redis.zrem(caller_keys.open_streams(owner), stream)


def _lease_ms(lease_s: float) -> int:
    return int(min(lease_s, caller_keys.STREAM_LEASE_S) * 1000)

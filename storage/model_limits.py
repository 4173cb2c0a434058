"""Limits of a vendor that all processes share: calls at once, and tokens a minute.

Calls at once are leases, which a process that died loses by time. Tokens are a bucket that fills evenly over
a minute: a call takes its estimate, and its usage corrects that afterwards.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from callsheet.state.errors import Limited
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script

_MAX_PAUSE_S: Final = 1.0

# KEYS: leases by end, bucket. A call larger than the bucket waits for a full one.
_ADMIT: Final = Script.with_clock("""
local leases, bucket, call = KEYS[1], KEYS[2], ARGV[1]
local most, per_minute, tokens = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lease, ttl = tonumber(ARGV[5]), ARGV[6]
local ms = tonumber(now_ms())
redis.call('ZREMRANGEBYSCORE', leases, '-inf', ms)
if redis.call('ZSCORE', leases, call) then return 0 end
if most > 0 and redis.call('ZCARD', leases) >= most then return -1 end
if per_minute > 0 then
  local b = redis.call('HMGET', bucket, 'left', 'ms')
  local left = tonumber(b[1] or per_minute)
  left = math.min(per_minute, left + (ms - tonumber(b[2] or ms)) * per_minute / 60000)
  local needed = math.min(tokens, per_minute)
  if left < needed then return math.ceil((needed - left) * 60000 / per_minute) end
  redis.call('HSET', bucket, 'left', string.format('%.3f', left - tokens), 'ms', string.format('%.0f', ms))
  redis.call('PEXPIRE', bucket, ttl)
end
redis.call('ZADD', leases, string.format('%.0f', ms + lease), call)
redis.call('PEXPIRE', leases, string.format('%.0f', lease))
return 0
""")

_RELEASE: Final = Script("""
local leases, bucket = KEYS[1], KEYS[2]
if redis.call('ZREM', leases, ARGV[1]) == 1 and redis.call('EXISTS', bucket) == 1 then
  redis.call('HINCRBYFLOAT', bucket, 'left', ARGV[2])
end
return 0
""")


@dataclass(frozen=True)
class VendorLimits:
    """Limits of one vendor; 0 for none."""

    vendor: str
    calls: int = 0
    """Calls at once."""
    tokens_per_minute: int = 0
    patience_s: float = 60.0
    """Longest time that a call waits."""

    def __bool__(self) -> bool:
        """Return True if there is a limit."""
        return bool(self.calls or self.tokens_per_minute)

    @property
    def keys(self) -> list[str]:
        """Keys of the leases and of the bucket."""
        return [keys.vendor_calls(self.vendor), keys.vendor_tokens(self.vendor)]


async def admit(storage: Storage, limits: VendorLimits, call: str, tokens: int, lease_s: float) -> None:
    """Wait until the vendor's limits allow a call of about so many tokens.

    Admitting a call again is safe. Raises `Limited` once its patience is over.
    """
    ends = time.monotonic() + limits.patience_s
    lease_ms, ttl_ms = int(lease_s * 1000), int(keys.VENDOR_TOKENS_TTL_S * 1000)
    args: list[Argument] = [call, limits.calls, limits.tokens_per_minute, tokens, lease_ms, ttl_ms]
    while wait_ms := int(await _ADMIT(storage.redis, limits.keys, args)):
        pause_s = _MAX_PAUSE_S / 4 if wait_ms < 0 else min(wait_ms / 1000, _MAX_PAUSE_S)
        if time.monotonic() + pause_s > ends:
            rule = (
                f"{limits.calls} calls at once"
                if wait_ms < 0
                else f"{limits.tokens_per_minute} tokens a minute"
            )
            raise Limited(
                f"{limits.vendor} is at its limit of {rule}",
                remedy="try again in a minute, or raise the limit",
            )
        await asyncio.sleep(pause_s)


async def release(storage: Storage, limits: VendorLimits, call: str, estimated: int, used: int) -> None:
    """End a call, and correct its estimate of tokens; calling it twice is safe."""
    await _RELEASE(storage.redis, limits.keys, [call, estimated - used])

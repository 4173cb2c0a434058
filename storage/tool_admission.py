"""Admission of tool calls: sliding windows and circuit breakers, shared by all processes.

Both are in the slot of the rate key, so that one script decides about a call, with the clock of Redis. A call
that is sent again because its reply was lost has the same name and is counted once.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, Script, ScriptCall, execute_all

State = Literal["closed", "open", "half-open"]
Verdict = Literal["ok", "failed", "neutral"]
"""Result of a call for the breaker; neutral if the call did not reach the tool."""

# A refused call is not counted, or a caller that keeps trying would wait for ever. The probe of a half-open
# breaker has a lease as long as the call may take, since its process may crash.
_ADMIT: Final = Script.with_clock("""
local calls, breaker = KEYS[1], KEYS[2]
local name, limit, window = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local failures, cooldown, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local us = tonumber(now_us())
local ms = math.floor(us / 1000)
local new = limit > 0
if new then
  redis.call('ZREMRANGEBYSCORE', calls, '-inf', string.format('%.0f', us - window * 1000))
  new = not redis.call('ZSCORE', calls, name)
  if new and redis.call('ZCARD', calls) >= limit then
    local oldest = redis.call('ZRANGE', calls, 0, 0, 'WITHSCORES')[2]
    return {'limited', math.max(1, math.ceil((oldest + window * 1000 - us) / 1000))}
  end
end
local is_probe = 0
if failures > 0 then
  local b = redis.call('HMGET', breaker, 'failed', 'openedMs', 'trying', 'untilMs')
  if tonumber(b[1] or 0) >= failures then
    local refused_ms = (b[2] or ms) + cooldown - ms
    if refused_ms > 0 then return {'open', refused_ms} end
    if b[3] and b[3] ~= name and tonumber(b[4]) > ms then return {'open', b[4] - ms} end
    redis.call('HSET', breaker, 'trying', name, 'untilMs', string.format('%.0f', ms + lease))
    is_probe = 1
  end
end
if new then
  redis.call('ZADD', calls, string.format('%.0f', us), name)
  redis.call('PEXPIRE', calls, window)
end
return {'go', new and 1 or 0, is_probe}
""")

_WITHDRAW: Final = Script("""
local breaker, calls, name = KEYS[1], KEYS[2], ARGV[1]
if calls then redis.call('ZREM', calls, name) end
if redis.call('HGET', breaker, 'trying') == name then redis.call('HDEL', breaker, 'trying', 'untilMs') end
return 0
""")

_FAIL: Final = Script.with_clock("""
local breaker, failures, token = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('HGET', breaker, 'last') == token then return 0 end
local failed = redis.call('HINCRBY', breaker, 'failed', 1)
redis.call('HSET', breaker, 'last', token)
if failed >= failures then
  local ms = now_ms()
  redis.call('HSET', breaker, 'openedMs', ms)
  redis.call('HDEL', breaker, 'trying', 'untilMs')
end
redis.call('PEXPIRE', breaker, ARGV[3])
return failed
""")

_STATE: Final = Script.with_clock("""
local b = redis.call('HMGET', KEYS[1], 'failed', 'openedMs')
local ms = tonumber(now_ms())
local failed = tonumber(b[1] or 0)
if not b[2] or failed < tonumber(ARGV[1]) then return {'closed', failed, 0} end
local left = b[2] + ARGV[2] - ms
if left > 0 then return {'open', failed, left} end
return {'half-open', failed, 0}
""")


@dataclass(frozen=True)
class ToolLimits:
    """Limits of a tool, and the names under which its calls are counted."""

    tool: str
    rate_key: str
    """Name of the window, which several tools may share."""
    calls: int
    """Most calls of an owner in `window_s`; 0 for no limit."""
    window_s: float
    failures: int
    """Consecutive failures that open the breaker; 0 for no breaker."""
    cooldown_s: float
    """Seconds that an open breaker refuses calls."""
    timeout_s: float
    """Longest duration of a call."""
    breaker: str = field(init=False)
    """Key of the breaker."""
    numbers: tuple[int, ...] = field(init=False)
    """Arguments of the admission script."""

    def __post_init__(self) -> None:
        window_ms, rest_ms, timeout_ms = (
            _ms(part) for part in (self.window_s, self.cooldown_s, self.timeout_s)
        )
        object.__setattr__(self, "breaker", keys.breaker(self.rate_key, self.tool))
        object.__setattr__(self, "numbers", (self.calls, window_ms, self.failures, rest_ms, timeout_ms))


@dataclass(frozen=True)
class Rejected:
    """Refusal of a call."""

    reason: Literal["limited", "open"]
    retry_after_s: float
    """Seconds until the next attempt makes sense."""


@dataclass(frozen=True)
class Admitted:
    """Permission for a call."""

    counted: bool
    """False if an earlier attempt at the same call was counted."""
    is_probe: bool
    """True for the one call that probes a half-open breaker."""


@dataclass(frozen=True)
class Breaker:
    """State of a tool's circuit breaker."""

    state: State
    failures: int
    """Consecutive failures."""
    open_for_s: float
    """Seconds during which it still refuses calls."""


def admit_call(limits: ToolLimits, owner: str, call: str) -> ScriptCall:
    """Return the script that admits or rejects a call; `read_admission` reads its answer."""
    call_keys = [keys.call_window(limits.rate_key, owner), limits.breaker]
    return ScriptCall(_ADMIT, call_keys, [call, *limits.numbers])


def read_admission(answer: Sequence[Any]) -> Rejected | Admitted:
    """Return the decision of the admission script."""
    if answer[0] == b"go":
        return Admitted(bool(answer[1]), bool(answer[2]))
    return Rejected("limited" if answer[0] == b"limited" else "open", int(answer[1]) / 1000)


def withdraw_calls(limits: ToolLimits, owner: str, call: str, admission: Admitted) -> list[ScriptCall]:
    """Return the scripts that undo the admission of a call that is not made."""
    window = [keys.call_window(limits.rate_key, owner)] if admission.counted else []
    if not window and not admission.is_probe:
        return []
    return [ScriptCall(_WITHDRAW, [limits.breaker, *window], [call])]


def report_calls(
    limits: ToolLimits, call: str, verdict: Verdict, admission: Admitted
) -> list[ScriptCall | Command]:
    """Return the scripts that report the result of a call to the breaker. Sending them twice is safe."""
    if not limits.failures:
        return []
    if verdict == "ok":
        return [Command(("DEL", limits.breaker))]
    if verdict == "failed":
        args: list[Argument] = [limits.failures, uuid.uuid4().hex, _ms(keys.TOOL_WINDOW_S)]
        return [ScriptCall(_FAIL, [limits.breaker], args)]
    return [ScriptCall(_WITHDRAW, [limits.breaker], [call])] if admission.is_probe else []


async def read_breakers(storage: Storage, tools: Sequence[ToolLimits]) -> Mapping[str, Breaker]:
    """Return the state of the breakers by tool."""
    calls = [ScriptCall(_STATE, [tool.breaker], [tool.failures or 1, _ms(tool.cooldown_s)]) for tool in tools]
    answers = await execute_all(storage.redis, calls) if calls else []
    return {
        tool.tool: Breaker(answer[0].decode(), int(answer[1]), int(answer[2]) / 1000)
        for tool, answer in zip(tools, answers, strict=True)
    }


def _ms(seconds: float) -> int:
    return int(seconds * 1000)

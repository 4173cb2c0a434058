"""Whether a tool may be called now: sliding windows and breakers, shared by all processes (C46, C48, C-R4).

Both live in the slot of the name that calls are counted under, so one script decides about a call. Time is
that of Redis. A call whose answer was lost comes again under its own name and is counted once.
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
"""What a call tells of its tool; neutral is one that did not get to show."""

# A refused call is not counted, or whoever keeps asking would wait for ever. The one call that tries a rested
# tool holds that right for as long as it may take, since its process may die.
_ADMIT: Final = Script("""
local calls, breaker = KEYS[1], KEYS[2]
local name, most, window = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local failures, rest, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = math.floor(us / 1000)
local new = most > 0
if new then
  redis.call('ZREMRANGEBYSCORE', calls, '-inf', string.format('%.0f', us - window * 1000))
  new = not redis.call('ZSCORE', calls, name)
  if new and redis.call('ZCARD', calls) >= most then
    local oldest = redis.call('ZRANGE', calls, 0, 0, 'WITHSCORES')[2]
    return {'limited', math.max(1, math.ceil((oldest + window * 1000 - us) / 1000))}
  end
end
local trying = 0
if failures > 0 then
  local b = redis.call('HMGET', breaker, 'failed', 'openedMs', 'trying', 'untilMs')
  if tonumber(b[1] or 0) >= failures then
    local closed_for = (b[2] or ms) + rest - ms
    if closed_for > 0 then return {'open', closed_for} end
    if b[3] and b[3] ~= name and tonumber(b[4]) > ms then return {'open', b[4] - ms} end
    redis.call('HSET', breaker, 'trying', name, 'untilMs', string.format('%.0f', ms + lease))
    trying = 1
  end
end
if new then
  redis.call('ZADD', calls, string.format('%.0f', us), name)
  redis.call('PEXPIRE', calls, window)
end
return {'go', new and 1 or 0, trying}
""")

_LEAVE: Final = Script("""
local breaker, calls, name = KEYS[1], KEYS[2], ARGV[1]
if calls then redis.call('ZREM', calls, name) end
if redis.call('HGET', breaker, 'trying') == name then redis.call('HDEL', breaker, 'trying', 'untilMs') end
return 0
""")

_FAIL: Final = Script("""
local breaker, failures, token = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('HGET', breaker, 'last') == token then return 0 end
local failed = redis.call('HINCRBY', breaker, 'failed', 1)
redis.call('HSET', breaker, 'last', token)
if failed >= failures then
  local t = redis.call('TIME')
  local ms = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
  redis.call('HSET', breaker, 'openedMs', ms)
  redis.call('HDEL', breaker, 'trying', 'untilMs')
end
redis.call('PEXPIRE', breaker, ARGV[3])
return failed
""")

_STATE: Final = Script("""
local b = redis.call('HMGET', KEYS[1], 'failed', 'openedMs')
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local failed = tonumber(b[1] or 0)
if not b[2] or failed < tonumber(ARGV[1]) then return {'closed', failed, 0} end
local left = b[2] + ARGV[2] - ms
if left > 0 then return {'open', failed, left} end
return {'half-open', failed, 0}
""")


@dataclass(frozen=True)
class ToolLimits:
    """What a tool is held to, and under which names it is counted."""

    tool: str
    rate_key: str
    """What its calls are counted under together with those of other tools."""
    calls: int
    """Most calls of an owner in `window_s`; 0 for no limit."""
    window_s: float
    failures: int
    """Failures in a row that open the breaker; 0 for no breaker."""
    rest_s: float
    timeout_s: float
    """The longest a call takes."""
    breaker: str = field(init=False)
    """The key of its breaker."""
    numbers: tuple[int, ...] = field(init=False)
    """All of that as the script reads it."""

    def __post_init__(self) -> None:
        times = [_ms(seconds) for seconds in (self.window_s, self.rest_s, self.timeout_s)]
        object.__setattr__(self, "breaker", keys.breaker(self.rate_key, self.tool))
        object.__setattr__(self, "numbers", (self.calls, times[0], self.failures, times[1], times[2]))


@dataclass(frozen=True)
class Rejected:
    """Why a call may not be made now."""

    reason: Literal["limited", "open"]
    wait_s: float
    """Seconds until it may be asked again."""


@dataclass(frozen=True)
class Admitted:
    """That a call may be made now."""

    counted: bool
    """Whether it was counted now; one that was counted in an earlier attempt is not."""
    trying: bool
    """Whether it is the one call that tries a tool which has rested."""


@dataclass(frozen=True)
class Breaker:
    """How a tool's breaker stands."""

    state: State
    failed: int
    """Failures in a row."""
    rests_s: float
    """Seconds it will still refuse."""


def admit_call(gate: ToolLimits, owner: str, call: str) -> ScriptCall:
    """Return the script that lets a call in or turns it away; `read_admission` reads its answer."""
    return ScriptCall(_ADMIT, [keys.call_window(gate.rate_key, owner), gate.breaker], [call, *gate.numbers])


def read_admission(answer: Sequence[Any]) -> Rejected | Admitted:
    """Return what the gate said."""
    if answer[0] == b"go":
        return Admitted(bool(answer[1]), bool(answer[2]))
    return Rejected("limited" if answer[0] == b"limited" else "open", int(answer[1]) / 1000)


def withdraw_calls(gate: ToolLimits, owner: str, call: str, entry: Admitted) -> list[ScriptCall]:
    """Return what makes as if a call that was let in, and is not made, had never asked; empty for nothing."""
    counted = [keys.call_window(gate.rate_key, owner)] if entry.counted else []
    return [ScriptCall(_LEAVE, [gate.breaker, *counted], [call])] if counted or entry.trying else []


def report_calls(
    gate: ToolLimits, call: str, verdict: Verdict, entry: Admitted
) -> list[ScriptCall | Command]:
    """Return what tells the breaker how a call went, empty for nothing; sent twice, it is told once."""
    if not gate.failures:
        return []
    if verdict == "ok":
        return [Command(("DEL", gate.breaker))]
    if verdict == "failed":
        told: list[Argument] = [gate.failures, uuid.uuid4().hex, _ms(keys.COUNTED_S)]
        return [ScriptCall(_FAIL, [gate.breaker], told)]
    return [ScriptCall(_LEAVE, [gate.breaker], [call])] if entry.trying else []


async def read_breakers(storage: Storage, gates: Sequence[ToolLimits]) -> Mapping[str, Breaker]:
    """Return how the breakers stand, by tool."""
    asked = [ScriptCall(_STATE, [gate.breaker], [gate.failures or 1, _ms(gate.rest_s)]) for gate in gates]
    answers = await execute_all(storage.redis, asked) if asked else []
    return {
        gate.tool: Breaker(answer[0].decode(), int(answer[1]), int(answer[2]) / 1000)
        for gate, answer in zip(gates, answers, strict=True)
    }


def _ms(seconds: float) -> int:
    return int(seconds * 1000)

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
if limit > 0 then
  redis.call('ZREMRANGEBYSCORE', calls, '-inf', string.format('%.0f', us - window * 1000))
  if redis.call('ZCARD', calls) >= limit and not redis.call('ZSCORE', calls, name) then
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
local new = limit > 0 and redis.call('ZADD', calls, 'NX', string.format('%.0f', us), name) or 0
if new == 1 then redis.call('PEXPIRE', calls, window) end
return {'go', new, is_probe}
""")

_WITHDRAW: Final = Script("""
local breaker, calls, name = KEYS[1], KEYS[2], ARGV[1]
if calls then redis.call('ZREM', calls, name) end
if redis.call('HGET', breaker, 'trying') == name then redis.call('HDEL', breaker, 'trying', 'untilMs') end
return 0
""")

_FAIL: Final = Script.with_clock("""
local breaker, opened = KEYS[1], KEYS[2]
local failures, token, lifetime, service, cooldown, owner = tonumber(ARGV[1]), unpack(ARGV, 2, 6)
local b = redis.call('HMGET', breaker, 'last', 'service', 'openedMs')
if b[1] == token then return 0 end
-- Only failures of one service are in a row, but any failed probe opens the breaker again.
if b[2] ~= service and not b[3] then redis.call('HDEL', breaker, 'failed') end
local failed = redis.call('HINCRBY', breaker, 'failed', 1)
redis.call('HSET', breaker, 'last', token, 'service', service)
if failed >= failures then
  local ms = now_ms()
  redis.call('HSET', breaker, 'openedMs', ms)
  redis.call('HDEL', breaker, 'trying', 'untilMs')
  redis.call('ZADD', opened, string.format('%.0f', ms + cooldown), owner)
  redis.call('PEXPIRE', opened, lifetime)
end
redis.call('PEXPIRE', breaker, lifetime)
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

# Of all owners: the number of them, and the longest rest.
_OPEN: Final = Script.with_clock("""
local ms = tonumber(now_ms())
local owners = redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', ms), '+inf')
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if not last then return {'closed', 0, 0} end
if owners == 0 then return {'half-open', 0, 0} end
return {'open', owners, last - ms}
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
    numbers: tuple[int, ...] = field(init=False)
    """Arguments of the admission script."""

    def __post_init__(self) -> None:
        window_ms, rest_ms, timeout_ms = (
            _ms(part) for part in (self.window_s, self.cooldown_s, self.timeout_s)
        )
        object.__setattr__(self, "numbers", (self.calls, window_ms, self.failures, rest_ms, timeout_ms))

    def breaker(self, owner: str) -> str:
        """Return the key of the owner's breaker."""
        return keys.breaker(self.rate_key, self.tool, owner)

    @property
    def opened(self) -> str:
        """Key of the owners whose breaker has opened."""
        return keys.open_breakers(self.rate_key, self.tool)


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
    """State of a tool's circuit breaker, of one owner or of all."""

    state: State
    failures: int
    """The owner's consecutive failures; of all owners, the number whose breaker is open."""
    open_for_s: float
    """Seconds during which it still refuses calls."""


def admit_call(limits: ToolLimits, owner: str, call: str) -> ScriptCall:
    """Return the script that admits or rejects a call; `read_admission` reads its answer."""
    call_keys = [keys.call_window(limits.rate_key, owner), limits.breaker(owner)]
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
    return [ScriptCall(_WITHDRAW, [limits.breaker(owner), *window], [call])]


def report_calls(
    limits: ToolLimits, owner: str, call: str, verdict: Verdict, admission: Admitted, service: str = ""
) -> list[ScriptCall | Command]:
    """Return the scripts that report the result of a call to the owner's breaker. Sending them twice is safe.

    `service` names what failed; only failures of the same service in a row open the breaker.
    """
    breaker = limits.breaker(owner)
    if not limits.failures:
        return []
    if verdict == "ok":
        return [Command(("DEL", breaker)), Command(("ZREM", limits.opened, owner))]
    if verdict == "failed":
        args: list[Argument] = [limits.failures, uuid.uuid4().hex, _ms(keys.TOOL_WINDOW_S)]
        args += [service, _ms(limits.cooldown_s), owner]
        return [ScriptCall(_FAIL, [breaker, limits.opened], args)]
    return [ScriptCall(_WITHDRAW, [breaker], [call])] if admission.is_probe else []


async def read_breakers(storage: Storage, tools: Sequence[ToolLimits], owner: str) -> Mapping[str, Breaker]:
    """Return the state of an owner's breakers by tool."""
    return await _read_breakers(
        storage,
        tools,
        [
            ScriptCall(_STATE, [tool.breaker(owner)], [tool.failures or 1, _ms(tool.cooldown_s)])
            for tool in tools
        ],
    )


async def read_open_breakers(storage: Storage, tools: Sequence[ToolLimits]) -> Mapping[str, Breaker]:
    """Return by tool if any owner's breaker is open, and for how long at most."""
    return await _read_breakers(storage, tools, [ScriptCall(_OPEN, [tool.opened], []) for tool in tools])


async def _read_breakers(
    storage: Storage, tools: Sequence[ToolLimits], calls: Sequence[ScriptCall]
) -> Mapping[str, Breaker]:
    answers = await execute_all(storage.redis, calls) if calls else []
    return {
        tool.tool: Breaker(answer[0].decode(), int(answer[1]), int(answer[2]) / 1000)
        for tool, answer in zip(tools, answers, strict=True)
    }


def _ms(seconds: float) -> int:
    return int(seconds * 1000)

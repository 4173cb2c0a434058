"""Use of models: by owner, day, thread and turn with reservations against budgets; and a vendor's limits.

All keys of an owner are in one slot, so that one script decides about a call: what parallel calls are
expected to cost does not exceed a budget together. Amounts are whole nano-dollars. A call is reserved before
it is sent, at what such a call is expected to cost, and settled with its usage afterwards; where that is
more, a budget is passed by the difference. The reservation of a call whose process died ends with its lease.

The limits of a vendor are shared by all processes. Calls at once are leases, which a process that died loses
by time. Tokens are a bucket that fills evenly over a minute: a call takes its estimate, and its usage
corrects that afterwards.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from callsheet.state.budgets import BudgetName, Budgets, OverBudget
from callsheet.state.errors import Limited
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, hgetall

_NANO: Final = 1_000_000_000
_NO_CAP: Final = -1
_INPUT_MARGIN: Final = 1.1
_OUTPUT_MARGIN: Final = 1.5
_LEAST_OUTPUT: Final = 256
_INPUT_RATIOS: Final = (0.25, 2.0)
_MAX_DOUBLINGS: Final = 20
_NAMES: Final[tuple[BudgetName, ...]] = ("turn", "thread", "day")
_TTLS_MS: Final = (int(keys.TURN_USAGE_TTL_S * 1000), *[int(keys.USAGE_TTL_S * 1000)] * 2)

# Fields of an account: spent, raised, <metric>:<model>, and r:<call> = "<amount> <end of lease in ms>". A
# reservation that ran out counts no more; the turn's stays, since it says that the call was not settled.
_RESERVE: Final = Script.with_clock("""
local call, amount, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ms = tonumber(now_ms())
for at, key in ipairs(KEYS) do
  local cap, used, spent = tonumber(ARGV[3 + at]), 0, 0
  if cap >= 0 then
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
      if all[i] == 'spent' then
        spent = tonumber(all[i + 1])
        used = used + spent
      elseif all[i] == 'raised' then cap = math.max(cap, tonumber(all[i + 1]))
      elseif string.sub(all[i], 1, 2) == 'r:' and all[i] ~= 'r:' .. call then
        local reserved, ends = string.match(all[i + 1], '(%d+) (%d+)')
        if tonumber(ends) > ms then used = used + tonumber(reserved)
        elseif at > 1 then redis.call('HDEL', key, all[i]) end
      end
    end
    if used + amount > cap then
      return {at, string.format('%.0f', used), string.format('%.0f', cap), string.format('%.0f', spent)}
    end
  end
end
for at, key in ipairs(KEYS) do
  if at == 1 or tonumber(ARGV[3 + at]) >= 0 then
    redis.call('HSET', key, 'r:' .. call, string.format('%.0f %.0f', amount, ms + lease))
    redis.call('PEXPIRE', key, ARGV[6 + at])
  end
end
return {0}
""")

_NOW: Final = Script.with_clock("return now_ms()")

_SETTLE: Final = Script("""
local call, model = 'r:' .. ARGV[1], ARGV[2]
if redis.call('HDEL', KEYS[1], call) == 0 then return 0 end
for at, key in ipairs(KEYS) do
  redis.call('HDEL', key, call)
  if ARGV[6] then
    redis.call('HINCRBY', key, 'spent', ARGV[10])
    for i, metric in ipairs({'calls', 'input', 'output', 'cached', 'cost', 'unpriced', 'estimated'}) do
      redis.call('HINCRBY', key, metric .. ':' .. model, ARGV[5 + i])
    end
    redis.call('PEXPIRE', key, ARGV[2 + at])
  end
end
return 1
""")

_LIST_OWNER: Final = Script("""
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")

# ARGV: purpose, model, input in parts of its estimate, output, lifetime. What was long ago weighs less.
_OBSERVE: Final = Script("""
local stem = ARGV[1] .. ':' .. ARGV[2]
for metric, value in pairs({input = ARGV[3], output = ARGV[4]}) do
  local peak = tonumber(redis.call('HGET', KEYS[1], metric .. ':' .. stem) or 0) * 0.98
  redis.call('HSET', KEYS[1], metric .. ':' .. stem, string.format('%.4f', math.max(peak, tonumber(value))))
end
redis.call('HINCRBY', KEYS[1], 'calls:' .. stem, 1)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
""")

_RAISE: Final = Script("""
local raised = tonumber(redis.call('HGET', KEYS[1], 'raised') or 0)
redis.call('HSET', KEYS[1], 'raised', string.format('%.0f', math.max(raised, tonumber(ARGV[1]))))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")


@dataclass(frozen=True)
class Account:
    """The one who pays for a model call."""

    owner: str
    thread: str
    turn: str
    """Id of the message that began the turn."""
    day: date = field(default_factory=lambda: datetime.now(UTC).date())

    def key(self, name: BudgetName) -> str:
        """Return the key of one of the three accounts."""
        if name == "day":
            return keys.usage_of_day(self.owner, self.day.isoformat())
        if name == "thread":
            return keys.usage_of_thread(self.owner, self.thread)
        return keys.usage_of_turn(self.owner, self.thread, self.turn)

    @property
    def keys(self) -> list[str]:
        """The keys of turn, thread and day."""
        return [self.key(name) for name in _NAMES]


@dataclass(frozen=True)
class Expectation:
    """Tokens of an owner's earlier calls of a model for the same purpose."""

    calls: int = 0
    input: float = 0.0
    """Highest input in parts of its estimate; the longer ago, the less it weighs."""
    output: float = 0.0
    """Highest output; the longer ago, the less it weighs."""

    def expect(self, input_tokens: int, output_tokens: int) -> tuple[int, int]:
        """Return the expected input and output of a call.

        They are the given ones without earlier calls, and come nearer to what was observed with each call.
        """
        doubt = 0.5 ** min(self.calls, _MAX_DOUBLINGS)
        ratio = min(_INPUT_RATIOS[1], max(_INPUT_RATIOS[0], self.input * _INPUT_MARGIN))
        likely = min(output_tokens, max(_LEAST_OUTPUT, self.output * _OUTPUT_MARGIN))
        expected = likely + (output_tokens - likely) * doubt
        return math.ceil(input_tokens * (ratio + (1 - ratio) * doubt)), math.ceil(expected)


@dataclass(frozen=True)
class ModelUsage:
    """Use of one model, or of several together."""

    calls: int = 0
    input: int = 0
    """Tokens, cached ones included."""
    output: int = 0
    cached: int = 0
    cost: float = 0.0
    """US dollars of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is unknown."""
    estimated: int = 0
    """Calls that were cut while the vendor worked; their tokens and cost are estimates."""

    def __add__(self, other: "ModelUsage") -> "ModelUsage":
        """Return the sum."""
        mine, others = asdict(self), asdict(other)
        return ModelUsage(**{name: mine[name] + others[name] for name in mine})


async def with_redis_day(storage: Storage, account: Account) -> Account:
    """Return the account on the day (UTC) that it is by the clock of Redis: those of processes may differ."""
    now_ms: bytes = await _NOW(storage.redis, [account.key("turn")])
    return replace(account, day=datetime.fromtimestamp(int(now_ms) / 1000, UTC).date())


async def reserve(
    storage: Storage, account: Account, call: str, estimate: float, budgets: Budgets, lease_s: float
) -> OverBudget | None:
    """Reserve what a call is expected to cost; return the budget it could exceed, with nothing reserved.

    Reserving a call again replaces its reservation. `lease_s` is longer than the call may take.
    """
    caps = [_nano(getattr(budgets, name), _NO_CAP) for name in _NAMES]
    args: list[Argument] = [call, _nano(estimate, 0), int(lease_s * 1000), *caps, *_TTLS_MS]
    at, *amounts = await _RESERVE(storage.redis, account.keys, args)
    if at == 0:
        return None
    used, cap, spent = (int(amount) / _NANO for amount in amounts)
    name = _NAMES[at - 1]
    ends = f"{(account.day + timedelta(days=1)).isoformat()}T00:00:00Z" if name == "day" else ""
    return OverBudget(name, used, estimate, cap, spent, ends)


async def settle(
    storage: Storage, account: Account, call: str, model: str = "", usage: ModelUsage | None = None
) -> None:
    """Replace a call's reservation by its usage, or by nothing if the vendor did not answer.

    Calling it twice is safe.
    """
    args: list[Argument] = [call, model, *_TTLS_MS]
    if usage:
        numbers = (usage.calls, usage.input, usage.output, usage.cached)
        args += [*numbers, _nano(usage.cost, 0), usage.unpriced, usage.estimated]
    await _SETTLE(storage.redis, account.keys, args)
    if usage:
        listed: list[Argument] = [account.owner, int(keys.USAGE_TTL_S * 1000)]
        await _LIST_OWNER(storage.redis, [keys.owners_of_day(account.day.isoformat())], listed)


async def observe(
    storage: Storage, account: Account, purpose: str, model: str, input_ratio: float, output: int
) -> None:
    """Note the tokens of an answered call, by which the next ones of the same purpose are estimated."""
    args: list[Argument] = [purpose, model, f"{input_ratio:.4f}", output, int(keys.USAGE_TTL_S * 1000)]
    await _OBSERVE(storage.redis, [keys.observed_tokens(account.owner)], args)


async def read_expectation(storage: Storage, account: Account, purpose: str, model: str) -> Expectation:
    """Return what an owner's calls of a model for one purpose have used."""
    names = [f"{metric}:{purpose}:{model}" for metric in ("calls", "input", "output")]
    calls, input_, output = await storage.redis.hmget(keys.observed_tokens(account.owner), names)
    return Expectation(int(calls or 0), float(input_ or 0), float(output or 0))


async def raise_budget(storage: Storage, account: Account, name: BudgetName, cap: float) -> None:
    """Set the cap of a turn or thread that a person agreed to; calling it twice is safe."""
    ttl_ms = _TTLS_MS[_NAMES.index(name)]
    await _RAISE(storage.redis, [account.key(name)], [_nano(cap, 0), ttl_ms])


async def read_usage(storage: Storage, account: Account, name: BudgetName) -> Mapping[str, ModelUsage]:
    """Return the use of a turn, a thread, or the owner's day, by model."""
    return _by_model(await hgetall(storage.redis, account.key(name)))


async def read_days(
    storage: Storage, owner: str, first: date, last: date
) -> Mapping[date, Mapping[str, ModelUsage]]:
    """Return an owner's use by day and model; days without use are left out."""
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    accounts = [Account(owner, "", "", day) for day in days]
    hashes = await asyncio.gather(*(hgetall(storage.redis, one.key("day")) for one in accounts))
    used = ((day, _by_model(entries)) for day, entries in zip(days, hashes, strict=True))
    return {day: models for day, models in used if models}


async def read_day(storage: Storage, owner: str, day: date) -> Mapping[str, ModelUsage]:
    """Return an owner's use on a day, by model."""
    return await read_usage(storage, Account(owner, "", "", day), "day")


async def read_owners(storage: Storage, first: date, last: date) -> dict[date, list[str]]:
    """Return the owners with use of models, by day."""
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    names = (keys.owners_of_day(day.isoformat()) for day in days)
    owners = await asyncio.gather(*(storage.redis.smembers(name) for name in names))
    return {day: sorted(one.decode() for one in members) for day, members in zip(days, owners, strict=True)}


def _by_model(entries: Mapping[bytes, bytes]) -> dict[str, ModelUsage]:
    numbers: dict[str, dict[str, Any]] = {}
    for name, value in entries.items():
        metric, _, model = name.decode().partition(":")
        if metric in ModelUsage.__dataclass_fields__:
            amount = int(value) / _NANO if metric == "cost" else int(value)
            numbers.setdefault(model, {})[metric] = amount
    return {model: ModelUsage(**metrics) for model, metrics in sorted(numbers.items())}


def total(models: Mapping[str, ModelUsage]) -> ModelUsage:
    """Return the use of all models together."""
    return sum(models.values(), ModelUsage())


def _nano(dollars: float | None, default: int) -> int:
    return default if dollars is None else round(dollars * _NANO)


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


async def admit_call(storage: Storage, limits: VendorLimits, call: str, tokens: int, lease_s: float) -> None:
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


async def release_call(storage: Storage, limits: VendorLimits, call: str, estimated: int, used: int) -> None:
    """End a call, and correct its estimate of tokens; calling it twice is safe."""
    await _RELEASE(storage.redis, limits.keys, [call, estimated - used])

"""Runs that wait for a process: bounded in all and by owner, and taken in turns by owner.

A delivery of the task queue names a run and gives a process one turn. The owner whose turn it is decides
which run is executed, so the run of a delivery may be executed by an earlier one; it is `taken` until its own
delivery arrives, which is then a turn for another run. Losing an entry does no harm: the run is executed by
its delivery, or found by the check for abandoned runs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Limited
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, execute

_RETRY_S: Final = 5.0
"""Seconds after which a refused request may be sent again."""
_SWEEP: Final = 100
"""Entries that one sweep looks at, oldest first."""

_MOST_COUNTED: Final = 1_000

_COMMON: Final = """
local all, owners, about, counts, taken = unpack(KEYS)

local function ready_of(owner) return string.sub(all, 1, -4) .. 'of:' .. owner end

-- Puts the owner at the end of the ring.
local function last_in_turn(owner)
  redis.call('ZADD', owners, redis.call('HINCRBY', counts, ' turns', 1), owner)
end

-- The owner and the graph of an entry.
local function split(value)
  local at = value and string.find(value, '\\0', 1, true)
  if at then return string.sub(value, at + 1), string.sub(value, 1, at - 1) end
end

local function unready(member, owner)
  redis.call('ZREM', ready_of(owner), member)
  if redis.call('EXISTS', ready_of(owner)) == 0 then redis.call('ZREM', owners, owner) end
end

local function remove(member)
  local owner = split(redis.call('HGET', about, member))
  if not owner then return 0 end
  redis.call('HDEL', about, member)
  redis.call('ZREM', all, member)
  if redis.call('HINCRBY', counts, owner, -1) <= 0 then redis.call('HDEL', counts, owner) end
  unready(member, owner)
  return 1
end
"""


def _script(body: str) -> Script:
    return Script.with_clock(_COMMON + body)


_ADD: Final = _script("""
local member, owner, graph, most, most_of_owner = unpack(ARGV)
if redis.call('HEXISTS', about, member) == 1 then return {'', 0} end
local total, own = redis.call('ZCARD', all), tonumber(redis.call('HGET', counts, owner) or 0)
most, most_of_owner = tonumber(most), tonumber(most_of_owner)
if most_of_owner > 0 and own >= most_of_owner then return {'owner', own} end
if most > 0 and total >= most then return {'all', total} end
local now = now_ms()
redis.call('HSET', about, member, graph .. '\\0' .. owner)
redis.call('ZADD', all, now, member)
redis.call('HINCRBY', counts, owner, 1)
redis.call('ZADD', ready_of(owner), now, member)
if not redis.call('ZSCORE', owners, owner) then last_in_turn(owner) end
return {'', 0}
""")

_REMOVE: Final = _script("return remove(ARGV[1])")

# It keeps its place among those that are counted.
_PARK: Final = _script("""
local owner = split(redis.call('HGET', about, ARGV[1]))
if owner then unready(ARGV[1], owner) end
return 1
""")

_TAKE: Final = _script(f"""
local delivered, served = ARGV[1], {{}}
for i = 2, #ARGV do served[ARGV[i]] = true end
redis.call('ZREMRANGEBYSCORE', taken, '-inf', now_ms() - {int(keys.DAY_S * 1000)})
local owner = split(redis.call('HGET', about, delivered))
local is_ready = owner and redis.call('ZSCORE', ready_of(owner), delivered)
local was_taken = redis.call('ZREM', taken, delivered) == 1
if not is_ready and not was_taken then
  remove(delivered)
  return {{delivered, ''}}
end
for _, each in ipairs(redis.call('ZRANGE', owners, 0, 999)) do
  for _, member in ipairs(redis.call('ZRANGE', ready_of(each), 0, 99)) do
    local _, graph = split(redis.call('HGET', about, member))
    if served[graph] then
      remove(member)
      if redis.call('ZSCORE', owners, each) then last_in_turn(each) end
      if member ~= delivered then redis.call('ZADD', taken, now_ms(), member) end
      return {{member, was_taken and 'taken' or ''}}
    end
  end
end
return {{'', was_taken and 'taken' or ''}}
""")

_OLDEST: Final = _script(f"""
local now, result = tonumber(now_ms()), {{}}
local oldest = redis.call('ZRANGEBYSCORE', all, '-inf', now - ARGV[1], 'WITHSCORES', 'LIMIT', 0, {_SWEEP})
for i = 1, #oldest, 2 do
  result[#result + 1] = oldest[i]
  result[#result + 1] = math.floor(now - tonumber(oldest[i + 1]))
end
return result
""")

_GRAPHS: Final = _script(f"""
local first, counts, result = now_ms() - ARGV[1], {{}}, {{}}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', all, '-inf', first, 'LIMIT', 0, {_MOST_COUNTED})) do
  local _, graph = split(redis.call('HGET', about, member))
  if graph then counts[graph] = (counts[graph] or 0) + 1 end
end
for graph, count in pairs(counts) do
  result[#result + 1] = graph
  result[#result + 1] = count
end
return result
""")


@dataclass(frozen=True)
class WaitingLimits:
    """Most runs that may wait for a process; 0 for no limit."""

    total: int = 0
    of_owner: int = 0


class WaitingRuns:
    """Runs of all threads that wait for a process."""

    def __init__(self, storage: Storage, limits: WaitingLimits) -> None:
        self._redis = storage.redis
        self._limits = limits

    async def add(self, thread: str, run: str, owner: str, graph: str, *, is_bounded: bool = True) -> None:
        """Add a run that is about to be recorded; twice is safe. Raises `Limited` at a limit."""
        limits = self._limits if is_bounded else WaitingLimits()
        args: list[Argument] = [_member(thread, run), owner, graph, limits.total, limits.of_owner]
        full, count = await _ADD(self._redis, keys.waiting_runs(), args)
        if not full:
            return
        whose, setting = (
            (f"of {owner!r} ", "CALLSHEET_MAX_WAITING_OF_OWNER")
            if full == b"owner"
            else ("", "CALLSHEET_MAX_WAITING_RUNS")
        )
        error = Limited(
            f"{count} runs {whose}wait already; nothing was stored",
            remedy=f"wait until some of them have begun, or raise {setting}",
            details={"bound": full.decode()},
        )
        error.retry_after_s = _RETRY_S
        raise error

    async def remove(self, thread: str, run: str) -> None:
        """Remove a run that does not wait any more; twice is safe."""
        await _REMOVE(self._redis, keys.waiting_runs(), [_member(thread, run)])

    async def contains(self, thread: str, run: str) -> bool:
        """Return True while a run waits."""
        return bool(await execute(self._redis, "HEXISTS", keys.waiting_runs().about, _member(thread, run)))

    async def park(self, thread: str, run: str) -> None:
        """Let a run wait for another run of its thread: it counts, and has no turn."""
        await _PARK(self._redis, keys.waiting_runs(), [_member(thread, run)])

    async def take_turn(self, thread: str, run: str, graphs: Collection[str]) -> "DeliveryTurn":
        """Return the run to execute for this delivery, of one of the graphs; it waits no more."""
        args = [_member(thread, run), *graphs]
        member, was_taken = await _TAKE(self._redis, keys.waiting_runs(), args)
        return DeliveryTurn(_parse(member) if member else None, was_taken=bool(was_taken))

    async def oldest(self, min_wait_s: float) -> list[tuple[tuple[str, str], float]]:
        """Return some runs (thread, run) with their waiting time in seconds, oldest first."""
        flat: Sequence[bytes | int] = await _OLDEST(
            self._redis, keys.waiting_runs(), [int(min_wait_s * 1000)]
        )
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [(_parse(bytes(member)), int(wait_ms) / 1000) for member, wait_ms in pairs]

    async def count_by_graph(self, min_wait_s: float) -> Mapping[str, int]:
        """Return the numbers of runs that have waited for longer, by graph; of the oldest thousand."""
        flat: Sequence[Any] = await _GRAPHS(self._redis, keys.waiting_runs(), [int(min_wait_s * 1000)])
        return {graph.decode(): count for graph, count in zip(flat[::2], flat[1::2], strict=True)}

    async def count(self) -> int:
        """Return the number of waiting runs."""
        return int(await execute(self._redis, "ZCARD", keys.waiting_runs().all))


@dataclass(frozen=True)
class DeliveryTurn:
    """The use of one delivery."""

    run: tuple[str, str] | None
    """Thread and run; None if no run waits."""
    was_taken: bool
    """True if the run of the delivery was executed by another delivery."""


def _member(thread: str, run: str) -> str:
    return f"{run}\0{thread}"


def _parse(member: bytes) -> tuple[str, str]:
    run, _, thread = member.decode().partition("\0")
    return thread, run

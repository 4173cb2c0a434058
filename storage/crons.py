"""Cron schedules that start runs, and the times at which they are due, by Redis' clock.

A sorted set orders the schedules by due time. A process claims those that are due, for a while; firing one
moves it from its old due time to the next, which only one caller can do.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from callsheet.state.errors import Invalid, Missing
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, execute

# Claims of processes that died meanwhile have ended.
_CLAIM: Final = Script.with_clock("""
local due, claims = unpack(KEYS)
local limit, lease_ms, now = tonumber(ARGV[1]), ARGV[2], now_ms()
local until_ms = ARGV[3] == '' and now or ARGV[3]
redis.call('ZREMRANGEBYSCORE', claims, '-inf', now)
local most = limit + redis.call('ZCARD', claims)
local entries = redis.call('ZRANGEBYSCORE', due, '-inf', until_ms, 'WITHSCORES', 'LIMIT', 0, most)
local claimed = {}
for i = 1, #entries, 2 do
  if #claimed < 2 * limit and not redis.call('ZSCORE', claims, entries[i]) then
    redis.call('ZADD', claims, now + lease_ms, entries[i])
    claimed[#claimed + 1] = entries[i]
    claimed[#claimed + 1] = entries[i + 1]
  end
end
return {until_ms, claimed}
""")

_RESCHEDULE: Final = Script("""
redis.call('ZREM', KEYS[2], ARGV[1])
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
""")

_CREATE: Final = Script("""
local most = tonumber(ARGV[3])
local is_new = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0
if is_new and most > 0 and redis.call('HLEN', KEYS[1]) >= most then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
""")

_UPDATE: Final = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
""")


_DUE_KEYS: Final = (keys.CRONS_DUE, keys.CRONS_CLAIMED)
_CLAIM_S: Final = 30.0
"""Time after which another process fires what a process that died has claimed."""


@dataclass(frozen=True)
class Cron:
    """A schedule and the run it starts."""

    id: str
    owner: str
    assistant: str
    schedule: str
    """Crontab expression with five fields, or six with seconds, or a name such as `@daily`."""
    payload: Mapping[str, Any]
    """Request of the run."""
    created_ms: int
    updated_ms: int
    thread: str | None = None
    """Thread of the runs; None for a new thread per run."""
    timezone: str | None = None
    """IANA name of the time zone of the schedule; None for UTC."""
    end_ms: int | None = None
    """Unix time in milliseconds after which no run starts."""
    enabled: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    on_run_completed: str | None = None
    """`delete` or `keep` a thread that was created for a run."""


@dataclass(frozen=True)
class Due:
    """A schedule that is due."""

    owner: str
    id: str
    due_ms: int
    """Due time in milliseconds since the epoch."""


async def create(storage: Storage, cron: Cron, next_ms: int | None, most: int = 0) -> None:
    """Store a new schedule that is due at `next_ms`; None for never. Twice is safe.

    Raises `Invalid` for an owner who has `most` schedules; 0 for no limit.
    """
    args: list[Argument] = [cron.id, _encode(cron), most]
    if not await _CREATE(storage.redis, [keys.owned_crons(cron.owner)], args):
        raise Invalid(
            f"owner {cron.owner!r} has {most} crons, and no more are allowed",
            remedy="raise CALLSHEET_CRONS_PER_OWNER, or delete one that you no longer need",
        )
    await _set_due(storage, cron, next_ms)


async def update(
    storage: Storage,
    owner: str,
    cron_id: str,
    change: Callable[[Cron], Cron],
    next_due: Callable[[Cron], int | None],
) -> Cron:
    """Change the owner's schedule, set its due time and return it; raises `Missing`.

    Both functions may be called several times. `next_due` returns milliseconds since the epoch, or None
    for never.
    """
    updated = False
    while not updated:
        before = await _read(storage, owner, cron_id)
        args: list[Argument] = [cron_id, before, _encode(change(_decode(before)))]
        updated = bool(await _UPDATE(storage.redis, [keys.owned_crons(owner)], args))
    scheduled = b""
    # Repeat until the due time belongs to the stored schedule: a concurrent update may have set another.
    while (current := await _read(storage, owner, cron_id)) != scheduled:
        cron, scheduled = _decode(current), current
        await _set_due(storage, cron, next_due(cron))
    return cron


async def _set_due(storage: Storage, cron: Cron, next_ms: int | None) -> None:
    if next_ms is None:
        await storage.redis.zrem(keys.CRONS_DUE, _member(cron.owner, cron.id))
    else:
        await storage.redis.zadd(keys.CRONS_DUE, {_member(cron.owner, cron.id): next_ms})


async def get(storage: Storage, owner: str, cron_id: str) -> Cron:
    """Return the owner's schedule; raises `Missing`."""
    return _decode(await _read(storage, owner, cron_id))


async def list_crons(storage: Storage, owner: str) -> list[Cron]:
    """Return all of the owner's schedules, in no order."""
    fields = await storage.redis.hgetall(keys.owned_crons(owner))
    return [_decode(text) for text in fields.values()]


async def delete(storage: Storage, cron: Cron) -> None:
    """Delete a schedule. Twice is safe."""
    await storage.redis.zrem(keys.CRONS_DUE, _member(cron.owner, cron.id))
    await storage.redis.hdel(keys.owned_crons(cron.owner), cron.id)


async def next_ms(storage: Storage, cron: Cron) -> int | None:
    """Return the next due time in milliseconds since the epoch; None for never."""
    score: float | None = await storage.redis.zscore(keys.CRONS_DUE, _member(cron.owner, cron.id))
    return None if score is None else int(score)


async def claim_due(storage: Storage, limit: int, until_ms: int | None = None) -> tuple[int, list[Due]]:
    """Return the time in milliseconds, and schedules that are due then, the longest overdue first.

    Nobody else gets them until they are rescheduled, or `_CLAIM_S` have passed. `until_ms` replaces the time.
    """
    args: list[Argument] = [limit, int(_CLAIM_S * 1000), "" if until_ms is None else until_ms]
    now_ms, entries = await _CLAIM(storage.redis, _DUE_KEYS, args)
    pairs = zip(entries[::2], entries[1::2], strict=True)
    names = [(json.loads(member), int(float(score))) for member, score in pairs]
    return int(now_ms), [Due(owner, cron_id, due_ms) for (owner, cron_id), due_ms in names]


async def reschedule(storage: Storage, fired: Due, next_ms: int | None) -> bool:
    """Set the next due time; return False if another caller has rescheduled `fired` meanwhile."""
    args: list[Argument] = [_member(fired.owner, fired.id), fired.due_ms, "" if next_ms is None else next_ms]
    return bool(await _RESCHEDULE(storage.redis, _DUE_KEYS, args))


async def release(storage: Storage, due: Due) -> None:
    """End the claim on a schedule that could not be fired."""
    await execute(storage.redis, "ZREM", keys.CRONS_CLAIMED, _member(due.owner, due.id))


async def _read(storage: Storage, owner: str, cron_id: str) -> bytes:
    text: bytes | None = await storage.redis.hget(keys.owned_crons(owner), cron_id)
    if text is None:
        raise Missing(f"there is no cron {cron_id[:255]!r}", remedy="check the id")
    return text


def _decode(text: bytes) -> Cron:
    return Cron(**json.loads(text))


def _encode(cron: Cron) -> str:
    return json.dumps(asdict(cron))


def _member(owner: str, cron_id: str) -> str:
    return json.dumps([owner, cron_id])

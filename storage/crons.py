"""Schedules by which runs start: whose they are, what they start, and when they are due next.

A schedule is in a list by when it is due. Whoever fires it moves it there from the time it was due to the
next, and only one caller can.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from callsheet.state.errors import Missing
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script

_MOVE: Final = Script("""
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
""")


_CHANGE: Final = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
""")


@dataclass(frozen=True)
class Cron:
    """A schedule, and the run it starts."""

    id: str
    owner: str
    assistant: str
    schedule: str
    """Five fields of a crontab."""
    payload: Mapping[str, Any]
    """The request of the run."""
    created_ms: int
    updated_ms: int
    thread: str | None = None
    """Where it runs; None for a thread of each run's own."""
    timezone: str | None = None
    """IANA name of where the schedule's hours are; None is UTC."""
    end_ms: int | None = None
    """After this it starts nothing more, in milliseconds of the epoch."""
    enabled: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    on_run_completed: str | None = None
    """What becomes of a run's own thread: `delete` or `keep`."""


Change = Callable[[Cron], Cron]
"""What is to become of a schedule; it may be asked twice."""
NextDue = Callable[[Cron], int | None]
"""When a schedule is due next, in milliseconds of the epoch; None for never."""


@dataclass(frozen=True)
class Due:
    """A schedule whose time has come."""

    owner: str
    id: str
    ms: int
    """When it was due, in milliseconds of the epoch."""


async def create(storage: Storage, cron: Cron, next_ms: int | None) -> None:
    """Keep a new schedule, due at `next_ms`; None for never."""
    await storage.redis.hset(keys.owned_crons(cron.owner), cron.id, _text(cron))
    await _plan(storage, cron, next_ms)


async def update(storage: Storage, owner: str, cron_id: str, changed: Change, following: NextDue) -> Cron:
    """Keep what `changed` makes of the owner's schedule, due when `following` says; raises `Missing`.

    Returns it as it is then: others may have changed it, too.
    """
    done = False
    while not done:
        told = await _told(storage, owner, cron_id)
        args: list[Argument] = [cron_id, told, _text(changed(_cron(told)))]
        done = bool(await _CHANGE(storage.redis, [keys.owned_crons(owner)], args))
    planned = b""
    # What somebody else made of it meanwhile may have been planned before this.
    while (told := await _told(storage, owner, cron_id)) != planned:
        cron, planned = _cron(told), told
        await _plan(storage, cron, following(cron))
    return cron


async def _plan(storage: Storage, cron: Cron, next_ms: int | None) -> None:
    if next_ms is None:
        await storage.redis.zrem(keys.CRONS_DUE, _entry(cron.owner, cron.id))
    else:
        await storage.redis.zadd(keys.CRONS_DUE, {_entry(cron.owner, cron.id): next_ms})


async def get(storage: Storage, owner: str, cron_id: str) -> Cron:
    """Return the owner's schedule; raises `Missing`."""
    return _cron(await _told(storage, owner, cron_id))


async def list_crons(storage: Storage, owner: str) -> list[Cron]:
    """Return all of the owner's schedules, in no order."""
    told = await storage.redis.hgetall(keys.owned_crons(owner))
    return [_cron(one) for one in told.values()]


async def delete(storage: Storage, cron: Cron) -> None:
    """Take a schedule away; twice is safe."""
    await storage.redis.zrem(keys.CRONS_DUE, _entry(cron.owner, cron.id))
    await storage.redis.hdel(keys.owned_crons(cron.owner), cron.id)


async def next_ms(storage: Storage, cron: Cron) -> int | None:
    """Return when the schedule is due next, in milliseconds of the epoch; None for never."""
    found: float | None = await storage.redis.zscore(keys.CRONS_DUE, _entry(cron.owner, cron.id))
    return None if found is None else int(found)


async def due(storage: Storage, now_ms: int, most: int = 100) -> list[Due]:
    """Return schedules that are due by then, the oldest first."""
    found = await storage.redis.zrange(
        keys.CRONS_DUE, "-inf", now_ms, byscore=True, offset=0, num=most, withscores=True
    )
    return [_due(entry, score) for entry, score in found]


async def reschedule(storage: Storage, fired: Due, following_ms: int | None) -> bool:
    """Make a schedule due at another time; return whether it was still due as `fired` says."""
    args: list[Argument] = [_entry(fired.owner, fired.id), fired.ms]
    then = "" if following_ms is None else following_ms
    return bool(await _MOVE(storage.redis, [keys.CRONS_DUE], [*args, then]))


async def _told(storage: Storage, owner: str, cron_id: str) -> bytes:
    told: bytes | None = await storage.redis.hget(keys.owned_crons(owner), cron_id)
    if told is None:
        raise Missing(f"there is no cron {cron_id[:255]!r}", remedy="check the id")
    return told


def _cron(told: bytes) -> Cron:
    return Cron(**json.loads(told))


def _text(cron: Cron) -> str:
    return json.dumps(asdict(cron))


def _due(entry: bytes, score: float) -> Due:
    owner, cron_id = json.loads(entry)
    return Due(owner, cron_id, int(score))


def _entry(owner: str, cron_id: str) -> str:
    return json.dumps([owner, cron_id])

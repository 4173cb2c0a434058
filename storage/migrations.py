"""The format of the stored data: its number, and the migrations from one to the next.

Every migration may meet data that it has migrated already: the process that began it may have been killed,
and processes of an older version may write beside it during a rolling upgrade. So each format's readers also
read what the format before wrote, and all migrations run whenever the data is older.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from callsheet.state.errors import Invalid
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.renamed_fields import RUN_FIELDS, THREAD_FIELDS
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall, execute, execute_all

FORMAT: Final = 2
"""The format that this version writes. Data without a number has format 1."""
_LEASE_S: Final = 15.0
"""Seconds for which a silent process keeps the others from migrating."""
_WAIT_S: Final = 0.2
_BATCH: Final = 200
"""Threads or runs that are read in one round trip."""
_log = logging.getLogger(__name__)

Renew = Callable[[], Awaitable[None]]

# Answers with the format, and takes or renews the lock if it is older.
_BEGIN: Final = Script.with_clock("""
local version, holder, until_ms = unpack(redis.call('HMGET', KEYS[1], 'version', 'holder', 'untilMs'))
version = tonumber(version or 1)
local now = tonumber(now_ms())
if version >= tonumber(ARGV[1]) then return {version, 'current'} end
if holder and holder ~= ARGV[2] and tonumber(until_ms) > now then return {version, 'held'} end
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'untilMs', string.format('%.0f', now + ARGV[3]))
return {version, 'yours'}
""")

_FINISH: Final = Script("""
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1])
return redis.call('HDEL', KEYS[1], 'holder', 'untilMs')
""")

# A name that both versions wrote has the newer one's value.
_RENAME: Final = Script("""
for i = 1, #ARGV, 2 do
  local value = redis.call('HGET', KEYS[1], ARGV[i])
  if value then
    redis.call('HSETNX', KEYS[1], ARGV[i + 1], value)
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return 1
""")


class _LockLost(Exception):
    """Another process has taken the lock: this one stood still for longer than its lease."""


async def read_format(storage: Storage) -> int | None:
    """Return the format of the data; None if no version with formats has used it."""
    version = await execute(storage.redis, "HGET", keys.DATA_FORMAT, "version")
    return int(version) if version else None


async def require_known(storage: Storage) -> None:
    """Raise `Invalid` for data of a newer version."""
    version = await read_format(storage)
    if version is not None and version > FORMAT:
        raise newer_format(storage, version)


def newer_format(storage: Storage, version: int) -> Invalid:
    """Return the refusal of data of a newer version."""
    return Invalid(
        f"{storage.origin} has data of format {version}, and this version reads formats up to {FORMAT}",
        remedy="Start the newer version again, or restore the backup from before its upgrade: "
        "docs/operations.md, Upgrades.",
    )


async def migrate(storage: Storage, lease_s: float = _LEASE_S) -> None:
    """Bring the data to `FORMAT`, or wait until another process has done it.

    A process that is silent for `lease_s` seconds is replaced. Raises `Invalid` for data of a newer version.
    Twice is safe, and so is a death in the middle.
    """
    lock, waits = _Lock(storage, uuid.uuid4().hex, int(lease_s * 1000)), False
    while True:
        version, state = await lock.begin()
        if version > FORMAT:
            raise newer_format(storage, version)
        if state == "current":
            return
        if state == "held":
            if not waits:
                _log.info("waiting for another process that migrates the data from format %d", version)
            waits = True
            await asyncio.sleep(_WAIT_S)
            continue
        try:
            for step in _MIGRATIONS:
                await step(storage, lock.renew)
            await lock.finish()
        except _LockLost:
            continue


@dataclass(frozen=True)
class _Lock:
    """The lock of the process that migrates."""

    storage: Storage
    token: str
    lease_ms: int

    async def begin(self) -> tuple[int, str]:
        """Take or renew the lock; return the format, and `yours`, `held` by another one, or `current`."""
        args: list[Argument] = [FORMAT, self.token, self.lease_ms]
        version, state = await _BEGIN(self.storage.redis, [keys.DATA_FORMAT], args)
        return version, state.decode()

    async def renew(self) -> None:
        """Renew the lock; raise `_LockLost` if another process has it, or is done."""
        _, state = await self.begin()
        if state != "yours":
            raise _LockLost

    async def finish(self) -> None:
        """Record that the data has the format, and end the lock, if this process has it."""
        await _FINISH(self.storage.redis, [keys.DATA_FORMAT], [FORMAT, self.token])


async def _rename_fields(storage: Storage, renew: Renew) -> None:
    """Give the fields of threads and runs their names of format 2."""
    names: list[str] = []
    async for name in storage.redis.scan_iter("thread:{*", count=1_000):
        names.append(name.decode())
        if len(names) == _BATCH:
            await _rename(storage, names)
            await renew()
            names = []
    await _rename(storage, names)


async def _rename(storage: Storage, names: Sequence[str]) -> None:
    calls = []
    for name in names:
        part = name.partition("}:")[2]
        fields = THREAD_FIELDS if part == "meta" else RUN_FIELDS if part.startswith("run:") else {}
        if fields:
            calls.append(ScriptCall(_RENAME, [name], [word for pair in fields.items() for word in pair]))
    if calls:
        await execute_all(storage.redis, calls)


async def _list_questions(storage: Storage, renew: Renew) -> None:
    """List the threads that wait for a person for their owners."""
    names: list[str] = []
    async for name, _ in storage.redis.zscan_iter(keys.thread_index().threads, count=_BATCH):
        names.append(name.decode())
        if len(names) == _BATCH:
            await _list_waiting(storage, names)
            await renew()
            names = []
    await _list_waiting(storage, names)


async def _list_waiting(storage: Storage, names: list[str]) -> None:
    pipeline = storage.redis.pipeline(transaction=False)
    for name in names:
        pipeline.hmget(keys.thread_meta(name), ["owner", "status", "interrupts", "stateUpdatedMs"])
    for name, (owner, status, interrupts, since) in zip(names, await pipeline.execute(), strict=True):
        if owner and status == b"interrupted" and json.loads(interrupts or b"{}"):
            await _add(storage, keys.waiting_threads(owner.decode()), name, int(since or 0))


async def _list_runs(storage: Storage, renew: Renew) -> None:
    """List the unfinished runs for their owners, and those that wait for their time for their threads."""
    members: list[bytes] = await execute(storage.redis, "ZRANGE", keys.open_runs(), 0, -1)
    remaining = iter(members)
    while batch := [member.decode() for member in islice(remaining, _BATCH)]:
        pipeline = storage.redis.pipeline(transaction=False)
        for member in batch:
            run, _, thread = member.partition("\0")
            pipeline.hmget(keys.run(thread, run), ["owner", "status", "createdMs", "dueMs"])
        for member, (owner, status, since, due) in zip(batch, await pipeline.execute(), strict=True):
            if owner and status in {b"pending", b"running"}:
                await _add(storage, keys.owned_runs(owner.decode()), member, int(since or 0))
            if status == b"pending" and int(due or 0):
                run, _, thread = member.partition("\0")
                await execute(storage.redis, "SADD", keys.later_runs(thread), run)
        await renew()


async def _add(storage: Storage, key: str, name: str, since_ms: int) -> None:
    await execute(storage.redis, "ZADD", key, "NX", since_ms, name)


async def _delete_unused(storage: Storage, renew: Renew) -> None:
    """Delete the key that no reader has any more."""
    await execute(storage.redis, "DEL", "callsheet:owners-listed")
    await renew()


_MIGRATIONS: Final = (_list_questions, _list_runs, _rename_fields, _delete_unused)

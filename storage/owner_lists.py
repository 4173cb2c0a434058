"""Lists by owner, filled with the questions and runs that versions without these lists have stored."""

import json
from itertools import islice
from typing import Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import execute

_BATCH: Final = 200
"""Threads or runs that are read in one round trip."""


async def fill_owner_lists(storage: Storage) -> None:
    """List what waits and what runs for its owner, once for a storage. Twice is safe."""
    if await execute(storage.redis, "EXISTS", keys.OWNERS_LISTED):
        return
    await _list_questions(storage)
    await _list_runs(storage)
    await execute(storage.redis, "SET", keys.OWNERS_LISTED, 1)


async def _list_questions(storage: Storage) -> None:
    names: list[str] = []
    async for name, _ in storage.redis.zscan_iter(keys.thread_index().threads, count=_BATCH):
        names.append(name.decode())
        if len(names) == _BATCH:
            await _list_waiting(storage, names)
            names = []
    await _list_waiting(storage, names)


async def _list_waiting(storage: Storage, names: list[str]) -> None:
    pipeline = storage.redis.pipeline(transaction=False)
    for name in names:
        pipeline.hmget(keys.thread_meta(name), ["owner", "status", "interrupts", "stateUpdatedMs"])
    for name, (owner, status, interrupts, since) in zip(names, await pipeline.execute(), strict=True):
        if owner and status == b"interrupted" and json.loads(interrupts or b"{}"):
            await _add(storage, keys.waiting_threads(owner.decode()), name, int(since or 0))


async def _list_runs(storage: Storage) -> None:
    members = iter(await execute(storage.redis, "ZRANGE", keys.open_runs(), 0, -1))
    while batch := [member.decode() for member in islice(members, _BATCH)]:
        pipeline = storage.redis.pipeline(transaction=False)
        for member in batch:
            run, _, thread = member.partition("\0")
            pipeline.hmget(keys.run(thread, run), ["owner", "status", "createdMs"])
        for member, (owner, status, since) in zip(batch, await pipeline.execute(), strict=True):
            if owner and status in {b"pending", b"running"}:
                await _add(storage, keys.owned_runs(owner.decode()), member, int(since or 0))


async def _add(storage: Storage, key: str, name: str, since_ms: int) -> None:
    await execute(storage.redis, "ZADD", key, "NX", since_ms, name)

"""What is known of every thread beside its checkpoints: made, read, changed, listed and taken away."""

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.state.errors import Busy, Conflict, Missing
from callsheet.storage import indexes
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, ScriptCall, hgetall
from callsheet.storage.runs import scripts as run_scripts
from callsheet.storage.runs.records import ThreadPrecondition

_NOW: Final = """
local t = redis.call('TIME')
local now = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
"""

# The token is the call's own: the same call once more, because its answer was lost, has made the thread.
_CREATE: Final = Script(
    _NOW
    + """
local before = redis.call('HMGET', KEYS[1], 'owner', 'token', 'createdMs')
if before[1] then return before[2] == ARGV[1] and before[3] or '' end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'owner', ARGV[2], 'graph', ARGV[3], 'metadata', ARGV[4],
  'ttl', ARGV[5], 'createdMs', now, 'updatedMs', now, 'stateUpdatedMs', now)
return now
"""
)

_CHANGE: Final = Script(
    _NOW
    + """
local before = redis.call('HMGET', KEYS[1], 'owner', 'metadata')
if before[1] ~= ARGV[1] then return -1 end
if (before[2] or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'metadata', ARGV[3], 'updatedMs', now)
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'graph', ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'ttl', ARGV[5]) end
return 1
"""
)

_EDITED: Final = Script(
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[1], 'interrupts', ARGV[2], 'updatedMs', now, 'stateUpdatedMs', now)
redis.call('HDEL', KEYS[1], 'error')
return 1
"""
)

# The token is the call's own: the same call once more, because its answer was lost, holds the thread.
_HOLD: Final = Script("""
local thread, lease, token = KEYS[1], KEYS[2], ARGV[3]
local owner, active = unpack(redis.call('HMGET', thread, 'owner', 'active'))
if owner ~= ARGV[1] then return -1 end
if redis.call('GET', lease) == token then return 1 end
if active or redis.call('EXISTS', lease) == 1 then return 0 end
redis.call('HINCRBY', thread, 'epoch', 1)
redis.call('SET', lease, token, 'PX', ARGV[2])
return 1
""")

_LET_GO: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
""")


@dataclass(frozen=True)
class ThreadRecord:
    """A thread as a whole."""

    id: str
    owner: str
    graph: str = ""
    """What runs on it; empty while that is open."""
    artefact: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    status: str = "idle"
    """`idle`, `busy`, `interrupted` or `error`."""
    error: Any = None
    interrupts: Mapping[str, Any] = field(default_factory=dict)
    """Questions to a person by task id, as on the wire."""
    created_ms: int = 0
    updated_ms: int = 0
    state_updated_ms: int = 0
    ttl: Mapping[str, Any] | None = None
    """`{"ttl": minutes, "strategy": "delete" | "keep_latest"}`, counted from the last change."""
    token: str = ""
    """That of the call that made it."""

    @property
    def lifetime_ms(self) -> int:
        """How long it stays after its last change; 0 where that is not limited."""
        return int(self.ttl["ttl"] * 60_000) if self.ttl else 0

    @property
    def expires_ms(self) -> int | None:
        """When its time is over, in milliseconds of the epoch; None for never."""
        return self.updated_ms + self.lifetime_ms if self.ttl else None

    @property
    def keeps_latest(self) -> bool:
        """Whether its newest state stays when its time is over."""
        return self.ttl is not None and self.ttl["strategy"] == "keep_latest"


@dataclass(frozen=True)
class NewThread:
    """A thread that is to be."""

    id: str
    owner: str
    graph: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ttl: Mapping[str, Any] | None = None
    fresh: bool = False
    """Whether the id was made up just now: nobody has it, and the list may be told without looking."""
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    """Tells the thread that this call made from one that was there."""


async def create(storage: Storage, new: NewThread, *, or_get: bool = False) -> ThreadRecord:
    """Make a thread and return it; `or_get` returns the owner's thread of this id where there is one.

    Raises `Conflict` for an id that is taken.
    """
    said = [json.dumps(new.metadata), json.dumps(new.ttl) if new.ttl else ""]
    words = [new.token, new.owner, new.graph, *said]
    asked = [ScriptCall(_CREATE, [keys.thread_meta(new.id)], words)]
    if new.fresh:
        asked.append(indexes.touch_thread_call(new.owner, new.id))
    made, *_ = await storage.redis.execute_batch(asked)
    if made:
        record = _new(new, int(made))
        await _listed(storage, record, there=new.fresh)
        return record
    found = await find(storage, new.id, new.owner) if or_get else None
    if found is None:
        raise Conflict(
            f"thread {new.id!r} is there already", remedy="use another id, or if_exists=do_nothing"
        )
    return found


async def get(storage: Storage, thread_id: str, owner: str) -> ThreadRecord:
    """Return the owner's thread; raises `Missing` when there is none, or it is another's."""
    found = await find(storage, thread_id, owner)
    if found is None:
        raise missing_thread(thread_id)
    return found


async def find(storage: Storage, thread_id: str, owner: str) -> ThreadRecord | None:
    """As `get`, with None for a thread that is not there."""
    told = await hgetall(storage.redis, keys.thread_meta(thread_id))
    return _record(thread_id, told, owner)


async def get_many(storage: Storage, thread_ids: Sequence[str], owner: str) -> list[ThreadRecord | None]:
    """Return the owner's threads of these ids, in their order."""
    if not thread_ids:
        return []
    pipeline = storage.redis.pipeline(transaction=False)
    for thread_id in thread_ids:
        pipeline.hgetall(keys.thread_meta(thread_id))
    told = await pipeline.execute()
    return [_record(one, found, owner) for one, found in zip(thread_ids, told, strict=True)]


async def list_newest(
    storage: Storage, owner: str, start: int, count: int, *, oldest_first: bool = False
) -> list[ThreadRecord]:
    """Return up to `count` of the owner's threads by their last change, from number `start` on.

    What the list has and storage does not is taken off the list; then there may be fewer, and a page that
    is empty is the end.
    """
    while True:
        names = await storage.redis.zrange(
            keys.owned_threads(owner), start, start + count - 1, desc=not oldest_first
        )
        ids = [name.decode() for name in names]
        found = await get_many(storage, ids, owner)
        gone = [one for one, record in zip(ids, found, strict=True) if record is None]
        if gone:
            await storage.redis.zrem(keys.owned_threads(owner), *gone)
        if not gone or len(gone) < len(ids):
            return [record for record in found if record is not None]


async def count(storage: Storage, owner: str) -> int:
    """Return how many threads the owner's list has."""
    return int(await storage.redis.zcard(keys.owned_threads(owner)))


async def update_metadata(
    storage: Storage, record: ThreadRecord, metadata: Mapping[str, Any], ttl: Mapping[str, Any] | None
) -> ThreadRecord:
    """Add to a thread's metadata, and set its lifetime if one is given; raises `Missing` as `get`."""
    while True:
        told = await storage.redis.hget(keys.thread_meta(record.id), "metadata")
        merged = {**(json.loads(told) if told else {}), **metadata}
        graph = "" if record.graph else str(merged.get("graph_id") or "")
        said = [json.dumps(merged), graph, json.dumps(ttl) if ttl else ""]
        done = await _CHANGE(storage.redis, [keys.thread_meta(record.id)], [record.owner, told or b"", *said])
        if done < 0:
            raise missing_thread(record.id)
        if done:
            found = await get(storage, record.id, record.owner)
            await _listed(storage, found)
            return found


def run_precondition(record: ThreadRecord, new: NewThread) -> ThreadPrecondition:
    """Return what a run expects of its thread, and makes of one that is of no graph: one of `new.graph`."""
    if record.graph and record.metadata.get("graph_id"):
        return ThreadPrecondition(record.owner, "", "", record.graph)
    merged = {**record.metadata, **new.metadata}
    return ThreadPrecondition(
        record.owner, json.dumps(record.metadata), json.dumps(merged), record.graph or new.graph
    )


async def record_edit(
    storage: Storage, record: ThreadRecord, status: str, interrupts: Mapping[str, Any]
) -> None:
    """Note that the thread's state was changed by hand, and how the thread stands now."""
    await _EDITED(storage.redis, [keys.thread_meta(record.id)], [status, json.dumps(interrupts)])
    await indexes.touch_thread(storage, record.owner, record.id)


@asynccontextmanager
async def hold(storage: Storage, thread_id: str, owner: str) -> AsyncIterator[None]:
    """Keep every run off the thread meanwhile; raises `Busy` where one is at it, and `Missing` as `get`."""
    names = keys.run_keys(thread_id)
    held_ms, token = int(keys.LEASE_S * 1000), str(uuid.uuid4())
    held: int = await _HOLD(storage.redis, [names.thread, names.lease], [owner, held_ms, token])
    if held < 0:
        raise missing_thread(thread_id)
    if not held:
        raise Busy(
            f"thread {thread_id!r} has a run that has not ended", remedy="cancel it or wait for its end"
        )
    try:
        yield
    finally:
        await _LET_GO(storage.redis, [names.lease], [token])


async def delete(storage: Storage, record: ThreadRecord) -> None:
    """Take away all of a thread but its checkpoints; to be called while it is `held`. Twice is safe."""
    # With the runs that were recorded while it was held.
    await run_scripts.REMOVE(storage.redis, keys.run_keys(record.id))
    await storage.redis.zrem(keys.owned_threads(record.owner), record.id)
    await storage.redis.zrem(keys.THREADS_EXPIRING, _entry(record))


async def copy(storage: Storage, record: ThreadRecord, new_id: str) -> ThreadRecord:
    """Return a new thread that is what `record` is; its checkpoints are the caller's to copy first."""
    new = NewThread(new_id, record.owner, record.graph, record.metadata, record.ttl)
    made = await create(storage, new)
    status = "idle" if record.status == "busy" else record.status
    await record_edit(storage, made, status, record.interrupts)
    return await get(storage, new_id, record.owner)


async def list_expired(storage: Storage, now_ms: int, most: int) -> list[ThreadRecord]:
    """Return threads whose time is over; one that changed meanwhile is put off until its new time."""
    due = await storage.redis.zrange(keys.THREADS_EXPIRING, "-inf", now_ms, byscore=True, offset=0, num=most)
    found = []
    for entry in due:
        owner, thread_id = json.loads(entry)
        record = await find(storage, thread_id, owner)
        if record is None or record.expires_ms is None:
            await storage.redis.zrem(keys.THREADS_EXPIRING, entry)
        elif record.expires_ms > now_ms:
            await storage.redis.zadd(keys.THREADS_EXPIRING, {entry: record.expires_ms})
        else:
            found.append(record)
    return found


async def postpone(storage: Storage, record: ThreadRecord, until_ms: int) -> None:
    """Look at a thread whose time is over again, not before `until_ms`."""
    await storage.redis.zadd(keys.THREADS_EXPIRING, {_entry(record): until_ms})


def missing_thread(thread_id: str) -> Missing:
    """Return the error for a thread that does not exist, or must look so."""
    return Missing(f"there is no thread {thread_id[:255]!r}", remedy="check the id, or make it first")


async def _listed(storage: Storage, record: ThreadRecord, *, there: bool = False) -> None:
    """Put a thread where it is looked for; `there` is whether it is at the head of its owner's list."""
    if not there:
        await indexes.touch_thread(storage, record.owner, record.id)
    if record.expires_ms is not None:
        await storage.redis.zadd(keys.THREADS_EXPIRING, {_entry(record): record.expires_ms})


def _new(new: NewThread, now_ms: int) -> ThreadRecord:
    return ThreadRecord(
        new.id,
        new.owner,
        new.graph,
        metadata=new.metadata,
        created_ms=now_ms,
        updated_ms=now_ms,
        state_updated_ms=now_ms,
        ttl=new.ttl,
        token=new.token,
    )


def _entry(record: ThreadRecord) -> str:
    return json.dumps([record.owner, record.id])


def _record(thread_id: str, told: Mapping[bytes, bytes], owner: str) -> ThreadRecord | None:
    if told.get(b"owner", b"").decode() != owner:
        return None
    text = {name.decode(): value.decode() for name, value in told.items()}
    created = int(text.get("createdMs", 0))
    return ThreadRecord(
        thread_id,
        owner,
        text.get("graph", ""),
        text.get("artefact", ""),
        _json(text, "metadata") or {},
        _json(text, "config") or {},
        text.get("status") or "idle",
        _json(text, "error"),
        _json(text, "interrupts") or {},
        created,
        int(text.get("updatedMs", created)),
        int(text.get("stateUpdatedMs", created)),
        _json(text, "ttl"),
        text.get("token", ""),
    )


def _json(text: Mapping[str, str], name: str) -> Any:
    return json.loads(text[name]) if text.get(name) else None

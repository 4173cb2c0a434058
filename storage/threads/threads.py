"""Threads: owner, graph, artefacts, status and metadata; everything except checkpoints and runs."""

import hmac
import json
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.state.errors import Busy, Conflict, Missing
from callsheet.storage import questions, thread_search
from callsheet.storage.assistants import default_id
from callsheet.storage.redis import caller_keys, keys, keyspace
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.leases import LEASE_MS, KeyLease
from callsheet.storage.redis.renamed_fields import THREAD_FIELDS, rename_function
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall, execute, hgetall
from callsheet.storage.runs import scripts as run_scripts
from callsheet.storage.runs.records import ThreadPrecondition, unfinished_import

_RENAME: Final = rename_function("rename_fields", THREAD_FIELDS)

# Repeatable: the token recognizes a call that is sent again because its reply was lost.
_CREATE: Final = Script.with_clock("""
local now = now_ms()
local before = redis.call('HMGET', KEYS[1], 'owner', 'token', 'createdMs')
if before[1] then return before[2] == ARGV[1] and before[3] or '' end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'owner', ARGV[2], 'graph', ARGV[3], 'metadata', ARGV[4],
  'ttl', ARGV[5], 'createdMs', now, 'updatedMs', now, 'stateUpdatedMs', now)
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'ownRun', ARGV[6]) end
return now
""")

_UPDATE_METADATA: Final = Script.with_clock("""
local now = now_ms()
local before = redis.call('HMGET', KEYS[1], 'owner', 'metadata', 'deleting', 'import')
if before[1] ~= ARGV[1] or before[3] then return -1 end
if before[4] then return -3 end
if (before[2] or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'metadata', ARGV[3], 'updatedMs', now)
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'graph', ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'ttl', ARGV[5]) end
return 1
""")

_RECORD_EDIT: Final = Script.with_clock("""
local now = now_ms()
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[1], 'interrupts', ARGV[2], 'updatedMs', now, 'stateUpdatedMs', now)
redis.call('HDEL', KEYS[1], 'error')
return 1
""")

# A full Redis refuses ZADD as a script's first write, and a thread that expires frees memory.
_POSTPONE: Final = Script("""
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
""")

# Repeatable in the same way. A thread that is being deleted takes no new runs, whatever becomes of the hold.
_HOLD: Final = Script("""
local thread, lease, token, deletes = KEYS[1], KEYS[2], ARGV[3], ARGV[4] == '1'
local owner, active, deleting, updated_ms =
  unpack(redis.call('HMGET', thread, 'owner', 'active', 'deleting', 'updatedMs'), 1, 4)
if owner ~= ARGV[1] then return -1 end
if redis.call('GET', lease) == token then return 1 end
if not deletes and redis.call('HEXISTS', thread, 'import') == 1 then return -3 end
local newest = redis.call('ZREVRANGE', KEYS[3], 0, 0)[1]
-- A run that was rolled back has no record.
if ARGV[5] ~= '' and newest and newest ~= ARGV[5] then return -4 end
if ARGV[6] ~= '' and updated_ms ~= ARGV[6] and not deleting then return -5 end
if redis.call('EXISTS', lease) == 1 then return deleting and -2 or 0 end
if active and not deleting then return 0 end
-- A full Redis refuses a script's first write only, and never a DEL: so deletions can free memory.
redis.call('DEL', lease)
redis.call('HINCRBY', thread, 'epoch', 1)
redis.call('SET', lease, token, 'PX', ARGV[2])
if deletes then redis.call('HSET', thread, 'deleting', 1) end
return 1
""")


# A thread created without a graph or an artefact takes those of its first run.
_BIND: Final = Script.with_clock("""
local now = now_ms()
local theirs = redis.call('HMGET', KEYS[1], 'owner', 'graph', 'artefact', 'deleting')
if theirs[4] then return {'', '', ''} end
if not theirs[1] then
  redis.call('HSET', KEYS[1], 'createdMs', now, 'updatedMs', now, 'stateUpdatedMs', now, 'metadata', ARGV[4],
    'token', ARGV[5])
end
for i, name in ipairs({'owner', 'graph', 'artefact'}) do
  if (not theirs[i] or theirs[i] == '') and (not theirs[1] or theirs[1] == ARGV[1]) then
    redis.call('HSET', KEYS[1], name, ARGV[i])
    theirs[i] = ARGV[i]
  end
end
return {theirs[1], theirs[2] or '', theirs[3] or ''}
""")

_UNBIND: Final = Script("""
local token, runs = unpack(redis.call('HMGET', KEYS[1], 'token', 'runs'), 1, 2)
if token ~= ARGV[1] or runs then return 0 end
return redis.call('UNLINK', KEYS[1])
""")

# Changes nothing if the thread does not exist here: a graph without a server keeps its threads elsewhere.
_LINK_ARTEFACT: Final = Script(
    _RENAME
    + """
rename_fields(KEYS[1])
local owner, about, others = unpack(redis.call('HMGET', KEYS[1], 'owner', 'artefact', 'otherArtefacts'))
if owner ~= ARGV[1] or about == ARGV[2] then return 0 end
if not about or about == '' then return redis.call('HSET', KEYS[1], 'artefact', ARGV[2]) end
local known = cjson.decode(others or '[]')
for _, name in ipairs(known) do if name == ARGV[2] then return 0 end end
known[#known + 1] = ARGV[2]
return redis.call('HSET', KEYS[1], 'otherArtefacts', cjson.encode(known))
"""
)

_UNLINK_ARTEFACT: Final = Script(
    _RENAME
    + """
rename_fields(KEYS[1])
local kept = {}
for _, name in ipairs(cjson.decode(redis.call('HGET', KEYS[1], 'otherArtefacts') or '[]')) do
  if name ~= ARGV[1] then kept[#kept + 1] = name end
end
if #kept == 0 then return redis.call('HDEL', KEYS[1], 'otherArtefacts') end
return redis.call('HSET', KEYS[1], 'otherArtefacts', cjson.encode(kept))
"""
)

_SECRET: Final = Script("""
local secret = redis.call('GET', KEYS[1])
if not secret then redis.call('SET', KEYS[1], ARGV[1]) end
return secret or ARGV[1]
""")


_BEING_DELETED: Final = -2
"""Answer of `_HOLD` while a deletion holds the thread."""
_UNFINISHED_IMPORT: Final = -3
"""Answer of `_HOLD` and `_UPDATE_METADATA` for a thread whose import has not ended."""
_NEWER_RUN: Final = -4
"""Answer of `_HOLD` for a thread that has another newest run."""
_USED_MEANWHILE: Final = -5
"""Answer of `_HOLD` for a thread that was changed since the caller has read it."""


@dataclass(frozen=True)
class Thread:
    """A thread; it need not exist yet."""

    id: str
    owner: str
    graph: str = ""
    """Graph of its latest run; empty until the first run."""
    artefact: str = ""
    """`kind:id` of the main artefact; empty until one is created."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    status: str = "idle"
    """`idle`, `busy`, `interrupted` or `error`."""
    error: Any = None
    interrupts: Mapping[str, Any] = field(default_factory=dict)
    """Open questions to a person by task id, as on the wire."""
    created_ms: int = 0
    updated_ms: int = 0
    state_updated_ms: int = 0
    ttl: Mapping[str, Any] | None = None
    """`{"ttl": minutes, "strategy": "delete" | "keep_latest"}`, counted from the last update."""
    token: str = ""
    """Token of the call that created it."""
    is_importing: bool = False
    """True until its import has written all of it."""

    @property
    def is_stored(self) -> bool:
        """True if it was read from storage."""
        return self.created_ms > 0

    @property
    def lifetime_ms(self) -> int:
        """Lifetime after the last update; 0 for no limit."""
        return int(self.ttl["ttl"] * 60_000) if self.ttl else 0

    @property
    def expires_ms(self) -> int | None:
        """Unix time of its expiry in milliseconds; None for never."""
        return self.updated_ms + self.lifetime_ms if self.ttl else None

    @property
    def keeps_latest(self) -> bool:
        """True if expiry keeps the newest state and deletes only the history."""
        return self.ttl is not None and self.ttl["strategy"] == "keep_latest"


@dataclass(frozen=True)
class NewThread:
    """A thread to create."""

    id: str
    owner: str
    graph: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ttl: Mapping[str, Any] | None = None
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    """Distinguishes the thread of this call from an existing one."""
    own_run: str = ""
    """Run with which the thread is deleted, if nobody uses it otherwise; empty for none."""


async def create(storage: Storage, new: NewThread, *, or_get: bool = False) -> Thread:
    """Create a thread and return it; with `or_get`, return the owner's existing thread of this id instead.

    Raises `Conflict` for an id in use.
    """
    ttl = json.dumps(new.ttl) if new.ttl else ""
    # First, so that a thread that exists expires. An entry without a thread is dropped when it is due.
    await schedule_expiry(storage, _new_record(new, int(time.time() * 1000)), only_new=True)
    args = [new.token, new.owner, new.graph, json.dumps(new.metadata), ttl, new.own_run]
    call = ScriptCall(_CREATE, [keys.thread_meta(new.id)], args)
    created_ms = await thread_search.write_announced(storage.redis, new.owner, new.id, call)
    if created_ms:
        record = _new_record(new, int(created_ms))
        await schedule_expiry(storage, record)
        return record
    existing = await find(storage, new.id, new.owner) if or_get else None
    if existing is None:
        raise Conflict(f"thread {new.id!r} exists already", remedy="use another id, or if_exists=do_nothing")
    return existing


async def bind(storage: Storage, thread: Thread) -> str:
    """Create the thread, or check that the existing one has the same owner, graph and artefact.

    Return a token with which `unbind` undoes it. Raises `Missing` for a thread of another owner or artefact,
    which must be indistinguishable from one that does not exist, and for one that is being deleted;
    `Conflict` for one with another graph.
    """
    metadata = json.dumps({"graph_id": thread.graph, "assistant_id": default_id(thread.graph)})
    token = str(uuid.uuid4())
    args = [thread.owner, thread.graph, thread.artefact, metadata, token]
    call = ScriptCall(_BIND, [keys.thread_meta(thread.id)], args)
    answer: list[bytes] = await thread_search.write_announced(storage.redis, thread.owner, thread.id, call)
    owner, graph, artefact = (part.decode() for part in answer)
    if owner != thread.owner or (artefact != thread.artefact and graph == thread.graph):
        raise missing_thread(thread.id)
    if graph != thread.graph:
        raise Conflict(
            f"thread {thread.id!r} runs {graph!r}, not {thread.graph!r}",
            remedy="use another conversation id",
        )
    return token


async def unbind(storage: Storage, thread: Thread, token: str) -> None:
    """Delete a thread that the `bind` of this token has created, unless it has runs. Twice is safe."""
    call = ScriptCall(_UNBIND, [keys.thread_meta(thread.id)], [token])
    await thread_search.write_announced(storage.redis, thread.owner, thread.id, call)


def link_artefact_call(thread_id: str, owner: str, artefact: str) -> ScriptCall:
    """Return the script that links an artefact to the owner's thread; the first becomes its main artefact."""
    return ScriptCall(_LINK_ARTEFACT, [keys.thread_meta(thread_id)], [owner, artefact])


async def artefacts_of(storage: Storage, thread_id: str) -> list[str]:
    """Return `kind:id` of all artefacts created on a thread, the main one first."""
    fields = ["artefact", "otherArtefacts", "also"]
    main, others, former = await storage.redis.hmget(keys.thread_meta(thread_id), fields)
    return [name for name in (main.decode() if main else "", *json.loads(others or former or "[]")) if name]


async def get(storage: Storage, thread_id: str, owner: str) -> Thread:
    """Return the owner's thread; raises `Missing` if it does not exist or belongs to someone else."""
    record = await find(storage, thread_id, owner)
    if record is None:
        raise missing_thread(thread_id)
    return record


async def find(storage: Storage, thread_id: str, owner: str) -> Thread | None:
    """Return the owner's thread, or None if it does not exist or belongs to someone else."""
    return _record(thread_id, await hgetall(storage.redis, keys.thread_meta(thread_id)), owner)


async def find_of_run(storage: Storage, thread_id: str, run: str) -> Thread | None:
    """Return the thread if it was made for this run, whoever owns it."""
    fields = await hgetall(storage.redis, keys.thread_meta(thread_id))
    is_own = fields.get(b"ownRun", b"").decode() == run
    return _record(thread_id, fields, fields.get(b"owner", b"").decode()) if is_own else None


async def get_many(storage: Storage, thread_ids: Sequence[str], owner: str) -> list[Thread | None]:
    """Return the owner's threads with these ids, in this order."""
    if not thread_ids:
        return []
    pipeline = storage.redis.pipeline(transaction=False)
    for thread_id in thread_ids:
        pipeline.hgetall(keys.thread_meta(thread_id))
    replies = await pipeline.execute()
    return [_record(thread_id, fields, owner) for thread_id, fields in zip(thread_ids, replies, strict=True)]


async def list_newest(
    storage: Storage, owner: str, start: int, count: int, *, oldest_first: bool = False
) -> list[Thread]:
    """Return up to `count` of the owner's threads by last update, from index `start` on.

    The first page sees every change that was answered before. Ids without a thread are removed from the
    list, so a page may be shorter; only the end is empty.
    """
    if not start:
        await thread_search.refresh(storage.redis, owner)
    while True:
        members = await storage.redis.zrange(
            keys.owned_threads(owner), start, start + count - 1, desc=not oldest_first
        )
        ids = [member.decode() for member in members]
        records = await existing(storage, ids, owner)
        if records or not ids:
            return records


async def existing(storage: Storage, thread_ids: Sequence[str], owner: str) -> list[Thread]:
    """Return those of the owner's threads that exist, in this order; the others leave the index."""
    records = await get_many(storage, thread_ids, owner)
    missing = [thread_id for thread_id, record in zip(thread_ids, records, strict=True) if record is None]
    await thread_search.enter(storage.redis, owner, missing)
    return [record for record in records if record is not None]


async def count(storage: Storage, owner: str) -> int:
    """Return the number of the owner's threads."""
    await thread_search.refresh(storage.redis, owner)
    return int(await storage.redis.zcard(keys.owned_threads(owner)))


async def update_metadata(
    storage: Storage,
    record: Thread,
    metadata: Mapping[str, Any],
    ttl: Mapping[str, Any] | None,
    moves_to: str = "",
) -> Thread:
    """Merge `metadata` into the thread's metadata and set `ttl` if given.

    Raises `Missing` as `get`, and `Conflict` for a thread whose import has not ended: it would replace both.
    `moves_to` is another graph for the thread, which the caller holds.
    """
    key = keys.thread_meta(record.id)
    while True:
        before = await storage.redis.hget(key, "metadata")
        merged = {**(json.loads(before) if before else {}), **metadata}
        named = merged.get("graph_id")
        graph = moves_to if record.graph else named if isinstance(named, str) else ""
        args = [record.owner, before or b"", json.dumps(merged), graph, json.dumps(ttl) if ttl else ""]
        call = ScriptCall(_UPDATE_METADATA, [key], args)
        result = await thread_search.write_announced(storage.redis, record.owner, record.id, call)
        if result == _UNFINISHED_IMPORT:
            raise unfinished_import(record.id)
        if result < 0:
            raise missing_thread(record.id)
        if result:
            updated = await get(storage, record.id, record.owner)
            await schedule_expiry(storage, updated)
            return updated


def run_precondition(record: Thread, new: NewThread) -> ThreadPrecondition:
    """Return the precondition of a run; it gives a thread of no, or another, graph those of `new`."""
    if record.graph == new.graph and record.metadata.get("graph_id"):
        return ThreadPrecondition(record.owner, "", "", record.graph)
    merged = {**record.metadata, **new.metadata}
    replaced = "" if record.graph == new.graph else record.graph
    return ThreadPrecondition(
        record.owner, json.dumps(record.metadata), json.dumps(merged), new.graph, replaced
    )


async def record_edit(storage: Storage, record: Thread, status: str, interrupts: Mapping[str, Any]) -> None:
    """Store the thread's status and interrupts after a manual state update."""
    if interrupts:
        await questions.note_waiting(storage, record.owner, record.id)
    call = ScriptCall(_RECORD_EDIT, [keys.thread_meta(record.id)], [status, json.dumps(interrupts)])
    await thread_search.write_announced(storage.redis, record.owner, record.id, call)


@asynccontextmanager
async def hold(
    storage: Storage,
    thread_id: str,
    owner: str,
    *,
    deletes: bool = False,
    newest_run: str = "",
    updated_ms: int | None = None,
) -> AsyncIterator[None]:
    """Keep runs from starting on the thread, for as long as it takes.

    With `deletes` the thread also refuses runs and changes from then on, even after a crash: only a deletion
    ends that. Raises `Busy` while a run is active or a deletion is at work, `Missing` as `get`, and
    `Conflict` for a thread whose import has not ended, unless it deletes, or whose newest run is another one
    than `newest_run`, if one is named, or that was changed after `updated_ms`.
    """
    run_keys = keys.run_keys(thread_id)
    lease = KeyLease(storage, run_keys.lease)
    since = "" if updated_ms is None else updated_ms
    args: list[Argument] = [owner, LEASE_MS, lease.token, int(deletes), newest_run, since]
    result: int = await _HOLD(storage.redis, [run_keys.thread, run_keys.lease, run_keys.runs], args)
    if result == _BEING_DELETED:
        raise Busy(
            f"thread {thread_id!r} is being deleted",
            remedy=f"wait until it is; if its server has stopped, repeat it after {keys.RUN_LEASE_S:g} s",
        )
    if result == _UNFINISHED_IMPORT:
        raise unfinished_import(thread_id)
    if result == _NEWER_RUN:
        raise Conflict(f"thread {thread_id!r} has a newer run", remedy="read the thread again")
    if result == _USED_MEANWHILE:
        raise Conflict(f"thread {thread_id!r} was used meanwhile", remedy="read the thread again")
    if result < 0:
        raise missing_thread(thread_id)
    if not result:
        raise Busy(f"thread {thread_id!r} has an unfinished run", remedy="cancel it, or wait until it ends")
    async with lease.keep():
        yield


async def delete(storage: Storage, record: Thread) -> None:
    """Delete a thread and its runs, but not its checkpoints; call it under a `hold` that deletes.

    Twice is safe.
    """
    await _unlist_runs(storage, record)
    # Also deletes runs that were created during the hold.
    removal = ScriptCall(run_scripts.REMOVE, keys.run_keys(record.id))
    while await thread_search.write_announced(storage.redis, record.owner, record.id, removal):
        pass
    await thread_search.enter_announced(storage.redis, record.owner)
    await questions.forget_thread(storage, record.owner, record.id)
    await storage.redis.zrem(keys.THREADS_EXPIRING, _expiry_member(record))


async def _unlist_runs(storage: Storage, record: Thread) -> None:
    """Remove the thread's unfinished runs from the lists of all: some may wait for their time."""
    for run in await run_scripts.UNFINISHED(storage.redis, keys.run_keys(record.id)):
        for key in (keys.owned_runs(record.owner), keys.open_runs()):
            await storage.redis.zrem(key, b"%s\0%s" % (run, record.id.encode()))


async def erase(storage: Storage, record: Thread) -> None:
    """Delete a thread as `delete` does, with consents, idempotency keys and its use of models."""
    await _unlist_runs(storage, record)
    # The record, its index and the hold go last, with `delete`.
    await keyspace.delete_below(storage, keys.thread_stem(record.id), kept=keys.run_keys(record.id))
    await execute(storage.redis, "UNLINK", keys.usage_of_thread(record.owner, record.id))
    await delete(storage, record)


async def unlink_artefact(storage: Storage, thread_id: str, artefact: str) -> None:
    """Remove an artefact from those that a thread has created beside its main one. Twice is safe."""
    await _UNLINK_ARTEFACT(storage.redis, [keys.thread_meta(thread_id)], [artefact])


async def copy(storage: Storage, record: Thread, new_id: str) -> Thread:
    """Return a new thread with the contents of `record`; the caller copies the checkpoints first."""
    created = await create(
        storage, NewThread(new_id, record.owner, record.graph, record.metadata, record.ttl)
    )
    status = "idle" if record.status == "busy" else record.status
    await record_edit(storage, created, status, record.interrupts)
    return await get(storage, new_id, record.owner)


async def list_expired(storage: Storage, now_ms: int, limit: int) -> list[Thread]:
    """Return up to `limit` expired threads; one that was updated meanwhile is rescheduled instead."""
    due = await storage.redis.zrange(keys.THREADS_EXPIRING, "-inf", now_ms, byscore=True, offset=0, num=limit)
    expired = []
    for member in due:
        owner, thread_id = json.loads(member)
        record = await find(storage, thread_id, owner)
        if record is None or record.expires_ms is None:
            await storage.redis.zrem(keys.THREADS_EXPIRING, member)
        elif record.expires_ms > now_ms:
            await storage.redis.zadd(keys.THREADS_EXPIRING, {member: record.expires_ms})
        else:
            expired.append(record)
    return expired


async def postpone(storage: Storage, record: Thread, until_ms: int) -> None:
    """Return an expired thread from `list_expired` again only after `until_ms`."""
    await _POSTPONE(storage.redis, [keys.THREADS_EXPIRING], [_expiry_member(record), until_ms])


async def derived_id(storage: Storage, owner: str, name: str) -> str:
    """Return an id, always the same, for the owner's thread of this name: an artefact `kind:id`, a request.

    It depends on a secret of the storage, so that nobody else can create a thread with this id first.
    """
    secret: bytes = await _SECRET(storage.redis, [caller_keys.THREAD_ID_SEED], [secrets.token_hex(32)])
    digest = hmac.digest(secret, json.dumps([owner, name]).encode(), "sha256")
    return str(uuid.UUID(bytes=digest[:16], version=4))


async def has_owner(storage: Storage, thread_id: str) -> bool:
    """Return whether a thread of this id belongs to anybody; the first run of a new one may come before."""
    return bool(await execute(storage.redis, "HEXISTS", keys.thread_meta(thread_id), "owner"))


async def belongs_to(storage: Storage, thread_id: str, owner: str) -> bool:
    """Return whether the thread exists and is the owner's."""
    its_owner: bytes | None = await execute(storage.redis, "HGET", keys.thread_meta(thread_id), "owner")
    return its_owner is not None and its_owner.decode() == owner


async def exists(storage: Storage, thread_id: str) -> bool:
    """Return whether a thread has this id, whoever owns it."""
    return bool(await execute(storage.redis, "EXISTS", keys.thread_meta(thread_id)))


def missing_thread(thread_id: str) -> Missing:
    """Return the error for a thread that does not exist or is not the caller's."""
    return Missing(f"there is no thread {thread_id[:255]!r}", remedy="check the id, or start a new one")


async def schedule_expiry(storage: Storage, record: Thread, *, only_new: bool = False) -> None:
    """List the thread among those that expire, if it does; `only_new` keeps a known time. Twice is safe."""
    if record.expires_ms is not None:
        entry = {_expiry_member(record): record.expires_ms}
        await storage.redis.zadd(keys.THREADS_EXPIRING, entry, nx=only_new)


def _new_record(new: NewThread, now_ms: int) -> Thread:
    return Thread(
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


def _expiry_member(record: Thread) -> str:
    return json.dumps([record.owner, record.id])


def _record(thread_id: str, fields: Mapping[bytes, bytes], owner: str) -> Thread | None:
    if fields.get(b"owner", b"").decode() != owner:
        return None
    text = {name.decode(): value.decode() for name, value in fields.items()}
    created_ms = int(text.get("createdMs", 0))
    return Thread(
        thread_id,
        owner,
        text.get("graph", ""),
        text.get("artefact", ""),
        _json(text, "metadata") or {},
        _json(text, "config") or {},
        text.get("status") or "idle",
        _json(text, "error"),
        _json(text, "interrupts") or {},
        created_ms,
        int(text.get("updatedMs", created_ms)),
        int(text.get("stateUpdatedMs", created_ms)),
        _json(text, "ttl"),
        text.get("token", ""),
        "import" in text,
    )


def _json(text: Mapping[str, str], name: str) -> Any:
    return json.loads(text[name]) if text.get(name) else None

"""Import of a thread from a file: all of it or nothing, and never over existing data."""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata

from callsheet.state.errors import Busy, Conflict, Fenced, Unavailable
from callsheet.state.live_plan import PlanRules
from callsheet.storage import consents, indexes, questions, thread_search
from callsheet.storage.archive.file import (
    ArtefactEntry,
    CheckpointEntry,
    ExecutionLine,
    OriginLine,
    ThreadFile,
)
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.files import FileRecord
from callsheet.storage.artefacts.plans import encode_place, lifetime_s
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, Script, ScriptCall, execute, execute_all
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video.context import ContextEntry, field_name

_UNFINISHED: Final = '{"error": "ImportUnfinished", "message": "the import of this thread was interrupted"}'
"""Error of a thread until its import is complete."""

# Replaces only what this import has left and nobody has changed: one that was cut goes on under its name,
# with a later epoch. The mark also has the time and the number of locks that the artefact was written with.
_WRITE_ARTEFACT: Final = Script("""
local meta, receipts = KEYS[1], KEYS[2]
local owner, thread, import, epoch = unpack(ARGV, 1, 4)
local function stamp()
  local changes = redis.call('HMGET', meta, 'updatedMs', 'locks')
  return (changes[1] or '') .. '/' .. (changes[2] or '')
end
local before = redis.call('HMGET', meta, 'owner', 'importing')
if before[1] then
  local name, last, written = string.match(before[2] or '', '^([^:]*):?(%d*):?(.*)$')
  if before[1] ~= owner or name ~= import or (tonumber(last) or 0) > tonumber(epoch) then return 0 end
  if written ~= '' and written ~= stamp() then return -1 end
end
for i = 1, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('HSET', meta, 'owner', owner, 'thread', thread)
local i = 5
while i <= #ARGV do
  local verb, key = ARGV[i], KEYS[tonumber(ARGV[i + 1])]
  if verb == 'HSET' or verb == 'ZADD' then redis.call(verb, key, ARGV[i + 2], ARGV[i + 3])
  else redis.call(verb, key, ARGV[i + 2]) end
  i = i + 4
end
redis.call('HSET', meta, 'importing', import .. ':' .. epoch .. ':' .. stamp())
return 1
""")

# Repeatable: the token recognizes a call that is sent again because its reply was lost.
_RESERVE: Final = Script("""
local meta, lease = KEYS[1], KEYS[2]
local before = redis.call('HMGET', meta, 'owner', 'error', 'token', 'epoch', 'import')
if before[3] == ARGV[2] then return {before[4], before[5]} end
if before[1] then
  if before[1] ~= ARGV[1] or before[2] ~= ARGV[3] then return false end
  if redis.call('EXISTS', lease) == 1 then return 0 end
end
local epoch, import = (before[4] or 0) + 1, before[5] or ARGV[2]
redis.call('DEL', meta)
redis.call('HSET', meta, 'owner', ARGV[1], 'token', ARGV[2], 'epoch', epoch, 'import', import)
redis.call('HSET', meta, 'status', 'error', 'error', ARGV[3])
redis.call('SET', lease, epoch, 'PX', ARGV[4])
return {tostring(epoch), import}
""")

_RENEW_LEASE: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")

_PUBLISH: Final = Script.with_clock("""
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  -- A call that is sent again because its reply was lost finds its own thread complete.
  local token, error = unpack(redis.call('HMGET', KEYS[1], 'token', 'error'))
  return token == ARGV[2] and error ~= ARGV[3] and 1 or 0
end
local now = now_ms()
redis.call('HDEL', KEYS[1], 'error', 'import')
redis.call('HSET', KEYS[1], 'updatedMs', now, 'stateUpdatedMs', now)
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('DEL', KEYS[2])
return 1
""")


@dataclass(frozen=True)
class _Hold:
    """Exclusive hold of an import on its thread."""

    thread: str
    owner: str
    token: str
    epoch: str
    name: str
    """Name of the import, which it keeps over all attempts until the thread is complete."""

    def has(self, meta: Mapping[str, str]) -> bool:
        """Return whether this import, and no later attempt or person, has written the artefact last."""
        name, epoch, written = (*meta.get("importing", "").split(":", 2), "", "")[:3]
        is_own = (meta.get("owner"), name) == (self.owner, self.name) and int(epoch or 0) <= int(self.epoch)
        return is_own and written in {"", f"{meta.get('updatedMs', '')}/{meta.get('locks', '')}"}


class Importer:
    """Writer of threads that were read from files."""

    def __init__(
        self,
        storage: Storage,
        saver: BaseCheckpointSaver[int],
        rules_of: Callable[[str], PlanRules],
    ) -> None:
        """`rules_of` returns the rules of plans for a kind of artefact."""
        self._storage = storage
        self._saver = saver
        self._rules_of = rules_of

    async def existing(self, file: ThreadFile, owner: str) -> list[str]:
        """Return the thread, artefacts and executions of the file that exist, each in words."""
        names = [f"thread {file.thread.id!r}"]
        commands = [Command(("EXISTS", keys.thread_meta(file.thread.id)))]
        for entry in file.artefacts:
            kind, name = entry.artefact.kind, entry.artefact.id
            names.append(f"{kind} {name!r}")
            stored = Artefact(self._storage, kind, name, owner).stored_id
            commands.append(Command(("EXISTS", keys.artefact_meta(kind, stored))))
            for execution in (line.record["id"] for line in entry.executions):
                names.append(f"execution {execution!r}")
                commands.append(Command(("EXISTS", keys.execution_place(owner, execution))))
        counts = await execute_all(self._storage.redis, commands)
        return [name for name, count in zip(names, counts, strict=True) if count]

    async def import_thread(self, file: ThreadFile, owner: str, *, keeps_thread: bool = True) -> Thread:
        """Write the thread and its artefacts for `owner` and return the thread's record.

        Without `keeps_thread` the thread is never complete, and is deleted at the end. Raises `Conflict` when
        the thread or an artefact exists. After an error everything written is removed; the next import
        overwrites what a crash has left.
        """
        hold = await self._reserve(file.thread.id, owner)
        try:
            await self._write(file, hold)
            if keeps_thread:
                await self._publish(file, hold)
        except BaseException:
            # If the removal fails too, the thread keeps the error "ImportUnfinished".
            with suppress(Unavailable, Fenced):
                await self._roll_back(file, hold)
            raise
        if keeps_thread:
            return await self._finish(file, await threads.get(self._storage, hold.thread, owner))
        await self._drop_marks(file, owner)
        return await self._delete_thread(hold)

    async def resume(self, file: ThreadFile, owner: str, *, keeps_thread: bool) -> Thread | None:
        """Return the thread if an earlier import has completed it, and do what that may have left to do.

        None for what does not exist, whose import was cut, or what somebody has made under its id since:
        `import_thread` replaces it or refuses. A conversation about an artefact that came without one stays.
        Raises `Conflict` for one that is being deleted.
        """
        record = await threads.find(self._storage, file.thread.id, owner)
        is_live = record is not None and record.error != json.loads(_UNFINISHED)
        if keeps_thread:
            is_own = record and is_live and record.created_ms == file.thread.createdMs
            return await self._finish(file, record) if record and is_own else None
        for entry in file.artefacts:
            meta = await self._meta(entry, owner)
            is_own = meta.get("createdMs") == entry.artefact.facts.get("createdMs")
            if not (meta and is_own) or ("importing" in meta and not is_live):
                return None
        if record and not is_live:
            return await self._delete_thread(await self._reserve(record.id, owner))
        await self._drop_marks(file, owner)
        return record or Thread(file.thread.id, owner)

    async def _meta(self, entry: ArtefactEntry, owner: str) -> dict[str, str]:
        """Return the record of an artefact; raise `Conflict` for one that is being deleted."""
        artefact = Artefact(self._storage, entry.artefact.kind, entry.artefact.id, owner)
        meta = await artefact.meta()
        if "deleting" in meta:
            raise Conflict(
                f"{artefact.kind} {artefact.id!r} is being deleted",
                remedy="delete it once more: what is left of it is lost; then import the file again",
            )
        return meta

    async def _finish(self, file: ThreadFile, record: Thread) -> Thread:
        """End the import of a complete thread, and return its record. Twice is safe."""
        await self._drop_marks(file, record.owner)
        await threads.schedule_expiry(self._storage, record)
        return record

    async def _drop_marks(self, file: ThreadFile, owner: str) -> None:
        """Mark the thread's artefacts as complete. Twice is safe."""
        for entry in file.artefacts:
            artefact = Artefact(self._storage, entry.artefact.kind, entry.artefact.id, owner)
            meta = await artefact.meta()
            if meta.get("thread") == file.thread.id and "importing" in meta:
                await artefact.drop_facts(["importing"])

    async def _delete_thread(self, hold: _Hold) -> Thread:
        """Delete a thread that only stood for the import of an artefact, and return its record."""
        await self._renew_lease(hold)
        await self._saver.adelete_thread(hold.thread)
        record = Thread(hold.thread, hold.owner)
        await threads.delete(self._storage, record)
        return record

    async def _reserve(self, thread: str, owner: str) -> _Hold:
        token = uuid.uuid4().hex
        run_keys = keys.run_keys(thread)
        reserved: list[bytes] | int | None = await _RESERVE(
            self._storage.redis,
            [run_keys.thread, run_keys.lease],
            [owner, token, _UNFINISHED, int(keys.RUN_LEASE_S * 1000)],
        )
        if reserved is None:
            raise Conflict(f"thread {thread!r} exists already", remedy="import it under another id")
        if not reserved:
            refusal = Busy(
                f"an import of thread {thread!r} is at work",
                remedy=f"wait until it ends; if it was cut, import it again after {keys.RUN_LEASE_S:g} s",
            )
            refusal.retry_after_s = keys.RUN_LEASE_S
            raise refusal
        epoch, name = cast("list[bytes]", reserved)
        return _Hold(thread, owner, token, epoch.decode(), name.decode())

    async def _renew_lease(self, hold: _Hold) -> None:
        args: list[Argument] = [hold.epoch, int(keys.RUN_LEASE_S * 1000)]
        if not await _RENEW_LEASE(self._storage.redis, [keys.run_keys(hold.thread).lease], args):
            raise Fenced(f"the import of thread {hold.thread!r} stalled, and another one took over")

    async def _write_places(self, entry: ArtefactEntry, hold: _Hold) -> None:
        """Record the artefact of each execution; raise `Conflict` for one that another artefact has."""
        for line in entry.executions:
            key, place = _place(entry, line, hold)
            lifetime = lifetime_s(line.record, kept=self._rules_of(entry.artefact.kind).kept)
            expiry: tuple[Argument, ...] = ("EX", lifetime) if lifetime else ()
            known = await execute(self._storage.redis, "SET", key, place, "NX", "GET", *expiry)
            if known not in {None, place.encode()}:
                raise Conflict(
                    f"execution {line.record['id']!r} exists already, of another {entry.artefact.kind}",
                    remedy="import the thread under another id",
                )

    async def _write(self, file: ThreadFile, hold: _Hold) -> None:
        for entry in file.artefacts:
            await self._write_artefact(entry, hold)
            await self._write_places(entry, hold)
        # An earlier attempt that crashed may have left checkpoints; a later one may be complete by now.
        await self._renew_lease(hold)
        await self._saver.adelete_thread(hold.thread)
        written: set[tuple[str, str, Any]] = set()
        for checkpoint in file.checkpoints:
            await self._renew_lease(hold)
            await self._write_checkpoint(hold.thread, checkpoint, written)
        calls = [call for entry in file.artefacts for line in entry.executions for call in line.consents]
        await consents.grant(self._storage, hold.thread, calls)
        # In reverse, so that the main artefact is the first of its owner's list.
        for entry in reversed(file.artefacts):
            await indexes.touch(self._storage, hold.owner, entry.artefact.kind, entry.artefact.id)

    async def _publish(self, file: ThreadFile, hold: _Hold) -> None:
        """Make the thread complete."""
        fields = [text for pair in _thread_fields(file).items() for text in pair]
        names = [keys.thread_meta(hold.thread), keys.run_keys(hold.thread).lease]
        if file.thread.interrupts:
            await questions.note_waiting(self._storage, hold.owner, hold.thread)
        if file.thread.ttl:
            # First, so that a thread that is complete expires.
            lifetime, now_ms = file.thread.ttl.model_dump(), int(time.time() * 1000)
            record = Thread(hold.thread, hold.owner, updated_ms=now_ms, ttl=lifetime)
            await threads.schedule_expiry(self._storage, record, only_new=True)
        publication = ScriptCall(_PUBLISH, names, [hold.epoch, hold.token, _UNFINISHED, *fields])
        redis, thread = self._storage.redis, hold.thread
        if not await thread_search.write_announced(redis, hold.owner, thread, publication):
            raise Fenced(f"another import took over thread {hold.thread!r} at the end")

    def _artefact(self, entry: ArtefactEntry, hold: _Hold) -> Artefact:
        return Artefact(self._storage, entry.artefact.kind, entry.artefact.id, hold.owner)

    async def _write_artefact(self, entry: ArtefactEntry, hold: _Hold) -> None:
        artefact = self._artefact(entry, hold)
        names, effects = _artefact_effects(entry, artefact.stored_id, self._rules_of(artefact.kind))
        args = [hold.owner, hold.thread, hold.name, hold.epoch, *effects]
        written: int = await _WRITE_ARTEFACT(self._storage.redis, names, args)
        if written < 0:
            raise Conflict(
                f"{artefact.kind} {artefact.id!r} was changed after its import was cut",
                remedy="keep it; the file can be imported again once it is deleted, and its changes lost",
            )
        if not written:
            raise Conflict(
                f"{artefact.kind} {artefact.id!r} exists already", remedy="import the thread under another id"
            )
        max_bytes = sum(line.size for line, _ in entry.files)
        for line, data in entry.files:
            await self._renew_lease(hold)
            record = FileRecord(name=line.name, type=line.type, size=line.size, sha256=line.sha256)
            await files.store(self._storage, artefact, line.id, files.split(data), record, max_bytes)

    async def _write_checkpoint(
        self, thread: str, entry: CheckpointEntry, written: set[tuple[str, str, Any]]
    ) -> None:
        """Write one checkpoint with only those channel versions that are not in `written`, and add them."""
        configurable: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": entry.namespace}
        if entry.parent:
            configurable["checkpoint_id"] = entry.parent
        new_versions = {
            channel: version
            for channel, version in entry.checkpoint["channel_versions"].items()
            if (entry.namespace, channel, version) not in written
        }
        written |= {(entry.namespace, channel, version) for channel, version in new_versions.items()}
        config = await self._saver.aput(
            cast("RunnableConfig", {"configurable": configurable}),
            cast("Checkpoint", entry.checkpoint),
            cast("CheckpointMetadata", entry.metadata),
            new_versions,
        )
        for number, (task, group) in enumerate(groupby(entry.writes, key=lambda write: write[0])):
            # The task path only orders the tasks. A saver does not return it, but keeps the order.
            writes = [(channel, value) for _, channel, value in group]
            await self._saver.aput_writes(config, writes, task, f"{number:06d}")

    async def _roll_back(self, file: ThreadFile, hold: _Hold) -> None:
        await self._renew_lease(hold)
        await self._saver.adelete_thread(hold.thread)
        for entry in file.artefacts:
            artefact = self._artefact(entry, hold)
            if hold.has(await artefact.meta()):
                names, _ = _artefact_effects(entry, artefact.stored_id, self._rules_of(artefact.kind))
                await self._delete_places(entry, hold)
                await self._storage.redis.delete(*names)
                await indexes.remove(self._storage, hold.owner, artefact.kind, artefact.id)
        await threads.delete(self._storage, Thread(hold.thread, hold.owner))

    async def _delete_places(self, entry: ArtefactEntry, hold: _Hold) -> None:
        for key, place in (_place(entry, line, hold) for line in entry.executions):
            if await execute(self._storage.redis, "GET", key) == place.encode():
                await execute(self._storage.redis, "UNLINK", key)


def _thread_fields(file: ThreadFile) -> dict[str, str]:
    thread = file.thread
    # A run that was active during the export is not active here.
    status = "idle" if thread.status == "busy" else thread.status
    fields = {
        "graph": thread.graph,
        "artefact": thread.artefact,
        "otherArtefacts": json.dumps([entry.name for entry in file.artefacts[1:]]),
        "metadata": json.dumps(thread.metadata),
        "config": json.dumps(thread.config),
        "interrupts": json.dumps(thread.interrupts),
        "status": status,
        "createdMs": str(thread.createdMs),
    }
    if thread.ttl:
        fields["ttl"] = json.dumps(thread.ttl.model_dump())
    if status == "error" and thread.error:
        fields["error"] = json.dumps(thread.error)
    return fields


def _artefact_effects(
    entry: ArtefactEntry, stored_id: str, rules: PlanRules
) -> tuple[list[str], list[Argument]]:
    """Return the artefact's keys, and per effect a verb, the number of its key from 1 on, and two values."""
    kind, line = entry.artefact.kind, entry.artefact
    effects = [("HSET", keys.artefact_meta(kind, stored_id), name, text) for name, text in line.facts.items()]
    receipts = keys.receipts(kind, stored_id)
    effects += [("HSET", receipts, receipt.step, _json(receipt.result)) for receipt in entry.receipts]
    effects += _stream_effects(entry, kind, stored_id)
    locks = keys.locks(kind, stored_id)
    effects += [("HSET", locks, name, lock.model_dump_json()) for name, lock in line.locks.items()]
    effects += _plan_effects(entry, kind, stored_id, rules)
    if line.mixer:
        effects.append(("SET", keys.mixer(kind, stored_id), _json(line.mixer), ""))
    # The script deletes all of these first, also those without an effect.
    names = [keys.artefact_meta(kind, stored_id), receipts, locks, keys.files(kind, stored_id)]
    names += [keys.file(kind, stored_id, file.id) for file, _ in entry.files]
    names = list(dict.fromkeys((*names, *(key for _, key, _, _ in effects))))
    numbers = {name: number for number, name in enumerate(names, 1)}
    args: list[Argument] = []
    for verb, key, first, second in effects:
        args += [verb, numbers[key], first, second]
    return names, args


def _plan_effects(
    entry: ArtefactEntry, kind: str, stored_id: str, rules: PlanRules
) -> Iterator[tuple[str, str, str, str]]:
    for line in entry.executions:
        record = line.record
        key, _, listed = keys.execution_keys(kind, stored_id, record["id"])
        yield "HSET", key, "record", json.dumps(record, ensure_ascii=False)
        yield "HSET", key, "changes", "1"
        if lifetime := lifetime_s(record, kept=rules.kept):
            yield "EXPIRE", key, str(lifetime), ""
        else:
            yield "ZADD", listed, str(record["created_ms"]), record["id"]
    for value in entry.context:
        stored_entry = ContextEntry(**value.model_dump())
        yield (
            "HSET",
            keys.project_context(kind, stored_id),
            field_name(value.key),
            stored_entry.encode(),
        )


def _place(entry: ArtefactEntry, line: ExecutionLine, hold: _Hold) -> tuple[str, str]:
    """Return the key and the value of an execution's place."""
    key = keys.execution_place(hold.owner, line.record["id"])
    return key, encode_place(entry.artefact.id, hold.thread)


def _stream_effects(entry: ArtefactEntry, kind: str, stored_id: str) -> Iterator[tuple[str, str, str, str]]:
    for stream in entry.streams:
        yield "SET", keys.version_counter(kind, stored_id, stream.stream), str(stream.counter), ""
        if stream.active:
            yield "SET", keys.active_version(kind, stored_id, stream.stream), stream.active, ""
    for version in entry.versions:
        record = {
            "id": version.id,
            "parent": version.parent,
            "created_ms": version.createdMs,
            "data": version.data,
            "created_by": version.createdBy,
            "batch": version.batch,
            "origin": (version.origin or OriginLine()).model_dump(),
        }
        yield "SET", keys.version(kind, stored_id, version.stream, version.id), _json(record), ""
        yield "RPUSH", keys.versions(kind, stored_id, version.stream), version.id, ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

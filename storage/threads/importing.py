"""A thread made from a file: all of it or none, and never over what is there."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata

from callsheet.state.errors import Conflict, Fenced, Unavailable
from callsheet.storage import indexes
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.files import FileRecord
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.file import ArtefactEntry, CheckpointEntry, ThreadFile
from callsheet.storage.threads.records import ThreadRecord

_UNFINISHED: Final = '{"error": "ImportUnfinished", "message": "the import of this thread was cut off"}'
"""What a thread says of itself until all of it is there."""

# What an import of the same owner and thread left unfinished may be written over, and nothing else.
_ARTEFACT: Final = Script("""
local meta, receipts = KEYS[1], KEYS[2]
local owner, thread = ARGV[1], ARGV[2]
local before = redis.call('HMGET', meta, 'owner', 'importing')
if before[1] and not (before[1] == owner and before[2] == thread) then return 0 end
for i = 1, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('HSET', meta, 'owner', owner, 'thread', thread, 'importing', thread)
local i = 3
while i <= #ARGV do
  local verb, key = ARGV[i], KEYS[tonumber(ARGV[i + 1])]
  if verb == 'HSET' then redis.call('HSET', key, ARGV[i + 2], ARGV[i + 3])
  else redis.call(verb, key, ARGV[i + 2]) end
  i = i + 4
end
return 1
""")

# The token is the call's own: the same call once more, because its answer was lost, has the thread already.
_RESERVE: Final = Script("""
local meta, lease = KEYS[1], KEYS[2]
local before = redis.call('HMGET', meta, 'owner', 'error', 'token', 'epoch')
if before[3] == ARGV[2] then return before[4] end
if before[1] then
  if before[1] ~= ARGV[1] or before[2] ~= ARGV[3] or redis.call('EXISTS', lease) == 1 then return false end
end
local epoch = (before[4] or 0) + 1
redis.call('DEL', meta)
redis.call('HSET', meta, 'owner', ARGV[1], 'token', ARGV[2], 'epoch', epoch)
redis.call('HSET', meta, 'status', 'error', 'error', ARGV[3])
redis.call('SET', lease, epoch, 'PX', ARGV[4])
return tostring(epoch)
""")

_GO_ON: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")

_PUBLISH: Final = Script("""
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  -- The same call once more, because its answer was lost, finds its own thread whole.
  local token, error = unpack(redis.call('HMGET', KEYS[1], 'token', 'error'))
  return token == ARGV[2] and error ~= ARGV[3] and 1 or 0
end
local t = redis.call('TIME')
local now = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
redis.call('HDEL', KEYS[1], 'error')
redis.call('HSET', KEYS[1], 'updatedMs', now, 'stateUpdatedMs', now)
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('DEL', KEYS[2])
return 1
""")


@dataclass(frozen=True)
class _Hold:
    """A thread that is this import's until it ends."""

    thread: str
    owner: str
    token: str
    epoch: str


class Importer:
    """Makes threads from files."""

    def __init__(self, storage: Storage, saver: BaseCheckpointSaver[int]) -> None:
        self._storage = storage
        self._saver = saver

    async def import_thread(self, file: ThreadFile, owner: str) -> ThreadRecord:
        """Make the thread and its artefact `owner`'s and return its record.

        Raises `Conflict` where the thread or the artefact is there already; what was written until an error
        is taken away again, and what a crash left is written over by the next import.
        """
        hold = await self._reserved(file.thread.id, owner)
        try:
            await self._fill(file, hold)
        except BaseException:
            # Where even that fails, the thread says of itself that it is unfinished.
            with suppress(Unavailable, Fenced):
                await self._undone(file, hold)
            raise
        record = await thread_records.get(self._storage, hold.thread, owner)
        # Puts it on its owner's list, too.
        return await thread_records.update_metadata(self._storage, record, {}, _lifetime(file))

    async def _reserved(self, thread: str, owner: str) -> _Hold:
        token = uuid.uuid4().hex
        words: list[Argument] = [owner, token, _UNFINISHED, int(keys.LEASE_S * 1000)]
        taking = keys.run_keys(thread)
        names = [taking.thread, taking.lease]
        epoch: bytes | None = await _RESERVE(self._storage.redis, names, words)
        if epoch is None:
            raise Conflict(
                f"thread {thread!r} is there already",
                remedy=f"import it under another id; one whose import was cut off, in {keys.LEASE_S:g} s",
            )
        return _Hold(thread, owner, token, epoch.decode())

    async def _go_on(self, hold: _Hold) -> None:
        words: list[Argument] = [hold.epoch, int(keys.LEASE_S * 1000)]
        if not await _GO_ON(self._storage.redis, [keys.run_keys(hold.thread).lease], words):
            raise Fenced(f"the import of thread {hold.thread!r} took a pause, and another took it over")

    async def _fill(self, file: ThreadFile, hold: _Hold) -> None:
        for one in file.artefacts:
            await self._artefact(one, hold)
        # A crash may have left some of an earlier attempt.
        await self._saver.adelete_thread(hold.thread)
        written: set[tuple[str, str, Any]] = set()
        for past in file.checkpoints:
            await self._go_on(hold)
            await self._checkpoint(hold.thread, past, written)
        for one in reversed(file.artefacts):
            artefact = self._place(one, hold)
            await self._storage.redis.hdel(keys.meta(artefact.kind, artefact.stored_id), "importing")
            await indexes.touch(self._storage, hold.owner, artefact.kind, artefact.id)
        await self._publish(hold, _facts(file))

    async def _publish(self, hold: _Hold, fields: Mapping[str, str]) -> None:
        pairs = [text for pair in fields.items() for text in pair]
        names = [keys.thread_meta(hold.thread), keys.run_keys(hold.thread).lease]
        if not await _PUBLISH(self._storage.redis, names, [hold.epoch, hold.token, _UNFINISHED, *pairs]):
            raise Fenced(f"the import of thread {hold.thread!r} was taken over at its end")

    def _place(self, held: ArtefactEntry, hold: _Hold) -> Artefact:
        return Artefact(self._storage, held.artefact.kind, held.artefact.id, hold.owner)

    async def _artefact(self, held: ArtefactEntry, hold: _Hold) -> None:
        line, artefact = held.artefact, self._place(held, hold)
        names, words = _effects(held, artefact.stored_id)
        made = await _ARTEFACT(self._storage.redis, names, [hold.owner, hold.thread, *words])
        if not made:
            raise Conflict(
                f"{line.kind} {line.id!r} is there already", remedy="import the thread under another id"
            )
        most = sum(one.size for one, _ in held.files)
        for one, data in held.files:
            await self._go_on(hold)
            record = FileRecord(name=one.name, type=one.type, size=one.size, sha256=one.sha256)
            await files.store(self._storage, artefact, one.id, files.split(data), record, most)

    async def _checkpoint(
        self, thread: str, past: CheckpointEntry, written: set[tuple[str, str, Any]]
    ) -> None:
        place: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": past.namespace}
        if past.parent:
            place["checkpoint_id"] = past.parent
        versions = past.checkpoint["channel_versions"]
        fresh = {
            name: version
            for name, version in versions.items()
            if (past.namespace, name, version) not in written
        }
        written |= {(past.namespace, name, version) for name, version in fresh.items()}
        config = cast("RunnableConfig", {"configurable": place})
        metadata = cast("CheckpointMetadata", past.metadata)
        put = await self._saver.aput(config, cast("Checkpoint", past.checkpoint), metadata, fresh)
        for number, (task, found) in enumerate(groupby(past.writes, key=lambda write: write[0])):
            # The path orders the tasks; it is not among what a saver gives back, but their order is.
            writes = [(channel, value) for _, channel, value in found]
            await self._saver.aput_writes(put, writes, task, f"{number:06d}")

    async def _undone(self, file: ThreadFile, hold: _Hold) -> None:
        await self._go_on(hold)
        await self._saver.adelete_thread(hold.thread)
        for one in file.artefacts:
            artefact = self._place(one, hold)
            meta = await artefact.meta()
            if (meta.get("owner"), meta.get("importing")) == (hold.owner, hold.thread):
                await self._storage.redis.delete(*_effects(one, artefact.stored_id)[0])
        await thread_records.delete(self._storage, ThreadRecord(hold.thread, hold.owner))


def _facts(file: ThreadFile) -> dict[str, str]:
    thread = file.thread
    # A run that was under way when the file was made is not under way here.
    status = "idle" if thread.status == "busy" else thread.status
    told = {
        "graph": thread.graph,
        "artefact": thread.artefact,
        "also": json.dumps([one.name for one in file.artefacts[1:]]),
        "metadata": json.dumps(thread.metadata),
        "config": json.dumps(thread.config),
        "interrupts": json.dumps(thread.interrupts),
        "status": status,
        "createdMs": str(thread.createdMs),
    }
    error = {"error": json.dumps(thread.error)} if status == "error" and thread.error else {}
    return told | error


def _lifetime(file: ThreadFile) -> dict[str, Any] | None:
    return file.thread.ttl.model_dump() if file.thread.ttl else None


def _effects(held: ArtefactEntry, stored: str) -> tuple[list[str], list[Argument]]:
    """Return the artefact's keys, and what to do to them: verb, number of the key from 1 on, values."""
    kind, line = held.artefact.kind, held.artefact
    effects = [("HSET", keys.meta(kind, stored), name, text) for name, text in line.facts.items()]
    effects += [("HSET", keys.receipts(kind, stored), one.step, _json(one.result)) for one in held.receipts]
    effects += _streams(held, kind, stored)
    if line.mixer:
        effects.append(("SET", keys.mixer(kind, stored), _json(line.mixer), ""))
    sent = (keys.files(kind, stored), *(keys.file(kind, stored, one.id) for one, _ in held.files))
    always = (keys.meta(kind, stored), keys.receipts(kind, stored), *sent)
    names = list(dict.fromkeys((*always, *(key for _, key, _, _ in effects))))
    numbers = {name: number for number, name in enumerate(names, 1)}
    words: list[Argument] = []
    for verb, key, first, second in effects:
        words += [verb, numbers[key], first, second]
    return names, words


def _streams(held: ArtefactEntry, kind: str, stored: str) -> Iterator[tuple[str, str, str, str]]:
    for stream in held.streams:
        yield "SET", keys.counter(kind, stored, stream.stream), str(stream.counter), ""
        if stream.active:
            yield "SET", keys.active(kind, stored, stream.stream), stream.active, ""
    for one in held.versions:
        record = {"id": one.id, "parent": one.parent, "created_ms": one.createdMs, "data": one.data}
        record |= {"created_by": one.createdBy, "batch": one.batch}
        yield "SET", keys.version(kind, stored, one.stream, one.id), _json(record), ""
        yield "RPUSH", keys.versions(kind, stored, one.stream), one.id, ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

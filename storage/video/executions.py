"""Records of executions, changed one at a time, with their events."""

import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any, Final

from callsheet.state import owners
from callsheet.state.errors import Missing, StorageDown
from callsheet.state.video.live import Execution, Update, abandon, executor_of, is_over
from callsheet.state.video.progress import (
    COMPLETE,
    Event,
    complete_event,
    events_between,
    is_settled,
    plan_event,
)
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script
from callsheet.storage.runs.records import OPEN_STATUSES

KIND: Final = "video"
MAX_EVENTS: Final = 5_000
"""Events that are kept of one execution, about."""
READ_EVENTS: Final = 500
"""Most events per read."""
_READ: Final = Script.with_clock("""
local held = redis.call('HMGET', KEYS[1], 'record', 'changes')
return {now_ms(), held[1] or '', held[2] or '0'}
""")
_READ_RUN: Final = Script.with_clock("""
local runs, active, status = unpack(redis.call('HMGET', KEYS[1], 'runs', 'active', 'status'), 1, 3)
local ended, updated = unpack(redis.call('HMGET', KEYS[2], 'status', 'updatedMs'), 1, 2)
return {now_ms(), runs or '', active or '', status or '', ended or '', updated or ''}
""")
# A call that is sent again because its reply was lost changes nothing more.
_WRITE: Final = Script("""
local held = redis.call('HMGET', KEYS[1], 'changes', 'call')
if held[2] == ARGV[3] then return 1 end
if (held[1] or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'record', ARGV[2], 'call', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'changes', 1)
redis.call('ZADD', KEYS[3], 'NX', ARGV[5], ARGV[4])
for i = 8, #ARGV, 2 do
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[7], '*', 'event', ARGV[i], 'data', ARGV[i + 1])
end
if ARGV[6] == '' then redis.call('PERSIST', KEYS[2]) else redis.call('EXPIRE', KEYS[2], ARGV[6]) end
return 1
""")


_GOES_ON: Final = frozenset({*OPEN_STATUSES, "success"})
"""Statuses of a run that waits, is executed, or has ended by itself, perhaps with a question."""


class Executions:
    """The executions of one owner's project."""

    def __init__(self, storage: Storage, project: str, owner: str) -> None:
        self._redis = storage.redis
        self._owner = owner
        self._project = project
        self._stored = owners.storage_id(owner, KIND, project)

    async def create(self, record: Execution) -> Execution:
        """Store a new execution and return it; one that exists is returned as it is."""
        place = json.dumps({"project": self._project, "thread": record["thread"]})
        await self._redis.set(keys.execution_place(self._owner, record["id"]), place)
        while True:
            now_ms, held, changes = await self._read(record["id"])
            new: Execution = {**record, "created_ms": now_ms}
            if held or await self._write(None, new, changes):
                return held or new

    async def update(self, execution_id: str, change: Update) -> Execution:
        """Apply a change to the newest record and return the result; raise what the change raises."""
        while True:
            now_ms, held, changes = await self._read(execution_id)
            if held is None:
                raise missing_execution(execution_id)
            changed = change(held, now_ms)
            if changed == held or await self._write(held, changed, changes):
                return changed

    async def get(self, execution_id: str) -> Execution:
        """Return a record; raise `Missing` if there is none.

        What is open of one whose run was cancelled or has failed is cancelled first: nobody else ends it.
        """
        _, held, _ = await self._read(execution_id)
        if held is None:
            raise missing_execution(execution_id)
        if is_settled(held) or (ended_ms := await self._abandoned_ms(held)) is None:
            return held
        executor = executor_of(held)
        try:
            return await self.update(
                execution_id, lambda now, _: abandon(now, ended_ms) if executor_of(now) == executor else now
            )
        except StorageDown:
            # Storage that takes no writes can still be read.
            return abandon(held, ended_ms)

    async def _abandoned_ms(self, record: Execution) -> int | None:
        """Return when the run ended that nobody goes on with; None while somebody does, or may."""
        thread = record["thread"]
        places = [keys.run_keys(thread).thread, keys.run(thread, executor_of(record))]
        now_ms, runs, active, thread_status, status, updated_ms = await _READ_RUN(self._redis, places)
        if active or not runs:
            # The next run may go on with it; a graph that runs without a server has no runs at all.
            return None
        if status:
            return None if status.decode() in _GOES_ON else int(updated_ms)
        # The run was rolled back, or its record was deleted while its question waits.
        is_cut = any(one["status"] == "in-progress" for one in record["steps"])
        return int(now_ms) if is_cut or thread_status != b"interrupted" else None

    async def newest(self, limit: int, after: str | None = None) -> list[Execution]:
        """Return the newest executions of the project, newest first; those older than the one called `after`.

        Raises `Missing` for an unknown one.
        """
        start = 0
        if after is not None:
            rank = await self._redis.zrevrank(self._keys("-").all, after)
            if rank is None:
                raise missing_execution(after)
            start = int(rank) + 1
        ids: Any = await self._redis.zrevrange(self._keys("-").all, start, start + limit - 1)
        return [await self.get(name.decode()) for name in ids]

    async def changes(self, execution_id: str) -> str:
        """Return the number of changes of a record, as text."""
        return (await self._read(execution_id))[2]

    async def events(self, execution_id: str, after: str) -> list[tuple[str, Event]]:
        """Return the events after an id, with their ids, oldest first."""
        entries: Any = await self._redis.xrange(
            self._keys(execution_id).events, min=f"({after}", count=READ_EVENTS
        )
        return [_event(name, fields) for name, fields in entries]

    async def first_event(self, execution_id: str) -> tuple[str, Event] | None:
        """Return the first stored event with its id; None once the events have expired."""
        entries: Any = await self._redis.xrange(self._keys(execution_id).events, count=1)
        return _event(*entries[0]) if entries else None

    async def _read(self, execution_id: str) -> tuple[int, Execution | None, str]:
        now_ms, record, changes = await _READ(self._redis, [self._keys(execution_id).record])
        return int(now_ms), json.loads(record) if record else None, changes.decode()

    async def _write(self, before: Execution | None, after: Execution, changes: str) -> bool:
        """Store the record with its events unless it has changed meanwhile."""
        lifetime = int(keys.EXECUTION_EVENTS_TTL_S) if is_over(after) else ""
        events = [
            text
            for name, data in events_between(before, after)
            for text in (name, json.dumps(data, ensure_ascii=False))
        ]
        record = json.dumps(after, ensure_ascii=False)
        call = uuid.uuid4().hex
        arguments: list[Argument] = [
            changes,
            record,
            call,
            after["id"],
            after["created_ms"],
            lifetime,
            MAX_EVENTS,
        ]
        return bool(await _WRITE(self._redis, self._keys(after["id"]), [*arguments, *events]))

    def _keys(self, execution_id: str) -> keys.ExecutionKeys:
        return keys.execution_keys(KIND, self._stored, execution_id)


def _event(name: bytes, fields: dict[bytes, bytes]) -> tuple[str, Event]:
    return name.decode(), (fields[b"event"].decode(), json.loads(fields[b"data"]))


async def find_place(storage: Storage, owner: str, execution_id: str) -> tuple[str, str]:
    """Return project and thread of the owner's execution; raise `Missing` if there is none."""
    place: Any = await storage.redis.get(keys.execution_place(owner, execution_id))
    if place is None:
        raise missing_execution(execution_id)
    place_data = json.loads(place)
    return place_data["project"], place_data["thread"]


def missing_execution(execution_id: str) -> Missing:
    """Return the error for an execution that does not exist."""
    return Missing(
        f"there is no execution {execution_id!r}", remedy="list them with GET /api/projects/{id}/executions"
    )


async def closing_events(executions: Executions, execution_id: str) -> AsyncGenerator[Event, None]:
    """Yield the events of an execution whose own have expired: its plan and its end."""
    record = await executions.get(execution_id)
    yield "execution-plan", plan_event(record)
    if is_over(record):
        yield COMPLETE, complete_event(record)

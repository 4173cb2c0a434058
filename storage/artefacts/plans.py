"""Records of executions, changed one at a time, with their events."""

import asyncio
import json
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from callsheet.state import owners
from callsheet.state.errors import Missing, StorageDown
from callsheet.state.live_plan import (
    ANY,
    Execution,
    PlanRules,
    Update,
    executor_of,
    is_over,
)
from callsheet.state.plan_progress import (
    COMPLETE,
    Event,
    complete_event,
    events_between,
    is_settled,
    plan_event,
)
from callsheet.state.plan_recovery import abandon, open_calls, with_receipts
from callsheet.storage.artefacts.receipts import StepReceipts
from callsheet.storage.artefacts.scripts import IS_MISSING
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, Script, execute, execute_all
from callsheet.storage.runs.records import OPEN_STATUSES

MAX_EVENTS: Final = 5_000
"""Events that are kept of one execution, about."""
_MOMENTS: Final = 10**17
MAX_SEARCHED: Final = 50
"""Newest executions that are searched for one to undo."""
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
# A call that is sent again because its reply was lost changes nothing more. A number that stands for now
# becomes the time.
_WRITE: Final = Script.with_clock(f"""{IS_MISSING}
if is_missing(KEYS[4]) then return {{0, now_ms(), '', '0'}} end
local changes, call = unpack(redis.call('HMGET', KEYS[1], 'changes', 'call'), 1, 2)
if call == ARGV[3] then return {{1, now_ms()}} end
if (changes or '0') ~= ARGV[1] then
  return {{0, now_ms(), redis.call('HGET', KEYS[1], 'record') or '', changes or '0'}}
end
local now, record, created = now_ms(), ARGV[2], ARGV[6]
if ARGV[4] ~= '' then
  record, created = string.gsub(record, ARGV[4], now), now
end
redis.call('HSET', KEYS[1], 'record', record, 'call', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'changes', 1)
for i = 10, #ARGV, 2 do
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[9], '*', 'event', ARGV[i], 'data', ARGV[i + 1])
end
if ARGV[8] == '' then redis.call('PERSIST', KEYS[2]) else redis.call('EXPIRE', KEYS[2], ARGV[8]) end
if ARGV[7] == '' then
  redis.call('ZADD', KEYS[3], 'NX', created, ARGV[5])
else
  redis.call('EXPIRE', KEYS[1], ARGV[7])
end
return {{1, now}}
""")


Prepare = Callable[[Execution, Execution], Awaitable[None]]
"""Is given a record before and after a change that is about to be stored."""
_GOES_ON: Final = frozenset({*OPEN_STATUSES, "success"})
"""Statuses of a run that waits, is executed, or has ended by itself, perhaps with a question."""


class Held(NamedTuple):
    """A record as it was read or written."""

    record: Execution
    changes: str
    """Number of its changes, as text."""
    now_ms: int
    """Time of Redis then."""
    at_s: float
    """This process's clock then."""

    @property
    def time_ms(self) -> int:
        """Time of Redis now: that of the reading, and what this process has counted since."""
        return self.now_ms + int((time.monotonic() - self.at_s) * 1000)


class Executions:
    """The executions of plans for one owner's artefact."""

    def __init__(
        self, storage: Storage, kind: str, artefact: str, owner: str, rules: PlanRules = ANY
    ) -> None:
        self._redis = storage.redis
        self._owner = owner
        self._kind = kind
        self._artefact = artefact
        self._rules = rules
        self._receipts = StepReceipts(storage, kind, artefact, owner)
        self._stored = owners.storage_id(owner, kind, artefact)

    async def create(self, record: Execution) -> Execution:
        """Store a new execution and return it; one that exists is returned as it is."""
        return (await self.open(lambda now_ms: {**record, "created_ms": now_ms})).record

    async def open(self, build: Callable[[int], Execution]) -> Held:
        """Store a new execution, built for a time, in one round trip; one that exists is returned.

        Raises `Missing` while the artefact is deleted.
        """
        # The time is known once Redis has written it; until then a number that no record holds stands for it.
        moment = secrets.randbelow(_MOMENTS) + _MOMENTS
        new = build(moment)
        place = encode_place(self._artefact, new["thread"])
        lifetime = self._lifetime(new)
        key = keys.execution_place(self._owner, new["id"])
        words: tuple[Argument, ...] = ("SET", key, place, *(("EX", lifetime) if lifetime else ()))
        writing = self._write("0", None, new, moment)
        # The place comes first: a deletion that sees the record also sees its place.
        try:
            held: Held = (await asyncio.gather(execute(self._redis, *words), writing))[1]
        except Missing:
            await execute(self._redis, "UNLINK", key)
            raise
        return held

    async def update(self, execution_id: str, change: Update, prepare: Prepare | None = None) -> Execution:
        """Apply a change to the newest record and return the result; raise what the change raises.

        `prepare` is awaited before each attempt to store a change.
        """
        record = (await self.change(await self.read(execution_id), change, prepare)).record
        if lifetime := self._lifetime(record):
            await execute(
                self._redis, "EXPIRE", keys.execution_place(self._owner, execution_id), int(lifetime)
            )
        return record

    async def change(self, held: Held, change: Update, prepare: Prepare | None = None) -> Held:
        """Apply a change to a record as it was read; to the newest, if it was changed since."""
        while True:
            changed = change(held.record, held.time_ms)
            if changed == held.record:
                return held
            if prepare:
                await prepare(held.record, changed)
            written = await self._write(held.changes, held.record, changed)
            if written.record == changed:
                return written
            held = written

    async def read(self, execution_id: str) -> Held:
        """Return a record as it is; raise `Missing` if there is none."""
        now_ms, record, changes = await _READ(self._redis, [self._keys(execution_id).record])
        if not record:
            raise missing_execution(execution_id)
        return Held(json.loads(record), changes.decode(), int(now_ms), time.monotonic())

    async def settle(self, execution_id: str) -> Execution:
        """Return a record; raise `Missing` if there is none.

        What is open of one whose run was cancelled or has failed is cancelled first: nobody else ends it.
        """
        held = (await self.read(execution_id)).record
        if is_settled(held) or (ended_ms := await self._abandoned_ms(held)) is None:
            return held
        executor, receipts = executor_of(held), await self.receipts(held)

        def end(record: Execution) -> Execution:
            return abandon(with_receipts(record, receipts, ended_ms), ended_ms)

        try:
            return await self.update(
                execution_id, lambda now, _: end(now) if executor_of(now) == executor else now
            )
        except StorageDown:
            # Storage that takes no writes can still be read.
            return end(held)

    async def receipts(self, record: Execution) -> dict[str, dict[str, Any]]:
        """Return the recorded results of calls of which the record does not know the end, by their ids.

        They are those of the task that executes the record, or of any task of the thread if it is not known.
        """
        calls = {f"{record['id']}/{call}": call for call in open_calls(record)}
        results = await self._receipts.find_results(record["thread"], record["task"], calls)
        return {calls[name]: result for name, result in results.items()}

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
        """Return the newest executions that are kept, newest first; those older than the one called `after`.

        Raises `Missing` for an unknown one.
        """
        start = 0
        if after is not None:
            rank = await self._redis.zrevrank(self._keys("-").all, after)
            if rank is None:
                raise missing_execution(after)
            start = int(rank) + 1
        ids: Any = await self._redis.zrevrange(self._keys("-").all, start, start + limit - 1)
        return await self.settle_all([name.decode() for name in ids])

    async def settle_all(self, ids: Sequence[str]) -> list[Execution]:
        """Return the executions with these ids that there are, as `settle`; ended ones are read together."""
        records = []
        for record in await self.records(ids):
            with suppress(Missing):
                records.append(record if is_settled(record) else await self.settle(record["id"]))
        return records

    async def records(self, ids: Sequence[str]) -> list[Execution]:
        """Return the executions with these ids that there are, as they are, read in one trip."""
        commands = [Command(("HGET", self._keys(name).record, "record")) for name in ids]
        texts: list[bytes | None] = await execute_all(self._redis, commands) if commands else []
        return [json.loads(text) for text in texts if text]

    async def newest_ids(self, limit: int) -> list[str]:
        """Return the ids of the newest executions that are kept, newest first."""
        names: list[bytes] = await execute(self._redis, "ZREVRANGE", self._keys("-").all, 0, limit - 1)
        return [name.decode() for name in names]

    async def kept_ids(self) -> list[str]:
        """Return the ids of the executions that are kept, oldest first."""
        names: list[bytes] = await execute(self._redis, "ZRANGE", self._keys("-").all, 0, -1)
        return [name.decode() for name in names]

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

    async def _write(
        self, changes: str, before: Execution | None, after: Execution, moment: int | None = None
    ) -> Held:
        """Store the record with its events unless it has changed meanwhile, and return it as it is then."""
        kept = self._lifetime(after) or ""
        record = json.dumps(after, ensure_ascii=False)
        arguments: list[Argument] = [
            changes,
            record,
            uuid.uuid4().hex,
            "" if moment is None else moment,
            after["id"],
            after["created_ms"],
            kept,
            int(keys.EXECUTION_EVENTS_TTL_S) if is_over(after) else kept,
            MAX_EVENTS,
        ]
        for name, data in events_between(before, after, self._rules):
            arguments += (name, json.dumps(data, ensure_ascii=False))
        meta = keys.artefact_meta(self._kind, self._stored)
        reply = await _WRITE(self._redis, [*self._keys(after["id"]), meta], arguments)
        is_stored, now_ms, *newest = reply
        if not is_stored and not newest[0]:
            raise missing_execution(after["id"])
        if not is_stored:
            return Held(json.loads(newest[0]), newest[1].decode(), int(now_ms), time.monotonic())
        stored = after if moment is None else json.loads(record.replace(str(moment), now_ms.decode()))
        return Held(stored, str(int(changes) + 1), int(now_ms), time.monotonic())

    def _lifetime(self, record: Execution) -> int:
        return lifetime_s(record, kept=self._rules.kept)

    def _keys(self, execution_id: str) -> keys.ExecutionKeys:
        return keys.execution_keys(self._kind, self._stored, execution_id)


def lifetime_s(record: Execution, *, kept: bool) -> int:
    """Return the seconds for which a record is kept after a change; 0 for ever."""
    if kept:
        return 0
    # The question of a paused one waits as long as its thread.
    return int(keys.PAUSED_TTL_S if record["status"] == "paused" else keys.EXECUTION_TTL_S)


def encode_place(artefact: str, thread: str) -> str:
    """Return the value of an execution's place."""
    return json.dumps({"project": artefact, "thread": thread})


def _event(name: bytes, fields: dict[bytes, bytes]) -> tuple[str, Event]:
    return name.decode(), (fields[b"event"].decode(), json.loads(fields[b"data"]))


async def find_place(storage: Storage, owner: str, execution_id: str) -> tuple[str, str]:
    """Return artefact and thread of the owner's execution; raise `Missing` if there is none."""
    place: Any = await storage.redis.get(keys.execution_place(owner, execution_id))
    if place is None:
        raise missing_execution(execution_id)
    place_data = json.loads(place)
    return place_data["project"], place_data["thread"]


def missing_execution(execution_id: str) -> Missing:
    """Return the error for an execution that does not exist."""
    return Missing(
        f"there is no execution {execution_id!r}, or no longer",
        remedy="its id is that of a plan of several steps, or of a video; events of steps name it as plan",
    )


async def closing_events(executions: Executions, execution_id: str) -> AsyncGenerator[Event, None]:
    """Yield the events of an execution whose own have expired: its plan and its end."""
    record = await executions.settle(execution_id)
    yield "execution-plan", plan_event(record)
    if is_over(record):
        yield COMPLETE, complete_event(record)

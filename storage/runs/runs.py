"""Runs of all threads: per thread one at a time across all processes, in order, and none lost in a crash.

A run is created, claimed by one attempt at a time, and finished once. An attempt holds the thread by a lease,
which it renews, and by an epoch, without which it can neither emit events nor finish. Any process may claim a
run whose lease has expired.
"""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.state.errors import Busy, Conflict, Fenced, Missing
from callsheet.storage import indexes, thread_search
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.renamed_fields import RUN_FIELDS
from callsheet.storage.redis.scripts import (
    Argument,
    Command,
    Script,
    ScriptCall,
    combine,
    execute,
    hgetall,
    pairs_of,
)
from callsheet.storage.runs import scripts
from callsheet.storage.runs.events import EventLimits, NewEvent
from callsheet.storage.runs.idempotency import reused_key
from callsheet.storage.runs.records import (
    OPEN_STATUSES,
    Action,
    CancelResult,
    CrashSuspect,
    Created,
    LeaseHeld,
    Run,
    RunAttempt,
    RunOutcome,
    RunRequest,
    Status,
    now_s,
    unfinished_import,
)

LEASE_S: Final = 10.0
"""Seconds that a silent attempt keeps its thread."""

KEPT_RUNS: Final = 1_000
"""Newest runs of a thread that are kept."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_EVENT_LIMITS: Final = EventLimits()
_NO_PRECONDITION: Final = ("", "", "", "", "")
_UNRECORDED_MS: Final = 60_000
"""Age of an entry of the owner's list whose run will not be recorded any more."""
_MAX_PAGES: Final = 10
"""Most pages of an owner's unfinished runs that one request reads."""
_FIRST_CHECK_S: Final = 5.0
"""Delay of the first check: a run normally starts by itself, and its record is written after its entry."""


class Runs:
    """Runs of all threads."""

    def __init__(
        self,
        storage: Storage,
        lease_s: float = LEASE_S,
        event_limits: EventLimits = _EVENT_LIMITS,
        kept_runs: int = KEPT_RUNS,
    ) -> None:
        """`kept_runs` is the number of a thread's newest runs that are kept; 0 for all."""
        self.storage: Final = storage
        self.redis: Final = storage.redis
        self._limits: Final = (event_limits.max_bytes, int(event_limits.max_age_s * 1000))
        self._kept_runs: Final = kept_runs
        self.lease_s = min(lease_s, keys.RUN_LEASE_S)

    async def create(self, request: RunRequest) -> Created:
        """Record a run, or find the one of the same request.

        The verdict `changed` means that nothing was recorded: read the thread again. Raises `Busy` for the
        strategy "reject" on a busy thread, `Conflict` for an idempotency key that was used for another
        request or a question that another run answers, and `Missing` for a thread that is being deleted.
        """
        created, _ = await self._record(request)
        return created

    async def start(self, request: RunRequest) -> tuple[Created, tuple[RunAttempt, Run] | None]:
        """Record a run, and start the first attempt at it in the same round trip, if it may start at once.

        Returns no attempt for another verdict, nor for an earlier run that starts again. Raises as `create`.
        """
        began_s, name = now_s(), (request.thread, request.id)
        created, (answer, record) = await self._record(
            request,
            [self._claim_call(*name), Command(("HGETALL", keys.run(*name)))],
        )
        claimed = self._read_claim(*name, began_s, answer)
        if not isinstance(claimed, RunAttempt):
            return created, None
        return created, (claimed, _run(*name, pairs_of(record)))

    async def _record(
        self, request: RunRequest, following: Sequence[ScriptCall | Command] = ()
    ) -> tuple[Created, list[Any]]:
        """Record a run as `create`; return the replies to the `following` calls, too."""
        thread = request.thread
        memo = keys.idempotency(thread, request.idempotency_key or "-")
        args: list[Argument] = [
            _new_token(),
            *(request.id, request.fingerprint, request.strategy, int(request.idempotency_key is not None)),
            *(request.due_ms, int(keys.DAY_S), " ".join(request.questions)),
            self._kept_runs,
            *(request.precondition or _NO_PRECONDITION),
            len(request.answers),
            *request.answers,
            *_fields(request),
        ]
        # The entry comes first: after a crash, nothing would find a run without one.
        entry = _check_call(thread, request.id, request.due_ms, _FIRST_CHECK_S)
        record = ScriptCall(scripts.CREATE, [*keys.run_keys(thread), memo], args)
        owned = indexes.touch_run_call(request.owner, _member(thread, request.id))
        _, _, answer, *replies = await self.redis.execute_batch([entry, owned, record, *following])
        verdict, run, since = _texts(answer)
        if run != request.id:
            await self._unlist(request.owner, (thread, request.id))
        _require_recorded(verdict, run, request)
        if run != request.id:
            await self.unschedule_check(thread, request.id)
            if verdict == "start":
                # A failed run that resumes has no entry any more.
                await self._list_again(request.owner, thread, run)
        if verdict == "deleting":
            raise Missing(
                f"thread {thread!r} is being deleted",
                remedy="send the request again when the deletion has ended; repeat one that was cut short",
            )
        return Created(verdict, run, since), replies  # type: ignore[arg-type]  # the script's verdicts

    async def _list_again(self, owner: str, thread: str, run: str) -> None:
        calls = [
            _check_call(thread, run, 0, _FIRST_CHECK_S),
            indexes.touch_run_call(owner, _member(thread, run)),
        ]
        await self.redis.execute_batch(calls)

    async def is_recorded(self, thread: str, key: str) -> bool:
        """Return whether a request with this idempotency key was recorded on the thread in the last day."""
        return bool(await execute(self.redis, "EXISTS", keys.idempotency(thread, key)))

    async def admit(self, thread: str, run: str) -> bool:
        """Queue a run that has become due; return whether it may start at once."""
        verdict: bytes = await self._call(scripts.ADMIT, thread, run)
        return verdict == b"start"

    async def claim(
        self, thread: str, run: str, *, isolated: bool = False
    ) -> RunAttempt | LeaseHeld | CrashSuspect | None:
        """Start an attempt at a run; None if the run is not active.

        The flag promises that this process executes no other suspect, or that the run is none any more.
        """
        began_s = now_s()
        (answer,) = await self.redis.execute_batch([self._claim_call(thread, run, isolated=isolated)])
        claimed = self._read_claim(thread, run, began_s, answer)
        if isinstance(claimed, RunAttempt) and claimed.number > 1:
            # A process that saw an earlier attempt fail may just have removed the entry.
            await self.schedule_check(thread, run, _FIRST_CHECK_S)
        return claimed

    def _claim_call(self, thread: str, run: str, *, isolated: bool = False) -> ScriptCall:
        args: list[Argument] = [_new_token(), run, int(self.lease_s * 1000), int(isolated)]
        return ScriptCall(scripts.CLAIM, keys.run_keys(thread), args)

    def _read_claim(
        self, thread: str, run: str, began_s: float, answer: Sequence[Any]
    ) -> RunAttempt | LeaseHeld | CrashSuspect | None:
        match answer:
            case [b"yours", *fields]:
                return _attempt((thread, run), began_s + self.lease_s, *fields)
            case [b"held", left_ms]:
                return LeaseHeld(left_ms / 1000)
            case [b"suspect", checkpoint]:
                return CrashSuspect(checkpoint.decode())
        return None

    async def renew(self, attempt: RunAttempt) -> Action | None:
        """Renew the lease and return the requested cancellation, if any.

        Raises `Fenced` when a later attempt, or a cancellation, has taken the thread.
        """
        answer: bytes = (await self.redis.execute_batch([self.renew_call(attempt)]))[0]
        if answer == b"fenced":
            raise _fenced_error(attempt)
        return answer.decode() or None  # type: ignore[return-value]  # an action

    def renew_call(self, attempt: RunAttempt) -> ScriptCall:
        """Return the script that renews a lease; its answer is `fenced`, or the requested cancellation."""
        args: list[Argument] = [attempt.run, attempt.epoch, int(self.lease_s * 1000)]
        return ScriptCall(scripts.RENEW, keys.run_keys(attempt.thread), args)

    async def emit(
        self,
        attempt: RunAttempt,
        batch: int,
        events: Sequence[NewEvent],
        calls: Sequence[ScriptCall] = (),
        before: Sequence[ScriptCall] = (),
    ) -> list[Any]:
        """Append events to the thread in one transaction with `calls`.

        Returns the replies to the calls. Their keys are in the thread's slot, and they check the attempt
        themselves. The calls `before` are executed first, on their own. `batch` is a counter of the attempt:
        a batch that arrives twice is appended once. Raises `Fenced` when a later attempt has the thread.
        """
        if not events:
            *_, replies = await self.redis.execute_batch([*before, combine(calls)])
            return list(replies)
        flat = [part for event in events for part in event]
        args = [attempt.run, attempt.epoch, batch, *self._limits, *flat]
        appending = ScriptCall(scripts.EMIT, keys.run_keys(attempt.thread), args)
        *_, reply = await self.redis.execute_batch(
            [*before, combine([*calls, appending]) if calls else appending]
        )
        *replies, appended = reply if calls else [reply]
        if not appended:
            raise _fenced_error(attempt)
        return replies

    async def finish(self, attempt: RunAttempt, outcome: RunOutcome) -> str:
        """End the run; return the id of the next active run, or "".

        The caller unschedules the run's check. Raises `Fenced` when a later attempt has the thread.
        """
        answer = await self._call_once(
            scripts.FINISH,
            attempt.thread,
            *(attempt.run, attempt.epoch, outcome.ending, outcome.end_data, outcome.thread),
            *(_json(outcome.interrupts), _json(outcome.error), _json(outcome.answer)),
            *self._limits,
            len(outcome.answers),
            *outcome.answers,
            *(part for event in outcome.final_events for part in NewEvent(*event)),
        )
        if not answer:
            raise _fenced_error(attempt)
        [next_run] = _texts(answer)
        return next_run

    async def rolled_back(self, thread: str) -> RunOutcome:
        """Return the outcome of a run that is undone: what waited before it, waits again."""
        stored = await execute(self.redis, "HGET", keys.run_keys(thread).thread, "interrupts")
        interrupts = json.loads(stored or "{}")
        return RunOutcome("rolled-back", "interrupted" if interrupts else "idle", interrupts)

    async def record_crash(self, attempt: RunAttempt, checkpoint: str) -> int:
        """Return the number of consecutive attempts before this one that crashed at `checkpoint`, an id.

        An attempt that released the thread, or ended, did not crash. Raises `Fenced` when a later attempt has
        the thread.
        """
        [count] = await self._call_once(
            scripts.RECORD_CRASH, attempt.thread, attempt.run, attempt.epoch, checkpoint
        )
        if count < 0:
            raise _fenced_error(attempt)
        return int(count)

    async def release(self, attempt: RunAttempt) -> None:
        """Give up the thread without ending the run; does nothing when a later attempt has the thread."""
        await self._call(scripts.RELEASE, attempt.thread, attempt.run, attempt.epoch)

    async def cancel(self, thread: str, run: str, action: Action) -> tuple[CancelResult, str]:
        """Cancel a run; return the result and the id of the next active run, or "".

        A run that a process executes ends when that process notices. The cancellation of one that may have
        checkpoints is only recorded, for the attempt that ends it. Raises `Missing` for an unknown run.
        """
        result, next_run = _texts(await self._call_once(scripts.CANCEL, thread, run, action))
        if result == "missing":
            raise _unknown(run)
        if result == "ended":
            await self.schedule_check(thread, run, 0)
        return result, next_run  # type: ignore[return-value]  # the script's results

    async def get(self, thread: str, run: str) -> Run:
        """Return the record of a run; raises `Missing` if there is none."""
        return _run(thread, run, await hgetall(self.redis, keys.run(thread, run)))

    async def find(self, thread: str, run: str) -> Run | None:
        """Return the record of a run; None if there is none."""
        record = await hgetall(self.redis, keys.run(thread, run))
        return _run(thread, run, record) if record else None

    async def list_runs(self, thread: str, start: int = 0, count: int = 100) -> list[Run]:
        """Return `count` runs of the thread, newest first, from index `start` on."""
        members: list[bytes] = await self.redis.zrange(
            keys.run_keys(thread).runs, start, start + count - 1, desc=True
        )
        return await self.get_many(thread, [member.decode() for member in members])

    async def list_with_status(self, thread: str, status: Status, start: int, count: int) -> list[Run]:
        """Return `count` runs of the thread with a status, newest first, from index `start` on.

        Of unfinished ones no others are read; of ended ones the status of each newer run.
        """
        if status in OPEN_STATUSES:
            runs = [run for run in await self.list_unfinished(thread) if run.status == status]
            return runs[start : start + count]
        ids: list[str] = []
        offset, seen = 0, scripts.RUNS_AT_ONCE
        while seen == scripts.RUNS_AT_ONCE and len(ids) < start + count:
            seen, *matching = await self._call(scripts.WITH_STATUS, thread, status, offset)
            ids += _texts(matching)
            offset += seen
        return await self.get_many(thread, ids[start : start + count])

    async def list_unfinished(self, thread: str) -> list[Run]:
        """Return the thread's unfinished runs, newest first; reads no others."""
        runs = await self.get_many(thread, _texts(await self._call(scripts.UNFINISHED, thread)))
        return [run for run in runs if run.status in OPEN_STATUSES]

    async def get_many(self, thread: str, ids: Sequence[str]) -> list[Run]:
        """Return the runs with these ids, in this order, without those that do not exist."""
        records = await asyncio.gather(*(hgetall(self.redis, keys.run(thread, run)) for run in ids))
        return [_run(thread, run, record) for run, record in zip(ids, records, strict=True) if record]

    async def mark_answered(self, thread: str, run: str) -> None:
        """Record that the caller has its answer: the same request creates a new run from now on."""
        await self._call(scripts.MARK_ANSWERED, thread, run)

    async def active(self, thread: str) -> str | None:
        """Return the id of the thread's active run; None for an idle thread."""
        run: bytes | None = await self.redis.hget(keys.run_keys(thread).thread, "active")
        return run.decode() if run else None

    async def require_idle(self, thread: str) -> None:
        """Raise `Busy` if the thread has an active run."""
        if run := await self.active(thread):
            raise _busy(thread, run)

    async def delete(self, thread: str, run: str) -> None:
        """Delete the record of a finished run; raises `Conflict` for an unfinished one, or `Missing`."""
        [verdict] = await self._call_once(scripts.DELETE, thread, run)
        if verdict == b"missing":
            raise _unknown(run)
        if verdict == b"open":
            raise Conflict(f"run {run!r} has not ended", remedy="cancel it first")

    async def execution_state(self, thread: str, run: str) -> str:
        """Return the state of a run: `over`, `due`, `later`, `queued`, `held`, or `free` to be claimed."""
        state: bytes = await self._call(scripts.STANDING, thread, run)
        return state.decode()

    async def has_ended(self, thread: str, run: str) -> bool:
        """Return whether a run has ended or was deleted."""
        return await self.execution_state(thread, run) == "over"

    async def open_runs(self, owner: str, thread: str | None = None) -> list[Run]:
        """Return the owner's unfinished runs, of one thread or of all; reads nobody else's."""
        if thread is None:
            return await self.list_open(owner, max(1, await self.redis.zcard(keys.owned_runs(owner))))
        return [run for run in await self.list_unfinished(thread) if run.owner == owner]

    async def list_open(self, owner: str, most: int) -> list[Run]:
        """Return the owner's `most` oldest unfinished runs; drops entries of runs that have ended."""
        runs: list[Run] = []
        key, start = keys.owned_runs(owner), 0
        for _ in range(_MAX_PAGES):
            entries = await self.redis.zrange(key, start, start + most - 1, withscores=True)
            names = [_parse_member(member) for member, _ in entries]
            records = await asyncio.gather(*(hgetall(self.redis, keys.run(*name)) for name in names))
            kept = 0
            for name, (_, since_ms), record in zip(names, entries, records, strict=True):
                run = _run(*name, record) if record else None
                if run is not None and run.status in OPEN_STATUSES:
                    runs.append(run)
                elif await self._drop_ended(owner, name, run, int(since_ms)):
                    continue
                kept += 1
            start += kept
            if len(entries) < most or len(runs) >= most:
                break
        return runs[:most]

    async def unlist(self, run: Run, until_ms: int) -> None:
        """Remove a run that ended from its owner's list, unless it was continued after `until_ms`."""
        await self._unlist(run.owner, (run.thread, run.id), until_ms)

    async def _unlist(self, owner: str, name: tuple[str, str], until_ms: int | str = "+inf") -> bool:
        """Remove a run from its owner's list, and return whether it was there until `until_ms`."""
        return await thread_search.drop_run(self.redis, owner, name[0], _member(*name), until_ms)

    async def _drop_ended(self, owner: str, name: tuple[str, str], run: Run | None, since_ms: int) -> bool:
        """Drop the entry of a run that has ended or was never recorded; return whether it was dropped."""
        # One that is continued meanwhile has a later time; a new one's record is written after its entry.
        return await self._unlist(owner, name, since_ms if run else -_UNRECORDED_MS)

    async def mark_webhook_called(self, thread: str, run: str) -> None:
        """Record that the run's webhook was called, or given up."""
        await self._call(scripts.MARK_WEBHOOK_CALLED, thread, run)

    async def mark_failure_listed(self, run: Run) -> None:
        """Record that operators' list has the run's failure."""
        await self._call(scripts.MARK_FAILURE_LISTED, run.thread, run.id, run.updated_ms)

    async def delete_all(self, thread: str) -> None:
        """Delete the thread's record, runs and events. Twice is safe."""
        while await self._call(scripts.REMOVE, thread):
            pass

    async def unschedule_check(self, thread: str, run: str) -> None:
        """Remove a run from the periodic checks."""
        await execute(self.redis, "ZREM", keys.open_runs(), _member(thread, run))

    async def schedule_check(self, thread: str, run: str, after_s: float) -> None:
        """Check a run after `after_s` seconds, in case no process executes it."""
        await self.redis.execute_batch([_check_call(thread, run, 0, after_s)])

    async def poll_due_checks(self, again_s: float, limit: int = 500) -> list[tuple[str, str]]:
        """Return (thread, run) of the checks that are due, oldest first; a run may have ended.

        No process gets the same check again within `again_s` seconds.
        """
        members: list[bytes] = await scripts.POLL_DUE_CHECKS(
            self.redis, [keys.open_runs()], [int(again_s * 1000), limit]
        )
        return [_parse_member(member) for member in members]

    async def _call(self, script: Script, thread: str, *args: Argument) -> Any:
        return await script(self.redis, keys.run_keys(thread), args)

    async def _call_once(self, script: Script, thread: str, *args: Argument) -> Any:
        """Run a script made by `scripts._once`."""
        return await self._call(script, thread, _new_token(), *args)


def _run(thread: str, run: str, record: Mapping[bytes, bytes]) -> Run:
    if not record:
        raise _unknown(run)
    text = {name.decode(): value.decode() for name, value in record.items()}
    text = {RUN_FIELDS.get(name, name): value for name, value in text.items()}
    return Run(
        thread=thread,
        id=run,
        graph=text["graph"],
        owner=text["owner"],
        assistant=text["assistant"],
        status=text["status"],  # type: ignore[arg-type]  # written by the scripts
        request=json.loads(text["request"]),
        metadata=json.loads(text["metadata"]),
        strategy=text["strategy"],  # type: ignore[arg-type]  # as requested
        created_ms=int(text["createdMs"]),
        updated_ms=int(text["updatedMs"]),
        due_ms=int(text["dueMs"]),
        error=json.loads(text.get("error") or "null"),
        answer=json.loads(text.get("answer") or "null"),
        cancel=text.get("cancel") or None,  # type: ignore[arg-type]  # an action
        webhook_called="webhookCalled" in text,
        fingerprint=text.get("print", ""),
        attempts=int(text.get("attempt", 0)),
        failure_listed_ms=int(text.get("failureListedMs", 0)),
    )


def _fields(request: RunRequest) -> Iterator[Argument]:
    """Yield names and values of the fields that a run's record has from its request."""
    yield from ("graph", request.graph, "owner", request.owner, "assistant", request.assistant)
    yield from ("answering", " ".join(request.questions))
    yield from ("request", _json(request.request), "metadata", _json(request.metadata))
    if request.request.get("webhook"):
        yield from ("webhook", 1)


def _require_recorded(verdict: str, run: str, request: RunRequest) -> None:
    """Raise the reason why a run was not recorded; `run` is the run that prevents it."""
    if verdict == "mismatch":
        raise reused_key(request.idempotency_key)
    if verdict == "answered":
        raise Conflict(
            f"run {run!r} answers this question already", remedy="wait for it, and read the thread's state"
        )
    if verdict == "busy":
        raise _busy(request.thread, run)
    if verdict == "importing":
        raise unfinished_import(request.thread)


def _busy(thread: str, run: str) -> Busy:
    return Busy(
        f"thread {thread!r} is busy with run {run!r}",
        remedy="wait for it to end and send the request again",
        details={"run": run},
    )


def _check_call(thread: str, run: str, due_ms: int, after_s: float) -> ScriptCall:
    """Return the script that schedules a check `after_s` seconds after `due_ms`, or after now if later."""
    return ScriptCall(
        scripts.SCHEDULE_CHECK, [keys.open_runs()], [_member(thread, run), due_ms, int(after_s * 1000)]
    )


def _new_token() -> str:
    """Return a name for a call, by which a script recognizes it if it arrives twice."""
    return uuid.uuid4().hex


def _member(thread: str, run: str) -> str:
    return f"{run}\0{thread}"


def _parse_member(member: bytes) -> tuple[str, str]:
    run, _, thread = member.decode().partition("\0")
    return thread, run


def _texts(answer: Sequence[bytes]) -> list[str]:
    return [part.decode() for part in answer]


def _json(value: Any) -> str:
    return _ENCODER.encode(value)


def _attempt(
    run_id: tuple[str, str], lease_ends_s: float, epoch: int, number: int, started: bytes
) -> RunAttempt:
    return RunAttempt(*run_id, epoch, number, started.decode(), lease_ends_s)


def _fenced_error(attempt: RunAttempt) -> Fenced:
    return Fenced(f"attempt {attempt.number} at run {attempt.run!r} lost thread {attempt.thread!r}")


def _unknown(run: str) -> Missing:
    return Missing(f"there is no run {run!r}", remedy="list the thread's runs")

"""Runs of a thread: one at a time across all processes, in order, and none lost when its process dies.

A run is created, claimed by one attempt at a time, and finished once. An attempt holds the thread by a lease
that it renews; its epoch fences it: whoever has an older one may neither emit events nor finish. A run whose
lease expired is claimed again, by any process.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from callsheet.state.errors import Busy, Conflict, Fenced, Missing
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall, execute, hgetall
from callsheet.storage.runs import scripts
from callsheet.storage.runs import scripts as attempts
from callsheet.storage.runs.events import BEGUN, Event
from callsheet.storage.runs.records import (
    Action,
    Attempt,
    Cancelled,
    CrashSuspect,
    Created,
    LeaseHeld,
    Outcome,
    Run,
    RunRequest,
)

LEASE_S: Final = 10.0
"""How long an attempt that has fallen silent still holds its thread."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_NOTHING: Final = ("", "", "", "")
"""In place of what makes a thread one of a graph."""
_LOOK_AFTER_S: Final = 5.0
"""A run is not looked after at once: its record is written after its entry, and it starts by itself."""


class Runs:
    """The runs of all threads."""

    def __init__(self, storage: Storage, lease_s: float = LEASE_S) -> None:
        self._redis = storage.redis
        self.lease_s = min(lease_s, keys.LEASE_S)

    async def create(self, thread: str, wanted: RunRequest, *, claim: bool = False) -> Created:
        """Record a run, or find the one that the same request made; `claim` it at once if its turn is now.

        Nothing is recorded where the verdict is `changed`: look at the thread again.

        Raises `Busy` where another run has the thread and the strategy is to be refused, and `Conflict` for
        an idempotency key that came before with another request, or a question that is being answered.
        """
        memo = keys.idempotency(thread, wanted.idempotency_key or "-")
        fields: list[Argument] = [
            *("graph", wanted.graph, "owner", wanted.owner, "assistant", wanted.assistant),
            *("answering", " ".join(wanted.questions)),
            *("request", _json(wanted.request), "metadata", _json(wanted.metadata)),
        ]
        args: list[Argument] = [
            _call(),
            *(wanted.id, wanted.fingerprint, wanted.strategy, int(wanted.idempotency_key is not None)),
            *(wanted.due_ms, int(keys.DAY_S), " ".join(wanted.questions)),
            *(int(self.lease_s * 1000) if claim else 0, *(wanted.adopting or _NOTHING), *fields),
        ]
        # Before the record is written: what is not on the list would never be found after a crash.
        note = _note(thread, wanted.id, wanted.due_ms, _LOOK_AFTER_S)
        record = ScriptCall(scripts.CREATE, [*keys.run_keys(thread), memo], args)
        _, answer = await self._redis.execute_batch([note, record])
        verdict, found, since = _texts(answer[:3])
        _granted(verdict, found, thread, wanted)
        if found != wanted.id:
            await self.unschedule_check(thread, wanted.id)
            if verdict == "start":
                # One that failed, and was looked after no more.
                await self.schedule_check(thread, found, _LOOK_AFTER_S)
        attempt = _attempt(thread, found, *answer[3:]) if answer[3:] else None
        return Created(verdict, found, since, attempt)  # type: ignore[arg-type]  # the script's verdicts

    async def admit(self, thread: str, run: str) -> bool:
        """Let a run whose time has come take its turn; return whether it may start at once."""
        verdict: bytes = await self._do(scripts.ADMIT, thread, run)
        return verdict == b"start"

    async def claim(
        self, thread: str, run: str, *, alone: bool = False
    ) -> Attempt | LeaseHeld | CrashSuspect | None:
        """Begin an attempt at a run; None where it is over, or not its turn.

        A suspect is begun only `alone`: by a process that is at no other suspect (`crash_loops.py`).
        """
        answer = await self._once(attempts.CLAIM, thread, run, int(self.lease_s * 1000), int(alone))
        match answer:
            case [b"yours", *begun]:
                attempt = _attempt(thread, run, *begun)
                if attempt.number > 1:
                    # Whoever saw an earlier one fail may have let it go just now.
                    await self.schedule_check(thread, run, _LOOK_AFTER_S)
                return attempt
            case [b"held", left_ms]:
                return LeaseHeld(left_ms / 1000)
            case [b"suspect"]:
                return CrashSuspect()
        return None

    async def renew(self, attempt: Attempt) -> Action | None:
        """Hold the thread for another lease and return how the run is to be cancelled, if it is.

        Raises `Fenced` when a later attempt, or a cancellation, has taken the thread.
        """
        answer: bytes = await self._do(
            attempts.RENEW, attempt.thread, attempt.run, attempt.epoch, int(self.lease_s * 1000)
        )
        if answer == b"fenced":
            raise _fenced(attempt)
        return answer.decode() or None  # type: ignore[return-value]  # an action

    async def emit(self, attempt: Attempt, batch: int, events: Sequence[tuple[str, bytes]]) -> list[str]:
        """Add events (name, JSON) to the thread's and return their ids.

        The attempt counts its batches: one that arrives twice is added once. Raises `Fenced` when a later
        attempt has the thread.
        """
        flat = [part for event in events for part in event]
        ids = await self._do(attempts.EMIT, attempt.thread, attempt.run, attempt.epoch, batch, *flat)
        if not ids:
            raise _fenced(attempt)
        return _texts(ids)

    async def finish(self, attempt: Attempt, outcome: Outcome) -> tuple[str, list[str]]:
        """End the run; return whose turn it is now, or an empty text, and the ids of its last events.

        The very last of them is its end, after those of the outcome. Whoever ends a run sees to it that it is
        looked after no more. Raises `Fenced` when a later attempt has the thread.
        """
        answer = await self._once(
            attempts.FINISH,
            attempt.thread,
            *(attempt.run, attempt.epoch, outcome.ending, outcome.events[-1][1], outcome.thread),
            *(_json(outcome.interrupts), _json(outcome.error), _json(outcome.answer)),
            *(part for event in outcome.told for part in event),
        )
        if not answer:
            raise _fenced(attempt)
        following, *ids = _texts(answer)
        return following, ids

    async def record_crash(self, attempt: Attempt, place: str) -> int:
        """Return how many attempts before this one died in a row since the run came to `place`, a checkpoint.

        One that let the thread go, or ended, did not. Raises `Fenced` when a later attempt has the thread.
        """
        [count] = await self._once(attempts.RECORD_CRASH, attempt.thread, attempt.run, attempt.epoch, place)
        if count < 0:
            raise _fenced(attempt)
        return int(count)

    async def release(self, attempt: Attempt) -> None:
        """Let the thread go without ending the run; nothing happens where a later attempt has it."""
        await self._do(attempts.RELEASE, attempt.thread, attempt.run, attempt.epoch)

    async def cancel(self, thread: str, run: str, action: Action) -> tuple[Cancelled, str]:
        """Cancel a run: return what that came to, and whose turn it is then.

        One that somebody is at ends as soon as it is noticed. Raises `Missing` for a run there is none of.
        """
        verdict, following = _texts(await self._once(scripts.CANCEL, thread, run, action))
        if verdict == "missing":
            raise _unknown(run)
        if verdict == "ended":
            await self.schedule_check(thread, run, 0)
        return verdict, following  # type: ignore[return-value]  # the script's verdicts

    async def get(self, thread: str, run: str) -> Run:
        """Return the record of a run; raises `Missing` when there is none."""
        return _run(thread, run, await hgetall(self._redis, keys.run(thread, run)))

    async def list_runs(
        self, thread: str, start: int = 0, count: int = 0, *, newest_first: bool = True
    ) -> list[Run]:
        """Return `count` of the thread's runs from number `start` on; 0 for all that follow."""
        names: list[bytes] = await self._redis.zrange(
            keys.run_keys(thread).runs, start, start + count - 1 if count else -1, desc=newest_first
        )
        ids = [name.decode() for name in names]
        found = await asyncio.gather(*(hgetall(self._redis, keys.run(thread, run)) for run in ids))
        return [_run(thread, run, record) for run, record in zip(ids, found, strict=True) if record]

    async def mark_answered(self, thread: str, run: str) -> None:
        """Note that the run's caller has its answer, so that the same request is another run from now on."""
        await self._do(scripts.MARK_ANSWERED, thread, run)

    async def active(self, thread: str) -> str | None:
        """Return the run that has the thread; None where nothing runs."""
        found: bytes | None = await self._redis.hget(keys.run_keys(thread).thread, "active")
        return found.decode() if found else None

    async def require_idle(self, thread: str) -> None:
        """Raise `Busy` while a run has the thread."""
        if run := await self.active(thread):
            raise _busy(thread, run)

    async def delete(self, thread: str, run: str) -> None:
        """Delete the record of a run that has ended; raises `Conflict` while it has not, or `Missing`."""
        [verdict] = await self._once(scripts.DELETE, thread, run)
        if verdict == b"missing":
            raise _unknown(run)
        if verdict == b"open":
            raise Conflict(f"run {run!r} has not ended", remedy="cancel it, and delete it then")

    async def standing(self, thread: str, run: str) -> str:
        """Return how an open run stands: over, due, later, queued, held, or free to be taken up."""
        verdict: bytes = await self._do(scripts.STANDING, thread, run)
        return verdict.decode()

    async def has_ended(self, thread: str, run: str) -> bool:
        """Return whether a run has ended, or is gone."""
        return await self.standing(thread, run) == "over"

    async def open_runs(self, owner: str, thread: str | None = None) -> list[Run]:
        """Return the owner's runs that have not ended, of one thread or of all."""
        found = [one for one in await self._all_open() if thread in {None, one[0]}]
        records = await asyncio.gather(*(hgetall(self._redis, keys.run(*one)) for one in found))
        runs = [_run(*one, record) for one, record in zip(found, records, strict=True) if record]
        return [run for run in runs if run.owner == owner and run.status in {"pending", "running"}]

    async def _all_open(self) -> list[tuple[str, str]]:
        return [_parted(member) for member in await self._redis.zrange(keys.open_runs(), 0, -1)]

    async def mark_webhook_called(self, thread: str, run: str) -> None:
        """Note that the run's webhook was told, or given up."""
        await self._do(scripts.MARK_WEBHOOK_CALLED, thread, run)

    async def delete_all(self, thread: str) -> None:
        """Take away all that is known of a thread's runs, and the thread; twice is safe."""
        await self._do(scripts.REMOVE, thread)

    async def unschedule_check(self, thread: str, run: str) -> None:
        """Look after a run no more."""
        await execute(self._redis, "ZREM", keys.open_runs(), _member(thread, run))

    async def schedule_check(self, thread: str, run: str, after_s: float) -> None:
        """Look after a run in so many seconds."""
        await self._redis.execute_batch([_note(thread, run, 0, after_s)])

    async def poll_due_checks(self, again_s: float, limit: int = 500) -> list[tuple[str, str]]:
        """Return (thread, run) of what is to be looked after now and may not have ended, oldest first.

        It is the caller's for `again_s`; nobody is told of it until then.
        """
        found: list[bytes] = await scripts.POLL_DUE_CHECKS(
            self._redis, [keys.open_runs()], [int(again_s * 1000), limit]
        )
        return [_parted(member) for member in found]

    async def _do(self, script: Script, thread: str, *args: Argument) -> Any:
        return await script(self._redis, keys.run_keys(thread), args)

    async def _once(self, script: Script, thread: str, *args: Argument) -> Any:
        return await self._do(script, thread, _call(), *args)


def _run(thread: str, run: str, record: Mapping[bytes, bytes]) -> Run:
    if not record:
        raise _unknown(run)
    text = {name.decode(): value.decode() for name, value in record.items()}
    return Run(
        thread,
        run,
        graph=text["graph"],
        owner=text["owner"],
        assistant=text["assistant"],
        status=text["status"],  # type: ignore[arg-type]  # written by the scripts
        request=json.loads(text["request"]),
        metadata=json.loads(text["metadata"]),
        strategy=text["strategy"],  # type: ignore[arg-type]  # as wanted
        created_ms=int(text["createdMs"]),
        updated_ms=int(text["updatedMs"]),
        due_ms=int(text["dueMs"]),
        error=json.loads(text.get("error") or "null"),
        answer=json.loads(text.get("answer") or "null"),
        cancel=text.get("cancel") or None,  # type: ignore[arg-type]  # an action
        webhook_told="webhookTold" in text,
    )


def _granted(verdict: str, found: str, thread: str, wanted: RunRequest) -> None:
    """Raise what is wrong with a run that was not recorded; `found` is the run in its way."""
    if verdict == "mismatch":
        raise Conflict(
            f"idempotency key {wanted.idempotency_key!r} came before with another request",
            remedy="use a new key for a new request",
        )
    if verdict == "answered":
        raise Conflict(
            f"run {found!r} brings the answer already", remedy="wait for it, and read the thread's state"
        )
    if verdict == "busy":
        raise _busy(thread, found)


def _busy(thread: str, run: str) -> Busy:
    return Busy(
        f"thread {thread!r} is busy with run {run!r}",
        remedy="wait for it to end and send the request again",
        details={"run": run},
    )


def _note(thread: str, run: str, due_ms: int, after_s: float) -> ScriptCall:
    """The script that has a run looked after, so long after it is due."""
    return ScriptCall(
        scripts.SCHEDULE_CHECK, [keys.open_runs()], [_member(thread, run), due_ms, int(after_s * 1000)]
    )


def _call() -> str:
    """A name for a call, by which it is known again where it arrives twice."""
    return uuid.uuid4().hex


def _member(thread: str, run: str) -> str:
    return f"{run}\0{thread}"


def _parted(member: bytes) -> tuple[str, str]:
    run, _, thread = member.decode().partition("\0")
    return thread, run


def _texts(answer: Sequence[bytes]) -> list[str]:
    return [part.decode() for part in answer]


def _json(value: Any) -> str:
    return _ENCODER.encode(value)


def _attempt(thread: str, run: str, epoch: int, number: int, told: bytes, data: bytes) -> Attempt:
    return Attempt(thread, run, epoch, number, Event(told.decode(), run, BEGUN, data))


def _fenced(attempt: Attempt) -> Fenced:
    return Fenced(f"attempt {attempt.number} at run {attempt.run!r} lost thread {attempt.thread!r}")


def _unknown(run: str) -> Missing:
    return Missing(f"there is no run {run!r}", remedy="list the thread's runs to see what there is")

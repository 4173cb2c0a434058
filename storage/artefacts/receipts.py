"""Steps that change an artefact: each claimed by one attempt at a time, and proved by its receipt.

An attempt first claims its step and gets a fence, which a later claim or a revocation invalidates. A step
with a receipt is never executed again: its recorded result is returned.
"""

import asyncio
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from callsheet.state import owners
from callsheet.state.errors import Fenced, Forbidden, Missing, OutcomeUnknown
from callsheet.storage import indexes
from callsheet.storage.artefacts import scripts
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, ScriptCall, execute, execute_all
from callsheet.storage.threads import threads


@dataclass(frozen=True)
class StepFence:
    """Permission to execute one step, valid until a later claim or a revocation."""

    step: str
    """Name of the future receipt: `thread|task|step`."""
    value: str
    """`epoch:attempt:call`."""


@dataclass(frozen=True)
class RecordedResult:
    """A step that was executed before, with its recorded result."""

    result: dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """Request of an attempt to execute a step."""

    step: str
    """Name of the future receipt; see `receipt_name`."""
    epoch: int
    owner: str
    thread: str
    facts: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    """Streams that the step will write."""
    not_repeatable: bool = False
    """True if the step must not be repeated after an attempt whose outcome is unknown."""
    by_hand: bool = False
    """True for a person's edit of an artefact that exists: the claim does not create one."""
    call_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies the claim if it arrives twice."""


class StepReceipts:
    """Claims and receipts of one artefact."""

    def __init__(self, storage: Storage, kind: str, artefact_id: str, owner: str) -> None:
        self._storage = storage
        self._redis = storage.redis
        self.kind = kind
        self.id = artefact_id
        self.stored_id = owners.storage_id(owner, kind, artefact_id)
        self._step_keys = keys.step_keys(kind, self.stored_id)
        self._receipts, self._fences, self._meta, self._locks = self._step_keys

    async def claim(
        self,
        step: str,
        *,
        epoch: int,
        owner: str,
        thread: str,
        facts: Mapping[str, str],
        by_hand: bool = False,
    ) -> StepFence | RecordedResult:
        """Claim `step` for this attempt, or return its earlier result; raises as `read_claim`."""
        claim = Claim(step, epoch, owner, thread, facts, by_hand=by_hand)
        return self.read_claim(claim, (await execute_all(self._redis, [self.claim_call(claim)]))[0])

    def claim_call(self, claim: Claim) -> ScriptCall:
        """Return the script that claims a step; `read_claim` reads its answer."""
        facts = [text for pair in claim.facts.items() for text in pair]
        args: list[Argument] = [claim.step, claim.epoch, claim.owner, claim.thread, claim.call_id]
        args += [int(claim.not_repeatable), int(claim.by_hand), len(claim.writes), *claim.writes, *facts]
        return ScriptCall(scripts.CLAIM, self._step_keys, args)

    def read_claim(self, claim: Claim, answer: Sequence[bytes]) -> StepFence | RecordedResult:
        """Return the fence of a claim, or the earlier result of its step.

        The first claim creates the artefact for its owner and sets facts that are not set yet. Raises
        `Forbidden` for another owner's artefact or a locked stream, `Fenced` when a later epoch has claimed
        the step, `OutcomeUnknown` when an earlier attempt may have had an external effect, and `Missing`
        while the artefact is deleted, or if there is none for an edit by hand.
        """
        verdict = answer[0].decode()
        if verdict == "done":
            return RecordedResult(json.loads(answer[1]))
        if verdict == "fenced":
            raise self._fenced_error(claim.step)
        if verdict == "missing":
            raise self.missing_artefact()
        if verdict == "unknown":
            raise OutcomeUnknown(
                "an earlier attempt at this call was interrupted, and it may have had its effect",
                remedy="Ask the person whether it happened before you try it again",
            )
        self.require_allowed(answer)
        return StepFence(claim.step, answer[1].decode())

    def require_allowed(self, answer: Sequence[bytes]) -> None:
        """Raise `Forbidden` if the script's answer reports another owner's artefact or a lock."""
        if answer[0] == b"forbidden":
            raise Forbidden(
                f"{self.kind} {self.id!r} belongs to someone else", remedy=f"use one of your own {self.kind}s"
            )
        if answer[0] == b"locked":
            raise Forbidden(
                f"{answer[1].decode()!r} of this {self.kind} is locked by its owner",
                remedy="leave it as it is, or ask the person to unlock it",
                details={"locked": answer[1].decode()},
            )

    def missing_artefact(self) -> Missing:
        """Return the error for an artefact that does not exist, or is being deleted."""
        return missing_artefact(self.kind, self.id)

    async def revoke(self, fence: StepFence, *, idle: bool = True) -> StepFence | RecordedResult:
        """Invalidate `fence`; return the result its holder has recorded, or a new fence.

        `idle` states that no effect of the step is in progress. Raises `Fenced` when a later claim exists.
        """
        answer = await scripts.REVOKE(
            self._redis, [self._receipts, self._fences], [fence.step, fence.value, "x" if idle else ""]
        )
        if answer[0] == b"fenced":
            raise self._fenced_error(fence.step)
        return (
            RecordedResult(json.loads(answer[1]))
            if answer[0] == b"done"
            else StepFence(fence.step, answer[1].decode())
        )

    def _fenced_error(self, step: str) -> Fenced:
        return Fenced(f"step {step!r} of {self.kind} {self.id!r} was taken over by a later attempt")

    def receipt_call(self, fence: StepFence, result: str) -> ScriptCall:
        """Return the script that writes the receipt of an external effect; `result` is JSON."""
        return ScriptCall(
            scripts.WRITE_RECEIPT,
            [self._receipts, self._fences, self._meta],
            [fence.step, fence.value, result],
        )

    def cache_read_call(self, owner: str, digest: str | None) -> ScriptCall:
        """Return the script that reads a cached look-up; its answer ends with the JSON or None."""
        cached = [keys.cached_lookup(self.kind, self.stored_id, digest)] if digest else []
        return ScriptCall(scripts.READ_CACHE, [self._meta, *cached], [owner])

    def cache_write_call(self, digest: str, result: str, kept_s: float) -> ScriptCall:
        """Return the script that caches the result of a look-up, JSON, for `kept_s` seconds."""
        key = keys.cached_lookup(self.kind, self.stored_id, digest)
        return ScriptCall(scripts.WRITE_CACHE, [self._meta, key], [result, int(kept_s * 1000)])

    def index_calls(self, owner: str, thread: str) -> list[ScriptCall]:
        """Return the scripts that list a changed artefact first for its owner and link it to the thread."""
        return [
            indexes.touch_call(owner, self.kind, self.id),
            threads.link_artefact_call(thread, owner, f"{self.kind}:{self.id}"),
        ]

    async def touch(self, owner: str, thread: str) -> None:
        """Execute `index_calls` for a person's edit; one that a deletion has overtaken lists nothing."""
        link = threads.link_artefact_call(thread, owner, f"{self.kind}:{self.id}")
        entry = indexes.artefact_entry(owner, self.kind, self.id)
        await asyncio.gather(indexes.touch_existing(self._storage, [entry]), execute_all(self._redis, [link]))

    async def find_results(
        self, thread: str, task: str, step_ids: Collection[str]
    ) -> dict[str, dict[str, Any]]:
        """Return the recorded result of each of these steps that has one; an empty task is any task."""
        if task and step_ids:
            names = [receipt_name(thread, task, step_id) for step_id in step_ids]
            values = await execute(self._redis, "HMGET", self._receipts, *names)
            pairs = zip(step_ids, values, strict=True)
            return {step_id: json.loads(value) for step_id, value in pairs if value}
        results = {}
        for step_id in step_ids:
            if receipts := await self.thread_receipts(thread, step_id):
                results[step_id] = receipts[-1]
        return results

    async def thread_receipts(self, thread: str, step_id: str) -> list[dict[str, Any]]:
        """Return the recorded results of a step of this thread, from all its tasks."""
        results = []
        async for name, value in self._redis.hscan_iter(self._receipts):
            receipt_thread, *parts = name.decode().split("|")
            if receipt_thread == escape_part(thread) and parts[1:2] == [escape_part(step_id)]:
                results.append(json.loads(value))
        return results


def missing_artefact(kind: str, artefact: str) -> Missing:
    """Return the error for an artefact that does not exist, or is being deleted."""
    return Missing(
        f"there is no {kind} {artefact!r}, or it is being deleted",
        remedy=f"list them with GET /api/artefacts/{kind}; a deletion that was cut short can be sent again",
    )


def escape_part(text: str) -> str:
    """Return `text` as one part of a receipt's name, in which `|` separates the parts."""
    return text.replace("%", "%25").replace("|", "%7C")


def receipt_name(thread: str, task: str, step: str) -> str:
    """Return the name of a step's receipt."""
    return f"{_task_prefix(thread, task)}|{escape_part(step)}"


@lru_cache(maxsize=1024)
def _task_prefix(thread: str, task: str) -> str:
    return f"{escape_part(thread)}|{escape_part(task)}"

"""The steps that change an artefact: claimed by one attempt at a time, and proved by their receipts.

An attempt *claims* its step first and gets a fence, which a later claim or a revocation takes back. A step
that has a receipt is never carried out again: its recorded result is returned.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from callsheet.state import owners
from callsheet.state.errors import Fenced, Forbidden, OutcomeUnknown
from callsheet.storage import indexes
from callsheet.storage.artefacts import scripts
from callsheet.storage.redis import keys
from callsheet.storage.redis import keys as call_keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, ScriptCall, execute_all
from callsheet.storage.threads import threads


@dataclass(frozen=True)
class Fence:
    """Leave to carry out one step, until a later claim or a revocation takes it back."""

    step: str
    """What the receipt will be filed under: `thread|task|step`."""
    value: str
    """`epoch:attempt:call`."""


@dataclass(frozen=True)
class Done:
    """A step that has already happened, with its recorded result."""

    result: dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """What an attempt says when it claims a step."""

    step: str
    """What the receipt will be filed under; see `receipt_name`."""
    epoch: int
    owner: str
    thread: str
    facts: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    """Streams it is about to write."""
    unsure: bool = False
    """Whether it must not be tried again after an attempt of which nobody knows what became."""
    call: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By this the same claim is known where it arrives twice."""


class Steps:
    """The steps of one artefact, by the id that its owner calls it."""

    def __init__(self, storage: Storage, kind: str, artefact_id: str, owner: str) -> None:
        self._redis = storage.redis
        self.kind = kind
        self.id = artefact_id
        self.stored_id = owners.storage_id(owner, kind, artefact_id)
        self._touched = touched = keys.steps(kind, self.stored_id)
        self._receipts, self._fences, self._meta, self._locks = touched

    async def claim(
        self, step: str, *, epoch: int, owner: str, thread: str, facts: Mapping[str, str]
    ) -> Fence | Done:
        """Claim `step` for this attempt, or return what it did before; raises what `claimed` does."""
        claim = Claim(step, epoch, owner, thread, facts)
        return self.read_claim(claim, (await execute_all(self._redis, [self.claim_call(claim)]))[0])

    def claim_call(self, claim: Claim) -> ScriptCall:
        """Return the script that claims a step; `claimed` reads its answer."""
        pairs = [text for pair in claim.facts.items() for text in pair]
        given: list[Argument] = [
            claim.step,
            claim.epoch,
            claim.owner,
            claim.thread,
            claim.call,
            int(claim.unsure),
            len(claim.writes),
        ]
        return ScriptCall(scripts.CLAIM, self._touched, [*given, *claim.writes, *pairs])

    def read_claim(self, claim: Claim, answer: Sequence[bytes]) -> Fence | Done:
        """Return the fence that a claim got, or what its step did before.

        The first claim makes the artefact its owner's and writes the facts that are not there yet. Raises
        `Forbidden` for another's artefact and a locked stream, `Fenced` when a later epoch has claimed the
        step, and `OutcomeUnknown` when an effect outside may have happened in an earlier attempt.
        """
        verdict = answer[0].decode()
        if verdict == "done":
            return Done(json.loads(answer[1]))
        if verdict == "fenced":
            raise Fenced(f"step {claim.step!r} of {self.kind} {self.id!r} was taken over by a later attempt")
        if verdict == "unknown":
            raise OutcomeUnknown(
                "an earlier attempt at this call was interrupted, and it may have had its effect",
                remedy="Ask the person whether it happened before you try it again",
            )
        self.require_allowed(answer)
        return Fence(claim.step, answer[1].decode())

    def require_allowed(self, answer: Sequence[bytes]) -> None:
        """Raise `Forbidden` where a script found the artefact another's, or what it names locked."""
        if answer[0] == b"forbidden":
            raise Forbidden(
                f"{self.kind} {self.id!r} belongs to someone else", remedy=f"use one of your own {self.kind}s"
            )
        if answer[0] == b"locked":
            raise Forbidden(
                f"{answer[1].decode()!r} of {self.kind} {self.id!r} is locked by its owner",
                remedy="leave it as it is, or ask the person to unlock it",
                details={"locked": answer[1].decode()},
            )

    async def revoke(self, fence: Fence, *, idle: bool = True) -> Fence | Done:
        """Refuse whatever the holder of `fence` may still write; return what it has written, or a new fence.

        `idle` says that nothing is under way any more. Raises `Fenced` when a later claim has the step.
        """
        answer = await scripts.REVOKE(
            self._redis, [self._receipts, self._fences], [fence.step, fence.value, "x" if idle else ""]
        )
        if answer[0] == b"fenced":
            raise Fenced(f"step {fence.step!r} of {self.kind} {self.id!r} was taken over by a later attempt")
        return Done(json.loads(answer[1])) if answer[0] == b"done" else Fence(fence.step, answer[1].decode())

    def receipt_call(self, fence: Fence, result: str) -> ScriptCall:
        """Return the script that writes the receipt of an effect outside; `result` is JSON."""
        return ScriptCall(
            scripts.WRITE_RECEIPT, [self._receipts, self._fences], [fence.step, fence.value, result]
        )

    def cache_read_call(self, owner: str, digest: str | None) -> ScriptCall:
        """Return the script that finds what a look-up gave before; `allowed` reads whether it may.

        Its answer ends with the JSON that is remembered under `digest`, or None.
        """
        found = [self._look_up(digest)] if digest else []
        return ScriptCall(scripts.READ_CACHE, [self._meta, *found], [owner])

    def cache_write_call(self, digest: str, result: str, kept_s: float) -> Command:
        """Return the command that remembers what a look-up gave, JSON, for `kept_s` seconds."""
        return Command(("SET", self._look_up(digest), result, "PX", int(kept_s * 1000)))

    def _look_up(self, digest: str) -> str:
        return call_keys.cached_lookup(self.kind, self.stored_id, digest)

    def index_calls(self, owner: str, thread: str) -> list[ScriptCall]:
        """Return what lists the artefact, newest change first, and tells its thread what it is about.

        For whoever has changed it on the thread, whichever way that was begun; twice is safe.
        """
        return [
            indexes.touch_call(owner, self.kind, self.id),
            threads.name_call(thread, owner, f"{self.kind}:{self.id}"),
        ]

    async def thread_receipts(self, thread: str, step_id: str) -> list[dict[str, Any]]:
        """Return the results this thread's step left, whichever attempt made them."""
        results = []
        async for name, value in self._redis.hscan_iter(self._receipts):
            asked, *rest = name.decode().split("|")
            if asked == escape_part(thread) and rest[1:2] == [escape_part(step_id)]:
                results.append(json.loads(value))
        return results


def escape_part(text: str) -> str:
    """Return `text` as one part of a receipt's name, where `|` separates."""
    return text.replace("%", "%25").replace("|", "%7C")


def receipt_name(thread: str, task: str, step: str) -> str:
    """Return what the receipt of a step is filed under."""
    return f"{_task_part(thread, task)}|{escape_part(step)}"


@lru_cache(maxsize=1024)
def _task_part(thread: str, task: str) -> str:
    return f"{escape_part(thread)}|{escape_part(task)}"

"""One attempt at a call: claim, admission, execution in time with retries where that is safe, report.

A tool runs in the event loop, in a thread, or in a sandbox process. An attempt takes two round trips to
storage beside the tool's own: claim, record, limit and breaker; then the outcome for breaker, cache and
record.
"""

import asyncio
import hashlib
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from callsheet.state.errors import (
    DeadLink,
    Fenced,
    Limited,
    NotReached,
    OutcomeUnknown,
    Oversized,
    Refused,
    StorageDown,
    TimedOut,
    Unavailable,
    UnusableAnswer,
)
from callsheet.state.plan import Step
from callsheet.storage import tool_admission
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.receipts import Claim, RecordedResult, StepFence
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Command, ScriptCall
from callsheet.storage.runs.leases import LEASE
from callsheet.storage.tool_admission import Admitted, Rejected, ToolLimits, Verdict
from callsheet.tools.call import Call, Scope
from callsheet.tools.guard.deadline import Deadline, DeadlineExceeded
from callsheet.tools.guard.outcome import Outcome, failed_outcome, outcome_of_error
from callsheet.tools.guard.record import CallRecord
from callsheet.tools.guard.sandbox import run_sandboxed
from callsheet.tools.policy import EffectivePolicy, ToolPolicy
from callsheet.tools.registry import Tool


async def _run_tool(tool: Tool, args: BaseModel, call: Call, policy: EffectivePolicy) -> dict[str, Any]:
    """Return the tool's result; `policy` limits a sandbox process.

    A thread cannot be stopped: after a cancellation it goes on, and its result is dropped.
    """
    run: Any = tool.run
    if tool.isolated:
        return await run_sandboxed(tool, args, call.scope, policy)
    if tool.is_async:
        return dict(await run(args, call))
    return dict(await asyncio.to_thread(run, args, call.scope))


CANCELLED: Final = failed_outcome(
    "execution_error",
    "The run was cancelled before this call was carried out",
    suggestion="Call it again if it is still wanted",
    retryable=True,
)
"""Outcome of a cancelled call."""


def abandoned_outcome(tool: Tool | None) -> Outcome:
    """Return the outcome of a call without a receipt that nobody continues."""
    if tool is None or not tool.outside or tool.idempotent:
        return CANCELLED
    return outcome_of_error(
        OutcomeUnknown("The run was cancelled, and this call may have had its effect", remedy=_ASK_PERSON)
    )


_ASK_PERSON: Final = "Ask the person whether it happened before you try it again"
_FINITE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_JITTER: Final = random.SystemRandom()


class ResolvedTool(NamedTuple):
    """A tool's policy, and its limits for storage."""

    policy: EffectivePolicy
    limits: ToolLimits
    grows: bool
    """True if the time-out is not the operator's, so that it grows for slow models."""


@lru_cache(maxsize=1024)
def resolve_tool(tool: Tool, policy: ToolPolicy) -> ResolvedTool:
    """Return the limits of a tool under the operator's policy."""
    effective = policy.effective(tool.name, tool.options, calls=tool.calls)
    most, rest = (effective.calls, effective.window_s), (effective.failures, effective.rest_s)
    limits = ToolLimits(tool.name, tool.rate_key or tool.name, *most, *rest, effective.timeout_s)
    return ResolvedTool(effective, limits, grows=not policy.sets_timeout(tool.name, tool.options))


@dataclass
class Attempt:
    """An attempt at one permitted call of a known tool with valid arguments."""

    storage: Storage
    tool: Tool
    resolved: ResolvedTool
    args: BaseModel
    record: CallRecord
    policy: EffectivePolicy = field(init=False)
    limits: ToolLimits = field(init=False)
    grows: bool = field(init=False)
    """True if the time-out grows for slow models."""
    scope: Scope = field(init=False)
    """Owner, thread and artefact."""
    step: Step = field(init=False)
    """Step of the plan."""
    artefact: Artefact = field(init=False)
    """Artefact of the thread."""
    writes: frozenset[str] = field(init=False)
    """Streams that the step may write."""
    cache_key: str | None = field(init=False)
    """Digest of a look-up; None if results are not cached."""
    fence: StepFence | None = None
    """Fence of the effect, for a tool with one."""
    admitted: bool = False
    admission: Rejected | Admitted | None = None
    """Decision of limit and breaker, requested together with the claim."""
    ran: bool = False
    cached: bool | None = None
    """True if the result came from the cache; None if the tool has none."""
    tries: int = 0
    error: Exception | None = None
    """Error that the tool raised."""
    retried: Unavailable | None = None
    """Error after which it was tried again last."""
    cached_text: str | None = None
    """Cached result, as JSON."""
    text: str = ""
    """The result as JSON, once there is one."""
    cacheable: bool = True
    """True if the result may be cached."""

    def __post_init__(self) -> None:
        self.policy, self.limits, self.grows = self.resolved
        self.step, self.scope = self.record.step, self.record.scope
        self.writes = self.tool.writes_of(self.step["writes"])
        self.artefact = Artefact(self.storage, self.scope.kind, self.scope.artefact, self.scope.owner)
        self.cache_key = self._lookup_digest() if self.policy.cache_s and self.tool.is_pure_lookup else None

    async def run(self) -> dict[str, Any]:
        """Return the result of the call, or of an earlier attempt by its receipt; raises its error."""
        done = await self._claim()
        if done:
            return done.result
        await self._wait_for_admission()
        if self.cached_text is not None:
            cached: dict[str, Any] = json.loads(self.cached_text)
            return cached
        return await self._run_with_deadline()

    async def report(self, outcome: Outcome) -> Outcome:
        """Store the outcome and return it; an effect that did happen makes it a success."""
        if not outcome.ok and self.fence:
            outcome = await self._revoke(self.fence, outcome)
        text, cached = self._output_text(outcome), bool(self.cached)
        calls: list[ScriptCall | Command] = [
            self.record.ended_call(outcome, text, tries=self.tries, cached=cached)
        ]
        if isinstance(self.admission, Admitted):
            calls += self._admission_calls(self.admission, outcome)
        if outcome.ok and self.tool.writes:
            calls += self.artefact.index_calls(self.scope.owner, self.scope.thread)
        result_calls = self._result_calls() if outcome.ok and self.ran else []
        answers = await self.storage.redis.execute_batch([*calls, *result_calls])
        if result_calls and self.tool.outside and answers[-1][0] == b"fenced":
            raise Fenced(f"call {self.step['id']!r} was taken over by a later attempt")
        return outcome

    def _admission_calls(self, entry: Admitted, outcome: Outcome) -> Sequence[ScriptCall | Command]:
        """Return the commands that report an admitted call to limit and breaker, or withdraw it."""
        name = self.record.call
        if self.admitted:
            return tool_admission.report_calls(
                self.limits, self.scope.owner, name, self._verdict(outcome), entry, self._failed_service
            )
        return tool_admission.withdraw_calls(self.limits, self.scope.owner, name, entry)

    def _output_text(self, outcome: Outcome) -> str:
        """Return the output as JSON if it is serialised already; that of a receipt is not."""
        return self.cached_text or (self.text if outcome.ok and self.ran and not self.error else "")

    def _result_calls(self) -> list[ScriptCall | Command]:
        """Return the commands that write an outside effect's receipt, or cache a look-up."""
        if self.tool.outside and self.fence:
            return [self.artefact.receipt_call(self.fence, self.text)]
        if self.cache_key and self.cacheable:
            return [self.artefact.cache_write_call(self.cache_key, self.text, self.policy.cache_s)]
        return []

    async def _revoke(self, fence: StepFence, outcome: Outcome) -> Outcome:
        """Move the fence, so that a late write is refused; return what is known of the effect."""
        if self.tool.outside and not self._had_no_effect:
            return outcome if self.tool.idempotent else self._unknown_effect(outcome)
        done = await self.artefact.revoke(fence)
        return Outcome(ok=True, output=done.result) if isinstance(done, RecordedResult) else outcome

    @property
    def _had_no_effect(self) -> bool:
        """True if no outside effect can have happened."""
        return not self.ran or isinstance(self.error, Refused | NotReached)

    @staticmethod
    def _unknown_effect(outcome: Outcome) -> Outcome:
        return Outcome(ok=False, output={**outcome.output, "retryable": False, "suggestion": _ASK_PERSON})

    @property
    def _failed_service(self) -> str:
        """Name of the service outside that failed; empty if none is named."""
        return next((each.service for each in self._errors if isinstance(each, Unavailable)), "")

    @property
    def _errors(self) -> tuple[Exception | None, ...]:
        """The error of the call; after the deadline, the one of its last try first."""
        return (self.retried, self.error) if isinstance(self.error, TimedOut) else (self.error,)

    def _verdict(self, outcome: Outcome) -> Verdict:
        """Return the result for the breaker; what the input causes says nothing about the tool."""
        of_input = Refused | Limited | Oversized | DeadLink | UnusableAnswer
        if not self.ran or any(isinstance(each, of_input) for each in self._errors):
            return "neutral"
        if self.error:
            return "failed"
        return "ok" if outcome.ok else "neutral"

    async def cancel(self) -> None:
        """Refuse late writes and record the cancellation, if storage answers."""
        under_way = OutcomeUnknown("The run was cancelled while this call was under way", remedy=_ASK_PERSON)
        with suppress(StorageDown, Fenced):
            await self.report(outcome_of_error(under_way) if self.tool.outside and self.ran else CANCELLED)

    async def _claim(self) -> RecordedResult | None:
        """Claim the step, or read the cache; return the result of an earlier attempt, if any."""
        if self.tool.effect == "read":
            answer = await self._execute_with_admission(
                self.artefact.cache_read_call(self.scope.owner, self.cache_key)
            )
            self.artefact.require_allowed(answer)
            if self.cache_key:
                self.cached_text = answer[1].decode() if answer[1] else None
                self.cached = self.cached_text is not None
            return None
        scope, unsure = self.scope, self.tool.outside and not self.tool.idempotent
        writes = () if self.tool.writes_some else tuple(sorted(self.writes))
        claim = Claim(self.record.name, scope.epoch, scope.owner, scope.thread, scope.facts, writes, unsure)
        claimed = self.artefact.read_claim(
            claim, await self._execute_with_admission(self.artefact.claim_call(claim))
        )
        if isinstance(claimed, RecordedResult):
            return claimed
        self.fence = claimed
        return None

    async def _execute_with_admission(self, first: ScriptCall) -> Sequence[bytes]:
        """Execute `first` together with the start of the record and the admission; return its reply."""
        calls = [first, self.record.started_call(), self._admit_call()]
        answer, _, entry = await self.storage.redis.execute_batch(calls)
        self.admission = tool_admission.read_admission(entry)
        result: Sequence[bytes] = answer
        return result

    async def _wait_for_admission(self) -> None:
        """Return once the call is admitted; a step of a plan waits, another call is refused."""
        while isinstance(self.admission, Rejected):
            await self._wait_or_refuse(self.admission)
            calls = [self.record.started_call(), self._admit_call()]
            _, entry = await self.storage.redis.execute_batch(calls)
            self.admission = tool_admission.read_admission(entry)
        self.admitted = True

    async def _wait_or_refuse(self, turned: Rejected) -> None:
        """Wait until the limit allows the call; raise if the call may not wait or the breaker is open."""
        if turned.reason == "open":
            raise Unavailable(
                f"{self.tool.name} has failed {self.limits.failures} times in a row and rests",
                remedy="Do without it, or try again later",
                details={"retryAfterSeconds": turned.retry_after_s},
            )
        if not self.scope.patient:
            raise Limited(
                f"{self.tool.name} may be called {self.limits.calls} times in {self.limits.window_s:g} s",
                remedy=f"Wait {turned.retry_after_s:.0f} s, or do without it",
                details={"retryAfterSeconds": turned.retry_after_s},
            )
        await self.storage.redis.execute_batch([self.record.waiting_call()])
        await asyncio.sleep(turned.retry_after_s)

    def _admit_call(self) -> ScriptCall:
        return tool_admission.admit_call(self.limits, self.scope.owner, self.record.call)

    async def _run_with_deadline(self) -> dict[str, Any]:
        self.ran = True
        deadline = Deadline(self.policy.timeout_s, grows=self.grows)
        try:
            return await deadline.run(self._run_with_retries())
        except DeadlineExceeded:
            self.error = self._timeout_error(deadline.limit_s)
            raise self.error from None
        except Exception as error:
            self.error = error
            raise

    async def _run_with_retries(self) -> dict[str, Any]:
        while True:
            self.tries += 1
            try:
                return self._check_output(await self._run_once())
            except Unavailable as error:
                if self.tries >= self.policy.tries or not self._may_retry(error):
                    raise
                self.retried = error
            await asyncio.sleep(_JITTER.uniform(0, self.policy.backoff_s * 2 ** (self.tries - 1)))
            if self.tool.writes and self.fence:
                renewed = await self.artefact.revoke(self.fence, idle=False)
                if isinstance(renewed, RecordedResult):
                    return renewed.result
                self.fence = renewed

    async def _run_once(self) -> dict[str, Any]:
        call = Call(self.scope, self.artefact, self.step["id"], self.writes, self.fence)
        if lease := LEASE.get():
            await lease.require()
        return await _run_tool(self.tool, self.args, call, self.policy)

    def _may_retry(self, error: Unavailable) -> bool:
        """Return True if a retry cannot repeat an effect."""
        if isinstance(error, StorageDown | Limited | OutcomeUnknown | UnusableAnswer):
            return False
        return not self.tool.outside or self.tool.idempotent or isinstance(error, NotReached)

    def _check_output(self, output: dict[str, Any]) -> dict[str, Any]:
        self.text = _FINITE.encode(output)
        self.cacheable = self.tool.cacheable is None or self.tool.cacheable(output)
        size = len(self.text.encode())
        if size > self.policy.output_bytes:
            raise Oversized(
                f"{self.tool.name} gave {size} bytes, over its limit of {self.policy.output_bytes}",
                remedy="Ask for less at once",
            )
        return output

    def _timeout_error(self, limit_s: float) -> Unavailable:
        spent = f"{self.tool.name} gave no answer within {limit_s:g} s"
        if self.tool.outside and not self.tool.idempotent:
            return OutcomeUnknown(f"{spent}, and nobody knows whether it had its effect", remedy=_ASK_PERSON)
        nothing = "; nothing was written" if self.tool.writes else ""
        return TimedOut(f"{spent}{nothing}", remedy="Try again, or ask for less at once")

    def _lookup_digest(self) -> str:
        """Return the digest of tool, arguments and caller."""
        scope = self.scope
        caller = (scope.owner, sorted(scope.facts.items()), scope.selected)
        parts = (self.tool.name, self.args.model_dump(mode="json"), *caller)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

"""One attempt at a call: claimed, let in, carried out in time, tried again where that is safe, and told.

Two round trips to storage and the tool's own: the claim, the beginning of the record and whether it may be
called now; and how it went, to the breaker, the cache and the record.
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
    Fenced,
    Limited,
    NotReached,
    OutcomeUnknown,
    Oversized,
    Refused,
    StorageDown,
    TimedOut,
    Unavailable,
)
from callsheet.state.plan import Step
from callsheet.storage import tool_admission
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.receipts import Claim, Done, Fence
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Command, ScriptCall
from callsheet.storage.tool_admission import Admitted, Rejected, ToolLimits, Verdict
from callsheet.tools.guard.call import Call, Scope
from callsheet.tools.guard.execution import DeadlineExceeded, run_tool, run_with_deadline
from callsheet.tools.guard.outcome import Outcome, failed_outcome, outcome_of_error
from callsheet.tools.guard.policy import EffectivePolicy, ToolPolicy
from callsheet.tools.guard.record import CallRecord
from callsheet.tools.registry import Tool

CANCELLED: Final = failed_outcome(
    "execution_error",
    "The run was cancelled before this call was carried out",
    suggestion="Call it again if it is still wanted",
    retryable=True,
)
"""What is told of a call that was cancelled."""


def abandoned_outcome(tool: Tool | None) -> Outcome:
    """Return what is told of a call that has no receipt and will not be gone on with."""
    if tool is None or not tool.outside or tool.idempotent:
        return CANCELLED
    return outcome_of_error(
        OutcomeUnknown("The run was cancelled, and this call may have had its effect", remedy=_ASK)
    )


_ASK: Final = "Ask the person whether it happened before you try it again"
_FINITE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_JITTER: Final = random.SystemRandom()


class ResolvedTool(NamedTuple):
    """What calls of a tool are held to."""

    terms: EffectivePolicy
    gate: ToolLimits


@lru_cache(maxsize=1024)
def resolve_tool(tool: Tool, house: ToolPolicy) -> ResolvedTool:
    """Return what calls of the tool are held to where the operator says what `house` does."""
    terms = house.effective(tool.name, tool.terms, calls=tool.calls)
    most, rest = (terms.calls, terms.window_s), (terms.failures, terms.rest_s)
    return ResolvedTool(
        terms, ToolLimits(tool.name, tool.rate_key or tool.name, *most, *rest, terms.timeout_s)
    )


@dataclass
class Attempt:
    """An attempt at one call of a known tool with valid arguments, by someone who may."""

    storage: Storage
    tool: Tool
    held: ResolvedTool
    args: BaseModel
    record: CallRecord
    terms: EffectivePolicy = field(init=False)
    gate: ToolLimits = field(init=False)
    scope: Scope = field(init=False)
    """Who asks, and about what."""
    step: Step = field(init=False)
    """What is to be done."""
    artefact: Artefact = field(init=False)
    """What the conversation is about."""
    question: str | None = field(init=False)
    """What a look-up asks, as a digest; None where results are not remembered."""
    fence: Fence | None = None
    """Leave for the effect, for a tool that has one."""
    let_in: bool = False
    entry: Rejected | Admitted | None = None
    """What the gate says of it, which is asked before it is known whether there is a call to make."""
    ran: bool = False
    cached: bool | None = None
    """Whether the result was remembered; None where nothing is."""
    tries: int = 0
    failed: Exception | None = None
    """What the tool itself raised."""
    known: str | None = None
    """The result that is remembered of the same question, JSON."""
    text: str = ""
    """The result as JSON, once there is one."""
    lasts: bool = True
    """Whether the result may answer the same question later."""

    def __post_init__(self) -> None:
        self.terms, self.gate = self.held
        self.step, self.scope = self.record.step, self.record.scope
        self.artefact = Artefact(self.storage, self.scope.kind, self.scope.artefact, self.scope.owner)
        self.question = self._question() if self.terms.cache_s and self.tool.is_pure_lookup else None

    async def run(self) -> dict[str, Any]:
        """Carry it out, or find what it did before; raises what is wrong with it."""
        done = await self._begun()
        if done:
            return done.result
        await self._admitted()
        if self.known is not None:
            found: dict[str, Any] = json.loads(self.known)
            return found
        return await self._tried()

    async def report(self, outcome: Outcome) -> Outcome:
        """Tell storage how it went; return the outcome, which an effect that did happen makes a good one."""
        if not outcome.ok and self.fence:
            outcome = await self._taken_back(self.fence, outcome)
        text, cached = self._text(outcome), bool(self.cached)
        asked: list[ScriptCall | Command] = [
            self.record.ended_call(outcome, text, tries=self.tries, cached=cached)
        ]
        if isinstance(self.entry, Admitted):
            asked += self._left(self.entry, outcome)
        if outcome.ok and self.tool.writes:
            asked += self.artefact.index_calls(self.scope.owner, self.scope.thread)
        kept = self._kept() if outcome.ok and self.ran else []
        answers = await self.storage.redis.execute_batch([*asked, *kept])
        if kept and self.tool.outside and answers[-1][0] == b"fenced":
            raise Fenced(f"call {self.step['id']!r} was taken over by a later attempt")
        return outcome

    def _left(self, entry: Admitted, outcome: Outcome) -> Sequence[ScriptCall | Command]:
        """Return what tells the gate how a call went that was let in, or that none was made."""
        name = self.record.call
        if self.let_in:
            return tool_admission.report_calls(self.gate, name, self._verdict(outcome), entry)
        return tool_admission.withdraw_calls(self.gate, self.scope.owner, name, entry)

    def _text(self, outcome: Outcome) -> str:
        """Return the output as JSON where it was made already; what a receipt says was not."""
        return self.known or (self.text if outcome.ok and self.ran and not self.failed else "")

    def _kept(self) -> list[ScriptCall | Command]:
        """Return what writes the receipt of an effect outside, or remembers the result of a look-up."""
        if self.tool.outside and self.fence:
            return [self.artefact.receipt_call(self.fence, self.text)]
        if self.question and self.lasts:
            return [self.artefact.cache_write_call(self.question, self.text, self.terms.cache_s)]
        return []

    async def _taken_back(self, fence: Fence, outcome: Outcome) -> Outcome:
        """Refuse a late write, and say what is known of the effect."""
        if self.tool.outside and not self._harmless:
            return outcome if self.tool.idempotent else self._unsure(outcome)
        done = await self.artefact.revoke(fence)
        return Outcome(ok=True, output=done.result) if isinstance(done, Done) else outcome

    @property
    def _harmless(self) -> bool:
        """Whether nothing can have happened outside."""
        return not self.ran or isinstance(self.failed, Refused | NotReached)

    @staticmethod
    def _unsure(outcome: Outcome) -> Outcome:
        return Outcome(ok=False, output={**outcome.output, "retryable": False, "suggestion": _ASK})

    def _verdict(self, outcome: Outcome) -> Verdict:
        if not self.ran or isinstance(self.failed, Refused | Limited | Oversized):
            return "neutral"
        if self.failed:
            return "failed"
        return "ok" if outcome.ok else "neutral"

    async def cancelled(self) -> None:
        """Refuse what it may still write, and record that it was cancelled, as far as storage lets us."""
        under_way = OutcomeUnknown("The run was cancelled while this call was under way", remedy=_ASK)
        with suppress(StorageDown, Fenced):
            await self.report(outcome_of_error(under_way) if self.tool.outside and self.ran else CANCELLED)

    async def _begun(self) -> Done | None:
        """Claim the step, or look what is remembered; return what it did in an earlier attempt."""
        if self.tool.effect == "read":
            answer = await self._entered(self.artefact.cache_read_call(self.scope.owner, self.question))
            self.artefact.require_allowed(answer)
            if self.question:
                self.known = answer[1].decode() if answer[1] else None
                self.cached = self.known is not None
            return None
        scope, unsure = self.scope, self.tool.outside and not self.tool.idempotent
        writes = tuple(sorted(self.tool.writes))
        claim = Claim(self.record.name, scope.epoch, scope.owner, scope.thread, scope.facts, writes, unsure)
        found = self.artefact.read_claim(claim, await self._entered(self.artefact.claim_call(claim)))
        if isinstance(found, Done):
            return found
        self.fence = found
        return None

    async def _entered(self, first: ScriptCall) -> Sequence[bytes]:
        """Ask `first` and, with it, begin the record and hear the gate, in case there is a call to make."""
        asked = [first, self.record.started_call(), self._admitting()]
        answer, _, entry = await self.storage.redis.execute_batch(asked)
        self.entry = tool_admission.read_admission(entry)
        found: Sequence[bytes] = answer
        return found

    async def _admitted(self) -> None:
        """Return once the call may be made; a step of a plan waits for it, another is refused."""
        while isinstance(self.entry, Rejected):
            await self._turned(self.entry)
            asked = [self.record.started_call(), self._admitting()]
            _, entry = await self.storage.redis.execute_batch(asked)
            self.entry = tool_admission.read_admission(entry)
        self.let_in = True

    async def _turned(self, turned: Rejected) -> None:
        """Wait for another turn where that is wanted; raises why there is none."""
        if turned.reason == "open":
            raise Unavailable(
                f"{self.tool.name} has failed {self.gate.failures} times in a row and rests",
                remedy="Do without it, or try again later",
                details={"retryAfterSeconds": turned.wait_s},
            )
        if not self.scope.patient:
            raise Limited(
                f"{self.tool.name} may be called {self.gate.calls} times in {self.gate.window_s:g} s",
                remedy=f"Wait {turned.wait_s:.0f} s, or do without it",
                details={"retryAfterSeconds": turned.wait_s},
            )
        await self.storage.redis.execute_batch([self.record.waiting_call()])
        await asyncio.sleep(turned.wait_s)

    def _admitting(self) -> ScriptCall:
        return tool_admission.admit_call(self.gate, self.scope.owner, self.record.call)

    async def _tried(self) -> dict[str, Any]:
        self.ran = True
        try:
            return await run_with_deadline(self._tries(), self.terms.timeout_s)
        except DeadlineExceeded:
            self.failed = self._late()
            raise self.failed from None
        except Exception as error:
            self.failed = error
            raise

    async def _tries(self) -> dict[str, Any]:
        while True:
            self.tries += 1
            try:
                return self._measured(await self._once())
            except Unavailable as error:
                if self.tries >= self.terms.tries or not self._again(error):
                    raise
            await asyncio.sleep(_JITTER.uniform(0, self.terms.backoff_s * 2 ** (self.tries - 1)))
            if self.tool.writes and self.fence:
                renewed = await self.artefact.revoke(self.fence, idle=False)
                if isinstance(renewed, Done):
                    return renewed.result
                self.fence = renewed

    async def _once(self) -> dict[str, Any]:
        call = Call(self.scope, self.artefact, self.step["id"], self.tool.writes, self.fence)
        return await run_tool(self.tool, self.args, call, self.terms)

    def _again(self, error: Unavailable) -> bool:
        """Return whether trying again cannot make an effect twice (C-R6)."""
        if isinstance(error, StorageDown | Limited | OutcomeUnknown):
            return False
        return not self.tool.outside or self.tool.idempotent or isinstance(error, NotReached)

    def _measured(self, made: dict[str, Any]) -> dict[str, Any]:
        self.text = _FINITE.encode(made)
        self.lasts = self.tool.lasts is None or self.tool.lasts(made)
        size = len(self.text.encode())
        if size > self.terms.output_bytes:
            raise Oversized(
                f"{self.tool.name} gave {size} bytes, over its limit of {self.terms.output_bytes}",
                remedy="Ask for less at once",
            )
        return made

    def _late(self) -> Unavailable:
        spent = f"{self.tool.name} gave no answer within {self.terms.timeout_s:g} s"
        if self.tool.outside and not self.tool.idempotent:
            return OutcomeUnknown(f"{spent}, and nobody knows whether it had its effect", remedy=_ASK)
        nothing = "; nothing was written" if self.tool.writes else ""
        return TimedOut(f"{spent}{nothing}", remedy="Try again, or ask for less at once")

    def _question(self) -> str:
        """Return what is asked, and for whom, as a digest."""
        scope = self.scope
        whose = (scope.owner, sorted(scope.facts.items()), scope.selected)
        asked = (self.tool.name, self.args.model_dump(mode="json"), *whose)
        return hashlib.sha256(repr(asked).encode()).hexdigest()[:32]

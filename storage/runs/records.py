"""Records of runs as processes hand them to one another."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.events import END, PAUSED, Event

Status = Literal["pending", "running", "success", "error", "interrupted", "timeout"]
"""How a run stands, as LangGraph's clients know it; one that asks a person something has succeeded."""
Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""What a new run does where another has the thread: be refused, wait, or end the other (without a trace)."""
Action = Literal["interrupt", "rollback"]
"""How a run is cancelled: what it did stays, or goes."""
Cancelled = Literal["ended", "over", "asked"]
"""What a cancellation came to: it ended the run; the run had ended before; whoever is at it is told."""
Verdict = Literal["start", "queued", "later", "attached", "replay", "changed"]
"""What became of a wanted run: it may start; it waits for another, or for its time; it exists; it is over;
or it was not recorded, for its thread is not as it was when it was wanted."""
Ending = Literal["success", "error", "interrupted", "timeout", "rolled-back"]
"""How an attempt ends its run; one that is rolled back leaves no record."""


class ThreadPrecondition(NamedTuple):
    """What a run expects of its thread, and what makes one that has no graph yet one of the run's."""

    owner: str
    before: str
    """Its metadata as it is now, JSON."""
    metadata: str
    """And as it will be; empty where it stays as it is."""
    graph: str


@dataclass(frozen=True)
class RunRequest:
    """A run that a caller wants on a thread."""

    id: str
    graph: str
    owner: str
    request: Mapping[str, Any]
    """What the graph is to be given, and how it is to be run; JSON."""
    assistant: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    strategy: Strategy = "enqueue"
    fingerprint: str = ""
    """SHA-256 in hex of what makes the request what it is. The same one takes the thread's unfinished run up
    again instead of making another; empty: every request is a run of its own."""
    idempotency_key: str | None = None
    """Needs a fingerprint."""
    due_ms: int = 0
    """Milliseconds of the epoch before which it does not start; 0 is at once."""
    adopting: ThreadPrecondition | None = None
    """What its thread must be, and becomes as it is recorded; None for one that is made with it."""
    questions: Sequence[str] = ()
    """What it answers, without spaces: a question that an open run answers is taken."""

    def to_run(self, thread: str) -> "Run":
        """Return the run as it is recorded once an attempt at it has begun on `thread`."""
        now_ms = int(time.time() * 1000)
        # As JSON has it: an attempt elsewhere would be given the same.
        request, metadata = json.loads(json.dumps([self.request, self.metadata]))
        return Run(
            *(thread, self.id, self.graph, self.owner, self.assistant, "running", request, metadata),
            *(self.strategy, now_ms, now_ms, 0, None, None, None),
            webhook_told=False,
        )


@dataclass(frozen=True)
class Run:
    """A run as it is recorded."""

    thread: str
    id: str
    graph: str
    owner: str
    assistant: str
    status: Status
    request: Mapping[str, Any]
    metadata: Mapping[str, Any]
    strategy: Strategy
    created_ms: int
    updated_ms: int
    due_ms: int
    error: Mapping[str, Any] | None
    """`{error, message}`: the kind of what went wrong, and a sentence."""
    answer: Mapping[str, Any] | None
    """What its caller is told; kept for who asks again."""
    cancel: Action | None
    """How it is to be cancelled, once somebody asked for it."""
    webhook_told: bool
    """Whether its webhook was told, or given up."""

    @property
    def is_stateless(self) -> bool:
        """Whether its thread goes with it."""
        return self.thread == self.id


@dataclass(frozen=True)
class Attempt:
    """A run that this process holds."""

    thread: str
    run: str
    epoch: int
    number: int
    """Counted from 1."""
    begun: Event
    """How the thread was told of it."""


@dataclass(frozen=True)
class Created:
    """What became of a wanted run."""

    verdict: Verdict
    run: str
    """Its id, or that of the run the same request made."""
    since: str
    """The thread's newest event before."""
    attempt: Attempt | None = None
    """The attempt at it that this process holds, where it asked for one and the thread was free."""


@dataclass(frozen=True)
class LeaseHeld:
    """Another process is at the run; its lease expires in `left_s`."""

    left_s: float


@dataclass(frozen=True)
class CrashSuspect:
    """Attempts at the run have died: its process may have died of it, or of another run it had beside it."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, and what is left to know of the thread."""

    ending: Ending
    thread: Literal["idle", "interrupted", "error"] = "idle"
    interrupts: Mapping[str, Any] = field(default_factory=dict)
    """Task id to its interrupts, as LangGraph's clients know them."""
    error: Mapping[str, Any] | None = None
    answer: Mapping[str, Any] | None = None
    told: Sequence[tuple[str, bytes]] = ()
    """Last events (name, JSON): whoever has read them finds the thread as they say."""

    @property
    def events(self) -> list[tuple[str, bytes]]:
        """The last events and the run's end."""
        asks = self.ending == "success" and self.thread == "interrupted"
        return [*self.told, (END, (PAUSED if asks else self.ending).encode())]


OPEN_STATUSES: Final = ("pending", "running")
_AT_ONCE: Final = 1_000


async def count_open(storage: Storage) -> Mapping[str, int]:
    """Return how many runs wait and how many are under way; those whose time has not come wait.

    Reads every open run's status, a thousand in a round trip.
    """
    found: Counter[str] = Counter()
    start = 0
    while members := await storage.redis.zrange(keys.open_runs(), start, start + _AT_ONCE - 1):
        pipeline = storage.redis.pipeline(transaction=False)
        for member in members:
            run, _, thread = member.decode().partition("\0")
            pipeline.hget(keys.run(thread, run), "status")
        found.update((status or b"").decode() for status in await pipeline.execute())
        start += _AT_ONCE
    return {status: found[status] for status in OPEN_STATUSES}

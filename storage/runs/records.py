"""Values that describe runs, their attempts and their outcomes."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from callsheet.state.errors import Conflict
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.events import PAUSED, NewEvent

Status = Literal["pending", "running", "success", "error", "interrupted", "timeout"]
"""Status of a run on the LangGraph wire; a run that asks a person something has succeeded."""
Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""Handling of a new run on a busy thread: refuse it, queue it, interrupt the active run, or undo that run."""
Action = Literal["interrupt", "rollback"]
"""Kind of cancellation: keep the effects of the run, or undo them."""
CancelResult = Literal["ended", "over", "asked", "free"]
"""Result of a cancellation: ended now; had ended before; requested from the process that runs it; or
recorded for whoever claims it, since no process executes it and its checkpoints are read or deleted first."""
Verdict = Literal["start", "queued", "later", "attached", "replay", "changed"]
"""Result of a run request: may start; waits in the queue; waits for its time; joins the open run of the same
request; repeats its finished run; or is not recorded, since the thread does not meet the precondition."""
Ending = Literal["success", "error", "interrupted", "timeout", "rolled-back"]
"""End of an attempt and its run; a run that is rolled back leaves no record."""


class ThreadPrecondition(NamedTuple):
    """Expected state of a thread when a run is recorded, and the change if it has no, or another, graph."""

    owner: str
    expected_metadata: str
    """JSON."""
    new_metadata: str
    """JSON; empty for no change."""
    graph: str
    replaced: str = ""
    """Graph of the earlier runs, if it is another one."""


@dataclass(frozen=True)
class RunRequest:
    """Request for a run on a thread."""

    thread: str
    id: str
    graph: str
    owner: str
    request: Mapping[str, Any]
    """Input of the graph and options of the run, as `request_fields` returns them; JSON."""
    assistant: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    strategy: Strategy = "enqueue"
    artefact: str = ""
    """`kind:id` of the artefact that the thread is about; not stored with the run."""
    fingerprint: str = ""
    """SHA-256 of the request in hex. An equal one resumes the thread's unfinished run instead of creating
    another; an empty one always creates a run."""
    idempotency_key: str | None = None
    """Requires a fingerprint."""
    due_ms: int = 0
    """Unix time of the earliest start in milliseconds; 0 for now."""
    precondition: ThreadPrecondition | None = None
    """Checked and applied when the run is recorded; None for a thread that is created with the run."""
    questions: Sequence[str] = ()
    """Ids, without spaces, of the questions that the run answers; one open run at most answers each."""
    answers: Sequence[str] = ()
    """Records of these answers as JSON, which the thread keeps (`storage/questions.py`)."""

    @property
    def is_stateless(self) -> bool:
        """True if the thread was created for this run and is deleted with it."""
        return self.thread == self.id

    def to_run(self) -> "Run":
        """Return the record of the run as if its first attempt had started now."""
        now_ms = int(time.time() * 1000)
        # The JSON round trip gives exactly what an attempt in another process would read.
        request, metadata = json.loads(json.dumps([self.request, self.metadata]))
        names = (self.thread, self.id, self.graph, self.owner)
        return Run(
            *names,
            request,
            self.assistant,
            metadata,
            self.strategy,
            status="running",
            created_ms=now_ms,
            updated_ms=now_ms,
        )


@dataclass(frozen=True, kw_only=True)
class Run(RunRequest):
    """A recorded request, and the state of its run."""

    status: Status
    created_ms: int
    updated_ms: int
    error: Mapping[str, Any] | None = None
    """`{error, message}`: the kind of error, and a sentence."""
    answer: Mapping[str, Any] | None = None
    """Answer for the caller, kept in case the same request comes again."""
    cancel: Action | None = None
    """Requested cancellation, if any."""
    webhook_called: bool = False
    """True once the webhook was called or given up."""
    fingerprint: str = ""
    """That of its request."""
    attempts: int = 0
    """Attempts that processes have begun."""
    failure_listed_ms: int = 0
    """`updated_ms` of the failure that operators' list has; 0 for none."""


def request_fields(**chosen: Any) -> dict[str, Any]:
    """Return the fields of a run's request: `chosen`, and LangGraph's defaults for the rest."""
    defaults: dict[str, Any] = {
        "input": None,
        "command": None,
        "answers": None,
        "questions": None,
        "config": {},
        "context": None,
        "checkpoint": None,
        "stream_mode": ["values"],
        "subgraphs": False,
        "protocol": False,
        "interrupt_before": None,
        "interrupt_after": None,
        "temporary": False,
        "reply": False,
        "webhook": None,
        "resumable": False,
    }
    return defaults | chosen


@dataclass(frozen=True)
class RunAttempt:
    """Execution of a run by this process."""

    thread: str
    run: str
    epoch: int
    number: int
    """Counted from 1."""
    started_id: str
    """Id of the event that announced the attempt on the thread."""
    lease_ends_s: float
    """End of the first lease, by `now_s`."""

    @property
    def started_ms(self) -> int:
        """Unix time of the start in milliseconds, by Redis' clock."""
        return int(self.started_id.partition("-")[0])


@dataclass(frozen=True)
class Created:
    """Result of a run request."""

    verdict: Verdict
    run: str
    """Id of the recorded run, or of the earlier run of the same request."""
    since: str
    """Id of the thread's newest event before the run."""


@dataclass(frozen=True)
class LeaseHeld:
    """Another process executes the run."""

    remaining_s: float
    """Seconds until its lease expires."""


@dataclass(frozen=True)
class CrashSuspect:
    """Earlier attempts at the run crashed; this run, or another in the same process, may be the cause.

    It is suspect no more if the thread's newest checkpoint is another one.
    """

    checkpoint: str
    """Id of the checkpoint at which it crashed last but one; empty if there was none."""


@dataclass(frozen=True)
class RunOutcome:
    """End of an attempt, and the resulting state of the thread."""

    ending: Ending
    thread: Literal["idle", "interrupted", "error"] = "idle"
    interrupts: Mapping[str, Any] = field(default_factory=dict)
    """Interrupts by task id, as on the LangGraph wire."""
    error: Mapping[str, Any] | None = None
    answer: Mapping[str, Any] | None = None
    words: str = ""
    """Message of this run that answered the question which waited before it; empty for none."""
    answers: Sequence[str] = ()
    """Records of the answers that these words are, as JSON, stored atomically with the end of the run."""
    final_events: Sequence[NewEvent | tuple[str, bytes]] = ()
    """Last events (name, JSON, …), stored atomically with the state of the thread."""

    @property
    def end_data(self) -> str:
        """Data of the run's last event, `END`."""
        is_paused = self.ending == "success" and self.thread == "interrupted"
        return PAUSED if is_paused else self.ending


OPEN_STATUSES: Final = ("pending", "running")
_PAGE_SIZE: Final = 1_000


async def count_open(storage: Storage) -> Mapping[str, int]:
    """Return the number of pending runs (with those not yet due) and of running runs.

    Reads the status of every open run, a thousand per round trip.
    """
    counts: Counter[str] = Counter()
    start = 0
    while members := await storage.redis.zrange(keys.open_runs(), start, start + _PAGE_SIZE - 1):
        pipeline = storage.redis.pipeline(transaction=False)
        for member in members:
            run, _, thread = member.decode().partition("\0")
            pipeline.hget(keys.run(thread, run), "status")
        counts.update((status or b"").decode() for status in await pipeline.execute())
        start += _PAGE_SIZE
    return {status: counts[status] for status in OPEN_STATUSES}


def now_s() -> float:
    """Return the seconds since this machine started; while it was suspended, too, where they are counted."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def unfinished_import(thread: str) -> Conflict:
    """Return the error for a thread whose import has not ended, or was cut."""
    return Conflict(
        f"the import of thread {thread!r} is not finished",
        remedy="wait until it is; if it was cut, import the same file again",
    )

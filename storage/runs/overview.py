"""Unfinished and failed runs of all owners, for operators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from callsheet.storage import journals
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import OPEN_STATUSES, Run, Status

MAX_FAILURES: Final = 10_000
"""Failed runs that are remembered."""
FAILED_STATUSES: Final = ("error", "timeout")
_PAGE_SIZE: Final = 500
_MAX_MESSAGE: Final = 300
_FIELDS: Final = ("graph", "owner", "status", "createdMs", "attempt")


@dataclass(frozen=True)
class RunSummary:
    """A run without its request and its answer."""

    thread: str
    id: str
    graph: str
    owner: str
    status: Status
    created_ms: int
    attempts: int
    ended_ms: int = 0
    """Time of its failure; 0 for an unfinished run."""
    error: str = ""
    """Kind of error of a failed run."""
    message: str = ""


async def read_open(storage: Storage) -> list[RunSummary]:
    """Return all unfinished runs, in no order; their number of round trips grows by one in five hundred."""
    runs: list[RunSummary] = []
    start = 0
    while members := await storage.redis.zrange(keys.open_runs(), start, start + _PAGE_SIZE - 1):
        names = [member.decode().partition("\0")[::2] for member in members]
        pipeline = storage.redis.pipeline(transaction=False)
        for run, thread in names:
            pipeline.hmget(keys.run(thread, run), _FIELDS)
        for (run, thread), record in zip(names, await pipeline.execute(), strict=True):
            if record[0] and record[2].decode() in OPEN_STATUSES:
                runs.append(_summary(thread, run, record))
        start += _PAGE_SIZE
    # A run whose next check changes while the pages are read may be on two of them.
    return [*{(run.thread, run.id): run for run in runs}.values()]


def _summary(thread: str, run: str, record: Sequence[bytes | None]) -> RunSummary:
    graph, owner, status, created, attempts = ((one or b"").decode() for one in record)
    return RunSummary(thread, run, graph, owner, cast("Status", status), int(created), int(attempts or 0))


async def record_failure(storage: Storage, run: Run) -> None:
    """Remember a run that an error ended."""
    error: Mapping[str, Any] = run.error or {}
    entry = {
        "thread": run.thread,
        "id": run.id,
        "graph": run.graph,
        "owner": run.owner,
        "status": run.status,
        "created_ms": run.created_ms,
        "attempts": run.attempts,
        "error": str(error.get("error", "")),
        "message": str(error.get("message", ""))[:_MAX_MESSAGE],
    }
    await journals.append(storage, keys.FAILED_RUNS, entry, ttl_s=keys.FAILED_RUNS_TTL_S)
    await journals.trim(storage, keys.FAILED_RUNS, MAX_FAILURES)


async def read_failures(storage: Storage, since_ms: int) -> list[RunSummary]:
    """Return the runs that failed since a time, newest first."""
    entries = await journals.read(storage, keys.FAILED_RUNS, since_ms=since_ms, most=MAX_FAILURES)
    return [RunSummary(**entry.fields, ended_ms=entry.at_ms) for entry in entries]

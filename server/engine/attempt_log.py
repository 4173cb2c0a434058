"""The log line of an ended attempt at a run: outcome, times, model calls, and the cause of a failure."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from callsheet.server.engine.errors import serialize_error
from callsheet.state.errors import CallsheetError, Fenced
from callsheet.storage.runs.records import Run, RunAttempt, RunOutcome
from callsheet.storage.spending import ModelUsage
from callsheet.tools.models.calls import collect_usage

_CRASH_REMEDY: Final = (
    "look at the end of that process's log, and at the system's, for example for a lack of memory"
)
_log = logging.getLogger(__name__)


class AttemptLog:
    """The line of one attempt."""

    def __init__(self, run: Run, attempt: RunAttempt, used: list[ModelUsage]) -> None:
        self._used = used
        self._began_s = time.monotonic()
        requested_ms = max(run.created_ms, run.due_ms)
        self.waited_s: Final = round(max(0, attempt.started_ms - requested_ms) / 1000, 3)
        """Seconds from the request, or its due time, to the start of the attempt."""
        self._facts = {"attempt": attempt.number, "waited_s": self.waited_s}

    def log_outcome(self, outcome: RunOutcome, error: Exception | None) -> None:
        """Log the end of the run; `error` is the exception that ended it, if any."""
        if error is not None:
            self._log_failure(outcome.ending, error)
            return
        asks = [each["value"] for task in outcome.interrupts.values() for each in task]
        question = {"question": _question_type(asks[0])} if asks and outcome.ending == "success" else {}
        text = "run waits for an answer" if question else f"run ended: {outcome.ending}"
        _log.info("%s", text, extra=self._fields(outcome.ending) | question)

    def log_stop(self, error: BaseException) -> None:
        """Log an attempt that has ended without ending its run; another attempt continues."""
        if isinstance(error, CallsheetError):
            self._log_failure("fenced" if isinstance(error, Fenced) else "repeated", error)
        else:
            _log.info("run handed over to another process", extra=self._fields("handed_over"))

    def _log_failure(self, status: str, error: Exception) -> None:
        record = serialize_error(error)
        cause = {"kind": record["error"], "remedy": record.get("remedy", "")}
        _log.warning(
            "run failed: %s",
            record.get("said") or ": ".join(filter(None, (record["error"], record["message"]))),
            extra=self._fields(status) | {name: text for name, text in cause.items() if text},
            # The place of an error of our own is in its message.
            exc_info=None if isinstance(error, CallsheetError) else error,
        )

    def _fields(self, status: str) -> dict[str, Any]:
        used = sum(self._used, ModelUsage())
        cost = {"cost_usd": round(used.cost, 9)} if used.calls and not used.unpriced else {}
        took_s = round(time.monotonic() - self._began_s, 3)
        return {"status": status, "took_s": took_s, **self._facts, "model_calls": used.calls, **cost}


@contextmanager
def log_attempt(run: Run, attempt: RunAttempt) -> Iterator[AttemptLog]:
    """Log the end of an attempt: by the caller, or here if it is stopped, fenced or cut off from storage."""
    with collect_usage() as used:
        line = AttemptLog(run, attempt, used)
        try:
            yield line
        except (Exception, asyncio.CancelledError) as error:
            line.log_stop(error)
            raise


def log_crash(attempt: RunAttempt) -> None:
    """Log that the attempt before `attempt` ended with its process, which could not log it itself."""
    _log.warning(
        "run failed: the process of attempt %d died, or stood still for longer than its lease",
        attempt.number - 1,
        extra={
            "status": "crashed",
            "attempt": attempt.number - 1,
            "kind": "Crashed",
            "remedy": _CRASH_REMEDY,
        },
    )


def _question_type(value: object) -> str:
    return str(value.get("type") or "") if isinstance(value, Mapping) else ""

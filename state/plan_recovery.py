"""The record of an execution that another attempt, task or run goes on with, or that Redis has lost.

Only results in the thread's state and receipts prove a step; another one is done again, or cancelled if a
person's word about it may be lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from callsheet.state.live_plan import (
    ENDED,
    Execution,
    LiveStep,
    as_cancelled,
    call_of,
    is_over,
    live_steps,
    require_newest,
)
from callsheet.state.plan import StepResult


def begin(record: Execution, task: str, epoch: int, now_ms: int) -> Execution:
    """Return the record as a task takes it over; raise `Fenced` if a later attempt has it.

    A step of a dead attempt of the same task stays in progress, so that its receipt is looked up. For another
    task it is pending again. A task that finds the execution completed or failed is a fork, and starts from
    the beginning. One that a person cancelled stays so: only a retry or a repetition of its steps starts it
    again. One whose run was cancelled or failed goes on where it was.
    """
    if record["task"] == task:
        require_newest(record, task, epoch)
    record = reopen(record)
    if record.get("waits"):
        record = _with(record, waits=False)
    if record["task"] == task:
        return _with(record, epoch=epoch)
    steps = record["steps"]
    if record["status"] == "cancelled":
        cut = [as_cancelled(one, now_ms) if one["status"] == "in-progress" else one for one in steps]
        return _with(record, task=task, epoch=epoch, steps=cut)
    if record["status"] in ENDED:
        steps = live_steps([one["step"] for one in steps])
    else:
        steps = [_as_pending(one) if one["status"] == "in-progress" else one for one in steps]
    started = record["started_ms"] or now_ms
    status = "paused" if record["status"] == "paused" else "running"
    return _with(record, task=task, epoch=epoch, steps=steps, status=status, started_ms=started, ended_ms=0)


def reopen(record: Execution) -> Execution:
    """Return the record as it was before it was abandoned: another run goes on with it."""
    if (status := record.get("abandoned")) is None:
        return record
    steps = [_as_pending(one) if one.get("cut") else one for one in record["steps"]]
    return _with(record, steps=steps, status=status, ended_ms=0, abandoned=None)


def _as_pending(one: LiveStep) -> LiveStep:
    """Return a step that was cut short as pending; its receipt is looked up under the same name."""
    return cast("LiveStep", {**one, "status": "pending", "output": {}, "ended_ms": 0, "cut": False})


def with_results(record: Execution, done: Sequence[StepResult]) -> Execution:
    """Return the record with the results that an earlier task left in the state."""
    known = {one["id"]: one for one in done if one["plan"] == record["id"]}
    steps = [
        cast("LiveStep", {**one, "status": result["status"], "output": result["output"]})
        if (result := known.get(one["step"]["id"]))
        else one
        for one in record["steps"]
    ]
    return _with(record, steps=steps)


def with_receipts(record: Execution, receipts: Mapping[str, Mapping[str, Any]], now_ms: int) -> Execution:
    """Return the record with the open and cut steps completed that have a receipt, by call id."""
    steps = [
        cast(
            "LiveStep", {**one, "status": "completed", "output": {**output}, "ended_ms": now_ms, "cut": False}
        )
        if _is_open(one) and (output := receipts.get(call_of(one)["id"])) is not None
        else one
        for one in record["steps"]
    ]
    return _with(record, steps=steps)


def open_calls(record: Execution) -> list[str]:
    """Return the ids of the calls of which the record does not know the end."""
    return [call_of(one)["id"] for one in record["steps"] if _is_open(one)]


def _is_open(one: LiveStep) -> bool:
    return one["status"] in {"pending", "in-progress"} or bool(one.get("cut"))


def lose(record: Execution, now_ms: int) -> Execution:
    """Return a record that Redis has lost, made again, with all that is open cancelled.

    People may have changed what was pending, so nothing more of it is carried out.
    """
    steps = [
        cast("LiveStep", {**one, "status": "cancelled", "output": _LOST, "ended_ms": now_ms, "cut": True})
        if _is_open(one)
        else one
        for one in record["steps"]
    ]
    return _with(record, status="cancelled", steps=steps, ended_ms=now_ms)


_LOST: Final = {
    "type": "execution_error",
    "error": "No result of it is known: the record of its plan was lost while the plan was paused",
    "suggestion": "Ask the person whether it is still wanted, and call it again then",
    "retryable": True,
}


def abandon(record: Execution, ended_ms: int) -> Execution:
    """Return the record with all that is open cancelled: nobody has carried it out since `ended_ms`."""
    steps = [
        cast("LiveStep", {**as_cancelled(one, ended_ms), "cut": True})
        if one["status"] in {"pending", "in-progress"}
        else one
        for one in record["steps"]
    ]
    if is_over(record):
        return _with(record, steps=steps, waits=False)
    return _with(
        record,
        status="cancelled",
        ended_ms=ended_ms,
        steps=steps,
        abandoned=record["status"],
        waits=False,
    )


def _with(record: Execution, **fields: Any) -> Execution:
    return cast("Execution", {**record, **fields})

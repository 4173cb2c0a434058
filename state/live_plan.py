"""An execution of a plan: one record that the executor and people change while it runs.

Every function returns a new record and raises `Conflict` for a change that comes too late. Storage applies
them one at a time, so that two changes never see the same record.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from callsheet.state.errors import Conflict, Fenced, Invalid, Missing
from callsheet.state.plan import Plan, Step, StepStatus, canonical_json, covers, waits_for, with_params

ChangeKind = Literal[
    "edited", "skipped", "inserted", "moved", "retried", "repeated", "paused", "resumed", "cancelled"
]
ExecutionStatus = Literal["planned", "running", "paused", "completed", "failed", "cancelled"]
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""Statuses of an execution that is over."""
MAX_STEPS: Final = 100
"""Most steps of an execution, with those that people insert."""
MAX_CHANGES: Final = 500
"""Changes after which people cannot edit, insert or pause any more."""
MAX_CHANGE_BYTES: Final = 1_000_000
"""Bytes of all changes as JSON: each look at an execution reads them."""


@dataclass(frozen=True)
class PlanRules:
    """The rules in which the plans of one workflow differ from those of others."""

    creators: frozenset[str] = frozenset()
    """Tools whose skipped step leaves nothing for the steps that depend on it."""
    once: frozenset[str] = frozenset()
    """Tools whose step cannot be done a second time."""
    editable: frozenset[str] | None = None
    """Parameters that a person may change while a step is pending; None for all of the tool."""
    preview: tuple[str, ...] = ("versionId", "count", "error")
    """Keys of a result that are its preview in the events of a run."""
    version_event: str = "version-update"
    """Event of a version that a step made."""
    stream_key: str = "stream"
    """Key of the version's stream in that event."""
    unannounced: frozenset[str] = frozenset()
    """Streams whose versions have no such event."""
    limited: bool = True
    """True if a round has so many steps at most, and equal ones are carried out once."""
    kept: bool = False
    """True if every plan has a record, made before a person is asked, that is listed and kept for ever.

    Otherwise a plan of several steps has one while it runs and for some time after.
    """


ANY: Final = PlanRules()
"""The rules of a workflow that has none of its own."""


class LiveStep(TypedDict):
    """A step and how far it is."""

    step: Step
    """As it runs; a person's edits are in."""
    status: StepStatus
    generation: int
    """Number of repetitions that a person wanted; each has a receipt of its own."""
    output: dict[str, Any]
    """Result, or error; empty until it ends."""
    started_ms: int
    ended_ms: int
    stale: NotRequired[bool]
    """True if a step it depends on was done again later."""
    cut: NotRequired[bool]
    """True if it was cancelled because the run had ended, and not by a person."""
    lacking: NotRequired[bool]
    """True if it was skipped and left nothing for the steps that depend on it."""
    earlier: NotRequired[list[Mapping[str, str]]]
    """Versions that it made before it was repeated, oldest first, each by stream."""


class PlanChange(TypedDict):
    """A difference between the approved plan and the executed one."""

    kind: ChangeKind
    step: str
    """Id of the step; empty for the whole execution."""
    before: dict[str, Any]
    """Parameters before an edit."""
    after: dict[str, Any]
    """Parameters after an edit, or of an inserted step; of a moved step, the one that comes after it."""
    at_ms: int


class QueuedRepetition(TypedDict):
    """A step that a run is about to do again."""

    run: str
    step: str
    completed: bool
    """True if it was completed, and is repeated; False if it is retried."""


class Execution(TypedDict):
    """The record of an execution."""

    id: str
    """Id of the plan."""
    thread: str
    project: str
    """Id of the artefact, such as the project or the ad."""
    run: str
    """Id of the run that made it."""
    kind: str
    """`plan`, `undo` or `redo`."""
    request: str
    """The person's message."""
    reasoning: str
    feedback: str
    style: NotRequired[str]
    """Style that the scenes of a video share."""
    status: ExecutionStatus
    asks: NotRequired[bool]
    """True until a person has decided about the plan; absent, it is not known."""
    approved: str
    """Digest of the plan as it was approved."""
    task: str
    """LangGraph's task that executes it."""
    epoch: int
    executed_by: NotRequired[str]
    """Id of the run that executes it, or did last; `run` where it is absent."""
    repetition: NotRequired[QueuedRepetition | None]
    """A step of an ended one that a queued run is about to do again; None once it has begun."""
    abandoned: NotRequired[ExecutionStatus | None]
    """Status when its run was cancelled or failed, from which another run goes on; None otherwise."""
    waits: NotRequired[bool]
    """True while the question of a paused one is stored, or about to be, or its answer has not begun."""
    estimated_s: float
    created_ms: int
    started_ms: int
    ended_ms: int
    steps: list[LiveStep]
    changes: list[PlanChange]


Update = Callable[[Execution, int], Execution]
"""Returns the record after a change, given the time in milliseconds."""


def live_steps(steps: Sequence[Step]) -> list[LiveStep]:
    """Return steps that are all pending, but for those that a person left out."""
    return [
        LiveStep(
            step=step,
            status="skipped" if step.get("left_out") else "pending",
            generation=0,
            output={},
            started_ms=0,
            ended_ms=0,
        )
        for step in steps
    ]


def left_out_changes(steps: Sequence[Step], now_ms: int) -> list[PlanChange]:
    """Return the changes of a plan by the steps that a person left out when they approved it."""
    return [
        PlanChange(kind="skipped", step=step["id"], before={}, after={}, at_ms=now_ms)
        for step in steps
        if step.get("left_out")
    ]


def plan_digest(plan: Plan) -> str:
    """Return the digest of a plan's steps."""
    return hashlib.sha256(canonical_json(plan["steps"]).encode(errors="backslashreplace")).hexdigest()


def find(record: Execution, step_id: str) -> LiveStep:
    """Return a step; raise `Missing` for an unknown one."""
    for one in record["steps"]:
        if one["step"]["id"] == step_id:
            return one
    known = ", ".join(one["step"]["id"] for one in record["steps"])
    raise Missing(f"execution {record['id']!r} has no step {step_id!r}", remedy=f"its steps are: {known}")


def call_of(one: LiveStep) -> Step:
    """Return the call that a step is now: a repetition is another call, with a receipt of its own."""
    step, generation = one["step"], one["generation"]
    return {**step, "id": f"{step['id']}#{generation}"} if generation else step


# What the executor does.


def as_cancelled(one: LiveStep, now_ms: int) -> LiveStep:
    """Return a step as cancelled; one that an attempt has begun says so."""
    output = _INTERRUPTED if one["started_ms"] else one["output"]
    return cast("LiveStep", {**one, "status": "cancelled", "output": output, "ended_ms": now_ms})


_INTERRUPTED: Final = {
    "type": "execution_error",
    "error": "It was begun and then interrupted, and no result of it is recorded",
    "suggestion": "It may have had its effect; look before it is called again",
    "retryable": False,
}


def executor_of(record: Execution) -> str:
    """Return the id of the run that executes the record, or did last."""
    return record.get("executed_by") or record["run"]


def assign(record: Execution, run: str) -> Execution:
    """Return the record as executed by a run."""
    return _with(record, executed_by=run)


def startable(record: Execution) -> list[LiveStep]:
    """Return the steps that may start, or go on after a crash, in plan order.

    Of a paused or cancelled execution only those in progress: their effects are looked up by their receipts.
    """
    if record["status"] in {"paused", "cancelled"}:
        return [one for one in record["steps"] if one["status"] == "in-progress"]
    if record["status"] != "running":
        return []
    states = {one["step"]["id"]: one for one in record["steps"]}
    running = [one for one in record["steps"] if one["status"] == "in-progress"]
    alone = any(one["step"].get("alone") for one in running)
    ready = [one for one in record["steps"] if one["status"] == "pending" and _is_ready(one["step"], states)]
    if alone:
        return running
    if running:
        ready = [one for one in ready if not one["step"].get("alone")]
    elif ready and ready[0]["step"].get("alone"):
        ready = ready[:1]
    else:
        ready = [one for one in ready if not one["step"].get("alone")]
    return [*running, *ready]


def claim_step(record: Execution, step_id: str, now_ms: int) -> Execution:
    """Return the record with a step in progress."""
    return _with_step(record, step_id, status="in-progress", started_ms=now_ms)


def release_step(record: Execution, step_id: str) -> Execution:
    """Return the record with a started step pending again."""
    return _with_step(record, step_id, status="pending")


def finish_step(
    record: Execution, step_id: str, status: StepStatus, output: Mapping[str, Any], now_ms: int
) -> Execution:
    """Return the record with a step that ended, and its dependants blocked if it failed."""
    changed = _with_step(record, step_id, status=status, output=dict(output), ended_ms=now_ms)
    return _block_stuck(changed, now_ms)


def claim_steps(record: Execution, busy: Collection[str], limit: int, now_ms: int) -> Execution:
    """Return the record with the steps in progress that may start beside those in `busy`, as many as fit."""
    for one in to_start(record, busy, limit):
        if one["status"] == "pending":
            record = claim_step(record, one["step"]["id"], now_ms)
    return record


def to_start(record: Execution, busy: Collection[str], limit: int) -> list[LiveStep]:
    """Return the steps that a task may start beside those in `busy`, as many as fit."""
    ready = [one for one in startable(record) if one["step"]["id"] not in busy]
    return ready[: max(0, limit - len(busy))]


def end(record: Execution, now_ms: int) -> Execution:
    """Return the record of an execution in which nothing can start any more."""
    statuses = {one["status"] for one in record["steps"]}
    if record["status"] == "cancelled" or statuses & {"pending", "in-progress"}:
        return record
    failed = statuses & {"error", "blocked"}
    return _with(record, status="failed" if failed else "completed", ended_ms=now_ms)


def is_over(record: Execution) -> bool:
    """Return True if the execution is over."""
    return record["status"] in ENDED


# What people do.


def edit_step(
    record: Execution, step_id: str, params: Mapping[str, Any], now_ms: int, rules: PlanRules = ANY
) -> Execution:
    """Return the record with other parameters of a pending step."""
    one = _pending(record, step_id, "edited")
    if rules.editable is not None and (wrong := sorted(params.keys() - rules.editable)):
        raise Invalid(
            f"{', '.join(wrong)} of a step cannot be edited",
            remedy=f"edit {', '.join(sorted(rules.editable))}; otherwise skip the step and insert one",
        )
    before = one["step"]["params"]
    after = {**before, **params}
    if after == before:
        return record
    _require_room(record, before, after)
    changed = _with_step(record, step_id, step=with_params(one["step"], after))
    return _with_change(changed, "edited", step_id, now_ms, before=before, after=after)


def skip_step(record: Execution, step_id: str, now_ms: int, rules: PlanRules = ANY) -> Execution:
    """Return the record without a pending step; steps that need what it would make are blocked."""
    one = _pending(record, step_id, "skipped")
    lacking = one["step"]["tool"] in rules.creators
    changed = _with_step(record, step_id, status="skipped", ended_ms=now_ms, lacking=lacking)
    return _block_stuck(_with_change(changed, "skipped", step_id, now_ms), now_ms)


def insert_steps(record: Execution, steps: Sequence[Step], now_ms: int) -> Execution:
    """Return the record with further steps at the end."""
    if is_over(record):
        raise _too_late(record, "has ended", "start another execution with a message")
    if record["status"] == "planned" and record.get("asks", True):
        raise _too_late(record, "waits for approval", "answer the question first, and insert the step then")
    _require_room(record, *(step["params"] for step in steps), new_steps=len(steps))
    changed = _with(record, steps=[*record["steps"], *live_steps(steps)])
    for step in steps:
        changed = _with_change(changed, "inserted", step["id"], now_ms, after=step["params"])
    return _block_stuck(changed, now_ms)


def move_step(record: Execution, step_id: str, before: str, now_ms: int) -> Execution:
    """Return the record with a pending step in front of another one, or behind all for an empty `before`.

    Steps begin in the order of the record as far as their dependencies and free places let them. Raises
    `Conflict` for a step that would pass one that it waits for, or that waits for it.
    """
    one = _pending(record, step_id, "moved")
    if before == step_id:
        return record
    steps = [other for other in record["steps"] if other is not one]
    place = steps.index(_pending(record, before, "preceded by another one")) if before else len(steps)
    was = record["steps"].index(one)
    for other in steps[min(was, place) : max(was, place)]:
        first, second = (other, one) if place > was else (one, other)
        if second["step"]["id"] in waits_for(first["step"]):
            raise Conflict(
                f"step {first['step']['id']!r} waits for {second['step']['id']!r}, and cannot come before it",
                remedy="move it less far, or skip it and insert another step",
            )
    moved = [*steps[:place], one, *steps[place:]]
    if moved == record["steps"]:
        return record
    _require_room(record)
    return _with_change(_with(record, steps=moved), "moved", step_id, now_ms, after={"before": before})


def retry_step(record: Execution, step_id: str, now_ms: int) -> Execution:
    """Return the record with a failed step and what it blocked to be done again."""
    one = find(record, step_id)
    if one["status"] not in {"error", "cancelled"}:
        raise Conflict(
            f"step {step_id!r} is {one['status']}, and only a failed or cancelled step can be retried",
            remedy="repeat a completed step with /rerun",
        )
    again = {step_id, *(name for name in _dependants(record, step_id) if _is_blocked(record, name))}
    return _with_change(_again(record, again), "retried", step_id, now_ms)


def repeat_step(record: Execution, step_id: str, now_ms: int, rules: PlanRules = ANY) -> Execution:
    """Return the record with a completed step to be done again; what was made from it is stale."""
    one = find(record, step_id)
    if one["status"] != "completed":
        raise Conflict(
            f"step {step_id!r} is {one['status']}, and only a completed step can be repeated",
            remedy="retry a failed step with /retry",
        )
    if one["step"]["tool"] in rules.once:
        raise Conflict(
            f"step {step_id!r} is a {one['step']['tool']}, which is done already", remedy="undo it instead"
        )
    changed = _again(record, {step_id})
    for name in _dependants(record, step_id):
        if find(changed, name)["status"] == "completed":
            changed = _with_step(changed, name, stale=True)
    return _with_change(changed, "repeated", step_id, now_ms)


def pause(record: Execution, now_ms: int) -> Execution:
    """Return the record of an execution that starts no further step; one that has not begun starts none."""
    if record["status"] == "paused":
        return record
    if record["status"] == "planned" and record.get("asks", True):
        raise _too_late(record, "waits for approval", "answer the question; a rejection changes nothing")
    if record["status"] not in {"planned", "running"}:
        raise _too_late(record, f"is {record['status']}", "only a running execution can be paused")
    if record.get("waits"):
        raise _too_late(record, "was resumed and has not begun again", "pause it again in a moment")
    _require_room(record)
    return _with_change(_with(record, status="paused"), "paused", "", now_ms)


def ask_to_resume(record: Execution, now_ms: int) -> Execution:
    """Return the record whose question is put to a person, if it is paused; else as it is."""
    del now_ms
    return _with(record, waits=True) if record["status"] == "paused" else record


def answer_pause(record: Execution, now_ms: int, *, agreed: bool, run: str) -> Execution:
    """Return the record as a run goes on with it after the person's answer; one that has ended stays."""
    if is_over(record):
        return record
    changed = resume(record, now_ms) if agreed else cancel(record, now_ms)
    return _with(changed, executed_by=run, waits=False)


def resume(record: Execution, now_ms: int) -> Execution:
    """Return the record of a paused execution that goes on."""
    if record["status"] == "running":
        return record
    if record["status"] != "paused":
        raise _too_late(record, f"is {record['status']}", "only a paused execution can be resumed")
    return _with_change(_with(record, status="running"), "resumed", "", now_ms)


def cancel(record: Execution, now_ms: int) -> Execution:
    """Return the record of an execution that starts nothing more; what is done stays."""
    if record.get("abandoned"):
        steps = [cast("LiveStep", {**one, "cut": False}) for one in record["steps"]]
        return _with_change(_with(record, abandoned=None, steps=steps), "cancelled", "", now_ms)
    if record["status"] == "cancelled":
        return record
    if is_over(record):
        raise _too_late(record, "has ended", "undo its steps instead")
    steps = [as_cancelled(one, now_ms) if one["status"] == "pending" else one for one in record["steps"]]
    changed = _with(record, status="cancelled", ended_ms=now_ms, steps=steps)
    return _with_change(changed, "cancelled", "", now_ms)


# What others read.


def written(one: LiveStep) -> Mapping[str, str]:
    """Return the versions that a completed step made, by stream."""
    output, streams = one["output"], one["step"]["writes"]
    versions: Mapping[str, str] | None = output.get("versions")
    if versions is None:
        versions = dict.fromkeys(streams, output["versionId"]) if "versionId" in output else {}
    return {name: version for name, version in versions.items() if covers(streams, name)}


def created_versions(one: LiveStep) -> list[Mapping[str, str]]:
    """Return all versions that a step made, oldest first, each by stream."""
    return [*one.get("earlier", ()), *([newest] if (newest := written(one)) else [])]


def _is_ready(step: Step, states: Mapping[str, LiveStep]) -> bool:
    return all(_satisfies(states[name]) for name in step["dependencies"] if name in states) and all(
        states[name]["status"] not in {"pending", "in-progress"}
        for name in step.get("after", ())
        if name in states
    )


def _satisfies(needed: LiveStep) -> bool:
    """Return True if steps that depend on this one may start; a skipped one is gone on without."""
    if needed["status"] == "skipped":
        return not needed.get("lacking")
    return needed["status"] == "completed"


def _block_stuck(record: Execution, now_ms: int) -> Execution:
    """Return the record with every step blocked that can no longer start."""
    while stuck := next(_stuck(record), None):
        record = _with_step(record, stuck, status="blocked", ended_ms=now_ms, output=_BLOCKED)
    return record


_BLOCKED: Final = {
    "type": "execution_error",
    "error": "It was not executed, because a step it depends on did not complete",
    "suggestion": "Retry the failed step",
    "retryable": True,
}


def _stuck(record: Execution) -> Iterator[str]:
    states = {one["step"]["id"]: one for one in record["steps"]}
    for one in record["steps"]:
        needed = [states[name] for name in one["step"]["dependencies"] if name in states]
        if one["status"] == "pending" and any(
            other["status"] not in {"pending", "in-progress"} and not _satisfies(other) for other in needed
        ):
            yield one["step"]["id"]


def _dependants(record: Execution, step_id: str) -> list[str]:
    """Return the ids of the steps that depend on a step, directly or not, in plan order."""
    reached = {step_id}
    size = 0
    while size != len(reached):
        size = len(reached)
        reached |= {one["step"]["id"] for one in record["steps"] if reached & {*one["step"]["dependencies"]}}
    return [one["step"]["id"] for one in record["steps"] if one["step"]["id"] in reached - {step_id}]


def _is_blocked(record: Execution, step_id: str) -> bool:
    return find(record, step_id)["status"] in {"blocked", "cancelled"}


def _again(record: Execution, step_ids: set[str]) -> Execution:
    for name in step_ids:
        one = find(record, name)
        record = _with_step(
            record,
            name,
            status="pending",
            generation=one["generation"] + 1,
            earlier=created_versions(one),
            output={},
            started_ms=0,
            ended_ms=0,
            stale=False,
            cut=False,
        )
    status: ExecutionStatus = "paused" if record["status"] == "paused" else "running"
    return _with(record, status=status, ended_ms=0, abandoned=None, repetition=None)


def _pending(record: Execution, step_id: str, verb: str) -> LiveStep:
    one = find(record, step_id)
    if record["status"] == "planned":
        raise _too_late(record, "waits for approval", "answer the question, with edited steps if you want")
    if one["status"] != "pending":
        raise Conflict(
            f"step {step_id!r} is {one['status']}, and only a pending step can be {verb}",
            remedy="wait for its end; then repeat or undo it",
        )
    return one


def _require_room(record: Execution, *params: Mapping[str, Any], new_steps: int = 0) -> None:
    """Raise `Conflict` for too many steps or changes, which are read with every look at the execution."""
    size = len(canonical_json([record["changes"], params]).encode(errors="backslashreplace"))
    counts_fit = len(record["steps"]) + new_steps <= MAX_STEPS and len(record["changes"]) < MAX_CHANGES
    if not counts_fit or size > MAX_CHANGE_BYTES:
        raise Conflict(
            f"execution {record['id']!r} would have more than {MAX_STEPS} steps, {MAX_CHANGES} changes or"
            f" {MAX_CHANGE_BYTES:,} bytes of changes",
            remedy="let it end or cancel it, and start another one with a message",
        )


def _too_late(record: Execution, why: str, remedy: str) -> Conflict:
    return Conflict(f"execution {record['id']!r} {why}", remedy=remedy)


def require_newest(record: Execution, task: str, epoch: int) -> None:
    """Raise `Fenced` unless this attempt of this task is the last one that took the execution over."""
    if record["task"] != task or epoch < record["epoch"]:
        raise Fenced(f"execution {record['id']!r} was taken over by a later attempt")


def _with(record: Execution, **fields: Any) -> Execution:
    return cast("Execution", {**record, **fields})


def _with_step(record: Execution, step_id: str, **fields: Any) -> Execution:
    find(record, step_id)
    steps = [
        cast("LiveStep", {**one, **fields}) if one["step"]["id"] == step_id else one
        for one in record["steps"]
    ]
    return _with(record, steps=steps)


def _with_change(
    record: Execution,
    kind: str,
    step_id: str,
    now_ms: int,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> Execution:
    change = {"kind": kind, "step": step_id, "before": before or {}, "after": after or {}, "at_ms": now_ms}
    return _with(record, changes=[*record["changes"], change])

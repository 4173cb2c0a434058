"""From a request to a run: whose thread, which graph, what it answers."""

import asyncio
import uuid
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, get_type_hints

from langgraph.pregel import Pregel

from callsheet.server.context import AppContext
from callsheet.server.langgraph.resumes import bind_resume
from callsheet.server.langgraph.run_bodies import (
    ResumeValues,
    RunContext,
    RunCreate,
    checkpoint_of,
    run_request,
)
from callsheet.state.errors import Conflict, Invalid, Missing, Refused
from callsheet.storage import indexes
from callsheet.storage.assistants import Assistant, Assistants
from callsheet.storage.runs import events
from callsheet.storage.runs.records import RunRequest, ThreadPrecondition
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import NewThread, ThreadRecord

_MAX_ID: Final = 255
_KEPT: Final = uuid.UUID("0b1f0b5e-2f5a-4c57-8a44-1f3a5b8f3c9d")
"""What the id of a thread that outlives its only run is derived from the run's in."""


@dataclass(frozen=True)
class StartedRun:
    """A run that was recorded."""

    thread: str
    run: str
    since: str
    """The event before its first."""
    resumable: bool
    """Whether its events are told with their ids."""
    temporary: bool = False
    wanted: RunRequest | None = None
    """What it was made from, where it was made just now."""

    @property
    def path(self) -> str:
        """The path under which the run is found."""
        return f"/runs/{self.run}" if self.temporary else f"/threads/{self.thread}/runs/{self.run}"


@dataclass(frozen=True)
class ValidatedRun:
    """A run with which nothing is wrong that can be told without writing; `begin` records it."""

    thread: str
    asked: RunRequest
    body: RunCreate
    new: NewThread | None
    """The thread that is made for it first; None where there is one, or it goes with the run."""
    alone: bool = False
    """Whether the thread is the run's own."""


async def start_on_thread(
    here: AppContext, owner: str, thread: str, body: RunCreate, run: str = ""
) -> StartedRun:
    """Record a run on a thread and have it carried out; with an id that is known already, it is that run.

    Raises `Busy` where the thread is to be left alone, and as `ready`.
    """
    return await record_run(here, await validate_on_thread(here, owner, thread, body, run))


async def start_stateless(here: AppContext, owner: str, body: RunCreate, run: str = "") -> StartedRun:
    """As `start_on_thread`, on a thread of the run's own, which goes with it unless it is to be kept."""
    return await record_run(here, await validate_stateless(here, owner, body, run))


async def validate_on_thread(
    here: AppContext, owner: str, thread: str, body: RunCreate, run: str = ""
) -> ValidatedRun:
    """Return the run that is wanted, on the thread as it is now; writes nothing.

    Raises `Missing` for a thread there is none of, `Invalid` for an assistant there is none of, and
    `Conflict` for a thread of another graph and for an answer to nothing.
    """
    record, chosen = await asyncio.gather(
        thread_records.find(here.storage, thread, owner),
        resolve_assistant(here, owner, body.assistant_id),
        return_exceptions=True,
    )
    if isinstance(record, BaseException):
        raise record
    if record is None and body.if_not_exists != "create":
        # Before all else: what is wrong with the rest is for the thread's owner to know.
        raise thread_records.missing_thread(thread)
    if isinstance(chosen, BaseException):
        raise chosen
    new = NewThread(thread, owner, chosen.graph_id, _shown(chosen))
    if record is None:
        _nameable(thread)
    start = RunContext(
        run or str(uuid.uuid4()),
        owner,
        context_names(here.graphs[chosen.graph_id]),
        await _answers(here, thread, chosen.graph_id, body),
    )
    asked = replace(run_request(body, chosen, start), adopting=_adopting(record, new) if record else None)
    return ValidatedRun(thread, asked, body, None if record else new)


async def validate_stateless(here: AppContext, owner: str, body: RunCreate, run: str = "") -> ValidatedRun:
    """As `ready`, on a thread of the run's own."""
    chosen = await resolve_assistant(here, owner, body.assistant_id)
    if body.command and body.command.resume is not None:
        raise Refused("an answer needs the thread that asked", remedy="send it to /threads/{thread_id}/runs")
    run, keep = run or str(uuid.uuid4()), body.on_completion == "keep"
    going, staying = stateless_thread_ids(run)
    thread = staying if keep else going
    new = NewThread(thread, owner, chosen.graph_id, _shown(chosen)) if keep else None
    start = RunContext(run, owner, context_names(here.graphs[chosen.graph_id]), temporary=not keep)
    return ValidatedRun(thread, run_request(body, chosen, start), body, new, alone=True)


async def record_run(here: AppContext, found: ValidatedRun) -> StartedRun:
    """Record the run and have it carried out; raises as `start_on_thread`."""
    while True:
        asked = found.asked
        if found.new:
            record = await thread_records.create(here.storage, found.new, or_get=True)
            asked = replace(asked, adopting=_adopting(record, found.new))
        resumable = bool(found.body.stream_resumable)
        if found.alone:
            await here.worker.submit(found.thread, asked)
            temporary = found.new is None
            return StartedRun(found.thread, asked.id, events.BEGINNING, resumable, temporary=temporary)
        made, _ = await asyncio.gather(
            here.worker.submit(found.thread, asked),
            indexes.touch_thread(here.storage, asked.owner, found.thread),
        )
        if made.verdict != "changed":
            return StartedRun(found.thread, made.run, made.since, resumable, wanted=asked)
        found = await validate_on_thread(here, asked.owner, found.thread, found.body, asked.id)


def stateless_thread_ids(run: str) -> tuple[str, str]:
    """Return the ids a run's own thread may have: one that goes with it, in no list, and one that stays."""
    return run, str(uuid.uuid5(_KEPT, run))


async def resolve_assistant(here: AppContext, owner: str, named: str) -> Assistant:
    """Return the owner's assistant of this id, or the one of this graph; raises `Invalid`."""
    try:
        return await Assistants(here.storage, owner, here.graphs, here.started_at).get(named)
    except Missing as error:
        raise Invalid(error.message, remedy=error.remedy) from None


@cache
def context_names(graph: Pregel[Any, Any]) -> frozenset[str]:
    """Return the names of what the graph takes as context."""
    schema = getattr(graph, "context_schema", None)
    return frozenset(get_type_hints(schema)) if schema else frozenset()


def _nameable(thread: str) -> None:
    if not 0 < len(thread) <= _MAX_ID or not thread.isprintable():
        raise Invalid(
            f"thread id {thread[:40]!r} must have 1 to {_MAX_ID} printable characters",
            remedy="choose another",
        )


def _adopting(record: ThreadRecord, new: NewThread) -> ThreadPrecondition:
    """Check that the thread is one of this graph, and return what keeps it one, or makes it one."""
    if record.graph not in {"", new.graph}:
        raise Conflict(
            f"thread {new.id!r} runs {record.graph!r}, not {new.graph!r}", remedy="use another thread"
        )
    return thread_records.run_precondition(record, new)


async def _answers(here: AppContext, thread: str, graph: str, body: RunCreate) -> ResumeValues:
    if body.command is None or body.command.resume is None:
        return ResumeValues()
    return await bind_resume(here.worker, thread, graph, checkpoint_of(body), body.command.resume)


def _shown(chosen: Assistant) -> dict[str, Any]:
    return {"graph_id": chosen.graph_id, "assistant_id": chosen.assistant_id}

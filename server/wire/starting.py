"""From a request to a run: whose thread, which graph, what it answers."""

import asyncio
import uuid
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, get_type_hints

from langgraph.pregel import Pregel

from server.parts import Parts
from server.wire.resumes import bound
from server.wire.run_bodies import Answers, RunBody, Start, place_of, wanted
from state.errors import Conflict, Invalid, Missing, Refused
from storage import events, indexes, thread_records
from storage.assistants import Assistant, Assistants
from storage.run_records import Adopting, Wanted
from storage.thread_records import New, Record

_MAX_ID: Final = 255
_KEPT: Final = uuid.UUID("0b1f0b5e-2f5a-4c57-8a44-1f3a5b8f3c9d")
"""What the id of a thread that outlives its only run is derived from the run's in."""


@dataclass(frozen=True)
class Started:
    """A run that was recorded."""

    thread: str
    run: str
    since: str
    """The event before its first."""
    resumable: bool
    """Whether its events are told with their ids."""
    temporary: bool = False
    wanted: Wanted | None = None
    """What it was made from, where it was made just now."""

    @property
    def place(self) -> str:
        """The path under which the run is found."""
        return f"/runs/{self.run}" if self.temporary else f"/threads/{self.thread}/runs/{self.run}"


async def on_thread(here: Parts, owner: str, thread: str, body: RunBody, run: str = "") -> Started:
    """Record a run on a thread and have it carried out; with an id that is known already, it is that run.

    Raises `Missing` for a thread or an assistant there is none of, `Conflict` for a thread of another graph
    and for an answer to nothing, and `Busy` where the thread is to be left alone.
    """
    while True:
        asked = await _asked(here, owner, thread, body, run)
        made, _ = await asyncio.gather(
            here.worker.start(thread, asked),
            indexes.touch_thread(here.storage, owner, thread),
        )
        if made.verdict != "changed":
            return Started(thread, made.run, made.since, bool(body.stream_resumable), wanted=asked)


async def _asked(here: Parts, owner: str, thread: str, body: RunBody, run: str) -> Wanted:
    """The run that is wanted, on the thread as it is now; raises as `on_thread`."""
    record, chosen = await asyncio.gather(
        thread_records.find(here.storage, thread, owner),
        assistant(here, owner, body.assistant_id),
        return_exceptions=True,
    )
    if isinstance(record, BaseException):
        raise record
    if record is None and body.if_not_exists != "create":
        # Before all else: what is wrong with the rest is for the thread's owner to know.
        raise thread_records.unknown(thread)
    if isinstance(chosen, BaseException):
        raise chosen
    new = New(thread, owner, chosen.graph_id, _shown(chosen))
    adopting = await _claimed(here, new, record)
    start = Start(
        run or str(uuid.uuid4()),
        owner,
        context_names(here.graphs[chosen.graph_id]),
        await _answers(here, thread, chosen.graph_id, body),
    )
    return replace(wanted(body, chosen, start), adopting=adopting)


async def alone(here: Parts, owner: str, body: RunBody, run: str = "") -> Started:
    """As `on_thread`, on a thread of the run's own, which goes with it unless it is to be kept."""
    chosen = await assistant(here, owner, body.assistant_id)
    if body.command and body.command.resume is not None:
        raise Refused("an answer needs the thread that asked", remedy="send it to /threads/{thread_id}/runs")
    run, keep = run or str(uuid.uuid4()), body.on_completion == "keep"
    going, staying = homes(run)
    thread = staying if keep else going
    if keep:
        new = New(thread, owner, chosen.graph_id, _shown(chosen))
        await thread_records.create(here.storage, new, or_get=True)
    start = Start(run, owner, context_names(here.graphs[chosen.graph_id]), temporary=not keep)
    await here.worker.start(thread, wanted(body, chosen, start))
    return Started(thread, run, events.BEGINNING, bool(body.stream_resumable), temporary=not keep)


def homes(run: str) -> tuple[str, str]:
    """Return the ids a run's own thread may have: one that goes with it, in no list, and one that stays."""
    return run, str(uuid.uuid5(_KEPT, run))


async def assistant(here: Parts, owner: str, named: str) -> Assistant:
    """Return the owner's assistant of this id, or the one of this graph; raises `Invalid`."""
    try:
        return await Assistants(here.storage, owner, here.graphs, here.since).get(named)
    except Missing as error:
        raise Invalid(error.message, remedy=error.remedy) from None


@cache
def context_names(graph: Pregel[Any, Any]) -> frozenset[str]:
    """Return the names of what the graph takes as context."""
    schema = getattr(graph, "context_schema", None)
    return frozenset(get_type_hints(schema)) if schema else frozenset()


async def _claimed(here: Parts, new: New, record: Record | None) -> Adopting | None:
    """Check that the thread is one of this graph, and return what makes it one where it is of none."""
    if record is None:
        if not 0 < len(new.id) <= _MAX_ID or not new.id.isprintable():
            raise Invalid(
                f"thread id {new.id[:40]!r} must have 1 to {_MAX_ID} printable characters",
                remedy="choose another",
            )
        record = await thread_records.create(here.storage, new, or_get=True)
    if record.graph not in {"", new.graph}:
        raise Conflict(
            f"thread {new.id!r} runs {record.graph!r}, not {new.graph!r}", remedy="use another thread"
        )
    return thread_records.adopting(record, new)


async def _answers(here: Parts, thread: str, graph: str, body: RunBody) -> Answers:
    if body.command is None or body.command.resume is None:
        return Answers()
    return await bound(here.worker, thread, graph, place_of(body), body.command.resume)


def _shown(chosen: Assistant) -> dict[str, Any]:
    return {"graph_id": chosen.graph_id, "assistant_id": chosen.assistant_id}

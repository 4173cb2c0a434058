"""Start of runs: validate a request against its thread and assistant, then record the run.

A resume value is bound to its interrupt when the request is accepted, never later: an unbound value would
answer whichever interrupt comes next, so a resume sent twice would answer two of them.
"""

import asyncio
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, get_type_hints

from langgraph.pregel import Pregel
from langgraph.types import Interrupt

from callsheet.server.engine.encoding import sha256_of
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.graph_states import build_state, missing_nodes
from callsheet.server.engine.project_options import ProjectOptions
from callsheet.server.engine.worker import Worker
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.inputs import (
    check_answer,
    check_context,
    check_input,
    check_nodes,
    check_update,
    removes_messages,
)
from callsheet.server.langgraph.schemas import ResumeValues, RunContext, RunCreate, checkpoint_of, run_request
from callsheet.server.langgraph.states import find_state
from callsheet.server.langgraph.webhooks import require_callable
from callsheet.state.errors import Conflict, Invalid, Missing, Refused
from callsheet.state.questions import asks_again
from callsheet.storage.assistants import Assistant, Assistants
from callsheet.storage.runs import events
from callsheet.storage.runs.records import RunRequest, ThreadPrecondition
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread, Thread


def default_ttl(options: ProjectOptions) -> dict[str, Any] | None:
    """Return the lifetime of threads that are created without one; None for no end."""
    ttl = options.thread_ttl
    return {"ttl": ttl.default_ttl, "strategy": ttl.strategy} if ttl and ttl.default_ttl else None


INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")
_TRIES: Final = 40
_RETRY_S: Final = 0.025
"""An interrupt is streamed shortly before it is stored."""


async def bind_resume(
    worker: Worker, thread: str, graph: str, checkpoint: Mapping[str, Any], resume: Any
) -> ResumeValues:
    """Return a resume bound to the thread's interrupts at `checkpoint`; an empty one is the newest.

    Raises `Conflict` if no such interrupt is pending, `Refused` if several are and the resume names none,
    `InvalidArguments` for an answer that does not fit, and as `build_state`.
    """
    for _ in range(_TRIES):
        pending = await _pending(worker.graphs[graph], thread, checkpoint)
        if pending or not await worker.runs.active(thread):
            break
        await asyncio.sleep(_RETRY_S)
    if not pending:
        await _require_nodes(worker.graphs[graph], thread, graph, checkpoint)
        raise Conflict(f"thread {thread!r} has no pending interrupt", remedy="read the thread's state")
    values = _by_interrupt(resume, pending)
    if unknown := sorted(set(values) - set(pending)):
        raise Conflict(
            f"interrupt {unknown[0]!r} is not pending", remedy=f"answer one of {_sorted_names(pending)}"
        )
    for name, answer in values.items():
        if not asks_again(pending[name].value):
            check_answer(pending[name].value, answer)
    return ResumeValues(values, {name: sha256_of(pending[name].value) for name in values})


async def _require_nodes(
    graph: Pregel[Any, Any], thread: str, name: str, checkpoint: Mapping[str, Any]
) -> None:
    """Raise `Conflict` if the thread waits at a node that its graph lacks: LangGraph would drop the node."""
    if missing := await missing_nodes(graph, {"configurable": {**checkpoint, "thread_id": thread}}):
        raise Conflict(
            f"thread {thread!r} waits at {missing[0]!r}, which graph {name!r} no longer has",
            remedy="serve a version of the graph with a node of this name; new input starts over",
        )


def _by_interrupt(resume: Any, pending: Mapping[str, Interrupt]) -> Mapping[str, Any]:
    if isinstance(resume, Mapping) and resume and all(INTERRUPT_ID.fullmatch(name) for name in resume):
        return resume
    if len(pending) > 1:
        raise Refused(
            f"the thread has {len(pending)} pending interrupts: {_sorted_names(pending)}",
            remedy="send the answers by interrupt id",
        )
    return dict.fromkeys(pending, resume)


async def _pending(
    graph: Pregel[Any, Any], thread: str, checkpoint: Mapping[str, Any]
) -> dict[str, Interrupt]:
    state = await build_state(graph, {"configurable": {**checkpoint, "thread_id": thread}})
    return {interrupt.id: interrupt for interrupt in pending_interrupts(state)}


def _sorted_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


_MAX_ID: Final = 255
_KEPT_THREAD_NAMESPACE: Final = uuid.UUID("0b1f0b5e-2f5a-4c57-8a44-1f3a5b8f3c9d")
"""UUID5 namespace of threads kept after a stateless run."""


@dataclass(frozen=True)
class StartedRun:
    """Recorded run."""

    thread: str
    run: str
    since: str
    """Id of the event before its first."""
    resumable: bool
    """Sends its events with their ids."""
    temporary: bool = False
    """Its thread has no record, and is deleted when it ends."""
    request: RunRequest | None = None
    """Request that it was recorded from; None for a stateless run and for a run that was looked up."""

    @property
    def path(self) -> str:
        """Path of the run in the API."""
        return f"/runs/{self.run}" if self.temporary else f"/threads/{self.thread}/runs/{self.run}"


@dataclass(frozen=True)
class ValidatedRun:
    """Request for a run that passed every check possible without writing; `record_run` records it."""

    request: RunRequest
    body: RunCreate
    new_thread: NewThread | None
    """Thread to create first; None if it exists, or is temporary."""
    stateless: bool = False


async def start_run(
    ctx: AppContext, owner: str, thread: str | None, body: RunCreate, run: str = ""
) -> StartedRun:
    """Record a run and submit it; a run id that is recorded already returns that run.

    Without a thread, the run is stateless: its thread is deleted when it ends, unless the body says `keep`.
    Raises `Busy` if the strategy is `reject` and another run is active, `Invalid` for a webhook that is never
    called, and as `validate_run`.
    """
    require_callable(body.webhook, allow_private=ctx.settings.webhook_private)
    return await record_run(ctx, await validate_run(ctx, owner, thread, body, run))


async def validate_run(
    ctx: AppContext,
    owner: str,
    thread: str | None,
    body: RunCreate,
    run: str = "",
    *,
    unwatched: bool = False,
) -> ValidatedRun:
    """Return the run, checked against the thread as it is now; writes nothing.

    A stateless run that is `unwatched` has a recorded thread, so that a person learns of its question.
    Raises `Missing` for an unknown thread, `Invalid` for an unknown assistant and for input that the graph
    cannot take, and `Conflict` for a thread of another graph and for a resume without a pending interrupt.
    """
    if thread is None:
        return await _validate_stateless(ctx, owner, body, run or str(uuid.uuid4()), recorded=unwatched)
    return await _validate_on_thread(ctx, owner, thread, body, run or str(uuid.uuid4()))


async def _validate_on_thread(
    ctx: AppContext, owner: str, thread: str, body: RunCreate, run: str
) -> ValidatedRun:
    record, assistant = await asyncio.gather(
        threads.find(ctx.storage, thread, owner),
        resolve_assistant(ctx, owner, body.assistant_id),
        return_exceptions=True,
    )
    if isinstance(record, BaseException):
        raise record
    if record is None and body.if_not_exists != "create":
        # First of all checks: only the thread's owner may learn about other errors.
        raise threads.missing_thread(thread)
    if isinstance(assistant, BaseException):
        raise assistant
    new = _new_thread(ctx, thread, owner, assistant)
    if record is None:
        _require_valid_id(thread)
    resume = ResumeValues()
    if body.command and body.command.resume is not None:
        resume = await bind_resume(
            ctx.worker, thread, assistant.graph_id, checkpoint_of(body), body.command.resume
        )
    graph = ctx.graphs[assistant.graph_id]
    if record and body.input is None and body.command is None:
        await _require_nodes(graph, thread, assistant.graph_id, checkpoint_of(body))
    await _check_input(graph, body, record)
    request = run_request(body, assistant, RunContext(thread, run, owner, context_names(graph), resume))
    _check_request(graph, request)
    if record is None:
        return ValidatedRun(request, body, new)
    return ValidatedRun(replace(request, precondition=_precondition(ctx, record, new)), body, None)


async def _validate_stateless(
    ctx: AppContext, owner: str, body: RunCreate, run: str, *, recorded: bool
) -> ValidatedRun:
    assistant = await resolve_assistant(ctx, owner, body.assistant_id)
    if body.command and body.command.resume is not None:
        raise Refused("a resume needs the interrupted thread", remedy="send it to /threads/{thread_id}/runs")
    keep = body.on_completion == "keep"
    temporary_id, kept_id = stateless_thread_ids(run)
    thread = kept_id if keep or recorded else temporary_id
    new = _new_thread(ctx, thread, owner, assistant) if keep or recorded else None
    if new and not keep:
        new = replace(new, own_run=run)
    graph = ctx.graphs[assistant.graph_id]
    await _check_input(graph, body, None)
    server = RunContext(thread, run, owner, context_names(graph), temporary=not keep)
    request = run_request(body, assistant, server)
    _check_request(graph, request)
    return ValidatedRun(request, body, new, stateless=True)


def _check_request(graph: Pregel[Any, Any], request: RunRequest) -> None:
    """Raise `Invalid` for a context that the graph cannot take, and for interrupts at nodes that it lacks."""
    check_context(graph, request.request["context"])
    for name in ("interrupt_before", "interrupt_after"):
        check_nodes(graph, request.request[name], name)


async def _check_input(graph: Pregel[Any, Any], body: RunCreate, record: Thread | None) -> None:
    """Raise `Invalid` for input that the graph cannot take; `record` is None for a new thread."""
    command = body.command.model_dump(exclude_unset=True) if body.command else {}
    given = command.get("update") if command else body.input
    before: Mapping[str, Any] | None = {}
    if record and not removes_messages(given):
        before = None
    elif record:
        # A run that is still active may yet add the message.
        state = await find_state(graph, record.id, checkpoint_of(body)) if record.status != "busy" else None
        before = state and state.values
    (check_update if command else check_input)(graph, given, before)


async def record_run(ctx: AppContext, validated: ValidatedRun) -> StartedRun:
    """Record the run and submit it; raises as `start_run`."""
    while True:
        request = validated.request
        if validated.new_thread:
            record = await threads.create(ctx.storage, validated.new_thread, or_get=True)
            request = replace(request, precondition=_precondition(ctx, record, validated.new_thread))
        resumable = bool(validated.body.stream_resumable)
        if validated.stateless:
            await ctx.worker.submit(request)
            temporary = validated.new_thread is None
            return StartedRun(request.thread, request.id, events.START_ID, resumable, temporary=temporary)
        created = await ctx.worker.submit(request)
        if created.verdict != "changed":
            return StartedRun(request.thread, created.run, created.since, resumable, request=request)
        # The thread changed after the validation: validate again.
        validated = await validate_run(ctx, request.owner, request.thread, validated.body, request.id)


def stateless_thread_ids(run: str) -> tuple[str, str]:
    """Return the ids a stateless run's thread may have: (temporary and in no list, recorded)."""
    return run, str(uuid.uuid5(_KEPT_THREAD_NAMESPACE, run))


def assistants_of(ctx: AppContext, owner: str) -> Assistants:
    """Return an owner's assistants; the default ones have their graphs' names and descriptions."""
    names = {name: str(graph.name) for name, graph in ctx.graphs.items()}
    return Assistants(ctx.storage, owner, ctx.graphs, ctx.started_at, names, ctx.options.descriptions)


async def resolve_assistant(ctx: AppContext, owner: str, name: str) -> Assistant:
    """Return the owner's assistant of this id, or the default one of this graph; raises `Invalid`."""
    try:
        return await assistants_of(ctx, owner).get(name)
    except Missing as error:
        raise Invalid(error.message, remedy=error.remedy) from None


@cache
def context_names(graph: Pregel[Any, Any]) -> frozenset[str]:
    """Return the names of the graph's context fields."""
    schema = getattr(graph, "context_schema", None)
    return frozenset(get_type_hints(schema)) if schema else frozenset()


def _require_valid_id(thread: str) -> None:
    if not 0 < len(thread) <= _MAX_ID or not thread.isprintable():
        raise Invalid(
            f"thread id {thread[:40]!r} must have 1 to {_MAX_ID} printable characters",
            remedy="choose another",
        )


def _precondition(ctx: AppContext, record: Thread, new: NewThread) -> ThreadPrecondition:
    """Return the thread's precondition for a run; raises `Conflict` as `require_one_workflow`."""
    if record.graph:
        require_one_workflow(ctx, new.id, record.graph, new.graph)
    return threads.run_precondition(record, new)


def require_one_workflow(ctx: AppContext, thread: str, before: str, graph: str) -> None:
    """Raise `Conflict` for a run of another graph on a thread, if one of the two is a workflow of artefacts.

    Its thread belongs to its artefact. All other graphs may share threads, as on LangGraph's server.
    """
    if before != graph and {before, graph} & ctx.workflows.specs.keys():
        raise Conflict(f"thread {thread!r} runs {before!r}, not {graph!r}", remedy="use another thread")


def _new_thread(ctx: AppContext, thread: str, owner: str, assistant: Assistant) -> NewThread:
    metadata = {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id}
    return NewThread(thread, owner, assistant.graph_id, metadata, default_ttl(ctx.options))

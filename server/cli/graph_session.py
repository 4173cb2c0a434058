"""One turn of any served graph in this process, on the server's storage: `callsheet run`."""

import json
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from langgraph.pregel import Pregel

from callsheet.nodes.workflow import workflow_of
from callsheet.server.artefacts.service import (
    RequestContext,
    clean_message,
    human_message,
    pending_questions,
    resume_fields,
    run_and_ack,
    run_request,
)
from callsheet.server.artefacts.views import last_message
from callsheet.server.engine.encoding import sha256_of
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.graphs_file import read_graphs_file
from callsheet.server.engine.worker import OnProgress, Worker
from callsheet.server.engine.workflows import load_workflows
from callsheet.server.http.requests import identifier
from callsheet.server.langgraph.assistants import schemas_view
from callsheet.server.processes.worker import local_worker
from callsheet.server.settings.installation import program
from callsheet.server.settings.settings import Settings
from callsheet.state.context import Context
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.owners import LOCAL
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

MESSAGES: Final = "messages"


@dataclass(frozen=True)
class GraphRequest:
    """A turn requested in the terminal: input, or the answer to the pending interrupt."""

    graph: str
    thread: str = ""
    """Id of the thread to continue; empty for a new one."""
    message: str = ""
    input: Mapping[str, Any] | None = None
    """Further input of the graph."""
    answer: Any = None
    """Answer to the pending interrupt; None for none."""
    context: Context = field(default_factory=Context)


@dataclass(frozen=True)
class GraphTurn:
    """The result of a turn."""

    thread: str
    message: str
    """The model's last message; empty for a graph without messages."""
    values: Mapping[str, Any]
    """The state's values."""
    question: Any = None
    """Value of the pending interrupt; None for none."""


async def run(request: GraphRequest, settings: Settings, report: OnProgress) -> GraphTurn:
    """Execute the turn and return its result.

    Raises `Missing` for an unknown graph or thread, and the error that the run fails with.
    """
    async with AsyncExitStack() as stack:
        source = read_graphs_file(settings.config) if settings.config else None
        graphs = (await load_workflows(source, stack)).graphs
        if request.graph not in graphs:
            raise Missing(
                f"no graph {request.graph!r} is served",
                remedy=f"use one of: {', '.join(sorted(graphs))}",
            )
        if request.message:
            _require_messages(graphs[request.graph], request.graph)
        worker, storage = await stack.enter_async_context(local_worker(settings, graphs))
        spec = workflow_of(graphs[request.graph])
        thread = await _thread(storage, request, spec.artefact.kind if spec else "")
        await run_and_ack(worker, await _run_request(worker, thread, request), report)
        state = await worker.state(thread)
        questions = pending_interrupts(state)
        return GraphTurn(
            thread.id, last_message(state.values), state.values, questions[0].value if questions else None
        )


def _require_messages(graph: Pregel[Any, Any], name: str) -> None:
    """Raise `Invalid` for a message to a graph whose input has fields, but no messages."""
    schema = schemas_view(graph)["input_schema"] or {}
    fields = list(schema.get("properties", ()))
    if not fields or MESSAGES in fields:
        return
    example = json.dumps(dict.fromkeys(schema.get("required") or fields, "…"), ensure_ascii=False)
    raise Invalid(
        f"graph {name!r} takes no message; its input has {', '.join(fields)}",
        remedy=f"give the input as JSON instead: --input '{example}'",
    )


async def _thread(storage: Storage, request: GraphRequest, kind: str) -> Thread:
    if not request.thread:
        thread_id = uuid.uuid4().hex
        return Thread(thread_id, LOCAL, request.graph, f"{kind}:{thread_id}" if kind else "")
    thread = await threads.get(storage, identifier(request.thread, "thread"), LOCAL)
    if thread.graph != request.graph:
        raise Conflict(
            f"thread {thread.id!r} runs {thread.graph!r}, not {request.graph!r}",
            remedy=f"use: {program()} run {thread.graph} --thread {thread.id}",
        )
    return thread


async def _run_request(worker: Worker, thread: Thread, request: GraphRequest) -> RunRequest:
    caller = RequestContext(context=request.context)
    if request.answer is not None:
        pending = await pending_questions(worker, thread)
        if not pending:
            raise Conflict("no question waits for an answer on this thread", remedy="send a message instead")
        answers = {pending[0].id: request.answer}
        questions = {pending[0].id: sha256_of(pending[0].value)}
        return run_request(thread, caller, {}, repeatable=True, **resume_fields(answers, questions))
    graph_input = dict(request.input or {})
    if request.message:
        graph_input[MESSAGES] = [human_message(clean_message(request.message))]
    if not graph_input:
        raise Invalid("the run has no input", remedy="give a message, or --input with a JSON object")
    return run_request(thread, caller, {}, repeatable=True, input=graph_input)

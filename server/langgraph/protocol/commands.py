"""Commands of the Agent Streaming Protocol: start a run, respond to an interrupt, read the agent tree."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal

import orjson
from fastapi import APIRouter, Request
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from callsheet.server.http import errors
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.policy import LANGGRAPH_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import Integer, StrictRoute
from callsheet.server.langgraph.protocol.events import seq_of
from callsheet.server.langgraph.schemas import JsonObject, RunCommand, RunCreate, checkpoint_of
from callsheet.server.langgraph.starting import INTERRUPT_ID, start_run
from callsheet.state.errors import (
    Busy,
    Conflict,
    Forbidden,
    Missing,
    Refused,
    UnbuildableState,
    sentences,
)
from callsheet.storage.runs import events
from callsheet.storage.runs.events import PROTOCOL_PREFIX
from callsheet.storage.runs.records import Run, Strategy
from callsheet.storage.threads import threads

_STATUSES: Final = {
    "pending": "started",
    "running": "running",
    "success": "completed",
    "timeout": "failed",
    "error": "failed",
}
_LIFECYCLE: Final = f"{PROTOCOL_PREFIX}lifecycle|"


async def agent_tree_of_run(ctx: AppContext, thread: str, run_id: str | None) -> JsonObject:
    """Return the tree of a run, by default the thread's newest; raises `Missing`."""
    run = await _run(ctx, thread, run_id)
    root = _node((), _STATUSES.get(run.status, "interrupted"), run.graph)
    nodes: dict[tuple[str, ...], JsonObject] = {(): root}
    after = events.START_ID
    while batch := await events.read_after(ctx.storage, thread, after):
        after = batch[-1].id
        for event in batch:
            if event.run != run.id:
                continue
            if event.name.startswith(_LIFECYCLE):
                _apply_lifecycle(nodes, orjson.loads(event.data))
            elif event.name == events.END and event.data == b"paused":
                root["status"] = "interrupted"
    return root


async def _run(ctx: AppContext, thread: str, run_id: str | None) -> Run:
    if run_id:
        return await ctx.worker.runs.get(thread, run_id)
    newest = await ctx.worker.runs.list_runs(thread, 0, 1)
    if not newest:
        raise Missing(f"thread {thread!r} has had no run", remedy="start one")
    return newest[0]


def _apply_lifecycle(nodes: dict[tuple[str, ...], JsonObject], params: JsonObject) -> None:
    namespace, data = tuple(params["namespace"]), params["data"]
    if namespace not in nodes:
        ancestors = (namespace[:end] for end in range(len(namespace) - 1, -1, -1))
        parent = next(nodes[ancestor] for ancestor in ancestors if ancestor in nodes)
        nodes[namespace] = _node(namespace, data["event"], data["graph_name"])
        parent.setdefault("children", []).append(nodes[namespace])
    nodes[namespace]["status"] = data["event"]


def _node(namespace: tuple[str, ...], status: str, graph: str) -> JsonObject:
    return {"namespace": list(namespace), "status": status, "graph_name": graph}


router = APIRouter(route_class=StrictRoute, tags=["protocol"])
_SOCKET_ONLY: Final = frozenset({"subscription.subscribe", "subscription.unsubscribe"})
"""Methods that only the web socket serves."""
_Result = tuple[JsonObject, str]
"""Result of a command, and the id of the thread's newest event before it."""


class ProtocolCommand(BaseModel):
    """Command of a client."""

    id: Integer = Field(ge=0, description="Returned with the reply")
    method: str = Field(max_length=255)
    params: JsonObject = Field(default_factory=dict)


class CommandReply(BaseModel):
    """Reply to a command."""

    type: Literal["success", "error"]
    id: int | None
    result: JsonObject | None = None
    error: str | None = None
    message: str | None = None
    meta: JsonObject | None = None


class ProtocolRunCreate(RunCreate):
    """New run that publishes its events in this protocol."""

    protocol: ClassVar[bool] = True


class _StartParams(BaseModel):
    assistant_id: str = Field(min_length=1, max_length=255)
    input: Any = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    multitask_strategy: Strategy | None = Field(
        None, validation_alias=AliasChoices("multitask_strategy", "multitaskStrategy")
    )

    def to_run(self, command: RunCommand | None = None) -> ProtocolRunCreate:
        """Return the body of the run; a command replaces the input."""
        return ProtocolRunCreate(
            assistant_id=self.assistant_id,
            input=None if command else self.input,
            command=command,
            config=self.config,
            context=self.context,
            metadata=self.metadata,
            multitask_strategy=self.multitask_strategy,
            if_not_exists="create",
        )


class _InterruptResponse(BaseModel):
    interrupt_id: str
    response: Any = None


class _RespondParams(BaseModel):
    responses: list[_InterruptResponse] | None = Field(None, min_length=1, max_length=1_000)
    interrupt_id: str | None = None
    response: Any = None
    update: Any = None
    goto: Any = None
    config: JsonObject | None = None
    metadata: JsonObject | None = None

    def by_interrupt(self) -> JsonObject:
        """Return the responses by interrupt id.

        Raises `Refused` if there is none, and `Conflict` for a malformed id.
        """
        responses = {item.interrupt_id: item.response for item in self.responses or ()}
        if self.interrupt_id is not None:
            responses[self.interrupt_id] = self.response
        if not responses:
            raise Refused("a response needs an interrupt id", remedy="send interrupt_id, or responses")
        for name in responses:
            if not INTERRUPT_ID.fullmatch(name):
                raise Conflict(f"there is no interrupt {name[:80]!r}", remedy="read the thread's state")
        return responses


@router.post(
    "/threads/{thread_id}/commands",
    responses=documented_wire_responses(403, 404, 413, 422, 500, 503, 504, reply=CommandReply),
)
@with_policy(LANGGRAPH_WRITE)
async def run_command(thread_id: str, body: ProtocolCommand, request: Request) -> JsonReply:
    """Execute a protocol command. `run.start` creates the thread if it does not exist."""
    return JsonReply(await handle_command(app_context(request), current_owner(request), thread_id, body))


async def handle_command(ctx: AppContext, owner: str, thread: str, command: ProtocolCommand) -> JsonObject:
    """Execute a command and return the reply, which may be an error.

    Raises errors worth a retry, and `Missing` if the run's thread belongs to another owner.
    """
    handler = _HANDLERS.get(command.method)
    if handler is None:
        if command.method in _SOCKET_ONLY:
            return error_reply(command.id, "not_supported", f"{command.method} needs a web socket")
        return error_reply(command.id, "unknown_command", f"there is no command {command.method[:80]!r}")
    try:
        result, since = await handler(ctx, owner, thread, command.params)
    except (Refused, Busy, ValidationError) as error:
        if isinstance(error, Missing) and handler is _start_run:
            raise
        return refused_reply(command.id, command.method, error)
    meta = {"applied_through_seq": seq_of(since)}
    return {"type": "success", "id": command.id, "result": result, "meta": meta}


def refused_reply(command_id: int | None, method: str, error: Refused | Busy | ValidationError) -> JsonObject:
    """Return the error reply to a refused command."""
    _, body = errors.error_body(error)
    message = sentences(*(str(body.get(name) or "") for name in ("error", "remedy")))
    return error_reply(command_id, _error_code(method, error), message)


def error_reply(command_id: int | None, code: str, message: str) -> JsonObject:
    """Return an error reply."""
    return {"type": "error", "id": command_id, "error": code, "message": message}


def _error_code(method: str, error: Exception) -> str:
    if isinstance(error, Forbidden):
        return "permission_denied"
    if isinstance(error, Missing):
        return "no_such_run"
    if isinstance(error, Conflict) and method == "input.respond":
        return "no_such_interrupt"
    return "invalid_argument"


async def _start_run(ctx: AppContext, owner: str, thread: str, params: JsonObject) -> _Result:
    start = _StartParams.model_validate(params)
    record = await threads.find(ctx.storage, thread, owner)
    # As in LangGraph's server, the input of an interrupted thread's next run resumes it.
    interrupted = record is not None and bool(record.interrupts) and record.status == "interrupted"
    body = start.to_run()
    try:
        if interrupted and start.input is not None and not checkpoint_of(body):
            # If another request has just resumed the thread, start a run after that one instead. Input may
            # also repair a state that cannot be built, which has no interrupt to resume.
            with suppress(Conflict, UnbuildableState):
                resume = start.to_run(RunCommand(resume=start.input))
                return await _run_result(ctx, owner, thread, resume)
        return await _run_result(ctx, owner, thread, body)
    except Conflict:
        if await threads.find(ctx.storage, thread, owner) is None:
            # Another owner has a thread of this id.
            raise threads.missing_thread(thread) from None
        raise


async def _respond(ctx: AppContext, owner: str, thread: str, params: JsonObject) -> _Result:
    respond = _RespondParams.model_validate(params)
    record = await threads.get(ctx.storage, thread, owner)
    assistant = str(record.metadata.get("assistant_id") or record.graph)
    if not assistant:
        raise Missing(f"thread {record.id!r} has had no run", remedy="start one")
    options = {name: value for name in ("update", "goto") if (value := getattr(respond, name)) is not None}
    body = ProtocolRunCreate(
        assistant_id=assistant,
        command=RunCommand(resume=respond.by_interrupt(), **options),
        config=respond.config,
        metadata=respond.metadata,
    )
    return await _run_result(ctx, owner, thread, body)


async def _run_result(ctx: AppContext, owner: str, thread: str, body: ProtocolRunCreate) -> _Result:
    started = await start_run(ctx, owner, thread, body)
    return {"run_id": started.run}, started.since


async def _get_tree(ctx: AppContext, owner: str, thread: str, params: JsonObject) -> _Result:
    await threads.get(ctx.storage, thread, owner)
    run = params.get("run_id")
    since = await events.newest_id(ctx.storage, thread)
    return {"tree": await agent_tree_of_run(ctx, thread, str(run) if run else None)}, since


_HANDLERS: Final[Mapping[str, Callable[[AppContext, str, str, JsonObject], Awaitable[_Result]]]] = {
    "run.start": _start_run,
    "input.respond": _respond,
    "agent.getTree": _get_tree,
}

"""Commands of the Agent Streaming Protocol: start a run, answer a question, see what runs."""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal

from fastapi import APIRouter, Request
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from callsheet.server.ads.bodies import StrictRoute, Whole
from callsheet.server.context import AppContext, app_context
from callsheet.server.http import errors
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph.protocol import agent_tree
from callsheet.server.langgraph.protocol.views import seq_of
from callsheet.server.langgraph.run_bodies import RunCommand, RunCreate, checkpoint_of
from callsheet.server.langgraph.runs import EventJsonReply
from callsheet.server.langgraph.starting import StartedRun, start_on_thread
from callsheet.state.errors import Busy, Conflict, Forbidden, Missing, Refused
from callsheet.storage.runs import events
from callsheet.storage.runs.records import Strategy
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord

router = APIRouter(route_class=StrictRoute, tags=["protocol"])
_ID: Final = re.compile(r"[0-9a-f]{32}")
_ELSEWHERE: Final = frozenset({"subscription.subscribe", "subscription.unsubscribe"})
"""Commands that only a web socket can carry."""
_Object = dict[str, Any]


class ProtocolCommand(BaseModel):
    """What a client wants done."""

    id: Whole = Field(ge=0, description="Comes back with the answer")
    method: str = Field(max_length=255)
    params: _Object = Field(default_factory=dict)


class CommandReply(BaseModel):
    """How a command went."""

    type: Literal["success", "error"]
    id: int | None
    result: _Object | None = None
    error: str | None = None
    message: str | None = None
    meta: _Object | None = None


class ProtocolRunCreate(RunCreate):
    """A run whose events are this protocol's."""

    protocol: ClassVar[bool] = True


class _Start(BaseModel):
    assistant_id: str = Field(min_length=1, max_length=255)
    input: Any = None
    config: _Object | None = None
    context: _Object | None = None
    metadata: _Object | None = None
    multitask_strategy: Strategy | None = Field(
        None, validation_alias=AliasChoices("multitask_strategy", "multitaskStrategy")
    )

    def body(self, command: RunCommand | None = None) -> ProtocolRunCreate:
        """Return the run; where a command is given, it stands for the input."""
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


class _Answer(BaseModel):
    interrupt_id: str
    response: Any = None


class _Respond(BaseModel):
    responses: list[_Answer] | None = Field(None, min_length=1, max_length=1_000)
    interrupt_id: str | None = None
    response: Any = None
    update: Any = None
    goto: Any = None
    config: _Object | None = None
    metadata: _Object | None = None

    def answers(self) -> dict[str, Any]:
        """Return the answers by question.

        Raises `Refused` where none is given, and `Conflict` for a question that cannot be one.
        """
        given = {one.interrupt_id: one.response for one in self.responses or ()}
        if self.interrupt_id is not None:
            given[self.interrupt_id] = self.response
        if not given:
            raise Refused("an answer says what it answers", remedy="send interrupt_id, or responses")
        for name in given:
            if not _ID.fullmatch(name):
                raise Conflict(f"there is no question {name[:80]!r}", remedy="read the thread's state")
        return given


@router.post(
    "/threads/{thread_id}/commands",
    responses=documented_wire_responses(403, 404, 413, 422, 500, 503, 504, reply=CommandReply),
    response_model=None,
)
async def run_command(thread_id: str, body: ProtocolCommand, request: Request) -> EventJsonReply:
    """Carry out a command; a run is started on a thread that is made if it is not there."""
    return EventJsonReply(await handle_command(app_context(request), current_owner(request), thread_id, body))


async def handle_command(here: AppContext, who: str, thread: str, asked: ProtocolCommand) -> _Object:
    """Return the answer to a command.

    What is worth sending again is raised, and `Missing` where a run is wanted on another's thread.
    """
    do = _METHODS.get(asked.method)
    if do is None:
        if asked.method in _ELSEWHERE:
            return error_reply(asked.id, "not_supported", f"{asked.method} needs a web socket")
        return error_reply(asked.id, "unknown_command", f"there is no command {asked.method[:80]!r}")
    try:
        result, since = await do(here, who, thread, asked.params)
    except (Refused, Busy, ValidationError) as error:
        if isinstance(error, Missing) and do is _start:
            raise
        return refused_reply(asked.id, asked.method, error)
    meta = {"applied_through_seq": seq_of(since)}
    return {"type": "success", "id": asked.id, "result": result, "meta": meta}


def refused_reply(command_id: int | None, method: str, error: Refused | Busy | ValidationError) -> _Object:
    """Return the answer to a command that cannot be carried out."""
    _, told = errors.error_body(error)
    message = "; ".join(str(told[name]) for name in ("error", "remedy") if told.get(name))
    return error_reply(command_id, _code(method, error), message)


def error_reply(command_id: int | None, code: str, message: str) -> _Object:
    """Return the answer to a command that went wrong."""
    return {"type": "error", "id": command_id, "error": code, "message": message}


def _code(method: str, error: Exception) -> str:
    if isinstance(error, Forbidden):
        return "permission_denied"
    if isinstance(error, Missing):
        return "no_such_run"
    if isinstance(error, Conflict) and method == "input.respond":
        return "no_such_interrupt"
    return "invalid_argument"


async def _start(here: AppContext, who: str, thread: str, params: _Object) -> tuple[_Object, str]:
    wanted = _Start.model_validate(params)
    record = await thread_records.find(here.storage, thread, who)
    # As LangGraph's server has it: a thread that waits for an answer takes its next input for that.
    waits = record is not None and bool(record.interrupts) and record.status == "interrupted"
    body = wanted.body()
    try:
        if waits and wanted.input is not None and not checkpoint_of(body):
            # Where it is being answered already, this is what comes after the answer.
            with suppress(Conflict):
                answer = wanted.body(RunCommand(resume=wanted.input))
                return _told(await start_on_thread(here, who, thread, answer))
        return _told(await start_on_thread(here, who, thread, body))
    except Conflict:
        if await thread_records.find(here.storage, thread, who) is None:
            # The id is taken, by somebody else.
            raise thread_records.missing_thread(thread) from None
        raise


async def _respond(here: AppContext, who: str, thread: str, params: _Object) -> tuple[_Object, str]:
    wanted = _Respond.model_validate(params)
    record = await thread_records.get(here.storage, thread, who)
    chosen = {name: value for name in ("update", "goto") if (value := getattr(wanted, name)) is not None}
    body = ProtocolRunCreate(
        assistant_id=_assistant(record),
        command=RunCommand(resume=wanted.answers(), **chosen),
        config=wanted.config,
        metadata=wanted.metadata,
    )
    return _told(await start_on_thread(here, who, thread, body))


async def _tree(here: AppContext, who: str, thread: str, params: _Object) -> tuple[_Object, str]:
    await thread_records.get(here.storage, thread, who)
    run = params.get("run_id")
    since = await events.newest_id(here.storage, thread)
    return {"tree": await agent_tree.agent_tree_of_run(here, thread, str(run) if run else None)}, since


_METHODS: Final[Mapping[str, Callable[[AppContext, str, str, _Object], Awaitable[tuple[_Object, str]]]]] = {
    "run.start": _start,
    "input.respond": _respond,
    "agent.getTree": _tree,
}


def _told(started: StartedRun) -> tuple[_Object, str]:
    return {"run_id": started.run}, started.since


def _assistant(record: ThreadRecord) -> str:
    found = str(record.metadata.get("assistant_id") or record.graph)
    if not found:
        raise Missing(f"thread {record.id!r} has had no run", remedy="start one")
    return found

"""The state of a thread: read at any checkpoint, updated by a client as a node would."""

import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import MappingProxyType
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Request
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot
from langgraph.types import StateUpdate as NodeWrite
from pydantic import Field
from starlette.responses import Response

from callsheet.server.engine.graph_states import build_history, build_state, write_state
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.policy import LANGGRAPH_READ, LANGGRAPH_WRITE, with_policy
from callsheet.server.http.replies import JsonReply, StreamingReply
from callsheet.server.http.requests import Flag, Integer, StrictRoute, while_connected
from callsheet.server.langgraph import schemas
from callsheet.server.langgraph.inputs import check_update
from callsheet.server.langgraph.reply_schemas import STATE, STATES, StateUpdated
from callsheet.server.langgraph.schemas import (
    Body,
    CheckpointName,
    JsonObject,
    checkpoint_fields,
    read_responses,
    write_responses,
)
from callsheet.state.errors import CallsheetError, Missing, Refused, UnbuildableState
from callsheet.storage.runs import events
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_log = logging.getLogger(__name__)
_COMMAND_FIELDS: Final = ("resume", "update", "goto", "graph")


class NodeUpdate(Body):
    """Values or a command, written as by a node."""

    values: Any = None
    command: JsonObject | None = None
    as_node: str | None = None

    def to_state_update(self) -> NodeWrite:
        """Return the update for LangGraph; raises `Refused` for an unknown field of the command."""
        if self.command is None:
            return NodeWrite(self.values, self.as_node)
        if unknown := sorted(self.command.keys() - set(_COMMAND_FIELDS)):
            raise Refused(
                f"a command has no field {unknown[0]!r}", remedy=f"use {', '.join(_COMMAND_FIELDS)}"
            )
        # LangGraph accepts a command here although its annotation does not.
        return NodeWrite(cast("Any", Command(**self.command)), self.as_node)


class Superstep(Body):
    """Updates written in one step."""

    updates: list[NodeUpdate]


def graph_of_thread(ctx: AppContext, record: Thread) -> Pregel[Any, Any]:
    """Return a thread's graph; raises `Refused` if the thread has none yet or the graph is not served."""
    if not record.graph:
        raise Refused(
            f"thread {record.id!r} has no graph yet",
            remedy="run an assistant on it first, or set 'graph_id' in its metadata",
        )
    if record.graph not in ctx.graphs:
        raise Refused(
            f"thread {record.id!r} uses graph {record.graph!r}, which this server does not serve",
            remedy=f"serve it again beside {', '.join(sorted(ctx.graphs))}",
        )
    return ctx.graphs[record.graph]


async def apply_update(
    ctx: AppContext, record: Thread, at: RunnableConfig, values: Any, as_node: str | None
) -> RunnableConfig:
    """Write `values` at a checkpoint as `as_node` would, and return the config of the new checkpoint.

    Raises `Busy` while a run holds the thread, and `Refused` or `Invalid` for values that the graph refuses.
    """
    graph = graph_of_thread(ctx, record)
    if isinstance(values, list) and not values:
        values = None
    check_update(graph, values)
    async with threads.hold(ctx.storage, record.id, record.owner):
        with _graph_errors():
            written = await write_state(graph, _with_metadata(at, record), values, as_node)
        await record_state(ctx, record, graph)
        # The event holds only the checkpoint's id: with the values, each update would be stored twice.
        pointer = {name: written["configurable"][name] for name in ("checkpoint_id", "checkpoint_ns")}
        await events.append(ctx.storage, record.id, events.STATE_UPDATED, dumps(pointer))
    return written


async def apply_supersteps(ctx: AppContext, record: Thread, supersteps: Sequence[Superstep]) -> None:
    """Write a history; raises as `apply_update`."""
    graph = graph_of_thread(ctx, record)
    steps = [[update.to_state_update() for update in step.updates] for step in supersteps]
    for step in supersteps:
        for update in step.updates:
            check_update(graph, update.values)
    at: RunnableConfig = {"configurable": {"thread_id": record.id}}
    async with threads.hold(ctx.storage, record.id, record.owner):
        with _graph_errors():
            await graph.abulk_update_state(_with_metadata(at, record), steps)
        await record_state(ctx, record, graph)


async def record_state(
    ctx: AppContext, record: Thread, graph: Pregel[Any, Any], *, pending_status: str = "interrupted"
) -> None:
    """Store a thread's interrupts and status: `pending_status` if its state has next nodes, else idle."""
    if snapshot := await find_state(graph, record.id):
        status = pending_status if snapshot.next else "idle"
        interrupts = schemas.to_json_value(schemas.interrupts_view(snapshot))
    else:
        status, interrupts = "error", {}
    await threads.record_edit(ctx.storage, record, status, interrupts)


def _with_metadata(at: RunnableConfig, record: Thread) -> RunnableConfig:
    metadata = {"graph_id": record.graph, "assistant_id": record.metadata.get("assistant_id")}
    return {**at, "metadata": {name: value for name, value in metadata.items() if value}}


@contextmanager
def _graph_errors() -> Iterator[None]:
    """Raise `Refused` for any error of the graph's channels and edges: the values do not fit."""
    try:
        yield
    except CallsheetError:
        raise
    except Exception as error:
        message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise Refused(message, remedy="see the graph's nodes, and the schema of its state") from error


async def find_state(
    graph: Pregel[Any, Any], thread_id: str, checkpoint: Mapping[str, Any] = MappingProxyType({})
) -> StateSnapshot | None:
    """Return a thread's state, the newest by default; None if it cannot be built.

    Neither an error of the graph's own code nor evicted data may break the list of all threads.
    """
    config: RunnableConfig = {"configurable": {**checkpoint, "thread_id": thread_id}}
    try:
        return await build_state(graph, config)
    except (UnbuildableState, Missing) as error:
        _log.warning("cannot build the state of thread %s: %s", thread_id, error)
        return None


router = APIRouter(prefix="/threads/{thread_id}", route_class=StrictRoute, tags=["threads"])
_FIRST_BATCH: Final = 11
"""States of a history that are read first: a page of the default size, and one more."""
_MAX_BATCH: Final = 200
_BATCH_BYTES: Final = 4_000_000
"""Approximate bytes of states read at a time after them."""
_Select = Annotated[
    list[str] | None, Query(description="Fields of the state; `values.messages` chooses one value")
]
_Subgraphs = Annotated[bool, Query(description="Include the states of subgraphs")]


class StateQuery(Body):
    """Checkpoint whose state is read, and the fields to return."""

    checkpoint: CheckpointName
    subgraphs: Flag = False
    select: list[str] | None = None


class StateUpdate(Body):
    """Values to write to the state."""

    values: Any = None
    as_node: str | None = None
    checkpoint: CheckpointName | None = None
    checkpoint_id: str | None = None


class HistoryQuery(Body):
    """Filter for the states of a thread."""

    limit: Integer = Field(10, ge=1, le=1_000)
    before: str | CheckpointName | None = None
    metadata: JsonObject | None = None
    checkpoint: CheckpointName | None = None
    select: list[str] | None = None


@router.get("/state", responses=read_responses(STATE, 400, 409))
@with_policy(LANGGRAPH_READ)
async def get_state(
    thread_id: str,
    request: Request,
    subgraphs: _Subgraphs = False,  # noqa: FBT002
    select: _Select = None,
) -> Response:
    """Get a thread's newest state. Its fields are null or empty if the thread has no state.

    400 with the reason if the graph cannot build the state.
    """
    return await _state_reply(request, thread_id, {}, subgraphs=subgraphs, select=select)


@router.post("/state/checkpoint", responses=write_responses(STATE))
@with_policy(LANGGRAPH_READ)
async def get_state_at_checkpoint(thread_id: str, body: StateQuery, request: Request) -> Response:
    """Get the state at a checkpoint. The checkpoint may be a subgraph's."""
    return await _state_reply(
        request, thread_id, body.checkpoint, subgraphs=body.subgraphs, select=body.select
    )


@router.get("/state/{checkpoint_id}", responses=read_responses(STATE, 400, 409))
@with_policy(LANGGRAPH_READ)
async def get_state_at_checkpoint_id(
    thread_id: str,
    checkpoint_id: str,
    request: Request,
    subgraphs: _Subgraphs = False,  # noqa: FBT002
    select: _Select = None,
) -> Response:
    """Get the state at a checkpoint, by the checkpoint's id."""
    checkpoint = {"checkpoint_id": checkpoint_id}
    return await _state_reply(request, thread_id, checkpoint, subgraphs=subgraphs, select=select)


@router.post("/state", responses=write_responses(StateUpdated))
@with_policy(LANGGRAPH_WRITE)
async def update_state(thread_id: str, body: StateUpdate, request: Request) -> Response:
    """Update a thread's state as a node would. As node `__copy__`, fork the state to continue from it."""
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    checkpoint = body.checkpoint or ({"checkpoint_id": body.checkpoint_id} if body.checkpoint_id else {})
    config = _checkpoint_config(thread_id, checkpoint)
    written = (await apply_update(ctx, record, config, body.values, body.as_node))["configurable"]
    pointer = {name: written[name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id")}
    return JsonReply(
        {"checkpoint": pointer, "configurable": pointer, "checkpoint_id": pointer["checkpoint_id"]}
    )


@router.get("/history", responses=read_responses(STATES, 400, 409))
@with_policy(LANGGRAPH_READ)
async def get_history(
    thread_id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    before: Annotated[str | None, Query(description="Id of a checkpoint")] = None,
) -> Response:
    """List a thread's states, newest first; `X-Pagination-Next` is the `before` of the next page.

    A state that the graph cannot build has its values as they are stored, and `error` with the reason.
    """
    return await _history_reply(request, thread_id, HistoryQuery(limit=limit, before=before))


@router.post("/history", responses=write_responses(STATES))
@with_policy(LANGGRAPH_READ)
async def search_state_history(
    thread_id: str, request: Request, body: HistoryQuery | None = None
) -> Response:
    """Search a thread's states, newest first; `X-Pagination-Next` is the `before` of the next page.

    A state that the graph cannot build has its values as they are stored, and `error` with the reason.
    """
    return await _history_reply(request, thread_id, body or HistoryQuery())


async def _state_reply(
    request: Request, thread_id: str, checkpoint: JsonObject, *, subgraphs: bool, select: list[str] | None
) -> Response:
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    if not record.graph and not checkpoint:
        empty = StateSnapshot({}, (), {"configurable": {}}, None, None, None, (), ())
        return JsonReply(schemas.select_fields(schemas.state_view(empty), select))
    graph = graph_of_thread(ctx, record)
    config = _checkpoint_config(thread_id, checkpoint)
    snapshot = await build_state(graph, config, subgraphs=subgraphs)
    name = checkpoint.get("checkpoint_id") or checkpoint.get("checkpoint_ns")
    if name and not snapshot.created_at:
        raise Missing(f"thread {thread_id!r} has no checkpoint {name!r}", remedy="see its history")
    return JsonReply(schemas.select_fields(schemas.state_view(snapshot), select))


async def _history_reply(request: Request, thread_id: str, query: HistoryQuery) -> Response:
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    if not record.graph:
        return JsonReply([])
    graph = graph_of_thread(ctx, record)
    reading = _read_history(graph, thread_id, query, ctx.settings.max_history_bytes)
    states, next_before = await while_connected(request, reading, (deque(), None))
    # The brackets, and the commas between the states.
    headers = {"Content-Length": str(sum(map(len, states)) + max(2, len(states) + 1))}
    if next_before:
        headers["X-Pagination-Next"] = next_before
    return StreamingReply(_json_array(states), media_type="application/json", headers=headers)


async def _read_history(
    graph: Pregel[Any, Any], thread_id: str, query: HistoryQuery, max_bytes: int
) -> tuple[deque[bytes], str | None]:
    """Return the states as JSON, and the checkpoint before which the next page begins; None for no next page.

    There are at most `query.limit`, of at most `max_bytes` unless the first is larger. The reply begins once
    all are read: its headers name the next page, and an error cannot leave half an array.
    """
    states: deque[bytes] = deque()
    size, last = 0, None
    async with aclosing(_encoded_states(graph, thread_id, query)) as source:
        async for checkpoint_id, text in source:
            if states and (len(states) == query.limit or size + len(text) > max_bytes):
                return states, last
            states.append(text)
            size, last = size + len(text), checkpoint_id
    return states, None


async def _encoded_states(
    graph: Pregel[Any, Any], thread_id: str, query: HistoryQuery
) -> AsyncGenerator[tuple[str, bytes], None]:
    """Yield checkpoint id and JSON of `query.limit` states and one more; they are read a few at a time."""
    config = _checkpoint_config(thread_id, query.checkpoint or {})
    before = {"checkpoint_id": query.before} if isinstance(query.before, str) else query.before or {}
    position = _checkpoint_config(thread_id, before.get("configurable", before)) if before else None
    left = query.limit + 1
    # The saver reads whole pages to find matching metadata.
    batch = left if query.metadata else min(left, _FIRST_BATCH)
    while batch:
        encoder = schemas.MessageEncoder()
        read = size = 0
        source = build_history(graph, config, metadata=query.metadata, before=position, limit=batch)
        async with aclosing(source):
            async for state, reason in source:
                text = dumps(schemas.past_state_view(state, reason, query.select), encoder)
                read, size, position = read + 1, size + len(text), state.config
                yield state.config["configurable"]["checkpoint_id"], text
        left -= read
        batch = min(left, _MAX_BATCH, _BATCH_BYTES * read // size + 1) if read == batch else 0


async def _json_array(items: deque[bytes]) -> AsyncIterator[bytes]:
    """Yield a JSON array of the items, and forget each that was sent."""
    separator = b"["
    while items:
        yield separator + items.popleft()
        separator = b","
    yield b"]" if separator == b"," else b"[]"


def _checkpoint_config(thread_id: str, checkpoint: Any) -> RunnableConfig:
    """Return the config of a checkpoint of this thread; a thread id inside `checkpoint` is ignored.

    Raises `Invalid`.
    """
    return {"configurable": {"checkpoint_ns": "", **checkpoint_fields(checkpoint), "thread_id": thread_id}}

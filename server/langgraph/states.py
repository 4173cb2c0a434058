"""Routes of a thread's states: read the newest or an earlier one, list the history, update the state."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot
from pydantic import Field
from starlette.responses import Response

from callsheet.server.engine.graph_states import build_history, build_state
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.events import StreamingReply
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.policy import LANGGRAPH_READ, LANGGRAPH_WRITE, with_policy
from callsheet.server.http.requests import Flag, Integer, StrictRoute
from callsheet.server.langgraph import shapes, updates
from callsheet.server.langgraph.bodies import Body, checkpoint_fields, read_responses, write_responses
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.state.errors import Missing
from callsheet.storage.threads import threads

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

    checkpoint: JsonObject
    subgraphs: Flag = False
    select: list[str] | None = None


class StateUpdate(Body):
    """Values to write to the state."""

    values: Any = None
    as_node: str | None = None
    checkpoint: JsonObject | None = None
    checkpoint_id: str | None = None


class HistoryQuery(Body):
    """Filter for the states of a thread."""

    limit: Integer = Field(10, ge=1, le=1_000)
    before: str | JsonObject | None = None
    metadata: JsonObject | None = None
    checkpoint: JsonObject | None = None
    select: list[str] | None = None


@router.get("/state", responses=read_responses(JsonObject, 400, 409))
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


@router.post("/state/checkpoint", responses=write_responses(JsonObject))
@with_policy(LANGGRAPH_READ)
async def get_state_at_checkpoint(thread_id: str, body: StateQuery, request: Request) -> Response:
    """Get the state at a checkpoint. The checkpoint may be a subgraph's."""
    return await _state_reply(
        request, thread_id, body.checkpoint, subgraphs=body.subgraphs, select=body.select
    )


@router.get("/state/{checkpoint_id}", responses=read_responses(JsonObject, 400, 409))
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


@router.post("/state", responses=write_responses(JsonObject))
@with_policy(LANGGRAPH_WRITE)
async def update_state(thread_id: str, body: StateUpdate, request: Request) -> Response:
    """Update a thread's state as a node would. As node `__copy__`, fork the state to continue from it."""
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    checkpoint = body.checkpoint or ({"checkpoint_id": body.checkpoint_id} if body.checkpoint_id else {})
    config = _checkpoint_config(thread_id, checkpoint)
    written = (await updates.apply_update(ctx, record, config, body.values, body.as_node))["configurable"]
    pointer = {name: written[name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id")}
    return JsonReply(
        {"checkpoint": pointer, "configurable": pointer, "checkpoint_id": pointer["checkpoint_id"]}
    )


@router.get("/history", responses=read_responses(list[JsonObject], 400, 409))
@with_policy(LANGGRAPH_READ)
async def get_history(
    thread_id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    before: Annotated[str | None, Query(description="Id of a checkpoint")] = None,
) -> Response:
    """List a thread's states, newest first; `X-Pagination-Next` is the `before` of the next page.

    A state that the graph cannot build has no values, and `error` with the reason.
    """
    return await _history_reply(request, thread_id, HistoryQuery(limit=limit, before=before))


@router.post("/history", responses=write_responses(list[JsonObject]))
@with_policy(LANGGRAPH_READ)
async def search_state_history(
    thread_id: str, request: Request, body: HistoryQuery | None = None
) -> Response:
    """Search a thread's states, newest first; `X-Pagination-Next` is the `before` of the next page.

    A state that the graph cannot build has no values, and `error` with the reason.
    """
    return await _history_reply(request, thread_id, body or HistoryQuery())


async def _state_reply(
    request: Request, thread_id: str, checkpoint: JsonObject, *, subgraphs: bool, select: list[str] | None
) -> Response:
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    if not record.graph and not checkpoint:
        empty = StateSnapshot({}, (), {"configurable": {}}, None, None, None, (), ())
        return JsonReply(shapes.select_fields(shapes.state_view(empty), select))
    graph = updates.graph_of_thread(ctx, record)
    config = _checkpoint_config(thread_id, checkpoint)
    snapshot = await build_state(graph, config, subgraphs=subgraphs)
    name = checkpoint.get("checkpoint_id") or checkpoint.get("checkpoint_ns")
    if name and not snapshot.created_at:
        raise Missing(f"thread {thread_id!r} has no checkpoint {name!r}", remedy="see its history")
    return JsonReply(shapes.select_fields(shapes.state_view(snapshot), select))


async def _history_reply(request: Request, thread_id: str, query: HistoryQuery) -> Response:
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    if not record.graph:
        return JsonReply([])
    graph = updates.graph_of_thread(ctx, record)
    states, next_before = await _read_history(graph, thread_id, query, ctx.settings.max_history_bytes)
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
        encoder = shapes.MessageEncoder()
        read = size = 0
        source = build_history(graph, config, metadata=query.metadata, before=position, limit=batch)
        async with aclosing(source):
            async for state, reason in source:
                text = dumps(shapes.past_state_view(state, reason, query.select), encoder)
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

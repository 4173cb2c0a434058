"""States of a thread: the newest, that at a checkpoint, those before; and how they are changed."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot
from pydantic import Field
from starlette.responses import Response

from callsheet.server.ads.bodies import Flag, StrictRoute, Whole
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph import shapes, updates
from callsheet.server.langgraph.bodies import Body
from callsheet.server.langgraph.shapes import WireJsonReply
from callsheet.state.errors import Missing
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord

router = APIRouter(prefix="/threads/{thread_id}", route_class=StrictRoute, tags=["threads"])
_READ: Final = (400, 403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_POINTER: Final = frozenset({"checkpoint_id", "checkpoint_ns", "checkpoint_map"})
_Object = dict[str, Any]
_Selected = Annotated[
    list[str] | None, Query(description="Fields of the state; `values.messages` is one value")
]
_Subgraphs = Annotated[bool, Query(description="Whether the states of subgraphs are in it")]


class StateQuery(Body):
    """Which state, and what of it."""

    checkpoint: _Object
    subgraphs: Flag = False
    select: list[str] | None = None


class StateUpdate(Body):
    """What the state is to have."""

    values: Any = None
    as_node: str | None = None
    checkpoint: _Object | None = None
    checkpoint_id: str | None = None


class HistoryQuery(Body):
    """Which states, newest first."""

    limit: Whole = Field(10, ge=1, le=1_000)
    before: str | _Object | None = None
    metadata: _Object | None = None
    checkpoint: _Object | None = None
    select: list[str] | None = None


@router.get("/state", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None)
async def get_state(
    thread_id: str,
    request: Request,
    subgraphs: _Subgraphs = False,  # noqa: FBT002
    select: _Selected = None,
) -> Response:
    """Show the newest state; of a thread without one, nulls."""
    return await _shown(request, thread_id, {}, subgraphs=subgraphs, select=select)


@router.post(
    "/state/checkpoint", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None
)
async def get_state_at_checkpoint(thread_id: str, body: StateQuery, request: Request) -> Response:
    """Show the state at a checkpoint, which may be a subgraph's."""
    return await _shown(request, thread_id, body.checkpoint, subgraphs=body.subgraphs, select=body.select)


@router.get(
    "/state/{checkpoint_id}", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None
)
async def get_state_at_checkpoint_id(
    thread_id: str,
    checkpoint_id: str,
    request: Request,
    subgraphs: _Subgraphs = False,  # noqa: FBT002
    select: _Selected = None,
) -> Response:
    """Show the state at a checkpoint."""
    return await _shown(
        request, thread_id, {"checkpoint_id": checkpoint_id}, subgraphs=subgraphs, select=select
    )


@router.post("/state", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None)
async def update_state(thread_id: str, body: StateUpdate, request: Request) -> Response:
    """Write values as a node would have; as `__copy__`, a state once more, to go on from."""
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    chosen = body.checkpoint or ({"checkpoint_id": body.checkpoint_id} if body.checkpoint_id else {})
    there = await updates.apply_update(here, record, _at(thread_id, chosen), body.values, body.as_node)
    pointer = {name: there["configurable"][name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id")}
    return WireJsonReply(
        {"checkpoint": pointer, "configurable": pointer, "checkpoint_id": pointer["checkpoint_id"]}
    )


@router.get("/history", responses=documented_wire_responses(*_READ, reply=list[_Object]), response_model=None)
async def get_history(
    thread_id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    before: Annotated[str | None, Query(description="A checkpoint's id")] = None,
) -> Response:
    """List the states of a thread, newest first."""
    return await _past(request, thread_id, HistoryQuery(limit=limit, before=before))


@router.post(
    "/history", responses=documented_wire_responses(*_WRITE, reply=list[_Object]), response_model=None
)
async def search_state_history(
    thread_id: str, request: Request, body: HistoryQuery | None = None
) -> Response:
    """List the states of a thread that fit, newest first."""
    return await _past(request, thread_id, body or HistoryQuery())


async def _shown(
    request: Request, thread_id: str, chosen: _Object, *, subgraphs: bool, select: list[str] | None
) -> Response:
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    if not record.graph and not chosen:
        nothing = StateSnapshot({}, (), {"configurable": {}}, None, None, None, (), ())
        return WireJsonReply(shapes.select_fields(shapes.state_view(nothing), select))
    found = await _snapshot(here, record, _at(thread_id, chosen), subgraphs=subgraphs)
    named = chosen.get("checkpoint_id") or chosen.get("checkpoint_ns")
    if named and not found.created_at:
        raise Missing(f"thread {thread_id!r} has no checkpoint {named!r}", remedy="see its history")
    return WireJsonReply(shapes.select_fields(shapes.state_view(found), select))


async def _past(request: Request, thread_id: str, wanted: HistoryQuery) -> Response:
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    if not record.graph:
        return WireJsonReply([])
    graph = updates.graph_of_thread(here, record)
    named = wanted.before
    before = {"checkpoint_id": named} if isinstance(named, str) else (named or {}).get("configurable", named)
    states = graph.aget_state_history(
        _at(thread_id, wanted.checkpoint or {}),
        filter=wanted.metadata,
        before=_at(thread_id, before) if before else None,
        limit=wanted.limit,
    )
    try:
        found = [shapes.select_fields(shapes.state_view(one), wanted.select) async for one in states]
    except ValueError as error:
        raise _no_place(error) from error
    return WireJsonReply(found)


async def _snapshot(
    here: AppContext, record: ThreadRecord, at: RunnableConfig, *, subgraphs: bool
) -> StateSnapshot:
    try:
        return await updates.graph_of_thread(here, record).aget_state(at, subgraphs=subgraphs)
    except ValueError as error:
        raise _no_place(error) from error


def _at(thread_id: str, checkpoint: _Object) -> RunnableConfig:
    """A config that names a checkpoint of this thread, whatever thread the caller's names."""
    chosen = {name: one for name, one in checkpoint.items() if name in _POINTER and one is not None}
    return {"configurable": {"checkpoint_ns": "", **chosen, "thread_id": thread_id}}


def _no_place(error: Exception) -> Missing:
    return Missing(str(error), remedy="see the tasks of the thread's state for the subgraphs that are there")

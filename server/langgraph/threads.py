"""Routes of threads: create, search, change, copy, prune, delete."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.policy import LANGGRAPH_READ, LANGGRAPH_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import (
    IDEMPOTENT,
    Number,
    StrictRoute,
    create_once,
    identifier,
    while_connected,
)
from callsheet.server.langgraph import retention, schemas, states
from callsheet.server.langgraph.reply_schemas import THREADS, PruneReply, ThreadReply, ThreadSizeReply
from callsheet.server.langgraph.retention import delete_with_runs
from callsheet.server.langgraph.schemas import (
    Body,
    JsonObject,
    ListPage,
    contains,
    page_reply,
    read_responses,
    write_responses,
)
from callsheet.server.langgraph.starting import default_ttl, require_one_workflow
from callsheet.server.langgraph.states import Superstep, find_state
from callsheet.state.errors import CallsheetError, Invalid, Missing, Refused
from callsheet.storage.checkpoints import maintenance
from callsheet.storage.threads import threads
from callsheet.storage.threads.selection import Order, select
from callsheet.storage.threads.threads import NewThread, Thread

_CHUNK: Final = 100
"""Threads whose records, and states, are read in one round trip."""
_PATH_PART: Final = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")


class ThreadCount(Body):
    """Filter for threads."""

    metadata: JsonObject | None = None
    values: JsonObject | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None


class ThreadSearch(ThreadCount, ListPage):
    """Filter, order and fields of a search for threads."""

    ids: list[str] | None = Field(None, max_length=1_000)
    sort_by: Order = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


async def find_threads(ctx: AppContext, owner: str, search: ThreadSearch) -> list[Thread]:
    """Return a page of matching threads, and one more if there is a next page."""
    if search.ids is not None:
        named = await threads.get_many(ctx.storage, search.ids, owner)
        matching = await _matching(ctx, [record for record in named if record], search)
        matching.sort(
            key=lambda record: _sort_key(record, search.sort_by), reverse=search.sort_order == "desc"
        )
        return list(search.cut(matching))
    selected = await select(ctx.storage, owner, status=search.status, metadata=search.metadata)
    is_exact, end = selected.is_exact and search.values is None, search.limit + 1
    skip, later = (search.offset, 0) if is_exact else (0, search.offset)
    page: dict[str, Thread] = {}
    descending = search.sort_order == "desc"
    ids = selected.ids(search.sort_by, descending=descending, skip=skip, wanted=later + end)
    chunk = min(_CHUNK, end) if is_exact else _CHUNK
    async for records in _read(ctx, owner, ids, search, chunk):
        page |= {record.id: record for record in records}
        if len(page) >= later + end:
            break
    return list(page.values())[later : later + end]


async def count_matching(ctx: AppContext, owner: str, query: ThreadCount) -> int:
    """Return the number of matching threads."""
    selected = await select(ctx.storage, owner, status=query.status, metadata=query.metadata)
    if selected.is_exact and query.values is None:
        return await selected.count()
    ids = set[str]()
    async for records in _read(ctx, owner, selected.ids("updated_at"), query):
        ids |= {record.id for record in records}
    return len(ids)


async def _read(
    ctx: AppContext, owner: str, ids: AsyncIterator[list[str]], query: ThreadCount, chunk: int = _CHUNK
) -> AsyncIterator[list[Thread]]:
    """Yield the threads that match, in the order of `ids`, a chunk at a time."""
    async for names in ids:
        for start in range(0, len(names), chunk):
            records = await threads.existing(ctx.storage, names[start : start + chunk], owner)
            yield await _matching(ctx, records, query)


async def _matching(ctx: AppContext, records: Sequence[Thread], query: ThreadCount) -> list[Thread]:
    """Return the threads that match a filter; their states are read in one batch."""
    matches = await asyncio.gather(*(_matches(ctx, record, query) for record in records))
    return [record for record, is_match in zip(records, matches, strict=True) if is_match]


async def _matches(ctx: AppContext, record: Thread, query: ThreadCount) -> bool:
    if query.status not in {None, record.status} or not contains(record.metadata, query.metadata):
        return False
    if query.values is None:
        return True
    return contains(schemas.to_json_value(await newest_values(ctx, record)), query.values)


async def newest_values(ctx: AppContext, record: Thread) -> Any:
    """Return the values of a thread's newest state.

    None if the thread has no state or graph yet, its graph is not served, or its state cannot be built.
    """
    graph = ctx.graphs.get(record.graph)
    if graph is None:
        return None
    snapshot = await find_state(graph, record.id)
    return snapshot.values if snapshot and snapshot.created_at else None


def extract_paths(view: Mapping[str, Any], paths: Mapping[str, str]) -> JsonObject:
    """Return the value at each path, such as `values.messages[-1].content`; None if there is none."""
    return {name: _value_at(view, path) for name, path in paths.items()}


def _value_at(value: Any, path: str) -> Any:
    for name, index in _PATH_PART.findall(path):
        if name and isinstance(value, Mapping):
            value = value.get(name)
        elif index and isinstance(value, list) and -len(value) <= int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return value


def _sort_key(record: Thread, sort_by: str) -> tuple[Any, str]:
    keys: JsonObject = {
        "thread_id": record.id,
        "status": (record.status, record.updated_ms),
        "created_at": record.created_ms,
        "state_updated_at": record.state_updated_ms,
        "updated_at": record.updated_ms,
    }
    return keys[sort_by], record.id


router = APIRouter(prefix="/threads", route_class=StrictRoute, tags=["threads"])


class ThreadTtl(Body):
    """Time to live of a thread, counted from its last change."""

    ttl: Number = Field(gt=0, le=10_000_000, description="Minutes")
    strategy: Literal["delete", "keep_latest"] = "delete"


class ThreadCreate(Body):
    """New thread."""

    thread_id: str | None = Field(None, description="1 to 255 printable characters; generated by default")
    metadata: JsonObject | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: ThreadTtl | Number | None = None
    supersteps: list[Superstep] | None = None


class ThreadPatch(Body):
    """Changes to a thread."""

    metadata: JsonObject | None = None
    ttl: ThreadTtl | Number | None = None


class ThreadPrune(Body):
    """Threads to delete, or to reduce to their newest state."""

    thread_ids: list[str] = Field(max_length=1_000)
    strategy: Literal["delete", "keep_latest"] = "delete"


@router.post("", responses=write_responses(ThreadReply), openapi_extra=IDEMPOTENT)
@with_policy(LANGGRAPH_WRITE)
async def create_thread(request: Request, body: ThreadCreate | None = None) -> Response:
    """Create a thread. With `supersteps`, also write its history."""
    ctx, body, owner = app_context(request), body or ThreadCreate(), current_owner(request)

    async def find(token: str) -> Thread:
        record = await threads.get(ctx.storage, body.thread_id or token, owner)
        # A process may have died between the thread and its history.
        lacks_history = body.supersteps and await newest_values(ctx, record) is None
        if record.token != token or lacks_history:
            raise threads.missing_thread(record.id)
        return record

    record = await create_once(request, body, lambda token: _create(ctx, owner, body, token), find)
    return JsonReply(schemas.thread_view(record, await newest_values(ctx, record)))


async def _create(ctx: AppContext, owner: str, body: ThreadCreate, token: str) -> Thread:
    metadata = body.metadata or {}
    graph = metadata.get("graph_id")
    new = NewThread(
        identifier(body.thread_id or token, "thread_id"),
        owner,
        graph if isinstance(graph, str) else "",
        metadata,
        _ttl(body.ttl) or default_ttl(ctx.options),
        token=token,
    )
    record = await threads.create(ctx.storage, new, or_get=body.if_exists == "do_nothing")
    if body.supersteps:
        try:
            await states.apply_supersteps(ctx, record, body.supersteps)
        except CallsheetError:
            # Delete the thread only if this request created it.
            if record.token == new.token:
                await retention.delete_thread(ctx, record)
            raise
        record = await threads.get(ctx.storage, record.id, record.owner)
    return record


@router.post("/search", responses=write_responses(THREADS))
@with_policy(LANGGRAPH_READ)
async def search_threads(request: Request, body: ThreadSearch | None = None) -> Response:
    """Search threads, last updated first by default."""
    ctx, search = app_context(request), body or ThreadSearch()
    records = await while_connected(request, find_threads(ctx, current_owner(request), search), [])
    # Concurrently, so that the states are read in one batch.
    views = await asyncio.gather(*(_search_result(ctx, record, search) for record in records))
    return page_reply(views, search)


@router.post("/count", responses=write_responses(int))
@with_policy(LANGGRAPH_READ)
async def count_threads(request: Request, body: ThreadCount | None = None) -> Response:
    """Count threads."""
    ctx, owner = app_context(request), current_owner(request)
    counting = count_matching(ctx, owner, body or ThreadCount())
    return JsonReply(await while_connected(request, counting, 0))


@router.post("/prune", responses=write_responses(PruneReply))
@with_policy(replace(LANGGRAPH_WRITE, audit="thread.prune"))
async def prune_threads(request: Request, body: ThreadPrune) -> Response:
    """Delete threads, or all their states but the newest. Threads that do not exist are skipped."""
    ctx, count = app_context(request), 0
    prune = retention.delete_thread if body.strategy == "delete" else retention.prune_thread
    for record in await threads.get_many(ctx.storage, body.thread_ids, current_owner(request)):
        # A thread may be named twice, or deleted by another request meanwhile.
        with suppress(Missing):
            if record is not None:
                await prune(ctx, record)
                count += 1
    return JsonReply({"pruned_count": count})


@router.get("/{thread_id}", responses=read_responses(ThreadReply))
@with_policy(LANGGRAPH_READ)
async def get_thread(
    thread_id: str,
    request: Request,
    include: Annotated[str, Query(description="`ttl` adds the time to live")] = "",
) -> Response:
    """Get a thread with the values of its newest state."""
    with_ttl = "ttl" in include.split(",")
    return await _thread_reply(app_context(request), thread_id, current_owner(request), with_ttl=with_ttl)


@router.get("/{thread_id}/storage", responses=read_responses(ThreadSizeReply))
@with_policy(LANGGRAPH_READ)
async def get_thread_size(thread_id: str, request: Request) -> Response:
    """Get the size of a thread's checkpoints in storage, in bytes.

    Bytes shared by the versions of a list count towards `channel_values`, but towards no single channel.
    """
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    return JsonReply(schemas.size_view(record.id, await maintenance.size(ctx.storage, record.id)))


@router.patch("/{thread_id}", responses=write_responses(ThreadReply))
@with_policy(LANGGRAPH_WRITE)
async def update_thread(
    thread_id: str, body: ThreadPatch, request: Request, prefer: Annotated[str, Header()] = ""
) -> Response:
    """Update a thread's metadata and time to live. With `Prefer: return=minimal`, the reply is empty.

    Another `graph_id` moves the thread to that graph: 400 if it is not served, 409 while a run holds the
    thread, and for the thread of an artefact.
    """
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    metadata, ttl = body.metadata or {}, _ttl(body.ttl)
    if graph := _new_graph(ctx, record, metadata):
        async with threads.hold(ctx.storage, record.id, record.owner):
            await threads.update_metadata(ctx.storage, record, metadata, ttl, moves_to=graph)
    else:
        await threads.update_metadata(ctx.storage, record, metadata, ttl)
    if "return=minimal" in prefer.replace(" ", ""):
        return Response(status_code=204)
    return await _thread_reply(ctx, thread_id, record.owner)


def _new_graph(ctx: AppContext, record: Thread, metadata: JsonObject) -> str:
    """Return the graph to move a thread to, which has another one; "" for none."""
    graph = metadata.get("graph_id")
    if not isinstance(graph, str | None):
        raise Invalid("`graph_id` in the metadata is no text", remedy="name a graph, or leave it out")
    if not record.graph or graph in {None, record.graph}:
        return ""
    if graph not in ctx.graphs:
        raise Refused(
            f"graph {graph!r} is not served, so the thread cannot move to it",
            remedy=f"name one of {', '.join(sorted(ctx.graphs))}",
        )
    require_one_workflow(ctx, record.id, record.graph, str(graph))
    return str(graph)


@router.delete("/{thread_id}", status_code=204, responses=write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def delete_thread(thread_id: str, request: Request) -> Response:
    """Delete a thread with its states, runs and events, and a lesson with it; runs are cancelled first.

    Its ads, pages and videos stay: the header `X-Kept-Artefacts` names them.
    """
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    kept = [quote(name, safe=":") for name in await retention.lasting_artefacts(ctx, record)]
    await delete_with_runs(ctx, record)
    return Response(status_code=204, headers={"X-Kept-Artefacts": ", ".join(kept)} if kept else None)


@router.post("/{thread_id}/copy", responses=write_responses(ThreadReply))
@with_policy(LANGGRAPH_WRITE)
async def copy_thread(thread_id: str, request: Request) -> Response:
    """Copy a thread with its history, and with the artefacts that its workflow made."""
    ctx = app_context(request)
    record = await threads.get(ctx.storage, thread_id, current_owner(request))
    new_id = str(uuid.uuid4())
    if await threads.artefacts_of(ctx.storage, record.id):
        await ctx.copy_artefacts(record, new_id)
        return await _thread_reply(ctx, new_id, record.owner)
    await ctx.saver.acopy_thread(record.id, new_id)
    copied = await threads.copy(ctx.storage, record, new_id)
    if graph := ctx.graphs.get(record.graph):
        # A run may have written checkpoints after `record` was read.
        pending_status = "error" if record.status == "error" else "interrupted"
        await states.record_state(ctx, copied, graph, pending_status=pending_status)
    return await _thread_reply(ctx, new_id, record.owner)


async def delete_matching_threads(ctx: AppContext, owner: str, metadata: JsonObject) -> None:
    """Delete all threads of an owner whose metadata contains `metadata`."""
    search = ThreadSearch(metadata=metadata, limit=100)
    while records := await find_threads(ctx, owner, search):
        for record in records:
            with suppress(Missing):
                await retention.delete_thread(ctx, record)


async def _thread_reply(ctx: AppContext, thread_id: str, owner: str, *, with_ttl: bool = False) -> JsonReply:
    record = await threads.get(ctx.storage, thread_id, owner)
    view = schemas.thread_view(record, await newest_values(ctx, record))
    return JsonReply(view | {"ttl": schemas.lifetime_view(record)} if with_ttl else view)


async def _search_result(ctx: AppContext, record: Thread, search: ThreadSearch) -> JsonObject:
    names = search.select or ()
    needs_values = not names or search.extract or any(name.split(".")[0] == "values" for name in names)
    values = await newest_values(ctx, record) if needs_values else None
    view = schemas.thread_view(record, values)
    result = dict(schemas.select_fields(view, search.select))
    if search.extract:
        result["extracted"] = extract_paths(schemas.to_json_value(view), search.extract)
    return result


def _ttl(ttl: ThreadTtl | float | None) -> JsonObject | None:
    if ttl is None:
        return None
    return (ttl if isinstance(ttl, ThreadTtl) else ThreadTtl(ttl=ttl)).model_dump()

"""Threads: made, shown, searched, changed, copied, pruned and taken away."""

import asyncio
import uuid
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from callsheet.server.ads.bodies import Number, StrictRoute
from callsheet.server.artefacts.turns import identifier
from callsheet.server.context import AppContext, app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph import retention, shapes, thread_search, updates
from callsheet.server.langgraph.bodies import Body, page_reply
from callsheet.server.langgraph.retention import prune_thread
from callsheet.server.langgraph.shapes import WireJsonReply
from callsheet.server.langgraph.thread_search import ThreadCount, ThreadSearch
from callsheet.server.langgraph.updates import Superstep
from callsheet.state.errors import CallsheetError, Missing
from callsheet.storage.checkpoints import maintenance
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import NewThread, ThreadRecord

router = APIRouter(prefix="/threads", route_class=StrictRoute, tags=["threads"])
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]


class ThreadTtl(Body):
    """How long a thread stays after its last change."""

    ttl: Number = Field(gt=0, le=10_000_000, description="Minutes")
    strategy: Literal["delete", "keep_latest"] = "delete"


class ThreadCreate(Body):
    """A new thread."""

    thread_id: str | None = Field(None, description="1 to 255 printable characters; made up when left out")
    metadata: _Object | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: ThreadTtl | Number | None = None
    supersteps: list[Superstep] | None = None


class ThreadPatch(Body):
    """What changes of a thread."""

    metadata: _Object | None = None
    ttl: ThreadTtl | Number | None = None


class ThreadPrune(Body):
    """Threads that are to go, or to lose their past."""

    thread_ids: list[str] = Field(max_length=1_000)
    strategy: Literal["delete", "keep_latest"] = "delete"


@router.post("", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None)
async def create_thread(request: Request, body: ThreadCreate | None = None) -> Response:
    """Make a thread, with a past where `supersteps` tells one."""
    here, asked = app_context(request), body or ThreadCreate()
    metadata = asked.metadata or {}
    new = NewThread(
        identifier(asked.thread_id or str(uuid.uuid4()), "thread_id"),
        current_owner(request),
        _named(metadata),
        metadata,
        _lifetime(asked.ttl),
        fresh=asked.thread_id is None,
    )
    made = await thread_records.create(here.storage, new, or_get=asked.if_exists == "do_nothing")
    if asked.supersteps:
        try:
            await updates.apply_supersteps(here, made, asked.supersteps)
        except CallsheetError:
            # Not one that was there before.
            if made.token == new.token:
                await retention.delete_thread(here, made)
            raise
        made = await thread_records.get(here.storage, made.id, made.owner)
    return WireJsonReply(shapes.thread_view(made, await thread_search.newest_values(here, made)))


@router.post(
    "/search", responses=documented_wire_responses(*_WRITE, reply=list[_Object]), response_model=None
)
async def search_threads(request: Request, body: ThreadSearch | None = None) -> Response:
    """List threads with their values, newest change first unless told otherwise."""
    here, wanted = app_context(request), body or ThreadSearch()
    found = await thread_search.find_threads(here, current_owner(request), wanted)
    # At once, so that their states are read together.
    return page_reply(await asyncio.gather(*(_listed(here, one, wanted) for one in found)), wanted)


@router.post("/count", responses=documented_wire_responses(*_WRITE, reply=int), response_model=None)
async def count_threads(request: Request, body: ThreadCount | None = None) -> Response:
    """Count threads."""
    return WireJsonReply(
        await thread_search.count_matching(
            app_context(request), current_owner(request), body or ThreadCount()
        )
    )


@router.post("/prune", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None)
async def prune_threads(request: Request, body: ThreadPrune) -> Response:
    """Take threads away, or all but their newest state; those that are not there are passed over."""
    here, done = app_context(request), 0
    for record in await thread_records.get_many(here.storage, body.thread_ids, current_owner(request)):
        # One that is named twice, or that somebody else takes away meanwhile, is not there either.
        with suppress(Missing):
            if record is not None:
                await (retention.delete_thread if body.strategy == "delete" else prune_thread)(here, record)
                done += 1
    return WireJsonReply({"pruned_count": done})


@router.get("/{thread_id}", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None)
async def get_thread(
    thread_id: str,
    request: Request,
    include: Annotated[str, Query(description="`ttl` shows how long it stays")] = "",
) -> Response:
    """Show a thread with its values."""
    with_ttl = "ttl" in include.split(",")
    return await _shown(app_context(request), thread_id, current_owner(request), with_ttl=with_ttl)


@router.get(
    "/{thread_id}/storage", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None
)
async def get_thread_size(thread_id: str, request: Request) -> Response:
    """Show how many bytes a thread's checkpoints take up, as they are stored.

    What the versions of a list share is in the bytes of `channel_values`, and in those of no channel.
    """
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    return WireJsonReply(shapes.size_view(record.id, await maintenance.size(here.storage, record.id)))


@router.patch(
    "/{thread_id}", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None
)
async def update_thread(
    thread_id: str, body: ThreadPatch, request: Request, prefer: Annotated[str, Header()] = ""
) -> Response:
    """Add to a thread's metadata; with `Prefer: return=minimal` the reply is empty."""
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    await thread_records.update_metadata(here.storage, record, body.metadata or {}, _lifetime(body.ttl))
    if "return=minimal" in prefer.replace(" ", ""):
        return Response(status_code=204)
    return await _shown(here, thread_id, record.owner)


@router.delete(
    "/{thread_id}", status_code=204, responses=documented_wire_responses(*_WRITE, reply=None, status=204)
)
async def delete_thread(thread_id: str, request: Request) -> Response:
    """Take a thread away with its states, runs and events."""
    here = app_context(request)
    await retention.delete_thread(
        here, await thread_records.get(here.storage, thread_id, current_owner(request))
    )
    return Response(status_code=204)


@router.post(
    "/{thread_id}/copy", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None
)
async def copy_thread(thread_id: str, request: Request) -> Response:
    """Make a thread that has the same past."""
    here = app_context(request)
    record = await thread_records.get(here.storage, thread_id, current_owner(request))
    new_id = str(uuid.uuid4())
    await here.saver.acopy_thread(record.id, new_id)
    made = await thread_records.copy(here.storage, record, new_id)
    if graph := here.graphs.get(record.graph):
        # A run may have got on since the record was read.
        waits = "error" if record.status == "error" else "interrupted"
        await updates.record_state(here, made, graph, waits=waits)
    return await _shown(here, new_id, record.owner)


async def delete_matching_threads(here: AppContext, of_owner: str, metadata: _Object) -> None:
    """Take away all threads of an owner whose metadata has `metadata` in it."""
    wanted = ThreadSearch(metadata=metadata, limit=100)
    while found := await thread_search.find_threads(here, of_owner, wanted):
        for record in found:
            with suppress(Missing):
                await retention.delete_thread(here, record)


async def _shown(here: AppContext, thread_id: str, of_owner: str, *, with_ttl: bool = False) -> WireJsonReply:
    record = await thread_records.get(here.storage, thread_id, of_owner)
    told = shapes.thread_view(record, await thread_search.newest_values(here, record))
    return WireJsonReply(told | {"ttl": shapes.lifetime_view(record)} if with_ttl else told)


async def _listed(here: AppContext, record: ThreadRecord, wanted: ThreadSearch) -> _Object:
    names = wanted.select or ()
    needed = not names or wanted.extract or any(name.split(".")[0] == "values" for name in names)
    told = shapes.thread_view(record, await thread_search.newest_values(here, record) if needed else None)
    shown = dict(shapes.select_fields(told, wanted.select))
    if wanted.extract:
        shown["extracted"] = thread_search.extract_paths(shapes.to_json_value(told), wanted.extract)
    return shown


def _named(metadata: _Object) -> str:
    graph = metadata.get("graph_id")
    return graph if isinstance(graph, str) else ""


def _lifetime(ttl: ThreadTtl | float | None) -> _Object | None:
    if ttl is None:
        return None
    return (ttl if isinstance(ttl, ThreadTtl) else ThreadTtl(ttl=ttl)).model_dump()

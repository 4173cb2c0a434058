"""Threads: made, shown, searched, changed, copied, pruned and taken away."""

import asyncio
import uuid
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from server.api.bodies import Number, StrictRoute
from server.origins import owner
from server.parts import Parts, parts
from server.problems import documented_wire
from server.turns import identifier
from server.wire import shapes, thread_search, updates
from server.wire.bodies import Body
from server.wire.paging import paged
from server.wire.removal import drop, forget
from server.wire.shapes import Wire
from server.wire.thread_search import CountBody, SearchBody
from server.wire.updates import Superstep
from state.errors import CallsheetError, Missing
from storage import thread_records
from storage.checkpoints import sizes
from storage.thread_records import New, Record

router = APIRouter(prefix="/threads", route_class=StrictRoute, tags=["threads"])
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]


class Lifetime(Body):
    """How long a thread stays after its last change."""

    ttl: Number = Field(gt=0, le=10_000_000, description="Minutes")
    strategy: Literal["delete", "keep_latest"] = "delete"


class CreateBody(Body):
    """A new thread."""

    thread_id: str | None = Field(None, description="1 to 255 printable characters; made up when left out")
    metadata: _Object | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: Lifetime | Number | None = None
    supersteps: list[Superstep] | None = None


class PatchBody(Body):
    """What changes of a thread."""

    metadata: _Object | None = None
    ttl: Lifetime | Number | None = None


class PruneBody(Body):
    """Threads that are to go, or to lose their past."""

    thread_ids: list[str] = Field(max_length=1_000)
    strategy: Literal["delete", "keep_latest"] = "delete"


@router.post("", responses=documented_wire(*_WRITE, reply=_Object), response_model=None)
async def create(request: Request, body: CreateBody | None = None) -> Response:
    """Make a thread, with a past where `supersteps` tells one."""
    here, asked = parts(request), body or CreateBody()
    metadata = asked.metadata or {}
    new = New(
        identifier(asked.thread_id or str(uuid.uuid4()), "thread_id"),
        owner(request),
        _named(metadata),
        metadata,
        _lifetime(asked.ttl),
        fresh=asked.thread_id is None,
    )
    made = await thread_records.create(here.storage, new, or_get=asked.if_exists == "do_nothing")
    if asked.supersteps:
        try:
            await updates.replayed(here, made, asked.supersteps)
        except CallsheetError:
            # Not one that was there before.
            if made.token == new.token:
                await drop(here, made)
            raise
        made = await thread_records.get(here.storage, made.id, made.owner)
    return Wire(shapes.thread(made, await thread_search.values(here, made)))


@router.post("/search", responses=documented_wire(*_WRITE, reply=list[_Object]), response_model=None)
async def search(request: Request, body: SearchBody | None = None) -> Response:
    """List threads with their values, newest change first unless told otherwise."""
    here, wanted = parts(request), body or SearchBody()
    found = await thread_search.found(here, owner(request), wanted)
    # At once, so that their states are read together.
    return paged(await asyncio.gather(*(_listed(here, one, wanted) for one in found)), wanted)


@router.post("/count", responses=documented_wire(*_WRITE, reply=int), response_model=None)
async def count(request: Request, body: CountBody | None = None) -> Response:
    """Count threads."""
    return Wire(await thread_search.count(parts(request), owner(request), body or CountBody()))


@router.post("/prune", responses=documented_wire(*_WRITE, reply=_Object), response_model=None)
async def prune(request: Request, body: PruneBody) -> Response:
    """Take threads away, or all but their newest state; those that are not there are passed over."""
    here, done = parts(request), 0
    for record in await thread_records.many(here.storage, body.thread_ids, owner(request)):
        # One that is named twice, or that somebody else takes away meanwhile, is not there either.
        with suppress(Missing):
            if record is not None:
                await (drop if body.strategy == "delete" else forget)(here, record)
                done += 1
    return Wire({"pruned_count": done})


@router.get("/{thread_id}", responses=documented_wire(*_READ, reply=_Object), response_model=None)
async def get(
    thread_id: str,
    request: Request,
    include: Annotated[str, Query(description="`ttl` shows how long it stays")] = "",
) -> Response:
    """Show a thread with its values."""
    with_ttl = "ttl" in include.split(",")
    return await _shown(parts(request), thread_id, owner(request), with_ttl=with_ttl)


@router.get("/{thread_id}/storage", responses=documented_wire(*_READ, reply=_Object), response_model=None)
async def taken(thread_id: str, request: Request) -> Response:
    """Show how many bytes a thread's checkpoints take up, as they are stored.

    What the versions of a list share is in the bytes of `channel_values`, and in those of no channel.
    """
    here = parts(request)
    record = await thread_records.get(here.storage, thread_id, owner(request))
    return Wire(shapes.size(record.id, await sizes.size(here.storage, record.id)))


@router.patch("/{thread_id}", responses=documented_wire(*_WRITE, reply=_Object), response_model=None)
async def update(
    thread_id: str, body: PatchBody, request: Request, prefer: Annotated[str, Header()] = ""
) -> Response:
    """Add to a thread's metadata; with `Prefer: return=minimal` the reply is empty."""
    here = parts(request)
    record = await thread_records.get(here.storage, thread_id, owner(request))
    await thread_records.change(here.storage, record, body.metadata or {}, _lifetime(body.ttl))
    if "return=minimal" in prefer.replace(" ", ""):
        return Response(status_code=204)
    return await _shown(here, thread_id, record.owner)


@router.delete("/{thread_id}", status_code=204, responses=documented_wire(*_WRITE, reply=None, status=204))
async def delete(thread_id: str, request: Request) -> Response:
    """Take a thread away with its states, runs and events."""
    here = parts(request)
    await drop(here, await thread_records.get(here.storage, thread_id, owner(request)))
    return Response(status_code=204)


@router.post("/{thread_id}/copy", responses=documented_wire(*_WRITE, reply=_Object), response_model=None)
async def copy(thread_id: str, request: Request) -> Response:
    """Make a thread that has the same past."""
    here = parts(request)
    record = await thread_records.get(here.storage, thread_id, owner(request))
    new_id = str(uuid.uuid4())
    await here.saver.acopy_thread(record.id, new_id)
    made = await thread_records.copied(here.storage, record, new_id)
    if graph := here.graphs.get(record.graph):
        # A run may have got on since the record was read.
        waits = "error" if record.status == "error" else "interrupted"
        await updates.noted(here, made, graph, waits=waits)
    return await _shown(here, new_id, record.owner)


async def drop_all(here: Parts, of_owner: str, metadata: _Object) -> None:
    """Take away all threads of an owner whose metadata has `metadata` in it."""
    wanted = SearchBody(metadata=metadata, limit=100)
    while found := await thread_search.found(here, of_owner, wanted):
        for record in found:
            with suppress(Missing):
                await drop(here, record)


async def _shown(here: Parts, thread_id: str, of_owner: str, *, with_ttl: bool = False) -> Wire:
    record = await thread_records.get(here.storage, thread_id, of_owner)
    told = shapes.thread(record, await thread_search.values(here, record))
    return Wire(told | {"ttl": shapes.lifetime(record)} if with_ttl else told)


async def _listed(here: Parts, record: Record, wanted: SearchBody) -> _Object:
    names = wanted.select or ()
    needed = not names or wanted.extract or any(name.split(".")[0] == "values" for name in names)
    told = shapes.thread(record, await thread_search.values(here, record) if needed else None)
    shown = dict(shapes.selected(told, wanted.select))
    if wanted.extract:
        shown["extracted"] = thread_search.extracted(shapes.as_json(told), wanted.extract)
    return shown


def _named(metadata: _Object) -> str:
    graph = metadata.get("graph_id")
    return graph if isinstance(graph, str) else ""


def _lifetime(ttl: Lifetime | float | None) -> _Object | None:
    if ttl is None:
        return None
    return (ttl if isinstance(ttl, Lifetime) else Lifetime(ttl=ttl)).model_dump()

"""Which of an owner's threads a search finds."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from server.parts import Parts
from server.wire import shapes
from server.wire.bodies import Body, Page
from server.wire.matching import contains
from storage import thread_records
from storage.thread_records import Record

_CHUNK: Final = 200
"""Threads that are read in one step."""
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")
_Object = dict[str, Any]


class CountBody(Body):
    """Which threads are meant."""

    metadata: _Object | None = None
    values: _Object | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None


class SearchBody(CountBody, Page):
    """Which threads, in which order, and what of them."""

    ids: list[str] | None = Field(None, max_length=1_000)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


async def found(here: Parts, owner: str, wanted: SearchBody) -> list[Record]:
    """Return the page that is wanted, and one thread more where there is a next page."""
    first, last = wanted.offset, wanted.offset + wanted.limit + 1
    if wanted.ids is None and wanted.sort_by == "updated_at":
        return await _walked(here, owner, wanted)
    if wanted.ids is None:
        every = [one async for one in _each(here, owner)]
    else:
        every = [one for one in await thread_records.many(here.storage, wanted.ids, owner) if one]
    fitting = [one for one in every if await fits(here, one, wanted)]
    fitting.sort(key=lambda one: _place(one, wanted.sort_by), reverse=wanted.sort_order == "desc")
    return fitting[first:last]


async def count(here: Parts, owner: str, wanted: CountBody) -> int:
    """Return how many threads there are."""
    if wanted == CountBody():
        return await thread_records.count(here.storage, owner)
    return sum([await fits(here, one, wanted) async for one in _each(here, owner)])


async def fits(here: Parts, record: Record, wanted: CountBody) -> bool:
    """Return whether a thread is one that is wanted."""
    if wanted.status not in {None, record.status} or not contains(record.metadata, wanted.metadata):
        return False
    if wanted.values is None:
        return True
    return contains(shapes.as_json(await values(here, record)), wanted.values)


async def values(here: Parts, record: Record) -> Any:
    """Return the values of a thread's newest state; None for a thread without one.

    So it is too where the thread's graph is open, or is not served.
    """
    graph = here.graphs.get(record.graph)
    if graph is None:
        return None
    snapshot = await graph.aget_state({"configurable": {"thread_id": record.id}})
    return snapshot.values if snapshot.created_at else None


def extracted(told: Mapping[str, Any], paths: Mapping[str, str]) -> _Object:
    """Return what is at each path, such as `values.messages[-1].content`; None for nothing."""
    return {name: _at(told, path) for name, path in paths.items()}


def _at(value: Any, path: str) -> Any:
    for name, place in _STEP.findall(path):
        if name and isinstance(value, Mapping):
            value = value.get(name)
        elif place and isinstance(value, list) and -len(value) <= int(place) < len(value):
            value = value[int(place)]
        else:
            return None
    return value


async def _walked(here: Parts, owner: str, wanted: SearchBody) -> list[Record]:
    """The page, read from the list that is in this order already; no further than it must be."""
    kept: list[Record] = []
    last = wanted.offset + wanted.limit + 1
    async for record in _each(here, owner, oldest_first=wanted.sort_order == "asc"):
        if await fits(here, record, wanted):
            kept.append(record)
            if len(kept) == last:
                break
    return kept[wanted.offset :]


async def _each(here: Parts, owner: str, *, oldest_first: bool = False) -> AsyncIterator[Record]:
    start, seen = 0, set[str]()
    while page := await thread_records.newest(here.storage, owner, start, _CHUNK, oldest_first=oldest_first):
        for record in page:
            # One that changes while the list is read is met twice.
            if record.id not in seen:
                seen.add(record.id)
                yield record
        start += len(page)


def _place(record: Record, sort_by: str) -> tuple[Any, str]:
    known: dict[str, Any] = {
        "thread_id": record.id,
        "status": record.status,
        "created_at": record.created_ms,
        "state_updated_at": record.state_updated_ms,
        "updated_at": record.updated_ms,
    }
    return known[sort_by], record.id

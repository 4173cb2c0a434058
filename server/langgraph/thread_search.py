"""Which of an owner's threads a search finds."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from callsheet.server.context import AppContext
from callsheet.server.langgraph import shapes
from callsheet.server.langgraph.bodies import Body, Page, contains
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord

_CHUNK: Final = 200
"""Threads that are read in one step."""
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")
_Object = dict[str, Any]


class ThreadCount(Body):
    """Which threads are meant."""

    metadata: _Object | None = None
    values: _Object | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None


class ThreadSearch(ThreadCount, Page):
    """Which threads, in which order, and what of them."""

    ids: list[str] | None = Field(None, max_length=1_000)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


async def find_threads(here: AppContext, owner: str, wanted: ThreadSearch) -> list[ThreadRecord]:
    """Return the page that is wanted, and one thread more where there is a next page."""
    first, last = wanted.offset, wanted.offset + wanted.limit + 1
    if wanted.ids is None and wanted.sort_by == "updated_at":
        return await _walked(here, owner, wanted)
    if wanted.ids is None:
        every = [one async for one in _each(here, owner)]
    else:
        every = [one for one in await thread_records.get_many(here.storage, wanted.ids, owner) if one]
    fitting = [one for one in every if await matches(here, one, wanted)]
    fitting.sort(key=lambda one: _place(one, wanted.sort_by), reverse=wanted.sort_order == "desc")
    return fitting[first:last]


async def count_matching(here: AppContext, owner: str, wanted: ThreadCount) -> int:
    """Return how many threads there are."""
    if wanted == ThreadCount():
        return await thread_records.count(here.storage, owner)
    return sum([await matches(here, one, wanted) async for one in _each(here, owner)])


async def matches(here: AppContext, record: ThreadRecord, wanted: ThreadCount) -> bool:
    """Return whether a thread is one that is wanted."""
    if wanted.status not in {None, record.status} or not contains(record.metadata, wanted.metadata):
        return False
    if wanted.values is None:
        return True
    return contains(shapes.to_json_value(await newest_values(here, record)), wanted.values)


async def newest_values(here: AppContext, record: ThreadRecord) -> Any:
    """Return the values of a thread's newest state; None for a thread without one.

    So it is too where the thread's graph is open, or is not served.
    """
    graph = here.graphs.get(record.graph)
    if graph is None:
        return None
    snapshot = await graph.aget_state({"configurable": {"thread_id": record.id}})
    return snapshot.values if snapshot.created_at else None


def extract_paths(told: Mapping[str, Any], paths: Mapping[str, str]) -> _Object:
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


async def _walked(here: AppContext, owner: str, wanted: ThreadSearch) -> list[ThreadRecord]:
    """The page, read from the list that is in this order already; no further than it must be."""
    kept: list[ThreadRecord] = []
    last = wanted.offset + wanted.limit + 1
    async for record in _each(here, owner, oldest_first=wanted.sort_order == "asc"):
        if await matches(here, record, wanted):
            kept.append(record)
            if len(kept) == last:
                break
    return kept[wanted.offset :]


async def _each(here: AppContext, owner: str, *, oldest_first: bool = False) -> AsyncIterator[ThreadRecord]:
    start, seen = 0, set[str]()
    while page := await thread_records.list_newest(
        here.storage, owner, start, _CHUNK, oldest_first=oldest_first
    ):
        for record in page:
            # One that changes while the list is read is met twice.
            if record.id not in seen:
                seen.add(record.id)
                yield record
        start += len(page)


def _place(record: ThreadRecord, sort_by: str) -> tuple[Any, str]:
    known: dict[str, Any] = {
        "thread_id": record.id,
        "status": record.status,
        "created_at": record.created_ms,
        "state_updated_at": record.state_updated_ms,
        "updated_at": record.updated_ms,
    }
    return known[sort_by], record.id

"""Search for threads of one owner."""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot
from pydantic import Field

from callsheet.server.engine.graph_states import build_state
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph import shapes
from callsheet.server.langgraph.bodies import Body, ListPage, contains
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.state.errors import Missing, UnbuildableState
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_CHUNK: Final = 200
"""Threads read in one round trip."""
_log = logging.getLogger(__name__)
_PATH_PART: Final = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")


class ThreadCount(Body):
    """Filter for threads."""

    metadata: JsonObject | None = None
    values: JsonObject | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None


class ThreadSearch(ThreadCount, ListPage):
    """Filter, order and fields of a search for threads."""

    ids: list[str] | None = Field(None, max_length=1_000)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


async def find_threads(ctx: AppContext, owner: str, search: ThreadSearch) -> list[Thread]:
    """Return a page of matching threads, and one more if there is a next page."""
    if search.ids is None and search.sort_by == "updated_at":
        return await _find_in_index_order(ctx, owner, search)
    if search.ids is None:
        records = [record async for record in _all_threads(ctx, owner)]
    else:
        named = await threads.get_many(ctx.storage, search.ids, owner)
        records = [record for record in named if record]
    matching = [record for record in records if await matches(ctx, record, search)]
    matching.sort(key=lambda record: _sort_key(record, search.sort_by), reverse=search.sort_order == "desc")
    return list(search.cut(matching))


async def count_matching(ctx: AppContext, owner: str, query: ThreadCount) -> int:
    """Return the number of matching threads."""
    if query == ThreadCount():
        return await threads.count(ctx.storage, owner)
    return sum([await matches(ctx, record, query) async for record in _all_threads(ctx, owner)])


async def matches(ctx: AppContext, record: Thread, query: ThreadCount) -> bool:
    """Return whether a thread matches a filter."""
    if query.status not in {None, record.status} or not contains(record.metadata, query.metadata):
        return False
    if query.values is None:
        return True
    return contains(shapes.to_json_value(await newest_values(ctx, record)), query.values)


async def newest_values(ctx: AppContext, record: Thread) -> Any:
    """Return the values of a thread's newest state.

    None if the thread has no state or graph yet, its graph is not served, or its state cannot be built.
    """
    graph = ctx.graphs.get(record.graph)
    if graph is None:
        return None
    snapshot = await find_state(graph, record.id)
    return snapshot.values if snapshot and snapshot.created_at else None


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


async def _find_in_index_order(ctx: AppContext, owner: str, search: ThreadSearch) -> list[Thread]:
    """Return the page, reading the index, which is in this order already, only as far as needed."""
    matching: list[Thread] = []
    async for record in _all_threads(ctx, owner, oldest_first=search.sort_order == "asc"):
        if await matches(ctx, record, search):
            matching.append(record)
            if len(matching) > search.offset + search.limit:
                break
    return list(search.cut(matching))


async def _all_threads(ctx: AppContext, owner: str, *, oldest_first: bool = False) -> AsyncIterator[Thread]:
    start, seen = 0, set[str]()
    while page := await threads.list_newest(ctx.storage, owner, start, _CHUNK, oldest_first=oldest_first):
        for record in page:
            # A thread that changes while the list is read may be read twice.
            if record.id not in seen:
                seen.add(record.id)
                yield record
        start += len(page)


def _sort_key(record: Thread, sort_by: str) -> tuple[Any, str]:
    keys: JsonObject = {
        "thread_id": record.id,
        "status": record.status,
        "created_at": record.created_ms,
        "state_updated_at": record.state_updated_ms,
        "updated_at": record.updated_ms,
    }
    return keys[sort_by], record.id

"""Server-sent events of an execution.

Events are collected and sent twice a second. In a collection every change of a status is kept; what is
overtaken is dropped: an earlier event of a step with the same status. The end is sent at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

from callsheet.server.engine.json_values import dumps
from callsheet.server.http import replies
from callsheet.server.http.replies import ServerEvent
from callsheet.state.errors import Missing
from callsheet.state.live_plan import is_over
from callsheet.state.plan_progress import COMPLETE, PLAN, STEP, Event, plan_event
from callsheet.storage.artefacts.plans import READ_EVENTS, Executions, closing_events
from callsheet.storage.runs.events import GAP, START_ID, order_of

INTERVAL_S: Final = 0.5
"""Shortest time between two collections of events."""
_POLL_S: Final = 0.1


async def progress_events(
    executions: Executions, execution_id: str, after: str | None, heartbeat_s: float
) -> replies.Events:
    """Yield the events after an id, to the end of the execution.

    Once they have expired, yield the plan and the end as they are. Where events are not kept any more, yield
    `GAP` and the plan as it is. Raises `Missing` for no execution.
    """
    if not await executions.first_event(execution_id):
        async for event in closing_events(executions, execution_id):
            yield _server_event(event, None)
        return
    async with aclosing(_collections(executions, execution_id, after or START_ID, heartbeat_s)) as source:
        async for collection in source:
            if not collection:
                yield None
            for event_id, event in coalesce(collection):
                yield _server_event(event, event_id or None)


Events = list[tuple[str, Event]]
"""Events with their ids; empty for one that is not stored."""


async def _collections(
    executions: Executions, execution_id: str, cursor: str, heartbeat_s: float
) -> AsyncGenerator[Events, None]:
    """Yield new events, at most twice a second, to the end; an empty list after each silence."""
    loop = asyncio.get_running_loop()
    quiet_s = loop.time()
    # A reader who has the end already gets nothing; nothing follows it.
    was_over = is_over(await executions.settle(execution_id))
    may_miss = True
    while True:
        if fresh := await _read_all(executions, execution_id, cursor):
            if may_miss or len(fresh) >= READ_EVENTS:
                fresh = [*await _lost(executions, execution_id, cursor), *fresh]
            may_miss = False
            yield fresh
            if fresh[-1][1][0] == COMPLETE:
                return
            cursor, quiet_s = fresh[-1][0], loop.time()
            await asyncio.sleep(INTERVAL_S - _POLL_S)
        elif was_over:
            return
        elif loop.time() - quiet_s >= heartbeat_s:
            quiet_s = loop.time()
            yield []
            if await _is_gone(executions, execution_id):
                return
        await asyncio.sleep(_POLL_S)


async def _lost(executions: Executions, execution_id: str, after: str) -> Events:
    """Return what stands for events after `after` that are not kept any more: `GAP` and the newest plan."""
    first, record = await executions.first_event(execution_id), await executions.settle(execution_id)
    if first is None or order_of(first[0]) <= order_of(after):
        return []
    # The first of all events is the plan; a later plan says all that came before it.
    if first[1][0] == PLAN and order_of(after)[0] < record["created_ms"]:
        return []
    return [("", (GAP, {"first": first[0]})), ("", (PLAN, plan_event(record)))]


async def _read_all(executions: Executions, execution_id: str, after: str) -> list[tuple[str, Event]]:
    fresh: list[tuple[str, Event]] = []
    while batch := await executions.events(execution_id, after):
        fresh += batch
        after = batch[-1][0]
    return fresh


async def _is_gone(executions: Executions, execution_id: str) -> bool:
    """Return True if nothing will follow: the events have expired or the record is gone."""
    try:
        await executions.settle(execution_id)
    except Missing:
        return True
    return not await executions.first_event(execution_id)


def coalesce(fresh: Sequence[tuple[str, Event]]) -> list[tuple[str, Event]]:
    """Return the events without those that a later one of the same step and status overtakes."""
    kept: list[tuple[str, Event]] = []
    for event_id, (name, data) in fresh:
        same = kept and name == STEP and _step_status(kept[-1][1]) == (data["stepId"], data["status"])
        if same:
            kept.pop()
        kept.append((event_id, (name, data)))
    return kept


def _step_status(event: Event) -> tuple[Any, Any]:
    name, data = event
    return (data.get("stepId"), data.get("status")) if name == STEP else (None, None)


def _server_event(event: Event, event_id: str | None) -> ServerEvent:
    name, data = event
    return ServerEvent(name, dumps(data), event_id)

"""What a run comes to, for callers who wait for it without reading its events."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import orjson
from langgraph.types import StateSnapshot
from starlette.types import Message, Send

from callsheet.server.context import AppContext
from callsheet.server.http.streaming import StreamingReply
from callsheet.server.langgraph.run_streams import HEARTBEAT_S, stored_run_events
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.runtime.encoding import dumps
from callsheet.server.runtime.execution import run_result
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import END, Event

_WHITE: Final = b"\n"
"""What is sent while nothing else is known."""
_CANCELLED: Final = {"error": "UserInterrupt", "message": "the run was cancelled"}
_TAIL: Final = 16
"""Events of a thread among which a run's last ones are looked for first."""
_GONE: Final = {"error": "UserRollback", "message": "the run was cancelled, and what it did was taken back"}

OnSilence = Callable[[], Awaitable[None]]
"""Is called after every silence."""
FinalValues = Callable[[OnSilence], Awaitable[bytes]]
"""What a reply comes to."""


class LongPollReply(StreamingReply):
    """What a run comes to: its headers at once, white space while it takes, the answer with the end."""

    def __init__(self, answer: FinalValues, place: str) -> None:
        """`place` is the path of the run that is waited for."""
        where = {"Location": f"{place}/join", "Content-Location": place}
        super().__init__((), media_type="application/json", headers=where)
        self._answer = answer

    async def stream_response(self, send: Send) -> None:
        """Send it; the answer, unlike the white space, ends the body."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        last = await self._answer(lambda: send(_body(_WHITE, more=True)))
        await send(_body(last, more=False))


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def wait_for_result(
    here: AppContext, started: StartedRun, leave: Callable[[], None] | None, silent: OnSilence
) -> bytes:
    """Return what the run comes to, when it has ended; `leave` is called if the reader goes before."""
    over = False
    try:
        found = await _answer(here, started, await _waited(here, started, silent))
        over = True
    finally:
        if not over and leave:
            leave()
    return found


async def result_of_ended_run(here: AppContext, started: StartedRun, silent: OnSilence) -> bytes:
    """As `answer`, of a run that has ended; there is no silence before it."""
    del silent
    return await _answer(here, started, await _told(here, started) or {})


async def _waited(here: AppContext, started: StartedRun, silent: OnSilence) -> Mapping[str, Event]:
    """By name, what the run told last, once it has ended."""
    transcript = here.worker.events.buffers.find(started.run)
    while transcript and not await transcript.wait_closed(HEARTBEAT_S):
        await silent()
    if transcript and (told := await _told(here, started)) is not None:
        return told
    async with aclosing(here.worker.events.run_ends(started.thread, HEARTBEAT_S)) as ends:
        while True:
            if not await anext(ends):
                await silent()
            elif (told := await _told(here, started)) is not None:
                return told


async def _told(here: AppContext, started: StartedRun) -> Mapping[str, Event] | None:
    """By name, what a run that has ended told last; None for one that has not."""
    found = await here.worker.events.last_events(started.thread, started.run, _TAIL)
    if END in found and ("values" in found or "error" in found):
        return found
    if not await here.worker.runs.has_ended(started.thread, started.run):
        return None
    return {event.name: event async for event in stored_run_events(here, started) if event}


async def _answer(here: AppContext, started: StartedRun, told: Mapping[str, Event]) -> bytes:
    if "error" in told:
        return b'{"__error__":%s}' % told["error"].data
    values = told["values"].data if "values" in told else None
    if values is not None and told[END].data == b"success":
        return values
    return await _settled(here, started, values)


async def _settled(here: AppContext, started: StartedRun, values: bytes | None) -> bytes:
    try:
        record = await here.worker.runs.get(started.thread, started.run)
    except Missing:
        return dumps({"__error__": _GONE})
    if record.status == "success":
        return await _complete(here, started, record.graph, values)
    error = record.error or _CANCELLED
    return dumps({"__error__": {"error": error["error"], "message": error["message"]}})


async def _complete(here: AppContext, started: StartedRun, graph: str, values: bytes | None) -> bytes:
    """The values that were told last, with all the questions there are: each is told with one alone."""
    if values is not None and b'"__interrupt__"' not in values:
        return values
    final = await _final(here, started, graph)
    return dumps((orjson.loads(values) if values else {}) | run_result(final))


async def _final(here: AppContext, started: StartedRun, graph: str) -> StateSnapshot:
    """The run's last state, from its checkpoints."""
    place: Any = {"configurable": {"thread_id": started.thread}}
    found = here.worker.graphs[graph].aget_state_history(place, filter={"run_id": started.run}, limit=1)
    async for state in found:
        return state
    return await here.worker.graphs[graph].aget_state(place)

"""What a run comes to, for callers who wait for it without reading its events."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

import orjson
from langgraph.types import StateSnapshot
from starlette.responses import StreamingResponse
from starlette.types import Send

from server.encoding import dumps
from server.execution import result
from server.parts import Parts
from server.wire.run_streams import HEARTBEAT_S, is_over, kept
from server.wire.starting import Started
from state.errors import Missing
from storage.events import END, Event

_WHITE: Final = b"\n"
"""What is sent while nothing else is known."""
_CANCELLED: Final = {"error": "UserInterrupt", "message": "the run was cancelled"}
_TAIL: Final = 16
"""Events of a thread among which a run's last ones are looked for first."""
_GONE: Final = {"error": "UserRollback", "message": "the run was cancelled, and what it did was taken back"}


class Awaited(StreamingResponse):
    """What a run comes to: its headers at once, white space while it takes, the answer with the end."""

    async def stream_response(self, send: Send) -> None:
        """Send it; the answer, unlike the white space, ends the body."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        last = b""
        async for part in cast("AsyncIterator[bytes]", self.body_iterator):
            if part == _WHITE:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            else:
                last = part
        await send({"type": "http.response.body", "body": last, "more_body": False})


def awaited(answer: AsyncGenerator[bytes, None], place: str) -> StreamingResponse:
    """Return the reply that is complete when the run has ended."""
    where = {"Location": f"{place}/join", "Content-Location": place}
    return Awaited(answer, media_type="application/json", headers=where)


async def answer(
    here: Parts, started: Started, leave: Callable[[], None] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield what the run comes to, after white space while it takes; `leave` is called if the reader goes."""
    over = False
    try:
        async with aclosing(_waited(here, started)) as parts:
            async for part in parts:
                yield part
        over = True
    finally:
        if not over and leave:
            leave()


async def _waited(here: Parts, started: Started) -> AsyncGenerator[bytes, None]:
    async with aclosing(here.worker.hub.ends(started.thread, started.run, HEARTBEAT_S)) as ends:
        async for maybe in ends:
            told = await _told(here, started) if maybe else None
            if told is not None:
                yield await _answer(here, started, told)
                return
            if not maybe:
                yield _WHITE


async def ended(here: Parts, started: Started) -> AsyncGenerator[bytes, None]:
    """As `answer`, of a run that has ended."""
    yield await _answer(here, started, await _told(here, started) or {})


async def _told(here: Parts, started: Started) -> Mapping[str, Event] | None:
    """By name, what a run that has ended told last; None for one that has not."""
    found = await here.worker.hub.last(started.thread, started.run, _TAIL)
    if END in found and ("values" in found or "error" in found):
        return found
    if not await is_over(here, started):
        return None
    return {event.name: event async for event in kept(here, started) if event}


async def _answer(here: Parts, started: Started, told: Mapping[str, Event]) -> bytes:
    if "error" in told:
        return b'{"__error__":%s}' % told["error"].data
    values = told["values"].data if "values" in told else None
    if values is not None and told[END].data == b"success":
        return values
    return await _settled(here, started, values)


async def _settled(here: Parts, started: Started, values: bytes | None) -> bytes:
    try:
        record = await here.worker.runs.get(started.thread, started.run)
    except Missing:
        return dumps({"__error__": _GONE})
    if record.status == "success":
        return await _complete(here, started, record.graph, values)
    error = record.error or _CANCELLED
    return dumps({"__error__": {"error": error["error"], "message": error["message"]}})


async def _complete(here: Parts, started: Started, graph: str, values: bytes | None) -> bytes:
    """The values that were told last, with all the questions there are: each is told with one alone."""
    if values is not None and b'"__interrupt__"' not in values:
        return values
    final = await _final(here, started, graph)
    return dumps((orjson.loads(values) if values else {}) | result(final))


async def _final(here: Parts, started: Started, graph: str) -> StateSnapshot:
    """The run's last state, from its checkpoints."""
    place: Any = {"configurable": {"thread_id": started.thread}}
    found = here.worker.graphs[graph].aget_state_history(place, filter={"run_id": started.run}, limit=1)
    async for state in found:
        return state
    return await here.worker.graphs[graph].aget_state(place)

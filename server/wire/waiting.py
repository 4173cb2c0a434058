"""What a run comes to, for callers who wait for it without reading its events."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

import orjson
from langgraph.types import StateSnapshot
from starlette.responses import StreamingResponse

from server.encoding import dumps
from server.execution import result
from server.parts import Parts
from server.wire.run_streams import Source, followed, kept
from server.wire.starting import Started
from state.errors import Missing

_CANCELLED: Final = {"error": "UserInterrupt", "message": "the run was cancelled"}
_GONE: Final = {"error": "UserRollback", "message": "the run was cancelled, and what it did was taken back"}


def awaited(answer: AsyncGenerator[bytes, None], place: str) -> StreamingResponse:
    """Return the reply that is complete when the run has ended."""
    where = {"Location": f"{place}/join", "Content-Location": place}
    return StreamingResponse(answer, media_type="application/json", headers=where)


async def answer(
    here: Parts, started: Started, leave: Callable[[], None] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield what the run comes to, after white space while it takes; `leave` is called if the reader goes."""
    over = False
    try:
        async with aclosing(_outcome(here, started, followed(here, started))) as told:
            async for part in told:
                yield part
        over = True
    finally:
        if not over and leave:
            leave()


async def ended(here: Parts, started: Started) -> AsyncGenerator[bytes, None]:
    """As `answer`, of a run that has ended."""
    async for part in _outcome(here, started, kept(here, started)):
        yield part


async def _outcome(here: Parts, started: Started, source: Source) -> AsyncGenerator[bytes, None]:
    values: bytes | None = None
    async with aclosing(source):
        async for event in source:
            if event is None:
                yield b"\n"
            elif event.name == "values":
                values = event.data
            elif event.name == "error":
                yield b'{"__error__":%s}' % event.data
                return
    yield await _settled(here, started, values)


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

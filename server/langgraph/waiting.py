"""Results of runs, for callers that wait for a run's end without reading its events."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import orjson
from langgraph.types import StateSnapshot
from starlette.types import Message, Send

from callsheet.server.engine.errors import error_message
from callsheet.server.engine.execution import run_result
from callsheet.server.engine.graph_states import build_history, build_state
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.context import AppContext
from callsheet.server.http.events import StreamingReply
from callsheet.server.langgraph.run_streams import stored_run_events
from callsheet.server.langgraph.starting import StartedRun
from callsheet.state.errors import Missing, UnbuildableState
from callsheet.storage.runs.events import END, Event, newest_of_run

_WHITESPACE: Final = b"\n"
"""Sent while the result is unknown; JSON may begin with it."""
_CANCELLED: Final = {"error": "UserInterrupt", "message": "the run was cancelled"}
_ROLLED_BACK: Final = {"error": "UserRollback", "message": "the run was cancelled and rolled back"}
_TAIL: Final = 16
"""Newest events of a thread, searched first for a run's last ones."""

OnSilence = Callable[[], Awaitable[None]]
"""Called after each silence of the heartbeat's length."""
ReadResult = Callable[[OnSilence], Awaitable[bytes]]


class LongPollReply(StreamingReply):
    """Reply with a run's result: headers at once, white space while the run lasts, then the JSON."""

    def __init__(self, read_result: ReadResult, path: str) -> None:
        """`path` is that of the run."""
        headers = {"Location": f"{path}/join", "Content-Location": path}
        super().__init__((), media_type="application/json", headers=headers)
        self._read_result = read_result

    async def stream_response(self, send: Send) -> None:
        """Send the reply; the body ends with the result."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        result = await self._read_result(lambda: send(_body(_WHITESPACE, more=True)))
        await send(_body(result, more=False))


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def wait_for_result(ctx: AppContext, started: StartedRun, on_silence: OnSilence) -> bytes:
    """Wait for a run's end and return its result."""
    return await _result(ctx, started, await _wait_for_end(ctx, started, on_silence))


async def result_of_ended_run(ctx: AppContext, started: StartedRun, on_silence: OnSilence) -> bytes:
    """Return the result of a run that has ended."""
    del on_silence  # there is nothing to wait for
    return await _result(ctx, started, await _last_events(ctx, started) or {})


async def _wait_for_end(ctx: AppContext, started: StartedRun, on_silence: OnSilence) -> Mapping[str, Event]:
    """Wait for a run's end and return its last events by name."""
    async with aclosing(ctx.worker.events.run_ends(started.thread)) as ends:
        while True:
            if not await anext(ends):
                await on_silence()
            elif (last := await _last_events(ctx, started)) is not None:
                return last


async def _last_events(ctx: AppContext, started: StartedRun) -> Mapping[str, Event] | None:
    """Return an ended run's last events by name; None if the run has not ended."""
    last = await newest_of_run(ctx.storage, started.thread, started.run, _TAIL)
    if END in last and ("values" in last or "error" in last):
        return last
    if not await ctx.worker.runs.has_ended(started.thread, started.run):
        return None
    return {event.name: event async for event in stored_run_events(ctx, started)}


async def _result(ctx: AppContext, started: StartedRun, last: Mapping[str, Event]) -> bytes:
    if "error" in last:
        return b'{"__error__":%s}' % last["error"].data
    values = last["values"].data if "values" in last else None
    if values is not None and last[END].data == b"success":
        return values
    return await _result_by_status(ctx, started, values)


async def _result_by_status(ctx: AppContext, started: StartedRun, values: bytes | None) -> bytes:
    try:
        record = await ctx.worker.runs.get(started.thread, started.run)
    except Missing:
        return dumps({"__error__": _ROLLED_BACK})
    if record.status != "success":
        error = record.error or _CANCELLED
        return dumps({"__error__": {"error": error["error"], "message": error["message"]}})
    if values is not None and b'"__interrupt__"' not in values:
        return values
    # A "values" event holds one interrupt at most; add all interrupts of the run's last state.
    try:
        state = await _last_state(ctx, started, record.graph)
    except UnbuildableState as error:
        return dumps({"__error__": {"error": type(error).__name__, "message": error_message(error)}})
    return dumps((orjson.loads(values) if values else {}) | run_result(state))


async def _last_state(ctx: AppContext, started: StartedRun, graph: str) -> StateSnapshot:
    """Return a run's last state, or the thread's newest if the run has no checkpoint."""
    config: Any = {"configurable": {"thread_id": started.thread}}
    states = build_history(ctx.worker.graphs[graph], config, metadata={"run_id": started.run}, limit=1)
    async with aclosing(states):
        async for state, reason in states:
            if reason:
                raise UnbuildableState(reason)
            return state
    return await build_state(ctx.worker.graphs[graph], config)

"""Server-sent events of a domain run: steps, drafts, the model's words, and the result (A63, A82)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from callsheet.server.http import errors
from callsheet.server.http.streaming import StreamingReply
from callsheet.server.runtime.worker import Ack, OnProgress
from callsheet.tools.registry import Tool

HEARTBEAT_S: Final = 10.0
"""Seconds of silence until a comment is sent, so that no proxy closes the connection."""
_MEDIA: Final = "text/event-stream"
_LARGE_FIELDS: Final = frozenset({"plan", "input", "output"})
"""Large fields of a step event, which the stream leaves out."""
_HEADERS: Final = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

StreamRun = Callable[[OnProgress], Awaitable[tuple[dict[str, Any], Ack]]]
"""Executes a request, reports its steps, and returns the reply and its acknowledgement."""
Tools = Mapping[str, tuple[str, Tool]]
"""Tools of the served workflows by name, each with its kind of artefact."""


class DetachedStreams:
    """Streamed requests of this process; one whose caller has left is executed all the same."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: StreamRun, tools: Tools) -> "asyncio.Queue[bytes | Ack | None]":
        """Start the run; return the queue of its events, which ends with None."""
        queue: asyncio.Queue[bytes | Ack | None] = asyncio.Queue()
        task = asyncio.create_task(_execute(run, tools, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return queue

    async def stop(self) -> None:
        """Cancel the streams; the same request resumes its run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def wants_event_stream(request: Request) -> bool:
    """Return True if the caller accepts server-sent events."""
    return _MEDIA in request.headers.get("accept", "")


def event_stream_reply(
    streams: DetachedStreams, tools: Tools, run: StreamRun, heartbeat_s: float = HEARTBEAT_S
) -> Response:
    """Return the reply that streams a run's events."""
    lines = _lines(streams.start(run, tools), heartbeat_s)
    return StreamingReply(lines, media_type=_MEDIA, headers=_HEADERS)


async def _lines(queue: "asyncio.Queue[bytes | Ack | None]", heartbeat_s: float) -> AsyncIterator[bytes]:
    while True:
        try:
            # Not wait_for: Python 3.11's may swallow a cancellation that comes with the event.
            async with asyncio.timeout(heartbeat_s):
                line = await queue.get()
        except TimeoutError:
            yield b": still at it\n\n"
            continue
        if line is None:
            return
        if isinstance(line, bytes):
            yield line
        else:
            await line()


async def _execute(run: StreamRun, tools: Tools, queue: "asyncio.Queue[bytes | Ack | None]") -> None:
    def report(event: Mapping[str, Any]) -> None:
        kind = "text" if event.get("type") == "text" else "step"
        queue.put_nowait(
            _event(kind, {name: one for name, one in event.items() if name not in _LARGE_FIELDS})
        )
        if drafts := _drafts(event, tools):
            queue.put_nowait(_event("drafts", drafts))

    try:
        reply, arrived = await run(report)
        queue.put_nowait(_event("result", reply))
        queue.put_nowait(arrived)
    except Exception as error:  # noqa: BLE001 -- one of the three allowed places: the stream must report its end
        status, body = errors.error_body(error)
        queue.put_nowait(_event("error", body | {"status": status}))
    finally:
        queue.put_nowait(None)


def _drafts(event: Mapping[str, Any], tools: Tools) -> dict[str, str]:
    version_id = event.get("preview", {}).get("versionId")
    tool = str(event.get("tool"))
    if event.get("status") != "completed" or not version_id or tool not in tools:
        return {}
    return dict.fromkeys(tools[tool][1].writes, version_id)


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()

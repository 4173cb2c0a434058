"""Server-sent events of a run: steps as they happen, drafts as soon as they exist, the result (A82)."""

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
"""Silence after which a comment is sent, so that nothing in between gives the connection up."""
_MEDIA: Final = "text/event-stream"
_WHOLE: Final = frozenset({"plan", "input", "output"})
"""What a step tells beside its progress; the result has it in short."""
_HEADERS: Final = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

StreamRun = Callable[[OnProgress], Awaitable[tuple[dict[str, Any], Ack]]]
"""Carries a request out, tells of its steps, and returns the reply and what to call once it has arrived."""
Tools = Mapping[str, tuple[str, Tool]]
"""Tools of the served workflows by name, each with the kind of its artefact."""


class DetachedStreams:
    """The streamed runs of this process; one whose caller has gone is carried out all the same."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, carry: StreamRun, tools: Tools) -> "asyncio.Queue[bytes | Ack | None]":
        """Begin and return the queue of its events, which None ends."""
        told: asyncio.Queue[bytes | Ack | None] = asyncio.Queue()
        task = asyncio.create_task(_told(carry, tools, told))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return told

    async def stop(self) -> None:
        """Cancel what still runs; the same request takes it up again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def wants_event_stream(request: Request) -> bool:
    """Return whether the caller asked for events instead of one reply."""
    return _MEDIA in request.headers.get("accept", "")


def event_stream_reply(
    running: DetachedStreams, tools: Tools, carry: StreamRun, heartbeat_s: float = HEARTBEAT_S
) -> Response:
    """Return the reply that streams a run's events."""
    lines = _lines(running.start(carry, tools), heartbeat_s)
    return StreamingReply(lines, media_type=_MEDIA, headers=_HEADERS)


async def _lines(told: "asyncio.Queue[bytes | Ack | None]", heartbeat_s: float) -> AsyncIterator[bytes]:
    while True:
        try:
            # Not wait_for: in Python 3.11 it may swallow a cancellation that comes with the event.
            async with asyncio.timeout(heartbeat_s):
                line = await told.get()
        except TimeoutError:
            yield b": still at it\n\n"
            continue
        if line is None:
            return
        if isinstance(line, bytes):
            yield line
        else:
            await line()


async def _told(carry: StreamRun, tools: Tools, told: "asyncio.Queue[bytes | Ack | None]") -> None:
    def report(event: Mapping[str, Any]) -> None:
        told.put_nowait(_event("step", {name: one for name, one in event.items() if name not in _WHOLE}))
        if drafts := _drafts(event, tools):
            told.put_nowait(_event("drafts", drafts))

    try:
        reply, arrived = await carry(report)
        told.put_nowait(_event("result", reply))
        told.put_nowait(arrived)
    except Exception as error:  # noqa: BLE001 -- one of the three places that may: the stream must say how it ended
        status, body = errors.error_body(error)
        told.put_nowait(_event("error", body | {"status": status}))
    finally:
        told.put_nowait(None)


def _drafts(event: Mapping[str, Any], tools: Tools) -> dict[str, str]:
    version_id = event.get("preview", {}).get("versionId")
    tool = str(event.get("tool"))
    if event.get("status") != "completed" or not version_id or tool not in tools:
        return {}
    return dict.fromkeys(tools[tool][1].writes, version_id)


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()

"""Rendered sound over HTTP: parts of a file by range, and the progress of a rendering as events."""

import asyncio
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from callsheet.server.artefacts.event_schemas import StreamError
from callsheet.server.artefacts.zip_files import file_name
from callsheet.server.engine.background import cancel_and_wait
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import error_body
from callsheet.server.http.openapi import event_stream
from callsheet.server.http.replies import Events, JsonReply, ServerEvent, StreamingReply
from callsheet.state.errors import CallsheetError, Oversized, TooLarge
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.recordings import RecordingRecord
from callsheet.storage.redis.connection import Storage
from callsheet.tools.guard.sandbox import SandboxTask, TaskLimits, owner_turn, run_task

Report = Callable[[str, int, int], None]
"""Receives the part of the work, and (done, total) of it."""
Details = Mapping[str, Any]
"""Measurements and notes on a rendered file."""
Work = Callable[[Report], Awaitable[Mapping[str, Any]]]
SOUND: Final[dict[str, Any]] = {
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}}
        for kind in ("audio/mpeg", "audio/ogg", "audio/wav")
    },
    "description": "The sound file, or the part of it that Range names (206)",
}
"""OpenAPI of a reply that is a sound file."""
_STOP_S: Final = 5.0
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
_SAFE: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
    "Accept-Ranges": "bytes",
}


@dataclass(frozen=True)
class Mix:
    """A file to be mixed of spoken lines by a process of its own."""

    storage: Storage
    artefact: Artefact
    digest: str
    task: SandboxTask
    limits: TaskLimits
    details: Callable[[dict[str, Any]], Details]
    """Returns the details that are kept, of the process's answer without the sound."""

    async def store(self, report: Report) -> RecordingRecord:
        """Mix the file, store it and return its record; raise `Oversized` beyond the limits."""
        answer = await run_task(self.task, self.limits, lambda done, of: report("mix", done, of))
        report("mix", 1, 1)
        sound, media_type = b64decode(answer.pop("sound")), str(answer.pop("type"))
        details = self.details(answer)
        return await recordings.store(self.storage, self.artefact, self.digest, sound, media_type, details)


async def find_or_render(
    owner: str,
    find: Callable[[], Awaitable[RecordingRecord | None]],
    render: Callable[[], Awaitable[RecordingRecord]],
    remedy: str,
) -> RecordingRecord:
    """Return the record of a file, which is rendered unless it is kept; an owner's renderings take turns.

    Raises `TooLarge` with the remedy for what is too much to render, and what the engine of speech raises.
    """
    async with owner_turn(f"rendering:{owner}"):
        if record := await find():
            return record
        try:
            return await render()
        except Oversized as error:
            raise TooLarge(f"this is too much to render: {error.message}", remedy=remedy) from error


def sound_reply(
    request: Request, artefact: Artefact, digest: str, record: RecordingRecord, title: str
) -> Response:
    """Return a rendered file, the part of it that the request's Range names, or 304 for a known ETag.

    It is saved under the title.
    """
    etag, size = f'"{digest[:32]}"', record["size"]
    headers = {**_SAFE, "ETag": etag, "Content-Disposition": _disposition(title, record)}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    part = _requested_part(request, size, etag)
    if part is None:
        body = {"error": f"the range is outside of {size} bytes", "type": "invalid", "remedy": "ask for less"}
        return JsonReply(body, 416, {"Content-Range": f"bytes */{size}"})
    start, end = part
    headers["Content-Length"] = str(end - start)
    status = 200
    if "range" in request.headers and (start, end) != (0, size):
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    content = recordings.read(app_context(request).storage, artefact, digest, start, end)
    return StreamingReply(content, status, headers, media_type=record["type"])


def _disposition(title: str, record: RecordingRecord) -> str:
    ending = {"audio/mpeg": "mp3", "audio/ogg": "ogg"}.get(record["type"], "wav")
    return f"inline; filename*=UTF-8''{quote(file_name(title, ending), safe='')}"


def _requested_part(request: Request, size: int, etag: str) -> tuple[int, int] | None:
    """Return the first byte and the one after the last; None for a range outside of the file."""
    match = _RANGE.fullmatch(request.headers.get("range", "").strip())
    changed = request.headers.get("if-range", etag) != etag
    if match is None or match[1] == match[2] == "" or changed:
        return 0, size
    if not match[1]:
        return max(0, size - int(match[2])), size
    start = int(match[1])
    end = min(size, int(match[2]) + 1) if match[2] else size
    return (start, end) if start < end else None


class RenderProgress(TypedDict):
    """Progress of a rendering."""

    stage: str
    done: int
    total: int


def render_events(result: object) -> dict[str, Any]:
    """Return the OpenAPI of the events of a rendering with this reply."""
    return event_stream({"progress": RenderProgress, "result": result, "error": StreamError})


async def progress_events(work: Work, heartbeat_s: float) -> Events:
    """Yield `progress` events of the work, then `result` or `error`; the work ends with its reader."""
    queue: asyncio.Queue[ServerEvent] = asyncio.Queue()

    def report(stage: str, done: int, total: int) -> None:
        queue.put_nowait(ServerEvent("progress", dumps({"stage": stage, "done": done, "total": total})))

    async def carry_out() -> None:
        try:
            queue.put_nowait(ServerEvent("result", dumps(await work(report))))
        except CallsheetError as error:
            queue.put_nowait(ServerEvent("error", dumps(error_body(error)[1])))

    task = asyncio.create_task(carry_out())
    try:
        while not (task.done() and queue.empty()):
            yield await _next_event(queue, heartbeat_s)
        await task
    finally:
        await cancel_and_wait(task, within_s=_STOP_S)


async def _next_event(queue: asyncio.Queue[ServerEvent], heartbeat_s: float) -> ServerEvent | None:
    """Return the next event, or None after a silence of a heartbeat's length."""
    with suppress(TimeoutError):
        return await asyncio.wait_for(queue.get(), heartbeat_s)
    return None

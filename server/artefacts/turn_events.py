"""The events of a turn for its client: steps, drafts, the model's words, and the result."""

import json
from collections.abc import Mapping
from typing import Any, Final

from callsheet.server.artefacts.conversation_stream import Frame, StreamPosition
from callsheet.server.engine.errors import deserialize_error, serialize_error
from callsheet.server.engine.worker import progress_of
from callsheet.server.http.context import AppContext
from callsheet.server.http.errors import error_body
from callsheet.state.errors import Conflict, Missing
from callsheet.storage.runs.events import END, PAUSED, Event
from callsheet.storage.runs.records import Run
from callsheet.storage.threads.threads import Thread

_LARGE_FIELDS: Final = frozenset({"plan", "input", "output"})
"""Large fields of a step, which the stream leaves out."""
_FAILED: Final = frozenset({"error", "timeout"})
"""Endings that follow an `error` event."""


class TurnTranslator:
    """Translates stored events to `step`, `drafts` and `text`, and to the last one: `result` or `error`."""

    def __init__(self, ctx: AppContext, thread: Thread) -> None:
        self._runs = ctx.worker.runs
        self._tools = ctx.workflows.tools
        self._thread = thread.id

    async def translate(self, event: Event) -> list[Frame]:
        """Return the frames of a stored event."""
        match event.name:
            case "error":
                frames = [await self._error(event)]
            case _ if event.name == END:
                frames = await self._end(event)
            case _:
                frames = self._progress(event)
        return [
            Frame(StreamPosition(event.id, number), name, data) for number, (name, data) in enumerate(frames)
        ]

    def _progress(self, event: Event) -> list[tuple[str, Mapping[str, Any]]]:
        progress = progress_of(event)
        if progress is None:
            return []
        if progress.get("type") == "text":
            return [("text", progress)]
        step = {name: value for name, value in progress.items() if name not in _LARGE_FIELDS}
        drafts = self._drafts(progress)
        return [("step", step), *([("drafts", drafts)] if drafts else [])]

    def _drafts(self, step: Mapping[str, Any]) -> dict[str, str]:
        """Return the version that a completed step made, by stream."""
        preview = step.get("preview")
        version_id: Any = preview.get("versionId") if isinstance(preview, dict) else None
        tool = str(step.get("tool"))
        if step.get("status") != "completed" or not version_id or tool not in self._tools:
            return {}
        return dict.fromkeys(self._tools[tool][1].writes, version_id)

    async def _error(self, event: Event) -> tuple[str, Mapping[str, Any]]:
        run = await self._run(event.run)
        # The record has more than the event, until the run is resumed.
        return _error_frame(run.error if run and run.error else json.loads(event.data), event.run)

    async def _end(self, event: Event) -> list[tuple[str, Mapping[str, Any]]]:
        ending = event.data.decode()
        if ending in _FAILED:
            return []
        if ending not in {"success", PAUSED}:
            cancelled = Conflict(f"run {event.run!r} was cancelled", remedy="send the request again")
            return [_error_frame(serialize_error(cancelled), event.run)]
        run = await self._run(event.run)
        # A run that was started on the LangGraph wire has no reply.
        return [
            ("result", run.answer if run and run.answer is not None else {"conversationId": self._thread})
        ]

    async def _run(self, run: str) -> Run | None:
        try:
            return await self._runs.get(self._thread, run)
        except Missing:
            return None


def _error_frame(record: Mapping[str, Any], run: str) -> tuple[str, Mapping[str, Any]]:
    status, body = error_body(deserialize_error(record), logged_as=run)
    return "error", body | {"status": status}

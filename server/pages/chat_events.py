"""The stored events of a conversation as frames of the chat.

Each tool call has one `toolExecutionStart`, some `toolExecutionProgress` and one `toolExecutionComplete`,
however often its run was resumed. Each run ends with one last `aiResponseChunk` or one `error`. Frames follow
from the stored events alone, so all readers get the same frames with the same ids from any process.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.server.artefacts import conversation_stream
from callsheet.server.artefacts.conversation_stream import StreamPosition
from callsheet.server.artefacts.service import question_view
from callsheet.server.engine.worker import Worker
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import END, PAUSED, Event
from callsheet.storage.runs.records import Run

Frame = dict[str, Any]
"""One message to a client, without its event id."""
CLIENT_ID: Final = "message_id"
"""Field of a run's request: the client's id of the message, which need not be unique in the thread."""
_ENDED: Final = frozenset({"completed", "error", "blocked", "cancelled"})
_STATUS: Final = {"timeout_error": "timeout"}
"""Status of a failed call by its error's type; `failed` for the others."""
_CANCELLED: Final = "The run was cancelled before this call ended"


@dataclass
class _Turn:
    """Frames of one run so far."""

    calls: dict[str, str] = field(default_factory=dict)
    """Ids of the running calls, by plan and id."""
    ended: set[str] = field(default_factory=set)
    """Calls that have ended, by plan and id."""
    message_id: str = ""
    """Id of the current message."""
    sent: str = ""
    """Text of the current message so far."""
    failed: bool = False


class ConversationView:
    """Translates the events of one conversation, all of them and in order, to frames."""

    def __init__(self, worker: Worker, thread: str) -> None:
        self._worker = worker
        self._thread = thread
        self._turns: dict[str, _Turn] = {}

    async def translate(self, event: Event) -> list[conversation_stream.Frame]:
        """Return the frames of a stored event with their ids."""
        places = (StreamPosition(event.id, number) for number in itertools.count())
        return [
            conversation_stream.Frame(place, frame["type"], {"eventId": str(place), **frame})
            for place, frame in zip(places, await self.frames(event), strict=False)
        ]

    async def frames(self, event: Event) -> list[Frame]:
        """Return the frames of a stored event."""
        turn = self._turns.setdefault(event.run, _Turn())
        match event.name:
            case "metadata":
                frames = await self._user_frames(event)
            case "messages":
                frames = self._chunk_frames(turn, json.loads(event.data))
            case "custom":
                frames = self._step_frames(turn, json.loads(event.data))
            case "error":
                turn.failed = True
                frames = [self._error(json.loads(event.data))]
            case _ if event.name == END:
                frames = await self._end_frames(turn, event)
            case _:
                frames = []
        return [{**frame, "conversationId": self._thread, "runId": event.run} for frame in frames]

    async def _user_frames(self, event: Event) -> list[Frame]:
        """Return the message or the decision that started the run, at its first attempt only."""
        if json.loads(event.data).get("attempt", 1) != 1:
            return []
        run = await self._run(event.run)
        if run is None:
            return []
        client_id = run.request.get(CLIENT_ID)
        if run.request.get("answers"):
            [answer, *_] = run.request["answers"].values()
            decisions = (
                answer.get("decisions", []) if isinstance(answer, Mapping) else [{"type": str(answer)}]
            )
            named = {"messageId": client_id} if client_id else {}
            return [{"type": "approvalResponse", "decisions": decisions, **named}]
        messages = (run.request.get("input") or {}).get("messages") or ()
        newest = [message for message in messages if isinstance(message, Mapping)][-1:]
        return [
            {
                "type": "userMessage",
                "messageId": client_id or message.get("id"),
                "content": message.get("content", ""),
            }
            for message in newest
        ]

    def _chunk_frames(self, turn: _Turn, data: Any) -> list[Frame]:
        chunk = data[0] if isinstance(data, list) and data else {}
        content = chunk.get("content")
        if (
            not str(chunk.get("type", "")).startswith("AIMessage")
            or not isinstance(content, str)
            or not content
        ):
            return []
        if chunk.get("id") != turn.message_id:
            turn.message_id, turn.sent = str(chunk.get("id")), ""
        turn.sent += content
        return [_chunk(content, turn.message_id)]

    def _step_frames(self, turn: _Turn, step: Mapping[str, Any]) -> list[Frame]:
        if not isinstance(step, Mapping) or step.get("type") != "step":
            return []
        key, call = f"{step.get('plan')}/{step['stepId']}", {"toolCallId": step["stepId"]}
        if key in turn.ended:
            return []
        frames: list[Frame] = []
        if key not in turn.calls:
            turn.calls[key] = step["stepId"]
            fields = {"toolName": step["tool"], "input": step.get("input", {}), "title": step["name"]}
            frames.append({"type": "toolExecutionStart", **call, **fields})
        if step["status"] == "in-progress":
            frames.append({"type": "toolExecutionProgress", **call, "status": "executing"})
        if step["status"] in _ENDED:
            del turn.calls[key]
            turn.ended.add(key)
            duration = {"durationSeconds": step.get("durationSeconds", 0)}
            frames.append(
                {
                    "type": "toolExecutionComplete",
                    **call,
                    **completed_fields(step.get("output", {})),
                    **duration,
                }
            )
        return frames

    async def _end_frames(self, turn: _Turn, event: Event) -> list[Frame]:
        frames = [
            {
                "type": "toolExecutionComplete",
                "toolCallId": call,
                **completed_fields({"error": _CANCELLED, "type": "execution_error", "retryable": True}),
            }
            for call in turn.calls.values()
        ]
        turn.calls.clear()
        del self._turns[event.run]
        status = event.data.decode()
        run = await self._run(event.run)
        if status in {"success", PAUSED}:
            question = await self._question_frame(run) if status == PAUSED else None
            return [
                *frames,
                *([question] if question else []),
                *await self._last_chunk(turn, run, bool(question)),
            ]
        if not turn.failed:
            text = "The run was cancelled" if status == "interrupted" else "The run did not end well"
            frames.append(self._error({"error": "cancelled", "message": text}))
        return frames

    async def _last_chunk(self, turn: _Turn, run: Run | None, has_question: bool) -> list[Frame]:  # noqa: FBT001 -- private
        """Return the rest of the model's message, which may be longer than its chunks."""
        message = str((run.answer or {}).get("message", "")) if run and not has_question else ""
        if message and not message.startswith(turn.sent):
            return [_chunk(message, f"{turn.message_id or 'last'}:corrected", last=True)]
        return [_chunk(message[len(turn.sent) :] if message else "", turn.message_id or "last", last=True)]

    async def _question_frame(self, run: Run | None) -> Frame | None:
        question = (run.answer or {}).get("question") if run else None
        return (
            {
                "type": "approvalRequest",
                **question_view(question["id"], {"action_requests": question["actions"]}),
            }
            if question
            else None
        )

    def _error(self, error: Mapping[str, Any]) -> Frame:
        return {
            "type": "error",
            "error": str(error.get("message", "")),
            "errorType": "execution_error",
            "retryable": True,
            "details": {"kind": str(error.get("error", ""))},
        }

    async def _run(self, run: str) -> Run | None:
        try:
            return await self._worker.runs.get(self._thread, run)
        except Missing:
            return None


def completed_fields(output: Mapping[str, Any]) -> Frame:
    """Return the result of a call: its output, or null and the fields of its error."""
    if "error" not in output:
        return {"status": "completed", "output": dict(output)}
    kind = str(output.get("type", "execution_error"))
    failure: Frame = {
        "status": _STATUS.get(kind, "failed"),
        "output": None,
        "error": str(output["error"]),
        "errorType": kind,
        "retryable": bool(output.get("retryable")),
    }
    extra = {key: output[key] for key in ("suggestion", "details") if output.get(key)}
    return failure | extra


def _chunk(content: str, message_id: str, *, last: bool = False) -> Frame:
    return {"type": "aiResponseChunk", "messageId": message_id, "content": content, "isLastChunk": last}

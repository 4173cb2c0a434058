"""What the runs of a conversation tell, in the words of the chat's own wire (C13–C20).

Each call is told of by one `toolExecutionStart`, some `toolExecutionProgress` and one
`toolExecutionComplete`, however often a run was taken up again; each run ends with one `aiResponseChunk` that
is the last, or with one `error`. What is told follows from the stored events alone, so every reader of
a conversation is told the same under the same ids, whichever process it asks and whenever it comes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.server.pages.service import question_view
from callsheet.server.runtime.worker import Worker
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import END, PAUSED, Event
from callsheet.storage.runs.records import Run

Frame = dict[str, Any]
"""One message of the wire, without its id."""
_ENDED: Final = frozenset({"completed", "error", "blocked", "cancelled"})
_STATUS: Final = {"timeout_error": "timeout"}
"""How a call that failed ended, where it is not just `failed` (C29)."""
_CANCELLED: Final = "The run was cancelled before this call ended"


@dataclass
class _Turn:
    """What was told of one run so far."""

    calls: dict[str, str] = field(default_factory=dict)
    """Calls that have begun and not ended, by plan and id: their id."""
    over: set[str] = field(default_factory=set)
    """Calls that have ended."""
    speaking: str = ""
    """Id of the message that is being said."""
    said: str = ""
    """What of it was told."""
    failed: bool = False


class ConversationView:
    """One conversation as a reader is told of it; it is given every stored event, in order."""

    def __init__(self, worker: Worker, thread: str) -> None:
        self._worker = worker
        self._thread = thread
        self._turns: dict[str, _Turn] = {}

    async def frames(self, event: Event) -> list[Frame]:
        """Return what a stored event tells."""
        turn = self._turns.setdefault(event.run, _Turn())
        match event.name:
            case "metadata":
                told = await self._began(event)
            case "messages":
                told = self._spoken(turn, json.loads(event.data))
            case "custom":
                told = self._stepped(turn, json.loads(event.data))
            case "error":
                turn.failed = True
                told = [self._error(json.loads(event.data))]
            case _ if event.name == END:
                told = await self._ended(turn, event)
            case _:
                told = []
        return [{**one, "conversationId": self._thread, "runId": event.run} for one in told]

    async def _began(self, event: Event) -> list[Frame]:
        """What a person said or decided, told once to everybody."""
        if json.loads(event.data).get("attempt", 1) != 1:
            return []
        run = await self._run(event.run)
        if run is None:
            return []
        if run.request.get("answers"):
            [answer, *_] = run.request["answers"].values()
            decisions = (
                answer.get("decisions", []) if isinstance(answer, Mapping) else [{"type": str(answer)}]
            )
            return [{"type": "approvalResponse", "decisions": decisions}]
        messages = (run.request.get("input") or {}).get("messages") or ()
        said = [one for one in messages if isinstance(one, Mapping)][-1:]
        return [
            {"type": "userMessage", "messageId": one.get("id"), "content": one.get("content", "")}
            for one in said
        ]

    def _spoken(self, turn: _Turn, told: Any) -> list[Frame]:
        chunk = told[0] if isinstance(told, list) and told else {}
        content = chunk.get("content")
        if (
            not str(chunk.get("type", "")).startswith("AIMessage")
            or not isinstance(content, str)
            or not content
        ):
            return []
        if chunk.get("id") != turn.speaking:
            turn.speaking, turn.said = str(chunk.get("id")), ""
        turn.said += content
        return [_chunk(content, turn.speaking)]

    def _stepped(self, turn: _Turn, step: Mapping[str, Any]) -> list[Frame]:
        if not isinstance(step, Mapping) or step.get("type") != "step":
            return []
        name, call = f"{step.get('plan')}/{step['stepId']}", {"toolCallId": step["stepId"]}
        if name in turn.over:
            return []
        told: list[Frame] = []
        if name not in turn.calls:
            turn.calls[name] = step["stepId"]
            begun = {"toolName": step["tool"], "input": step.get("input", {}), "title": step["name"]}
            told.append({"type": "toolExecutionStart", **call, **begun})
        if step["status"] == "in-progress":
            told.append({"type": "toolExecutionProgress", **call, "status": "executing"})
        if step["status"] in _ENDED:
            del turn.calls[name]
            turn.over.add(name)
            took = {"durationSeconds": step.get("durationSeconds", 0)}
            told.append(
                {"type": "toolExecutionComplete", **call, **completed_fields(step.get("output", {})), **took}
            )
        return told

    async def _ended(self, turn: _Turn, event: Event) -> list[Frame]:
        told = [
            {
                "type": "toolExecutionComplete",
                "toolCallId": call,
                **completed_fields({"error": _CANCELLED, "type": "execution_error", "retryable": True}),
            }
            for call in turn.calls.values()
        ]
        turn.calls.clear()
        del self._turns[event.run]
        how = event.data.decode()
        run = await self._run(event.run)
        if how in {"success", PAUSED}:
            asked = await self._question(run) if how == PAUSED else None
            return [*told, *([asked] if asked else []), *await self._last_words(turn, run, bool(asked))]
        if not turn.failed:
            text = "The run was cancelled" if how == "interrupted" else "The run did not end well"
            told.append(self._error({"error": "cancelled", "message": text}))
        return told

    async def _last_words(self, turn: _Turn, run: Run | None, asks: bool) -> list[Frame]:  # noqa: FBT001 -- of two kinds
        """The end of what the model says: what was told word by word may have got an addition."""
        whole = str((run.answer or {}).get("message", "")) if run and not asks else ""
        if whole and not whole.startswith(turn.said):
            return [_chunk(whole, f"{turn.speaking or 'last'}:corrected", last=True)]
        return [_chunk(whole[len(turn.said) :] if whole else "", turn.speaking or "last", last=True)]

    async def _question(self, run: Run | None) -> Frame | None:
        asked = (run.answer or {}).get("question") if run else None
        return (
            {"type": "approvalRequest", **question_view(asked["id"], {"action_requests": asked["actions"]})}
            if asked
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
    """Return how a call ended: its output, or null with the error flat and what it was (C17, C41, C-R2)."""
    if "error" not in output:
        return {"status": "completed", "output": dict(output)}
    kind = str(output.get("type", "execution_error"))
    told: Frame = {
        "status": _STATUS.get(kind, "failed"),
        "output": None,
        "error": str(output["error"]),
        "errorType": kind,
        "retryable": bool(output.get("retryable")),
    }
    more = {name: output[name] for name in ("suggestion", "details") if output.get(name)}
    return told | more


def _chunk(content: str, message_id: str, *, last: bool = False) -> Frame:
    return {"type": "aiResponseChunk", "messageId": message_id, "content": content, "isLastChunk": last}

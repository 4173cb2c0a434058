"""The chat about a page: stored events as frames, for every reader, and the web socket that sends them.

Each tool call has one `toolExecutionStart`, some `toolExecutionProgress` and one `toolExecutionComplete`,
however often its run was resumed. A turn's `receipt` says what it did. Each run ends with one last
`aiResponseChunk` or one `error`. Frames follow
from the stored events alone, so all readers get the same frames with the same ids from any process.

A client of the web socket that sends a message or joins a conversation follows it.
"""

import itertools
import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError

from callsheet.server.artefacts import conversation_stream
from callsheet.server.artefacts import service as artefacts
from callsheet.server.artefacts.conversation_stream import StreamPosition
from callsheet.server.artefacts.service import RequestContext, question_view, thread_of
from callsheet.server.engine.json_values import dumps
from callsheet.server.engine.worker import Worker
from callsheet.server.http.context import AppContext
from callsheet.server.http.errors import error_body
from callsheet.server.http.policy import API_WRITE, Streaming, with_policy
from callsheet.server.http.requests import identifier, parse_json
from callsheet.server.http.sockets import MAX_SUBSCRIPTIONS, SocketSession
from callsheet.server.pages import service
from callsheet.server.pages.schemas import (
    INCOMING,
    ApprovalResponse,
    Cancel,
    IncomingMessage,
    Join,
    Leave,
    UserMessage,
)
from callsheet.state.errors import (
    BudgetUsedUp,
    CallsheetError,
    Conflict,
    Invalid,
    Limited,
    Missing,
    Unauthenticated,
)
from callsheet.state.receipts import RECEIPT
from callsheet.storage.runs.events import END, PAUSED, Event
from callsheet.storage.runs.records import Created, Run, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.outcome import outcome_of_error

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
        if chunk.get("type") == "remove":
            if chunk["id"] == turn.message_id:
                turn.message_id, turn.sent = "", ""
            return [{"type": "aiResponseWithdrawn", "messageId": chunk["id"]}]
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
        if isinstance(step, Mapping) and step.get("type") == RECEIPT:
            return [{**step}]
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
            "retryable": error.get("error") != BudgetUsedUp.__name__,
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


async def chat_run(ctx: AppContext, owner: str, message: UserMessage) -> RunRequest:
    """Return the run for a message, which keeps the client's id of it for the frames.

    Raises `Conflict` in another workflow's conversation, and `Invalid` in another page's.
    """
    if message.messageId is not None:
        identifier(message.messageId, "messageId")
    stored = await _page(ctx, owner, message.conversationId)
    if stored and message.pageId not in {None, stored}:
        raise Invalid(
            f"conversation {message.conversationId!r} is about the page {stored!r}, not {message.pageId!r}",
            remedy="leave pageId out, or send the message in another conversation",
        )
    page_id = stored or message.pageId or message.conversationId
    caller = RequestContext(owner, message.messageId, message.context())
    request = await service.chat_run(ctx.worker, page_id, message.to_chat(), caller)
    named = {CLIENT_ID: message.messageId} if message.messageId else {}
    return replace(request, request={**request.request, **named})


async def decision_run(ctx: AppContext, owner: str, message: ApprovalResponse) -> RunRequest:
    """Return the run for an answer; raise `Missing` for an unknown conversation."""
    page_id = await _page(ctx, owner, message.conversationId)
    if page_id is None:
        raise threads.missing_thread(message.conversationId)
    caller = RequestContext(owner, context=message.context())
    return await service.decision_run(ctx.worker, page_id, message, caller)


async def submit(ctx: AppContext, request: RunRequest) -> Created:
    """Submit the run to this or another process; raise `Busy` while another run has the conversation."""
    # The same text again is another message, unless it has an id.
    fingerprint = request.fingerprint if request.idempotency_key else ""
    return await artefacts.submit(ctx.worker, replace(request, fingerprint=fingerprint))


async def cancel(ctx: AppContext, owner: str, conversation: str) -> None:
    """Cancel the running turn of the owner's conversation; raise `Conflict` if nothing runs."""
    thread = await find_conversation(ctx, owner, conversation)
    run = await ctx.worker.runs.active(thread.id)
    if run is None:
        raise Conflict("nothing runs in this conversation", remedy="it has ended already")
    await ctx.worker.cancel(thread.id, run)


async def find_conversation(ctx: AppContext, owner: str, conversation: str) -> Thread:
    """Return the owner's conversation about a page.

    Raises `Missing` if there is none, or it is another owner's, and `Conflict` for another workflow's.
    """
    thread = await threads.get(ctx.storage, conversation, owner)
    if thread.graph != service.GRAPH:
        raise Conflict(
            f"conversation {conversation!r} runs {thread.graph!r}, not {service.GRAPH!r}",
            remedy="use the interface of that workflow",
        )
    return thread


async def _page(ctx: AppContext, owner: str, conversation: str) -> str | None:
    try:
        return service.PAGES.artefact_id(await find_conversation(ctx, owner, conversation))
    except Missing:
        return None


router = APIRouter()
_HEARTBEAT: Final = {"type": "heartbeat"}


@router.websocket("/ws")
@with_policy(replace(API_WRITE, streaming=Streaming.ALWAYS))
async def connect_chat(socket: WebSocket) -> None:
    """Serve one connection."""
    await _Chat(socket).serve()


class _Chat(SocketSession):
    """One connection; it subscribes to conversations by their ids."""

    async def handle(self, text: bytes) -> None:
        """Execute a client's message; reply to an invalid one with an `error`."""
        conversation = ""
        try:
            value = _read(text)
            conversation = _conversation_of(value)
            message = _parse(value)
            await self.admit()
            await self._dispatch(message)
        except CallsheetError as error:
            await self._send(_error(error, conversation))
            if isinstance(error, Unauthenticated):
                raise

    async def _dispatch(self, message: IncomingMessage) -> None:
        match message:
            case UserMessage():
                request = await chat_run(self._ctx, self._owner, message)
                created = await self._start_run(request)
                if created.run != request.id:
                    await self._send(_repeated_frame(message, created))
            case ApprovalResponse():
                await self._start_run(await decision_run(self._ctx, self._owner, message))
            case Cancel():
                await cancel(self._ctx, self._owner, message.conversationId)
            case Join():
                await self._join(message)
            case Leave():
                await self.unsubscribe(message.conversationId)

    async def _start_run(self, request: RunRequest) -> Created:
        """Start a run, unless the request is a repeated one, and follow its conversation."""
        thread = request.thread
        self._require_capacity(thread)
        since = await conversation_stream.newest_position(self._ctx, thread)
        created = await submit(self._ctx, request)
        if not self.is_subscribed(thread):
            self.subscribe(thread, self._forward(thread_of(request), since))
        return created

    async def _join(self, message: Join) -> None:
        thread = await find_conversation(self._ctx, self._owner, message.conversationId)
        since = await conversation_stream.position_after(self._ctx, thread.id, message.lastEventId)
        self._require_capacity(thread.id)
        await self.unsubscribe(thread.id)
        self.subscribe(thread.id, self._forward(thread, since))
        await self._send({"type": "joined", "conversationId": thread.id})

    def _require_capacity(self, thread: str) -> None:
        """Raise `Limited` if the connection cannot follow another conversation."""
        if self.is_full and not self.is_subscribed(thread):
            raise Limited(f"{MAX_SUBSCRIPTIONS} conversations are followed already", remedy="leave one")

    async def _forward(self, thread: Thread, since: StreamPosition) -> None:
        translator = ConversationView(self._ctx.worker, thread.id)
        source = conversation_stream.follow_conversation(self._ctx, thread, since, translator)
        async with aclosing(source):
            async for frame in source:
                await self._send(frame.data if frame else _HEARTBEAT)
        await self._send(_error(threads.missing_thread(thread.id), thread.id))

    async def _send(self, frame: Mapping[str, Any]) -> None:
        await self.send(dumps(frame))


def _read(text: bytes) -> Any:
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"a message is JSON: {error.msg}", remedy="send an object with a type") from None


def _conversation_of(value: Any) -> str:
    """Return the conversation's id in a message; empty if it has none."""
    name = value.get("conversationId") if isinstance(value, Mapping) else None
    return name if isinstance(name, str) else ""


def _parse(value: Any) -> IncomingMessage:
    kind = value.get("type") if isinstance(value, Mapping) else None
    body = INCOMING.get(kind) if isinstance(kind, str) else None
    if body is None:
        raise Invalid(
            "the message has no type" if kind is None else f"the type {str(kind)[:40]!r} is not known",
            remedy=f"send an object whose type is one of {', '.join(INCOMING)}",
        )
    try:
        return body.model_validate(value)
    except ValidationError as error:
        fault = error_body(error)[1]["error"]
        raise Invalid(f"{kind}: {fault}", remedy="see docs/chat.md for its fields") from None


def _repeated_frame(message: UserMessage, created: Created) -> dict[str, Any]:
    """Return the frame for a message whose id is known already."""
    return {
        "type": "repeated",
        "conversationId": message.conversationId,
        "messageId": message.messageId,
        "runId": created.run,
    }


def _error(error: CallsheetError, conversation: str) -> dict[str, Any]:
    """Return the frame for a message that could not be executed."""
    output = outcome_of_error(error).output
    frame: dict[str, Any] = {
        name: output[name] for name in ("error", "suggestion", "retryable", "details") if name in output
    }
    return {"type": "error", "conversationId": conversation, **frame, "errorType": output["type"]}

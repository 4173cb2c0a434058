"""The chat about pages over a web socket.

A client that sends a message or joins a conversation follows it. All clients of the owner get the same frames
under the same `eventId`s from any process.
"""

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError

from callsheet.server.artefacts import conversation_stream
from callsheet.server.artefacts import service as artefacts
from callsheet.server.artefacts.conversation_stream import StreamPosition
from callsheet.server.artefacts.service import RequestContext, thread_of
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.context import AppContext
from callsheet.server.http.errors import error_body
from callsheet.server.http.policy import API_WRITE, Streaming, with_policy
from callsheet.server.http.requests import identifier, parse_json
from callsheet.server.http.sockets import MAX_SUBSCRIPTIONS, SocketSession
from callsheet.server.pages import service
from callsheet.server.pages.chat_events import CLIENT_ID, ConversationView
from callsheet.server.pages.schemas import (
    INCOMING,
    ApprovalResponse,
    Cancel,
    IncomingMessage,
    Join,
    Leave,
    UserMessage,
)
from callsheet.state.errors import CallsheetError, Conflict, Invalid, Limited, Missing, Unauthenticated
from callsheet.storage.runs.records import Created, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.outcome import outcome_of_error


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

"""The chat about pages over a web socket (C13–C20): messages come in, what happens goes out to everybody.

A client says something, or joins a conversation to be told what happens in it; any number of clients of one
owner are told the same, under the same `eventId`s, from whichever process they ask.
"""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError

from callsheet.server.ads.bodies import parse_json
from callsheet.server.http.sockets import MAX_SUBSCRIPTIONS, SocketSession
from callsheet.server.pages import chat, chat_stream
from callsheet.server.pages.chat_bodies import (
    INCOMING,
    ApprovalResponse,
    Cancel,
    IncomingMessage,
    Join,
    Leave,
    UserMessage,
)
from callsheet.server.pages.chat_stream import StreamPosition
from callsheet.server.runtime.encoding import dumps
from callsheet.server.runtime.run_request import DomainRun
from callsheet.state.errors import CallsheetError, Invalid, Limited
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.outcome import outcome_of_error

router = APIRouter()
_HEARTBEAT: Final = {"type": "heartbeat"}


@router.websocket("/ws")
async def connect_chat(socket: WebSocket) -> None:
    """Take what a client says, and tell it what happens."""
    await _Chat(socket).serve()


class _Chat(SocketSession):
    """One connection; what it is told of are conversations, by their ids."""

    async def handle(self, text: bytes) -> None:
        """Do what a client asks; what cannot be done is told to it."""
        conversation = ""
        try:
            asked = _parsed(text)
            conversation = asked.conversationId
            await self.check_rate()
            await self._do(asked)
        except CallsheetError as error:
            await self._send(_error(error, conversation))

    async def _do(self, asked: IncomingMessage) -> None:
        match asked:
            case UserMessage():
                await self._begin(await chat.chat_run(self._ctx, self._owner, asked))
            case ApprovalResponse():
                await self._begin(await chat.decision_run(self._ctx, self._owner, asked))
            case Cancel():
                await chat.cancel(self._ctx, self._owner, asked.conversationId)
            case Join():
                await self._join(asked)
            case Leave():
                await self.unsubscribe(asked.conversationId)

    async def _begin(self, job: DomainRun) -> None:
        """Begin a run; who says something is told what comes of it, from there on."""
        thread = job.thread.id
        self._room(thread)
        since = await chat_stream.newest_position(self._ctx.storage, thread)
        await chat.submit(self._ctx, job)
        if not self.is_subscribed(thread):
            self.subscribe(thread, self._told(job.thread, since))

    async def _join(self, asked: Join) -> None:
        known = await chat.find_conversation(self._ctx, self._owner, asked.conversationId)
        thread = known.id
        since = await chat_stream.position_after(
            self._ctx.worker, self._ctx.storage, thread, asked.lastEventId
        )
        self._room(thread)
        await self.unsubscribe(thread)
        self.subscribe(thread, self._told(known, since))
        await self._send({"type": "joined", "conversationId": thread})

    def _room(self, thread: str) -> None:
        """Raise `Limited` where no further conversation can be followed, before anything is done."""
        if self.is_full and not self.is_subscribed(thread):
            raise Limited(f"{MAX_SUBSCRIPTIONS} conversations are followed already", remedy="leave one")

    async def _told(self, thread: Thread, since: StreamPosition) -> None:
        source = chat_stream.follow_frames(self._ctx.worker, self._ctx.storage, thread, since)
        async with aclosing(source):
            async for told in source:
                await self._send({"eventId": told[0], **told[1]} if told else _HEARTBEAT)
        await self._send(_error(threads.missing_thread(thread.id), thread.id))

    async def _send(self, frame: Mapping[str, Any]) -> None:
        await self.send(dumps(frame))


def _parsed(text: bytes) -> IncomingMessage:
    try:
        return INCOMING.validate_python(parse_json(text))
    except json.JSONDecodeError as error:
        raise Invalid(f"a message is JSON: {error.msg}", remedy="send an object with a type") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{place or 'the message'}: {first['msg']}", remedy="see docs/chat.md") from None


def _error(error: CallsheetError, conversation: str) -> dict[str, Any]:
    """Return what is told of a message that could not be carried out (C18, C39)."""
    output = outcome_of_error(error).output
    told: dict[str, Any] = {
        name: output[name] for name in ("error", "suggestion", "retryable", "details") if name in output
    }
    return {"type": "error", "conversationId": conversation, **told, "errorType": output["type"]}

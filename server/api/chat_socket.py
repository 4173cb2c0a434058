"""The chat about pages over a web socket (C13–C20): messages come in, what happens goes out to everybody.

A client says something, or joins a conversation to be told what happens in it; any number of clients of one
owner are told the same, under the same `eventId`s, from whichever process they ask.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from server import chat_stream, chats
from server.api.bodies import read
from server.api.chat_bodies import INCOMING, ApprovalResponse, Asked, Cancel, Join, Leave, UserMessage
from server.chat_stream import Place
from server.encoding import dumps
from server.origins import owner
from server.parts import parts
from server.refusal import TRY_LATER
from server.requested import Job
from state.errors import CallsheetError, Invalid, Limited, Unavailable
from storage import counters
from tools.outcome import refusal

router = APIRouter()
_MOST: Final = 32
"""Conversations that one connection is told of."""
_TOO_BIG: Final = 1009
"""Web socket code: a message over the limit."""
_HEARTBEAT: Final = {"type": "heartbeat"}


@router.websocket("/ws")
async def connect(socket: WebSocket) -> None:
    """Take what a client says, and tell it what happens."""
    await socket.accept()
    session = _Session(socket)
    try:
        await session.serve()
    except WebSocketDisconnect:
        return
    except Unavailable as error:
        await socket.close(TRY_LATER, error.message[:100])
    finally:
        await session.stop()


class _Session:
    """One connection."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._here = parts(socket)
        self._owner = owner(socket)
        self._sending = asyncio.Lock()
        self._following: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Take messages as they come; raises `WebSocketDisconnect`, and what is worth another try."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1000))
            text = message.get("bytes") or (message.get("text") or "").encode()
            if len(text) > self._here.settings.max_body_bytes:
                await self._socket.close(_TOO_BIG)
                return
            await self._heard(text)

    async def stop(self) -> None:
        """Tell no more."""
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)

    async def _heard(self, text: bytes) -> None:
        conversation = ""
        try:
            asked = _parsed(text)
            conversation = asked.conversationId
            await self._counted()
            await self._do(asked)
        except CallsheetError as error:
            await self._send(_error(error, conversation))

    async def _counted(self) -> None:
        """Count a message as a request is counted; raises `Limited`."""
        most = self._here.settings.requests_per_minute
        if most:
            count = await counters.count(self._here.storage, self._owner, uuid.uuid4().hex, most)
            if not count.fits:
                raise Limited(f"more than {most} requests in a minute", remedy=f"wait {count.next_s} s")

    async def _do(self, asked: Asked) -> None:
        match asked:
            case UserMessage():
                await self._begin(await chats.say(self._here, self._owner, asked))
            case ApprovalResponse():
                await self._begin(await chats.decide(self._here, self._owner, asked))
            case Cancel():
                await chats.cancel(self._here, self._owner, asked.conversationId)
            case Join():
                await self._join(asked)
            case Leave():
                await self._leave(asked.conversationId)

    async def _begin(self, job: Job) -> None:
        """Begin a run; who says something is told what comes of it, from there on."""
        thread = job.thread.id
        self._room(thread)
        since = await chat_stream.newest(self._here.storage, thread)
        await chats.begin(self._here, job)
        if thread not in self._following:
            self._follow(thread, since)

    async def _join(self, asked: Join) -> None:
        thread = (await chats.known(self._here, self._owner, asked.conversationId)).id
        since = await chat_stream.place(self._here.worker, self._here.storage, thread, asked.lastEventId)
        self._room(thread)
        await self._leave(thread)
        self._follow(thread, since)
        await self._send({"type": "joined", "conversationId": thread})

    async def _leave(self, thread: str) -> None:
        if task := self._following.pop(thread, None):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _room(self, thread: str) -> None:
        """Raise `Limited` where no further conversation can be followed, before anything is done."""
        if thread not in self._following and len(self._following) >= _MOST:
            raise Limited(f"{_MOST} conversations are followed already", remedy="leave one")

    def _follow(self, thread: str, since: Place) -> None:
        self._following[thread] = asyncio.create_task(self._tell(thread, since))

    async def _tell(self, thread: str, since: Place) -> None:
        source = chat_stream.told(self._here.worker, self._here.storage, thread, since)
        try:
            async with aclosing(source):
                async for told in source:
                    await self._send({"eventId": told[0], **told[1]} if told else _HEARTBEAT)
        except Unavailable as error:
            await self._socket.close(TRY_LATER, error.message[:100])

    async def _send(self, frame: Mapping[str, Any]) -> None:
        async with self._sending:
            await self._socket.send_text(dumps(frame).decode())


def _parsed(text: bytes) -> Asked:
    try:
        return INCOMING.validate_python(read(text))
    except json.JSONDecodeError as error:
        raise Invalid(f"a message is JSON: {error.msg}", remedy="send an object with a type") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{place or 'the message'}: {first['msg']}", remedy="see docs/chat.md") from None


def _error(error: CallsheetError, conversation: str) -> dict[str, Any]:
    """Return what is told of a message that could not be carried out (C18, C39)."""
    output = refusal(error).output
    told: dict[str, Any] = {
        name: output[name] for name in ("error", "suggestion", "retryable", "details") if name in output
    }
    return {"type": "error", "conversationId": conversation, **told, "errorType": output["type"]}

"""The Agent Streaming Protocol over a web socket: commands come in, answers and events go out."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from server.api.bodies import read
from server.api.paths import decoded
from server.encoding import dumps
from server.limits import too_many
from server.origins import owner
from server.parts import parts
from server.refusal import TRY_LATER
from server.wire import commands
from server.wire.commands import Command, failed
from server.wire.protocol import View
from server.wire.protocol_events import Subscription, seen
from state.errors import Missing, Unavailable
from storage import counters

router = APIRouter()
_MOST: Final = 32
"""Subscriptions of one connection."""
_TOO_BIG: Final = 1009
"""Web socket code: a message over the limit."""


@router.websocket("/threads/{thread_id}/stream/events")
async def connect(socket: WebSocket) -> None:
    """Answer a client's commands, and send it the events it subscribes to."""
    await socket.accept()
    session = _Session(socket, decoded(socket.path_params)["thread_id"])
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

    def __init__(self, socket: WebSocket, thread: str) -> None:
        self._socket = socket
        self._thread = thread
        self._here = parts(socket)
        self._owner = owner(socket)
        self._sending = asyncio.Lock()
        self._following: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Carry commands out as they come; raises `WebSocketDisconnect`, and what is worth another try."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1000))
            text = message.get("bytes") or (message.get("text") or "").encode()
            if len(text) > self._here.settings.max_body_bytes:
                await self._socket.close(_TOO_BIG)
                return
            await self._answer(text)

    async def stop(self) -> None:
        """End all subscriptions."""
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)

    async def _answer(self, text: bytes) -> None:
        try:
            asked = Command.model_validate(read(text))
        except (json.JSONDecodeError, ValidationError):
            rule = "a command is JSON with an integer id, a method and params"
            await self._send(failed(None, "invalid_argument", rule))
            return
        if excess := await self._excess():
            await self._send(failed(asked.id, "unknown_error", excess))
            return
        match asked.method:
            case "subscription.subscribe":
                await self._subscribe(asked)
            case "subscription.unsubscribe":
                await self._unsubscribe(asked)
            case _:
                await self._send(await self._done(asked))

    async def _excess(self) -> str:
        """What is wrong with one more request of the owner's now; empty for nothing."""
        most = self._here.settings.requests_per_minute
        if not most:
            return ""
        count = await counters.count(self._here.storage, self._owner, uuid.uuid4().hex, most)
        refusal = too_many(most, count)
        return "" if count.fits else f"{refusal.message}; {refusal.remedy}"

    async def _done(self, asked: Command) -> Mapping[str, Any]:
        try:
            return await commands.answered(self._here, self._owner, self._thread, asked)
        except Missing as error:
            return commands.refused(asked.id, asked.method, error)

    async def _subscribe(self, asked: Command) -> None:
        try:
            wanted = Subscription.model_validate(asked.params)
        except ValidationError as error:
            await self._send(commands.refused(asked.id, asked.method, error))
            return
        if len(self._following) >= _MOST:
            await self._send(failed(asked.id, "invalid_argument", f"{_MOST} subscriptions are open already"))
            return
        name = str(uuid.uuid4())
        await self._send({"type": "success", "id": asked.id, "result": {"subscription_id": name}})
        self._following[name] = asyncio.create_task(self._follow(wanted))

    async def _unsubscribe(self, asked: Command) -> None:
        task = self._following.pop(str(asked.params.get("subscription_id")), None)
        if task is None:
            await self._send(failed(asked.id, "no_such_subscription", "it is not open"))
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._send({"type": "success", "id": asked.id, "result": {}})

    async def _follow(self, wanted: Subscription) -> None:
        try:
            await self._tell(wanted)
        except Unavailable as error:
            await self._socket.close(TRY_LATER, error.message[:100])

    async def _tell(self, wanted: Subscription) -> None:
        view = View(self._here, self._thread, self._owner)
        async with aclosing(seen(self._here, view, self._thread, wanted, patient=True)) as source:
            async for event in source:
                if event:
                    await self._send_text(event.encoded())

    async def _send(self, answer: Mapping[str, Any]) -> None:
        await self._send_text(dumps(answer))

    async def _send_text(self, text: bytes) -> None:
        async with self._sending:
            await self._socket.send_text(text.decode())

"""The Agent Streaming Protocol over a web socket: commands come in, answers and events go out."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError

from server.api.bodies import read
from server.api.paths import decoded
from server.encoding import dumps
from server.sockets import MOST, Session
from server.wire import commands
from server.wire.commands import Command, failed
from server.wire.protocol import View
from server.wire.protocol_events import Subscription, seen
from state.errors import Limited, Missing

router = APIRouter()


@router.websocket("/threads/{thread_id}/stream/events")
async def connect(socket: WebSocket) -> None:
    """Answer a client's commands, and send it the events it subscribes to."""
    await _Protocol(socket, decoded(socket.path_params)["thread_id"]).serve()


class _Protocol(Session):
    """One connection to one thread; what it is told of are its subscriptions."""

    def __init__(self, socket: WebSocket, thread: str) -> None:
        super().__init__(socket)
        self._thread = thread
        self._reached: dict[str, int] = {}
        """The event that each subscription is at, by its number; all before it has been told."""
        self._moved = asyncio.Event()

    async def heard(self, text: bytes) -> None:
        """Carry a command out and answer it."""
        try:
            asked = Command.model_validate(read(text))
        except (json.JSONDecodeError, ValidationError):
            rule = "a command is JSON with an integer id, a method and params"
            await self._send(failed(None, "invalid_argument", rule))
            return
        try:
            await self.counted()
        except Limited as error:
            await self._send(failed(asked.id, "unknown_error", f"{error.message}; {error.remedy}"))
            return
        await self._answer(asked)

    async def _answer(self, asked: Command) -> None:
        match asked.method:
            case "subscription.subscribe":
                await self._subscribe(asked)
            case "subscription.unsubscribe":
                await self._unsubscribe(asked)
            case _:
                await self._send(await self._done(asked))

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
        if self.full:
            await self._send(failed(asked.id, "invalid_argument", f"{MOST} subscriptions are open already"))
            return
        name = str(uuid.uuid4())
        self._reached[name] = wanted.since or 0
        await self._send({"type": "success", "id": asked.id, "result": {"subscription_id": name}})
        self.tell(name, self._told(wanted, name))

    async def _unsubscribe(self, asked: Command) -> None:
        name = str(asked.params.get("subscription_id"))
        left = await self.leave(name)
        self._left(name)
        if not left:
            await self._send(failed(asked.id, "no_such_subscription", "it is not open"))
            return
        await self._send({"type": "success", "id": asked.id, "result": {}})

    async def _told(self, wanted: Subscription, name: str) -> None:
        try:
            await self._follow(wanted, name)
        finally:
            self._left(name)

    async def _follow(self, wanted: Subscription, name: str) -> None:
        view, reached = View(self._here, self._thread, self._owner), partial(self._reach, name)
        async with aclosing(seen(self._here, view, self._thread, wanted, reached)) as source:
            async for event in source:
                if event:
                    await self._turn(event.seq)
                    await self.send(event.encoded())

    async def _turn(self, seq: int) -> None:
        """Wait until every subscription has been told of what came before.

        Clients end them all when one is told of an end, or of a question.
        """
        while any(at < seq for at in self._reached.values()):
            self._moved.clear()
            await self._moved.wait()

    def _reach(self, name: str, seq: int) -> None:
        self._reached[name] = seq
        self._moved.set()

    def _left(self, name: str) -> None:
        self._reached.pop(name, None)
        self._moved.set()

    async def _send(self, answer: Mapping[str, Any]) -> None:
        await self.send(dumps(answer))

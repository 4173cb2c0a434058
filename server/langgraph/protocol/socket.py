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

from callsheet.server.ads.bodies import parse_json
from callsheet.server.http.direct import decode_path_params
from callsheet.server.http.sockets import MAX_SUBSCRIPTIONS, SocketSession
from callsheet.server.langgraph.protocol import commands
from callsheet.server.langgraph.protocol.commands import ProtocolCommand, error_reply
from callsheet.server.langgraph.protocol.events import Subscription, follow_thread
from callsheet.server.langgraph.protocol.views import ThreadView
from callsheet.server.runtime.encoding import dumps
from callsheet.state.errors import Limited, Missing

router = APIRouter()


@router.websocket("/threads/{thread_id}/stream/events")
async def connect_protocol(socket: WebSocket) -> None:
    """Answer a client's commands, and send it the events it subscribes to."""
    await _Protocol(socket, decode_path_params(socket.path_params)["thread_id"]).serve()


class _Protocol(SocketSession):
    """One connection to one thread; what it is told of are its subscriptions."""

    def __init__(self, socket: WebSocket, thread: str) -> None:
        super().__init__(socket)
        self._thread = thread
        self._reached: dict[str, int] = {}
        """The event that each subscription is at, by its number; all before it has been told."""
        self._moved = asyncio.Event()

    async def handle(self, text: bytes) -> None:
        """Carry a command out and answer it."""
        try:
            asked = ProtocolCommand.model_validate(parse_json(text))
        except (json.JSONDecodeError, ValidationError):
            rule = "a command is JSON with an integer id, a method and params"
            await self._send(error_reply(None, "invalid_argument", rule))
            return
        try:
            await self.check_rate()
        except Limited as error:
            await self._send(error_reply(asked.id, "unknown_error", f"{error.message}; {error.remedy}"))
            return
        await self._answer(asked)

    async def _answer(self, asked: ProtocolCommand) -> None:
        match asked.method:
            case "subscription.subscribe":
                await self._subscribe(asked)
            case "subscription.unsubscribe":
                await self._unsubscribe(asked)
            case _:
                await self._send(await self._done(asked))

    async def _done(self, asked: ProtocolCommand) -> Mapping[str, Any]:
        try:
            return await commands.handle_command(self._ctx, self._owner, self._thread, asked)
        except Missing as error:
            return commands.refused_reply(asked.id, asked.method, error)

    async def _subscribe(self, asked: ProtocolCommand) -> None:
        try:
            wanted = Subscription.model_validate(asked.params)
        except ValidationError as error:
            await self._send(commands.refused_reply(asked.id, asked.method, error))
            return
        if self.is_full:
            await self._send(
                error_reply(
                    asked.id, "invalid_argument", f"{MAX_SUBSCRIPTIONS} subscriptions are open already"
                )
            )
            return
        name = str(uuid.uuid4())
        self._reached[name] = wanted.since or 0
        await self._send({"type": "success", "id": asked.id, "result": {"subscription_id": name}})
        self.subscribe(name, self._told(wanted, name))

    async def _unsubscribe(self, asked: ProtocolCommand) -> None:
        name = str(asked.params.get("subscription_id"))
        left = await self.unsubscribe(name)
        self._left(name)
        if not left:
            await self._send(error_reply(asked.id, "no_such_subscription", "it is not open"))
            return
        await self._send({"type": "success", "id": asked.id, "result": {}})

    async def _told(self, wanted: Subscription, name: str) -> None:
        try:
            await self._follow(wanted, name)
        finally:
            self._left(name)

    async def _follow(self, wanted: Subscription, name: str) -> None:
        view, reached = ThreadView(self._ctx, self._thread, self._owner), partial(self._reach, name)
        async with aclosing(follow_thread(self._ctx, view, self._thread, wanted, reached)) as source:
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

"""The Agent Streaming Protocol over a web socket: commands in, replies and events out."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError

from callsheet.server.engine.json_values import dumps
from callsheet.server.http.policy import LANGGRAPH_WRITE_STREAM, decode_path_params, with_policy
from callsheet.server.http.requests import parse_json_aside
from callsheet.server.http.sockets import MAX_SUBSCRIPTIONS, SocketSession
from callsheet.server.langgraph.protocol import commands
from callsheet.server.langgraph.protocol.commands import ProtocolCommand, error_reply, refused_reply
from callsheet.server.langgraph.protocol.events import Subscription, ThreadView, follow_thread
from callsheet.state.errors import Limited, Missing, Unauthenticated, sentences

router = APIRouter()


@router.websocket("/threads/{thread_id}/stream/events")
@with_policy(LANGGRAPH_WRITE_STREAM)
async def connect_protocol(socket: WebSocket) -> None:
    """Serve a client's commands and subscriptions."""
    await _ProtocolSession(socket, decode_path_params(socket.path_params)["thread_id"]).serve()


class _ProtocolSession(SocketSession):
    """Connection to one thread, with any number of subscriptions to its events."""

    def __init__(self, socket: WebSocket, thread: str) -> None:
        super().__init__(socket)
        self._thread = thread
        self._positions: dict[str, int] = {}
        """Subscription to the number of its current event; all earlier ones have been sent."""
        self._advanced = asyncio.Event()

    async def handle(self, text: bytes) -> None:
        """Execute a command and send the reply."""
        try:
            command = ProtocolCommand.model_validate(await parse_json_aside(text))
        except (json.JSONDecodeError, ValidationError):
            rule = "a command is JSON with an integer id, a method and params"
            await self._reply(error_reply(None, "invalid_argument", rule))
            return
        try:
            await self.admit()
        except (Limited, Unauthenticated) as error:
            refusal = sentences(error.message, error.remedy)
            await self._reply(error_reply(command.id, "unknown_error", refusal))
            if isinstance(error, Unauthenticated):
                raise
            return
        match command.method:
            case "subscription.subscribe":
                await self._subscribe(command)
            case "subscription.unsubscribe":
                await self._unsubscribe(command)
            case _:
                await self._reply(await self._execute(command))

    async def _execute(self, command: ProtocolCommand) -> Mapping[str, Any]:
        try:
            return await commands.handle_command(self._ctx, self._owner, self._thread, command)
        except Missing as error:
            return refused_reply(command.id, command.method, error)

    async def _subscribe(self, command: ProtocolCommand) -> None:
        try:
            subscription = Subscription.model_validate(command.params)
        except ValidationError as error:
            await self._reply(refused_reply(command.id, command.method, error))
            return
        if self.is_full:
            message = f"{MAX_SUBSCRIPTIONS} subscriptions are open already"
            await self._reply(error_reply(command.id, "invalid_argument", message))
            return
        name = str(uuid.uuid4())
        self._positions[name] = subscription.since or 0
        await self._reply({"type": "success", "id": command.id, "result": {"subscription_id": name}})
        self.subscribe(name, self._send_events(subscription, name))

    async def _unsubscribe(self, command: ProtocolCommand) -> None:
        name = str(command.params.get("subscription_id"))
        was_open = await self.unsubscribe(name)
        self._forget(name)
        if not was_open:
            await self._reply(error_reply(command.id, "no_such_subscription", "it is not open"))
            return
        await self._reply({"type": "success", "id": command.id, "result": {}})

    async def _send_events(self, subscription: Subscription, name: str) -> None:
        try:
            await self._follow(subscription, name)
        finally:
            self._forget(name)

    async def _follow(self, subscription: Subscription, name: str) -> None:
        view = ThreadView(self._ctx, self._thread, self._owner)
        async with aclosing(follow_thread(view, subscription, partial(self._advance, name))) as source:
            async for event in source:
                if event:
                    await self._wait_for_others(event.seq)
                    await self.send(event.encode())

    async def _wait_for_others(self, seq: int) -> None:
        """Wait until every subscription has sent its events before `seq`.

        Clients close all their subscriptions when one delivers an end or an interrupt.
        """
        while any(position < seq for position in self._positions.values()):
            self._advanced.clear()
            await self._advanced.wait()

    def _advance(self, name: str, seq: int) -> None:
        self._positions[name] = seq
        self._advanced.set()

    def _forget(self, name: str) -> None:
        self._positions.pop(name, None)
        self._advanced.set()

    async def _reply(self, reply: Mapping[str, Any]) -> None:
        await self.send(dumps(reply))

"""Requests while the server stops: time to end, then a reply that says how to go on."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.engine.json_values import dumps
from callsheet.server.http import errors
from callsheet.server.http.policy import ErrorForm, OnOutage, get_policy
from callsheet.server.http.replies import API, LANGGRAPH, MEDIA_TYPE, ServerEvent
from callsheet.state.errors import Unavailable

_REMEDY: Final = "send the request again; with the same Idempotency-Key nothing is done twice"
_ID: Final = b"id: "
_log = logging.getLogger(__name__)


class Shutdown:
    """The stop of this server, as its requests see it."""

    def __init__(self) -> None:
        self.is_stopping = False
        """True from the signal on: `/ready` answers 503."""
        self._limits: set[asyncio.Timeout] = set()
        """One for each request in progress."""

    def begin(self) -> None:
        """Mark the server as stopping; twice is safe."""
        self.is_stopping = True

    def cut_requests(self) -> None:
        """End the requests in progress with replies that say how to go on."""
        if self._limits:
            _log.warning(
                "%d requests were cut: they took longer than CALLSHEET_STOP_GRACE_S; "
                "their runs are handed over to other processes",
                len(self._limits),
            )
        for limit in self._limits:
            limit.reschedule(0)

    def add(self, limit: asyncio.Timeout) -> None:
        """Add a request in progress."""
        self._limits.add(limit)

    def remove(self, limit: asyncio.Timeout) -> None:
        """Remove a request that has ended."""
        self._limits.discard(limit)


class ShutdownMiddleware:
    """Lets the server's stop end a request in progress with an answer."""

    def __init__(self, app: ASGIApp, shutdown: Shutdown) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on until the stop cuts it."""
        if scope["type"] != "http" or get_policy(scope).on_outage is OnOutage.REPORT:
            await self._app(scope, receive, send)
            return
        reply = _ReplyInProgress(send, is_langgraph=get_policy(scope).errors is ErrorForm.LANGGRAPH)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._shutdown.add(limit)
                await self._app(scope, receive, reply.send)
        except TimeoutError:
            if not limit.expired():
                raise
            if reply.headers is None:
                await errors.error_response(_error())(scope, receive, send)
            else:
                await reply.end()
        finally:
            self._shutdown.remove(limit)


class _ReplyInProgress:
    """The reply to a request, with what its client needs to go on after a cut."""

    def __init__(self, send: Send, *, is_langgraph: bool) -> None:
        self._send = send
        self._is_langgraph = is_langgraph
        self._is_stream = self._has_content = False
        self._last_id = ""
        self.headers: Headers | None = None
        """Set once the reply has started."""

    async def send(self, message: Message) -> None:
        """Send a part of the reply."""
        if message["type"] == "http.response.start":
            self.headers = Headers(raw=message["headers"])
            self._is_stream = self.headers.get("content-type", "").startswith(MEDIA_TYPE)
        elif self._is_stream:
            self._note_id(message.get("body", b""))
        else:
            self._has_content = self._has_content or bool(message.get("body", b"").strip())
        await self._send(message)

    def _note_id(self, chunk: bytes) -> None:
        """Note the id of the event in a chunk."""
        for line in chunk.splitlines() if _ID in chunk else ():
            if line.startswith(_ID):
                self._last_id = line.removeprefix(_ID).decode()

    async def end(self) -> None:
        """Send the last part of a reply that was cut.

        A stream of LangGraph's API whose events have ids ends without it: its clients reconnect by themselves
        after a cut, and take an `error` for the end of the run. So do replies that would look complete.
        """
        if self._is_stream and not (self._is_langgraph and self._last_id):
            await self._send_last(self._last_event())
        elif self._is_stream:
            await self._send(_body(b": the server stops\r\n\r\n", more=True))
        elif self._is_langgraph and not self._has_content:
            await self._send_last(dumps({"__error__": self._langgraph_error()}))

    async def _send_last(self, data: bytes) -> None:
        await self._send(_body(data, more=False))

    def _last_event(self) -> bytes:
        if self._is_langgraph:
            return LANGGRAPH.encode(ServerEvent("error", dumps(self._langgraph_error())))
        status, body = errors.error_body(_error(self._place()))
        return API.encode(ServerEvent("error", dumps(body | {"status": status})))

    def _langgraph_error(self) -> Mapping[str, str]:
        place = self._location
        how = f"the run goes on in another process: GET {place}/join, or {place}/stream" if place else _REMEDY
        return {"error": "Unavailable", "message": f"{_error().message}; {how}"}

    @property
    def _location(self) -> str:
        return self.headers.get("content-location", "") if self.headers else ""

    def _place(self) -> dict[str, object]:
        """Return where the events go on, and after which id."""
        known = {"continueAt": self._location, "lastEventId": self._last_id}
        return {name: value for name, value in known.items() if value}


def _error(details: dict[str, Any] | None = None) -> Unavailable:
    remedy = "go on after the last event: GET details.continueAt with Last-Event-ID" if details else _REMEDY
    return Unavailable("the server stops, and the request was not finished", remedy=remedy, details=details)


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}

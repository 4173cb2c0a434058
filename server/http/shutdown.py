"""Requests that are ended from outside: by a stop, with the way to go on, or since their key was revoked."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.engine.json_values import dumps
from callsheet.server.http import errors
from callsheet.server.http.auth import get_caller
from callsheet.server.http.policy import ErrorForm, OnOutage, get_policy
from callsheet.server.http.replies import API, LANGGRAPH, MEDIA_TYPE, ServerEvent
from callsheet.server.http.revocation import StreamsByKey
from callsheet.state.errors import CallsheetError, Unavailable, sentences

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
            _end_now(limit)

    def add(self, limit: asyncio.Timeout) -> None:
        """Add a request in progress."""
        self._limits.add(limit)

    def remove(self, limit: asyncio.Timeout) -> None:
        """Remove a request that has ended."""
        self._limits.discard(limit)


class ShutdownMiddleware:
    """Lets the server's stop end a request in progress with an answer, and a revoked key its streams."""

    def __init__(self, app: ASGIApp, shutdown: Shutdown, streams: StreamsByKey) -> None:
        self._app = app
        self._shutdown = shutdown
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on until the stop cuts it."""
        if scope["type"] != "http" or get_policy(scope).on_outage is OnOutage.REPORT:
            await self._app(scope, receive, send)
            return
        limit = asyncio.timeout(None)
        reply = _ReplyInProgress(scope, send, limit, self._streams)
        try:
            with reply.watch:
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

    def __init__(self, scope: Scope, send: Send, limit: asyncio.Timeout, streams: StreamsByKey) -> None:
        self._scope = scope
        self._send = send
        self._limit = limit
        self._is_langgraph = get_policy(scope).errors is ErrorForm.LANGGRAPH
        self._streams = streams
        self.watch: Final = ExitStack()
        """Context in which the reply, if it is a stream, ends with the caller's key."""
        self._reason: CallsheetError | None = None
        self._is_stream = self._has_content = False
        self._last_id = ""
        self.headers: Headers | None = None
        """Set once the reply has started."""

    def _end_with(self, error: CallsheetError) -> None:
        if not self._limit.expired():
            self._reason = error
            _end_now(self._limit)

    async def send(self, message: Message) -> None:
        """Send a part of the reply."""
        if message["type"] == "http.response.start":
            self.headers = Headers(raw=message["headers"])
            self._is_stream = self.headers.get("content-type", "").startswith(MEDIA_TYPE)
            if self._is_stream:
                key_id = get_caller(self._scope).key_id
                self.watch.enter_context(self._streams.watch(key_id, self._end_with))
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
        if self._reason or (self._is_stream and not (self._is_langgraph and self._last_id)):
            await self._send_last(self._last_event())
        elif self._is_stream:
            await self._send(_body(b": the server stops\r\n\r\n", more=True))
        elif self._is_langgraph and not self._has_content:
            await self._send_last(dumps({"__error__": self._langgraph_error()}))

    async def _send_last(self, data: bytes) -> None:
        await self._send(_body(data, more=False))

    def _last_event(self) -> bytes:
        if self._reason and self._is_langgraph:
            error = {
                "error": type(self._reason).__name__,
                "message": sentences(self._reason.message, self._reason.remedy),
            }
            return LANGGRAPH.encode(ServerEvent("error", dumps(error)))
        if self._reason:
            status, body = errors.error_body(self._reason)
            return API.encode(ServerEvent("error", dumps(body | {"status": status})))
        if self._is_langgraph:
            return LANGGRAPH.encode(ServerEvent("error", dumps(self._langgraph_error())))
        status, body = errors.error_body(_error(self._place()))
        return API.encode(ServerEvent("error", dumps(body | {"status": status})))

    def _langgraph_error(self) -> Mapping[str, str]:
        place = self._location
        how = f"the run goes on in another process: GET {place}/join, or {place}/stream" if place else _REMEDY
        return {"error": "Unavailable", "message": sentences(_error().message, how)}

    @property
    def _location(self) -> str:
        return self.headers.get("content-location", "") if self.headers else ""

    def _place(self) -> dict[str, object]:
        """Return where the events go on, and after which id."""
        known = {"continueAt": self._location, "lastEventId": self._last_id}
        return {name: value for name, value in known.items() if value}


def _end_now(limit: asyncio.Timeout) -> None:
    # One that ends already, and is not through with it, cannot be ended again.
    if not limit.expired():
        limit.reschedule(0)


def _error(details: dict[str, Any] | None = None) -> Unavailable:
    remedy = "go on after the last event: GET details.continueAt with Last-Event-ID" if details else _REMEDY
    return Unavailable("the server stops, and the request was not finished", remedy=remedy, details=details)


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}

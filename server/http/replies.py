"""Replies of routes: JSON, and server-sent events that end with their reader."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from callsheet.server.engine.json_values import dumps

MEDIA_TYPE: Final = "text/event-stream"


class JsonReply(JSONResponse):
    """A reply of any value as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON."""
        return dumps(content)


class ConfirmedReply(JsonReply):
    """A reply that is reported once it was sent to a client that is still there.

    A server drops what it sends to a client that has left, without an error.
    """

    def __init__(self, content: Any, on_sent: Callable[[], Awaitable[None]]) -> None:
        super().__init__(content)
        self._on_sent = on_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        has_reader = not await Request(scope, receive).is_disconnected()
        await super().__call__(scope, receive, send)
        if has_reader:
            await self._on_sent()


class ServerEvent(NamedTuple):
    """One event."""

    name: str
    data: bytes
    """JSON in one line."""
    id: str | None = None
    """Value of `Last-Event-ID` that asks for what comes after this event."""


@dataclass(frozen=True)
class EventFormat:
    """Line ends and field order of events; a client that follows the standard reads any of them."""

    newline: bytes
    id_first: bool
    cache_control: str

    def encode(self, event: ServerEvent | None) -> bytes:
        """Return an event as it is sent; None is a heartbeat, a comment."""
        if event is None:
            return b": heartbeat" + self.newline * 2
        fields = [b"event: " + event.name.encode(), b"data: " + event.data]
        if event.id is not None:
            fields.insert(0 if self.id_first else len(fields), b"id: " + event.id.encode())
        return self.newline.join(fields) + self.newline * 2


API: Final = EventFormat(b"\n", id_first=True, cache_control="no-cache, no-transform")
LANGGRAPH: Final = EventFormat(b"\r\n", id_first=False, cache_control="no-store")
"""The form of LangGraph's server, byte for byte."""


class StreamingReply(StreamingResponse):
    """A streamed reply that is cancelled once its reader has left.

    Starlette's own starts a task group for each reply; this one starts one task.
    """

    on_disconnect: Callable[[], None] | None = None
    """Called if the reader leaves before the end; not if the reply fails or the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        leaving: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as presence:
                leaving = asyncio.create_task(self._watch_reader(receive, presence))
                await self.stream_response(send)
        except TimeoutError:
            if not presence.expired():
                raise
        finally:
            if leaving:
                leaving.cancel()
            if presence.expired() and self.on_disconnect:
                self.on_disconnect()
        if self.background:
            await self.background()

    async def _watch_reader(self, receive: Receive, limit: asyncio.Timeout) -> None:
        """End the reply once the reader has left."""
        await self.listen_for_disconnect(receive)
        limit.reschedule(0)


Events = AsyncGenerator[ServerEvent | None, None]
"""Events, and None after each silence of a heartbeat's length."""


def event_stream_reply(
    events: Events, form: EventFormat = API, headers: Mapping[str, str] = MappingProxyType({})
) -> StreamingReply:
    """Return the reply that streams events."""
    fixed = {"Cache-Control": form.cache_control, "X-Accel-Buffering": "no"}
    return StreamingReply(_lines(events, form), media_type=MEDIA_TYPE, headers=fixed | dict(headers))


async def _lines(events: Events, form: EventFormat) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            yield form.encode(event)


def wants_event_stream(request: HTTPConnection) -> bool:
    """Return True if the caller accepts server-sent events, or resumes a stream of them."""
    return MEDIA_TYPE in request.headers.get("accept", "").lower() or bool(
        request.headers.get("last-event-id")
    )

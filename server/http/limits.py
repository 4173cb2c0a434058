"""How much a caller may send, and how often."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Final, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http import errors, outage
from callsheet.server.http.auth import PUBLIC_PATHS
from callsheet.server.http.callers import get_caller
from callsheet.server.http.errors import reject
from callsheet.server.settings import Settings
from callsheet.state.errors import CallsheetError, Limited, TooLarge, Unavailable
from callsheet.storage import Storage, rate_limits
from callsheet.storage.rate_limits import RequestCount
from callsheet.storage.redis import keys

RATE_HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
"""How a caller's requests stand: most in a minute, left now, seconds until all are left again."""
_log = logging.getLogger(__name__)


class BodyLimit(NamedTuple):
    """How large a body may be."""

    bytes_: int
    remedy: str = "send less"
    """What to do about a larger one."""


class BodyLimitMiddleware:
    """Refuses bodies over a number of bytes: by their declared length, else as soon as they pass it."""

    def __init__(self, app: ASGIApp, most: BodyLimit, larger: Mapping[str, BodyLimit]) -> None:
        """`larger` has the paths whose bodies may have another number; a `*` in one stands for an id."""
        self._app = app
        self._most = most
        self._larger = [(path.split("/"), most) for path, most in larger.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._allowed(scope)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > most.bytes_:
            await errors.error_response(_too_large(most))(scope, receive, send)
            return
        await self._app(scope, self._counted(receive, most), send)

    def _allowed(self, scope: Scope) -> BodyLimit:
        # Not yet decoded, since an id may hold a slash.
        parts = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").split("/")
        for path, most in self._larger:
            if len(path) == len(parts) and all(
                one in {"*", part} for one, part in zip(path, parts, strict=True)
            ):
                return most
        return self._most

    @staticmethod
    def _counted(receive: Receive, most: BodyLimit) -> Receive:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most.bytes_:
                # FastAPI turns every other exception that reading a body raises into its own 400.
                raise HTTPException(413) from _too_large(most)
            return message

        return counted


def _too_large(most: BodyLimit) -> TooLarge:
    return TooLarge(f"the body has more than {most.bytes_} bytes, which is the limit", remedy=most.remedy)


class RateLimitMiddleware:
    """Holds every owner to so many requests a minute and so many open streams, over all processes."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._most = settings.requests_per_minute
        self._streams = OpenStreams(settings.streams_per_owner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        # What watches the server is never too much, and never waits for storage to count it.
        if scope["type"] == "lifespan" or scope["path"] in PUBLIC_PATHS | outage.EXEMPT_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            count = await self._count(scope)
        except CallsheetError as error:
            await reject(error, scope, receive, send)
            return
        told = _headers(self._most, count) if count else {}
        if count and not count.allowed:
            await reject(rate_limit_error(self._most, count), scope, receive, send, told)
            return
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._stream(scope))
            except CallsheetError as error:
                await reject(error, scope, receive, send, told)
                return
            await self._app(scope, receive, _telling(told, send))

    async def _count(self, scope: Scope) -> RequestCount | None:
        if not self._most:
            return None
        return await rate_limits.count_request(
            _storage(scope), get_caller(scope).owner, uuid.uuid4().hex, self._most
        )

    def _stream(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        if self._streams.most and opens_stream(scope):
            return self._streams.hold(_storage(scope), get_caller(scope).owner)
        return nullcontext()


class OpenStreams:
    """The streams that this process holds open, counted with those of all others.

    Each is counted by a lease that is renewed while it is open, so those of a killed process fall out of the
    count by themselves.
    """

    def __init__(self, most: int, lease_s: float = keys.STREAM_LEASE_S) -> None:
        self.most: Final = most
        self._lease_s = lease_s
        self._open: dict[str, tuple[Storage, str]] = {}
        self._beating: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()

    @asynccontextmanager
    async def hold(self, storage: Storage, owner: str) -> AsyncIterator[None]:
        """Count a stream of the owner's while the `async with` lasts; raises `Limited` if it is too many."""
        stream = uuid.uuid4().hex
        if not await rate_limits.open_stream(storage, owner, stream, self.most, self._lease_s):
            raise Limited(
                f"{self.most} streams are open already",
                remedy="close one; the limit is CALLSHEET_STREAMS_PER_OWNER",
            )
        self._open[stream] = (storage, owner)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            await asyncio.shield(self._close(stream))

    async def _close(self, stream: str) -> None:
        storage, owner = self._open.pop(stream)
        if not self._open and self._beating:
            self._beating.cancel()
            self._beating = None
        try:
            # A renewal under way would count it once more.
            async with self._renewing:
                await rate_limits.close_stream(storage, owner, stream)
        except Unavailable as error:
            _log.warning("a closed stream counts as open until its lease ends: %s", error.message)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            await self._renew()

    async def _renew(self) -> None:
        async with self._renewing:
            # Any of them may be closed meanwhile.
            owned: dict[str, tuple[Storage, list[str]]] = {}
            for stream, (storage, owner) in self._open.items():
                owned.setdefault(owner, (storage, []))[1].append(stream)
            for owner, (storage, streams) in owned.items():
                try:
                    await rate_limits.renew_streams(storage, owner, streams, self._lease_s)
                except Unavailable as error:
                    _log.warning("open streams may stop being counted: %s", error.message)


def opens_stream(scope: Scope) -> bool:
    """Return whether a request asks for events that go on: a path of streams, or by what it accepts."""
    if scope["type"] == "websocket":
        return True
    path = scope["path"].rstrip("/")
    wire = errors.is_langgraph_path(path) and path.endswith(("/stream", "/stream/events"))
    return wire or "text/event-stream" in Headers(scope=scope).get("accept", "")


def _headers(most: int, count: RequestCount) -> dict[str, str]:
    return dict(zip(RATE_HEADERS, (str(most), str(count.left), str(count.all_s)), strict=True))


def rate_limit_error(most: int, count: RequestCount) -> Limited:
    """Return the refusal of one request more than the limit."""
    refusal = Limited(
        f"more than {most} requests in a minute",
        remedy=f"wait {count.next_s} s; the limit is CALLSHEET_REQUESTS_PER_MINUTE",
    )
    refusal.retry_after_s = count.next_s
    return refusal


def _telling(told: Mapping[str, str], send: Send) -> Send:
    async def telling(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in told.items():
                headers[name] = value
        await send(message)

    return telling if told else send


def _storage(scope: Scope) -> Storage:
    found: Storage = scope["app"].state.parts.storage
    return found

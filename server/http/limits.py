"""Limits of body sizes, request rates and open streams."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.engine import process
from callsheet.server.http import errors
from callsheet.server.http.auth import get_caller
from callsheet.server.http.errors import reject
from callsheet.server.http.policy import BodyLimit, OnOutage, Streaming, get_policy
from callsheet.server.http.replies import wants_event_stream
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import CallsheetError, Limited, TooLarge, Unavailable
from callsheet.storage import Storage, rate_limits
from callsheet.storage.rate_limits import RequestCount
from callsheet.storage.redis import caller_keys

RATE_HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
"""Headers: requests per minute, remaining ones, seconds until all remain."""
_log = logging.getLogger(__name__)
_FILES_RETRY_S: Final = 5.0
"""Seconds after which a stream may be asked for again that met too many open files."""
_MIN_BYTES_PER_S: Final = 10_000
"""Pace of a body that takes longer than its time-out."""


class BodyLimitMiddleware:
    """Rejects large bodies by their declared length, or as soon as they exceed the limit; and slow ones.

    The bodies of all requests in progress have a limit, too: they are held until the reply has been sent.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._held = 0
        """Bytes of the bodies of all requests in progress."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = get_policy(scope).body
        most = limit.read_bytes(self._settings)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > most:
            await errors.error_response(_too_large(most, limit.remedy))(scope, receive, send)
            return
        end_s = asyncio.get_running_loop().time() + self._settings.body_timeout_s
        body = _CountedBody(limit, most, end_s)
        try:
            await self._app(scope, self._count_bytes(receive, body), send)
        finally:
            self._held -= body.held

    def _count_bytes(self, receive: Receive, body: "_CountedBody") -> Receive:
        async def receive_limited() -> Message:
            message = await _receive_in_time(receive, body)
            size = len(message.get("body", b""))
            body.received += size
            # FastAPI turns any other exception while reading a body into its own 400.
            if body.received > body.most:
                raise HTTPException(413) from _too_large(body.most, body.limit.remedy)
            if size and not body.limit.spooled:
                body.held, self._held = body.held + size, self._held + size
                if self._held > self._settings.max_held_bytes:
                    raise HTTPException(503) from _too_many_bodies(self._settings.max_held_bytes)
            return message

        return receive_limited


@dataclass
class _CountedBody:
    """Body of a request in progress."""

    limit: BodyLimit
    most: int
    end_s: float
    """Time of the loop until which it arrives, and later with each byte."""
    received: int = 0
    held: int = 0
    """Bytes that are in memory."""
    is_complete: bool = False


async def _receive_in_time(receive: Receive, body: _CountedBody) -> Message:
    end_s = None if body.is_complete else body.end_s + body.received / _MIN_BYTES_PER_S
    try:
        async with asyncio.timeout_at(end_s):
            message = await receive()
    except TimeoutError as error:
        detail = "the body arrives too slowly; the limit is CALLSHEET_BODY_TIMEOUT_S"
        raise HTTPException(408, detail, {"Connection": "close"}) from error
    body.is_complete = not message.get("more_body")
    return message


def _too_many_bodies(most: int) -> Unavailable:
    return Unavailable(
        f"the bodies of the requests in progress have more than {most} bytes",
        remedy="try again in a second, or raise CALLSHEET_MAX_HELD_BYTES",
    )


def _too_large(most: int, remedy: str) -> TooLarge:
    return TooLarge(f"the body has more than {most} bytes", remedy=remedy)


class RateLimitMiddleware:
    """Limits requests per minute and open streams of each owner, over all processes."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._most = settings.requests_per_minute
        self._streams = OpenStreams(settings.streams_per_owner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        # Monitoring is not limited, and never waits for storage.
        if scope["type"] == "lifespan" or get_policy(scope).on_outage is OnOutage.REPORT:
            await self._app(scope, receive, send)
            return
        try:
            count = await self._count(scope)
        except CallsheetError as error:
            await reject(error, scope, receive, send)
            return
        headers = _headers(self._most, count) if count else {}
        if count and not count.allowed:
            await reject(rate_limit_error(self._most, count), scope, receive, send, headers)
            return
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._stream(scope))
            except CallsheetError as error:
                await reject(error, scope, receive, send, headers)
                return
            await self._app(scope, receive, _with_headers(headers, send))

    async def _count(self, scope: Scope) -> RequestCount | None:
        # A public route may have no caller.
        owner = get_caller(scope).owner if self._most else ""
        if not owner:
            return None
        return await rate_limits.count_request(_storage(scope), owner, uuid.uuid4().hex, self._most)

    def _stream(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        if not opens_stream(scope):
            return nullcontext()
        if process.is_short_of_files():
            raise _too_many_files()
        if self._streams.most:
            return self._streams.hold(_storage(scope), get_caller(scope).owner)
        return nullcontext()


def _too_many_files() -> Unavailable:
    refusal = Unavailable(
        "the server has as many open connections and files as it may have",
        remedy="try again later, or at another server; `callsheet doctor` shows the limit (ulimit -n)",
    )
    refusal.retry_after_s = _FILES_RETRY_S
    return refusal


class OpenStreams:
    """Open streams of this process, counted with those of all others.

    Each is a lease that is renewed while the stream is open, so those of a killed process expire.
    """

    def __init__(self, most: int, lease_s: float = caller_keys.STREAM_LEASE_S) -> None:
        self.most: Final = most
        self._lease_s = lease_s
        self._open: dict[str, tuple[Storage, str]] = {}
        self._renewal: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()

    @asynccontextmanager
    async def hold(self, storage: Storage, owner: str) -> AsyncIterator[None]:
        """Count a stream of the owner for the length of the `async with`; raises `Limited` at the limit."""
        stream = uuid.uuid4().hex
        if not await rate_limits.open_stream(storage, owner, stream, self.most, self._lease_s):
            raise Limited(
                f"{self.most} streams are open already",
                remedy="close one; the limit is CALLSHEET_STREAMS_PER_OWNER",
            )
        self._open[stream] = (storage, owner)
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew_periodically())
        try:
            yield
        finally:
            await asyncio.shield(self._close(stream))

    async def _close(self, stream: str) -> None:
        storage, owner = self._open.pop(stream)
        if not self._open and self._renewal:
            self._renewal.cancel()
            self._renewal = None
        try:
            # A concurrent renewal would count it again.
            async with self._renewing:
                await rate_limits.close_stream(storage, owner, stream)
        except Unavailable as error:
            _log.warning("a closed stream counts as open until its lease ends: %s", error.message)

    async def _renew_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            await self._renew()

    async def _renew(self) -> None:
        async with self._renewing:
            # Streams may be closed meanwhile.
            owned: dict[str, tuple[Storage, list[str]]] = {}
            for stream, (storage, owner) in self._open.items():
                owned.setdefault(owner, (storage, []))[1].append(stream)
            for owner, (storage, streams) in owned.items():
                try:
                    await rate_limits.renew_streams(storage, owner, streams, self._lease_s)
                except Unavailable as error:
                    _log.warning("open streams may stop being counted: %s", error.message)


def opens_stream(scope: Scope) -> bool:
    """Return True if a request opens a stream, by the policy of its route."""
    streaming = get_policy(scope).streaming
    if streaming is Streaming.IF_ACCEPTED:
        return wants_event_stream(HTTPConnection(scope))
    return streaming is Streaming.ALWAYS


def _headers(most: int, count: RequestCount) -> dict[str, str]:
    return dict(zip(RATE_HEADERS, (str(most), str(count.remaining), str(count.reset_s)), strict=True))


def rate_limit_error(most: int, count: RequestCount) -> Limited:
    """Return the error for a request over the limit."""
    refusal = Limited(
        f"more than {most} requests in a minute",
        remedy=f"wait {count.retry_after_s} s; the limit is CALLSHEET_REQUESTS_PER_MINUTE",
    )
    refusal.retry_after_s = count.retry_after_s
    return refusal


def _with_headers(extra: Mapping[str, str], send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in extra.items():
                headers[name] = value
        await send(message)

    return send_with_headers if extra else send


def _storage(scope: Scope) -> Storage:
    storage: Storage = scope["app"].state.context.storage
    return storage

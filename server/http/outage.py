"""Requests while storage is away: they get 503 instead of a long wait."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http import errors
from callsheet.server.http.policy import OnOutage, get_policy
from callsheet.state.errors import CallsheetError, StorageDown, StorageSilent
from callsheet.storage.redis.connection import Storage, connection_error, is_loading, read_info

_CHECKS: Final = 20
"""Checks for an answer within the patience."""
_CONNECT_S: Final = 0.1
"""Seconds for a connection that shows whether storage refuses it."""


async def outage_reason(storage: Storage, patience_s: float, remedy: str) -> CallsheetError:
    """Return why storage gave no answer in time: it refuses connections, or it is silent."""
    if refusal := await connection_error(storage.redis, _CONNECT_S):
        return refusal
    if await is_loading(storage.redis, _CONNECT_S):
        rule = f"{storage.origin} is loading its data"
        return StorageDown(rule, remedy="Wait: it answers once it has read its file.")
    seconds = max(_CONNECT_S, round(patience_s, 1))
    return StorageSilent(f"{storage.origin} did not answer within {seconds:g} s", remedy=remedy)


class StorageProbe:
    """Probes storage; concurrent callers share one probe."""

    def __init__(self, storage: Storage, patience_s: float) -> None:
        self._storage = storage
        self._patience_s = patience_s
        self._probe: asyncio.Task[CallsheetError | None] | None = None

    async def unavailable_reason(self) -> CallsheetError | None:
        """Return the outage as an error, or None; at the latest after the patience.

        It takes longer in a process too busy to read the answer, which is no outage.
        """
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_storage())
        return await asyncio.shield(self._probe)

    async def _probe_storage(self) -> CallsheetError | None:
        answer = asyncio.create_task(self._check_writes())
        for _ in range(_CHECKS):
            # Each check counts once, however late; an answer that has arrived by then is read first.
            await asyncio.wait((answer,), timeout=self._patience_s / _CHECKS)
            if answer.done():
                return answer.result()
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        return await outage_reason(self._storage, self._patience_s, "try again; GET /health says more")

    async def _check_writes(self) -> CallsheetError | None:
        """Return the error of a storage that does not answer, is a replica, or cannot write to its disk."""
        try:
            info = await read_info(self._storage)
        except StorageDown as error:
            return error
        if info["role"] != "master":
            rule = f"{self._storage.origin} is a replica and takes no writes"
            return StorageDown(rule, remedy="point REDIS_URL to the primary")
        if info.get("aof_last_write_status", "ok") != "ok":
            rule = f"{self._storage.origin} cannot write to its disk"
            return StorageDown(rule, remedy="free some space; its log has the reason")
        return None


class StorageOutageMiddleware:
    """Answers 503 if a request waits while storage is away; a request that is only slow goes on."""

    def __init__(self, app: ASGIApp, probe: Callable[[], StorageProbe], patience_s: float) -> None:
        self._app = app
        self._probe = probe
        self._pause_s = patience_s / 3
        self._abandoned: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and watch it until its reply has started."""
        if scope["type"] != "http" or get_policy(scope).on_outage is OnOutage.REPORT:
            await self._app(scope, receive, send)
            return
        reply = _Reply(send)
        work = asyncio.ensure_future(self._app(scope, receive, reply.send))
        try:
            if error := await self._outage(work, reply):
                reply.close()
                self._abandon(work)
                await errors.error_response(error)(scope, receive, send)
            else:
                await work
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    async def _outage(self, work: asyncio.Task[None], reply: "_Reply") -> CallsheetError | None:
        while True:
            await asyncio.wait((work,), timeout=self._pause_s)
            if work.done() or reply.started:
                return None
            error = await self._probe().unavailable_reason()
            if error and not (work.done() or reply.started):
                return error

    def _abandon(self, work: asyncio.Task[None]) -> None:
        """Cancel a request; it may end only when storage answers again."""
        self._abandoned.add(work)
        work.add_done_callback(self._forget)
        work.cancel()

    def _forget(self, work: asyncio.Task[None]) -> None:
        self._abandoned.discard(work)
        # Read the error, so that asyncio does not report it as unhandled.
        _ = work.cancelled() or work.exception()


class _Reply:
    """A send function that knows whether the reply has started, and can be closed."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._closed = False
        self.started = False

    def close(self) -> None:
        self._closed = True

    async def send(self, message: Message) -> None:
        if not self._closed:
            self.started = True
            await self._send(message)

"""What callers are told while storage is away: 503 at once instead of a wait, whatever they asked for."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http import errors
from callsheet.state.errors import CallsheetError, StorageDown, StorageSilent
from callsheet.storage.redis.connection import Storage

EXEMPT_PATHS: Final = frozenset({"/ok", "/health", "/metrics"})
"""Paths that answer for themselves, so that what watches the server learns what is wrong."""
_LOOKS: Final = 20
"""How often one looks for an answer of storage before it counts as silent."""


class StorageProbe:
    """Knows whether storage answers; any number of askers share one question."""

    def __init__(self, storage: Storage, patience_s: float) -> None:
        self._storage = storage
        self._patience_s = patience_s
        self._asked: asyncio.Task[CallsheetError | None] | None = None

    async def unavailable_reason(self) -> CallsheetError | None:
        """Return why storage cannot be used, or None; not later than after the patience.

        A process that is too busy to hear the answer takes longer, for that is not the fault of storage.
        """
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked)

    async def _ask(self) -> CallsheetError | None:
        answer = asyncio.create_task(self._answer())
        for _ in range(_LOOKS):
            # Each counts once, however late it comes; whatever has arrived by then is heard before the next.
            await asyncio.wait((answer,), timeout=self._patience_s / _LOOKS)
            if answer.done():
                return answer.result()
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        rule = f"{self._storage.origin} gave no answer within {self._patience_s:g} s"
        return StorageSilent(rule, remedy="try again; if it stays so, see GET /health")

    async def _answer(self) -> CallsheetError | None:
        try:
            await self._storage.redis.ping()
        except StorageDown as error:
            return error
        return None


class StorageOutageMiddleware:
    """Answers 503 where a request waits for storage that is away; one that only takes long goes on."""

    def __init__(self, app: ASGIApp, watch: Callable[[], StorageProbe | None], patience_s: float) -> None:
        """`watch` returns None until storage was reached for the first time."""
        self._app = app
        self._watch = watch
        self._pause_s = patience_s / 3
        self._left: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and stay with it until its reply has begun."""
        if scope["type"] != "http" or scope["path"] in EXEMPT_PATHS:
            await self._app(scope, receive, send)
            return
        reply = _Reply(send)
        work = asyncio.create_task(self._served(scope, receive, reply))
        try:
            if error := await self._trouble(work, reply):
                reply.close()
                self._leave(work)
                await errors.error_response(error)(scope, receive, send)
            else:
                await work
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    async def _served(self, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        await self._app(scope, receive, reply.send)

    async def _trouble(self, work: asyncio.Task[None], reply: "_Reply") -> CallsheetError | None:
        while True:
            await asyncio.wait((work,), timeout=self._pause_s)
            watch = self._watch()
            if work.done() or reply.begun or watch is None:
                return None
            error = await watch.unavailable_reason()
            if error and not (work.done() or reply.begun):
                return error

    def _leave(self, work: asyncio.Task[None]) -> None:
        """Let what cannot be finished end by itself, which may take until storage answers again."""
        self._left.add(work)
        work.add_done_callback(self._forget)
        work.cancel()

    def _forget(self, work: asyncio.Task[None]) -> None:
        self._left.discard(work)
        # Read, so that nobody complains of an error that the caller was told in other words.
        _ = work.cancelled() or work.exception()


class _Reply:
    """A way to the caller that knows whether the reply has begun, and can be shut."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._closed = False
        self.begun = False

    def close(self) -> None:
        self._closed = True

    async def send(self, message: Message) -> None:
        if not self._closed:
            self.begun = True
            await self._send(message)

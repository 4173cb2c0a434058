"""What is said and heard over a connection that redis-py has opened: commands out, as many replies in.

redis-py finds the server, connects, greets and closes. In between a `Line` writes to the transport itself and
has hiredis read what comes, without the streams and layers that redis-py would put around each reply.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from hiredis import PushNotification, Reader
from redis.asyncio.connection import AbstractConnection, DefaultParser
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import InvalidResponse, ReadOnlyError, RedisError

_MORE: Final = object()
"""Stands for a reply that is not here yet."""


class Line(asyncio.Protocol):
    """The two ends of one connection's transport, until it is lost. One question at a time."""

    def __init__(self, connection: AbstractConnection) -> None:
        # redis-py has no public name for what it writes to.
        writer: Any = connection._writer  # noqa: SLF001
        self._transport = writer.transport
        self._streams = self._transport.get_protocol()
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(protocolError=InvalidResponse, replyError=self._error, notEnoughData=_MORE)
        self._answer: asyncio.Future[list[Any]] = self._loop.create_future()
        self._answer.cancel()
        self._heard: list[Any] = []
        self._wanted = 0
        self._due_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        """One for many questions, which come much faster than a timer is worth."""
        self._trouble: RedisError | None = None
        self.lost = False
        """Whether nothing can be said here any more."""
        self._transport.set_protocol(self)

    async def ask(self, commands: Sequence[bytes], due_s: float) -> list[Any]:
        """Return a reply for each command; an error of the command itself takes its place.

        Raises `redis.ConnectionError` for a connection that is lost or leads to the wrong server, and
        `TimeoutError` at `due_s` of the loop's clock. Whatever it raises, the line is lost.
        """
        self._heard, self._wanted, self._due_s = [], len(commands), due_s
        self._answer = self._loop.create_future()
        if not self._watch:
            self._watch = self._loop.call_at(due_s, self._look)
        try:
            self._transport.write(b"".join(commands))
            return await self._answer
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Say and hear nothing more."""
        self.lost = True
        self._transport.abort()

    def _look(self) -> None:
        """Give up what is overdue, and look again when what is under way will be."""
        self._watch = None
        if self._answer.done():
            return
        if self._due_s <= self._loop.time():
            self._fail(TimeoutError("no answer"))
        else:
            self._watch = self._loop.call_at(self._due_s, self._look)

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._reader.feed(data)
        try:
            # Greeted in its newer protocol, a server tells other things in between.
            self._heard += [
                one for one in iter(self._reader.gets, _MORE) if type(one) is not PushNotification
            ]
        except InvalidResponse as error:
            self._fail(error)
        if self._answer.done():
            # What nobody has asked for would be taken for the answer to the next question.
            if self._heard:
                self.drop()
        elif self._trouble:
            self._fail(self._trouble)
        elif len(self._heard) >= self._wanted:
            heard, self._heard = self._heard, []
            self._answer.set_result(heard)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is waited for, and let redis-py know, which waits for this when it closes."""
        self.lost = True
        if self._watch:
            self._watch.cancel()
        self._streams.connection_lost(exc)
        self._fail(self._trouble or Lost(str(exc or "Connection closed by server.")))

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)

    def _error(self, text: str) -> Exception:
        """Return redis-py's error for a reply; note one that another connection may not meet."""
        error: Exception = DefaultParser.parse_error(text)  # type: ignore[no-untyped-call]  # redis-py's
        if isinstance(error, Lost):
            self._trouble = error
        elif isinstance(error, ReadOnlyError):
            # The server was replaced by another, which the next connection finds.
            self._trouble = Lost(str(error))
        return error

"""Batching of round trips: the calls of one moment leave together, over few connections.

redis-py finds the server, connects, greets and closes. In between a `Line` writes to the transport itself and
has hiredis read what comes, without the streams and layers that redis-py would put around each reply.

A lane is a connection that carries one batch at a time. Calls made while it is under way leave with the next
batch; only for a crowd, or when it stays away for long, does another lane open. So any number of callers
share a few connections, and there is no pool to run out.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final, cast

from hiredis import PushNotification, Reader, pack_command
from redis.asyncio.connection import AbstractConnection, DefaultParser
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import InvalidResponse, NoScriptError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from callsheet.storage.redis.command_policy import CommandPolicy
from callsheet.storage.redis.scripts import Argument, Command, ScriptCall

_MORE: Final = object()
"""Stands for a reply that is not here yet."""


class RawConnection(asyncio.Protocol):
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

    async def send(self, commands: Sequence[bytes], due_s: float) -> list[Any]:
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
            self.abort()
            raise

    def abort(self) -> None:
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
                self.abort()
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


MAX_CONNECTIONS: Final = 2
"""Connections per event loop: one may be busy with a long history while the other serves the rest."""

_CROWD: Final = 8
"""How many callers need not wait for a lane to come back: server and callers then work at the same time."""
_END_S: Final = 2.0
"""How long what is under way may take once the connections are to be closed."""
_LONG_S: Final = 0.005
"""How long calls wait for a lane to come back before another is opened."""

_RETRY: Final = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.01), 10)
"""For clients that were made without a way to try again, as from_url and Sentinel make them."""

_packed: Final = cast("Callable[[Sequence[Argument]], bytes]", pack_command)
"""A command as it is sent; hiredis' stub says that commands have one word."""

FSYNC_MS: Final = 10_000
"""How long a reply may be held back until its effect is on disk."""


class _Batch:
    """What is asked in one round trip, and where the replies are awaited."""

    __slots__ = ("asked", "packed", "replies", "since_s")

    def __init__(
        self, asked: Sequence[ScriptCall | Command], loop: asyncio.AbstractEventLoop, *, known: bool = True
    ) -> None:
        """`known` is whether the server has seen the scripts."""
        self.asked = asked
        # Here, so that what cannot be sent is its caller's trouble and nobody else's. redis-py's asyncio
        # connections pack in Python, which takes six times as long.
        self.packed = [_packed(one.by_name() if known else one.in_full()) for one in asked]
        self.since_s = loop.time()
        self.replies: asyncio.Future[list[Any]] = loop.create_future()

    @property
    def durable(self) -> bool:
        """Whether a reply may be held back until the effect is on disk."""
        return any(one.durable for one in self.asked)

    def end(self, replies: list[Any]) -> None:
        """Hand the replies over, or the one error that took all of them, to whoever still waits."""
        if not self.replies.done():
            self.replies.set_result(replies)


class _Connection:
    """A connection, and the line over it while it stands."""

    def __init__(self, connection: AbstractConnection) -> None:
        self.connection = connection
        self.line: RawConnection | None = None
        self.task: asyncio.Task[None] | None = None
        """What carries something over it now."""

    async def opened(self) -> RawConnection:
        """Connect anew."""
        await self.close()
        await self.connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
        self.line = RawConnection(self.connection)
        return self.line

    async def close(self) -> None:
        """Close the connection. Twice is safe."""
        self.line = None
        await self.connection.disconnect()


class Batcher:
    """The lanes of one event loop to one server."""

    def __init__(
        self, connection: Callable[[], AbstractConnection], bounds: CommandPolicy, *, wait_aof: bool = False
    ) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self._connection = connection
        self._bounds = bounds
        self._wait_aof = wait_aof
        self._queue: list[_Batch] = []
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._relief: asyncio.TimerHandle | None = None

    async def execute_batch(self, calls: Sequence[ScriptCall | Command], *, known: bool = True) -> list[Any]:
        """The replies to the calls, which run in this order. Raises the first that is an error.

        `known` is whether the server has seen the scripts.
        """
        trip = _Batch(calls, self.loop, known=known)
        self._queue.append(trip)
        if not self._busy or (len(self._queue) >= _CROWD and len(self._busy) < MAX_CONNECTIONS):
            self._start()
        elif not self._relief:
            self._relieve_at(trip.since_s + _LONG_S)
        replies = await trip.replies
        kinds = [*map(type, replies)]
        if known and NoScriptError in kinds:
            # From there on again, so that the order holds; a script that did run is safe to run twice.
            unknown = kinds.index(NoScriptError)
            replies[unknown:] = await self.execute_batch(calls[unknown:], known=False)
        for reply in replies:
            if isinstance(reply, Exception):
                await self._bounds.run(partial(_raise, reply))
        return replies

    async def aclose(self) -> None:
        """Let what is under way end, or break it off where the server is silent; close the connections."""
        if under_way := [lane.task for lane in self._busy if lane.task]:
            _, late = await asyncio.wait(under_way, timeout=_END_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._relief:
            self._relief.cancel()
            self._relief = None
        idle, self._idle = self._idle, []
        for lane in idle:
            await lane.close()

    def _start(self) -> None:
        lane = self._idle.pop() if self._idle else _Connection(self._connection())
        # The task begins after whatever else is ready now, so the calls of this moment share its first batch.
        lane.task = self.loop.create_task(self._run(lane))
        self._busy.add(lane)

    def _relieve_at(self, time_s: float) -> None:
        self._relief = self.loop.call_at(time_s, self._relieve)

    def _relieve(self) -> None:
        """Open another lane if calls have waited for long, and look again when they may have."""
        self._relief = None
        if not self._queue or len(self._busy) >= MAX_CONNECTIONS:
            return
        due_s = self._queue[0].since_s + _LONG_S
        if due_s <= self.loop.time():
            self._start()
        else:
            self._relieve_at(due_s)

    async def _run(self, lane: _Connection) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._carry(lane, batch)
        finally:
            # At once, for the next call looks here: a callback of the task would come too late.
            self._idle.append(lane)
            self._busy.discard(lane)

    async def _carry(self, lane: _Connection, batch: Sequence[_Batch]) -> None:
        try:
            replies = await self._told(lane, batch)
        except asyncio.CancelledError:
            for trip in batch:
                trip.replies.cancel()
            raise
        except (RedisError, OSError) as error:
            await lane.close()
            # Whatever has queued up meanwhile would wait as long for the same.
            batch = [*batch, *self._queue]
            self._queue.clear()
            replies = [[error]] * len(batch)
        for trip, answers in zip(batch, replies, strict=True):
            trip.end(answers)

    async def _told(self, lane: _Connection, batch: Sequence[_Batch]) -> list[list[Any]]:
        """The replies by trip, whatever it takes, as long as there is patience."""
        due_s = self.loop.time() + self._bounds.patience_s
        failed = []
        if lane.line and not lane.line.lost:
            try:
                return await self._exchange(lane.line, batch, due_s)
            except RedisError as error:
                failed.append(error)
        async with asyncio.timeout_at(due_s):
            return await self._again(lane, batch, due_s, failed)

    async def _again(
        self, lane: _Connection, batch: Sequence[_Batch], due_s: float, failed: list[RedisError]
    ) -> list[list[Any]]:
        """The replies by trip, of a new attempt, or of one after that which `failed`."""

        async def attempt() -> list[list[Any]]:
            if failed:
                raise failed.pop()
            return await self._exchange(await lane.opened(), batch, due_s)

        tries = lane.connection.retry
        retry = tries if tries.get_retries() else _RETRY
        return await retry.call_with_retry(attempt, lambda _: lane.close())

    async def _exchange(self, line: RawConnection, batch: Sequence[_Batch], due_s: float) -> list[list[Any]]:
        """The replies by trip."""
        commands = [*chain(*[trip.packed for trip in batch])]
        waits = self._wait_aof and any(trip.durable for trip in batch)
        if waits:
            commands.append(_WAIT_AOF)
        left = iter(await line.send(commands, due_s))
        replies = [[*islice(left, len(trip.packed))] for trip in batch]
        failed = _unsynced(next(left)) if waits else None
        if failed:
            return [
                [failed] * len(answers) if trip.durable else answers
                for trip, answers in zip(batch, replies, strict=True)
            ]
        return replies


async def _raise(error: Exception) -> list[Any]:
    raise error


def _unsynced(reply: Any) -> Exception | None:
    """What is wrong with the answer to the command that waits for the disk."""
    if isinstance(reply, list) and reply[0] < 1:
        return RedisTimeoutError(f"nothing reached the disk within {FSYNC_MS} ms")
    return reply if isinstance(reply, Exception) else None


_WAIT_AOF: Final = _packed(("WAITAOF", 1, 0, FSYNC_MS))

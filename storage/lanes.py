"""How round trips reach one server: the calls of one moment leave together, over few connections.

A lane is a connection that carries one batch at a time. Calls made while it is under way leave with the next
batch; only for a crowd, or when it stays away for long, does another lane open. So any number of callers
share a few connections, and there is no pool to run out.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any, Final, cast

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from storage.bounds import Bounds
from storage.scripts import Asked, Command, Word

LANES: Final = 2
"""Connections per event loop: one may be busy with a long history while the other serves the rest."""

_CROWD: Final = 8
"""How many callers need not wait for a lane to come back: server and callers then work at the same time."""
_END_S: Final = 2.0
"""How long what is under way may take once the connections are to be closed."""
_LONG_S: Final = 0.005
"""How long calls wait for a lane to come back before another is opened."""

_RETRY: Final = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.01), 10)
"""For clients that were made without a way to try again, as from_url and Sentinel make them."""

_packed: Final = cast("Callable[[Sequence[Word]], bytes]", pack_command)
"""A command as it is sent; hiredis' stub says that commands have one word."""

FSYNC_MS: Final = 10_000
"""How long a reply may be held back until its effect is on disk."""


class _Trip:
    """What is asked in one round trip, and where the replies are awaited."""

    __slots__ = ("asked", "packed", "replies", "since_s")

    def __init__(self, asked: Sequence[Asked | Command]) -> None:
        loop = asyncio.get_running_loop()
        self.asked = asked
        # Here, so that what cannot be sent is its caller's trouble and nobody else's. redis-py's asyncio
        # connections pack in Python, which takes six times as long.
        self.packed = [_packed(one.by_name()) for one in asked]
        self.since_s = loop.time()
        self.replies: asyncio.Future[list[Any]] = loop.create_future()

    @property
    def durable(self) -> bool:
        """Whether a reply may be held back until the effect is on disk."""
        return any(one.durable for one in self.asked)

    def end(self, replies: list[Any]) -> None:
        """Hand the replies over, or the first of them that is an error, to whoever still waits."""
        if self.replies.done():
            return
        for reply in replies:
            if isinstance(reply, Exception):
                self.replies.set_exception(reply)
                return
        self.replies.set_result(replies)


class Lanes:
    """The lanes of one event loop to one server."""

    def __init__(
        self, connection: Callable[[], AbstractConnection], bounds: Bounds, *, wait_aof: bool = False
    ) -> None:
        self._connection = connection
        self._bounds = bounds
        self._wait_aof = wait_aof
        self._queue: list[_Trip] = []
        self._idle: list[AbstractConnection] = []
        self._busy: set[asyncio.Task[None]] = set()
        self._relief: asyncio.TimerHandle | None = None

    async def trip(self, calls: Sequence[Asked | Command]) -> list[Any]:
        """The replies to the calls, which run in this order. Raises the first that is an error."""
        trip = _Trip(calls)
        self._queue.append(trip)
        if not self._busy or (len(self._queue) >= _CROWD and len(self._busy) < LANES):
            self._start()
        elif not self._relief:
            self._relieve_at(trip.since_s + _LONG_S)
        try:
            return await trip.replies
        except (RedisError, OSError) as error:
            return await self._bounds.run(partial(_raise, error))

    async def aclose(self) -> None:
        """Let what is under way end, or break it off where the server is silent; close the connections."""
        if self._busy:
            _, late = await asyncio.wait(self._busy, timeout=_END_S)
            for lane in late:
                lane.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._relief:
            self._relief.cancel()
            self._relief = None
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect()

    def _start(self) -> None:
        connection = self._idle.pop() if self._idle else self._connection()
        # The task begins after whatever else is ready now, so the calls of this moment share its first batch.
        lane = asyncio.get_running_loop().create_task(self._run(connection))
        self._busy.add(lane)

    def _relieve_at(self, time_s: float) -> None:
        self._relief = asyncio.get_running_loop().call_at(time_s, self._relieve)

    def _relieve(self) -> None:
        """Open another lane if calls have waited for long, and look again when they may have."""
        self._relief = None
        if not self._queue or len(self._busy) >= LANES:
            return
        due_s = self._queue[0].since_s + _LONG_S
        if due_s <= asyncio.get_running_loop().time():
            self._start()
        else:
            self._relieve_at(due_s)

    async def _run(self, connection: AbstractConnection) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._carry(connection, batch)
        finally:
            self._idle.append(connection)
            # At once, for the next call looks here: a callback of the task would come too late.
            self._busy.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _carry(self, connection: AbstractConnection, batch: Sequence[_Trip]) -> None:
        try:
            async with asyncio.timeout(self._bounds.patience_s):
                try:
                    replies = await self._exchange(connection, batch)
                except (RedisError, OSError) as error:
                    replies = await self._again(connection, batch, error)
        except asyncio.CancelledError:
            for trip in batch:
                trip.replies.cancel()
            raise
        except (RedisError, OSError) as error:
            await connection.disconnect()
            # Whatever has queued up meanwhile would wait as long for the same.
            batch = [*batch, *self._queue]
            self._queue.clear()
            replies = [[error]] * len(batch)
        for trip, answers in zip(batch, replies, strict=True):
            trip.end(answers)

    async def _again(
        self, connection: AbstractConnection, batch: Sequence[_Trip], error: Exception
    ) -> list[list[Any]]:
        """The replies by trip, of an attempt after the first, which ended with `error`."""
        failed = [error]

        async def attempt() -> list[list[Any]]:
            if failed:
                raise failed.pop()
            return await self._exchange(connection, batch)

        retry = connection.retry if connection.retry.get_retries() else _RETRY
        return await retry.call_with_retry(attempt, lambda _: connection.disconnect())

    async def _exchange(self, connection: AbstractConnection, batch: Sequence[_Trip]) -> list[list[Any]]:
        """The replies by trip."""
        replies = await self._sent(connection, [trip.packed for trip in batch], batch)
        for trip, answers in zip(batch, replies, strict=True):
            kinds = [*map(type, answers)]
            if NoScriptError in kinds:
                # From there on again, so that the order holds; a script that did run is safe to run twice.
                unknown = kinds.index(NoScriptError)
                again = [_packed(one.in_full()) for one in trip.asked[unknown:]]
                answers[unknown:] = (await self._sent(connection, [again], [trip]))[0]
        return replies

    async def _sent(
        self, connection: AbstractConnection, packed: Sequence[list[bytes]], batch: Sequence[_Trip]
    ) -> list[list[Any]]:
        commands = [*chain.from_iterable(packed)]
        waits = self._wait_aof and any(trip.durable for trip in batch)
        flat = await _pipelined(connection, [*commands, _WAIT_AOF] if waits else commands)
        ends = list(accumulate(len(trip) for trip in packed))
        replies = [flat[end - len(trip) : end] for trip, end in zip(packed, ends, strict=True)]
        failed = _unsynced(flat[-1]) if waits else None
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


async def _pipelined(connection: AbstractConnection, packed: Sequence[bytes]) -> list[Any]:
    """A reply for each command; an error of the command itself takes its place."""
    if not connection.is_connected:
        await connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
    await connection.send_packed_command(b"".join(packed))
    replies: list[Any] = []
    for _ in packed:
        try:
            replies.append(await connection.read_response())
        except ResponseError as error:
            replies.append(error)
    return replies

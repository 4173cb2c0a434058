"""Batching of round trips: concurrent calls share one round trip, over few connections, within limits.

redis-py resolves the address, connects, authenticates, writes, parses and closes; only public methods of its
connections are used. All commands of a moment are written at once, and their replies read one by one.

A connection carries one batch at a time. Calls made meanwhile leave with the next batch; a second connection
opens only when many calls wait, or when the first is slow. So any number of callers share a few connections
and no pool can run out.

The policy of a client limits every command: concurrency, timeout, and errors translated into our own. For a
transport that it closed before its reader noticed, uvloop raises `RuntimeError` where asyncio raises
`OSError`; redis-py would neither reconnect nor send the command again, so every loss becomes
`redis.ConnectionError`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from itertools import chain, islice
from typing import Any, Final, NoReturn, TypeVar, cast

from hiredis import pack_command
from redis import exceptions
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from callsheet.state.errors import (
    Broken,
    CallsheetError,
    Refused,
    StorageDown,
    StorageFull,
    StorageRefused,
    StorageSilent,
)
from callsheet.state.unicode import utf8_safe
from callsheet.storage.redis.scripts import Argument, Command, ScriptCall

_CLOSED: Final = "the handler is closed"
"""Part of uvloop's message about a transport that is closed."""


def is_lost_connection(error: RuntimeError) -> bool:
    """Return whether uvloop reports a lost connection, and no bug."""
    return _CLOSED in str(error)


class _Translating(AbstractConnection):
    """A connection whose losses are all `redis.ConnectionError`, so that redis-py reconnects."""

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as error:
            _raise_if_lost(error)
            raise

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except RuntimeError as error:
            _raise_if_lost(error)
            raise

    async def can_read(self, *args: Any, **options: Any) -> bool:
        try:
            return await super().can_read(*args, **options)
        except RuntimeError as error:
            _raise_if_lost(error)
            raise


def _raise_if_lost(error: RuntimeError) -> None:
    if is_lost_connection(error):
        raise RedisConnectionError(f"the connection was lost: {error}") from error


def translating(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return the class of such connections of this kind, be it TCP, TLS or a unix socket."""
    return kind if issubclass(kind, _Translating) else type(kind.__name__, (_Translating, kind), {})


TIMEOUT_S: Final = 30.0
"""Default timeout of a command, including its wait for a slot and its retries."""
DELETE_THREADS: Final = "delete threads that you no longer need; what is not exported before is lost."
"""Advice for a full memory."""
_UNAVAILABLE: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.RedisClusterException,
)
_SERVER_STATE: Final = re.compile(
    r"(?:Error running script.*-)?(?:OOM|MISCONF|READONLY|NOREPLICAS|LOADING|BUSY|MASTERDOWN|CLUSTERDOWN)\b",
    re.DOTALL,
)
"""Error replies about the server's state, not the command; older servers wrap them if a script failed."""

_FULL: Final = re.compile(r"(?:Error running script.*-)?(?:OOM|MISCONF)\b", re.DOTALL)
"""Replies to a write that memory or disk have no room for."""
_FULL_RETRY_S: Final = 0.2
"""Seconds between two attempts at a write that waits for room."""

_LACKS_RIGHT: Final = re.compile(
    r"NOPERM|no permissions|ACL failure in script|can't run this command or subcommand"
)
"""Replies to a user without the right to a command, key or channel; some versions name none in a script."""
_COMMAND: Final = re.compile(r"run the '([\w|-]+)' command")

T = TypeVar("T")
_WAITS: Final[ContextVar[bool]] = ContextVar("callsheet_waits_for_room", default=False)


@contextmanager
def waiting_for_room(*, waits: bool = True) -> Iterator[None]:
    """Let the block's writes wait while memory or disk are full, instead of raising `StorageFull`.

    A run in progress waits, since its effects would happen again in another attempt. Its time limit and its
    cancellation still apply.
    """
    token = _WAITS.set(waits)
    try:
        yield
    finally:
        _WAITS.reset(token)


class CommandPolicy:
    """The limits on the commands of one client."""

    def __init__(self, origin: str, remedy: str, max_concurrent: int, timeout_s: float) -> None:
        self.origin: Final = origin
        self.max_concurrent: Final = max_concurrent
        self.timeout_s: Final = timeout_s
        self._remedy: Final = remedy
        self._slots = asyncio.Semaphore(max_concurrent)

    def copy(self) -> "CommandPolicy":
        """Return the same limits with separate slots."""
        return CommandPolicy(self.origin, self._remedy, self.max_concurrent, self.timeout_s)

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`; raise its failures as `StorageDown` or a kind of it.

        An error reply about the command itself (no such script, wrong type) stays redis-py's error.
        """
        while True:
            try:
                return await self._run_once(call)
            except StorageFull:
                if not _WAITS.get():
                    raise
            await asyncio.sleep(_FULL_RETRY_S)

    def raise_error(self, error: Exception) -> NoReturn:
        """Raise an error reply, translated as `run` does."""
        if isinstance(error, TimeoutError):
            rule = f"{self.origin} gave no answer within {self.timeout_s:g} s"
            raise StorageSilent(rule, remedy=self._remedy) from error
        if translated := self._translate(error):
            raise translated from error
        raise error

    async def _run_once(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self.timeout_s), self._slots:
                return await call()
        except (TimeoutError, exceptions.RedisError, exceptions.RedisClusterException) as error:
            self.raise_error(error)

    def _refusal(self, error: Exception) -> StorageRefused:
        if isinstance(error, exceptions.InvalidResponse):
            return StorageRefused(
                f"{self.origin} is no Redis, or expects TLS: its answer is not in Redis' protocol",
                remedy="Correct REDIS_URL; for a server with TLS it begins with rediss://.",
            )
        if _LACKS_RIGHT.search(str(error)):
            return StorageRefused(
                f"{self.origin} refuses a command: {error}", remedy=_right_remedy(str(error))
            )
        remedy = "Correct REDIS_URL."
        if isinstance(error, exceptions.AuthenticationError):
            remedy = (
                "Write the password into REDIS_URL: redis://user:password@host:port, or redis://:password@…"
            )
        return StorageRefused(f"{self.origin} refuses the connection: {error}", remedy=remedy)

    def _translate(self, error: Exception) -> CallsheetError | None:
        """Return our error for the failure; None if it is a reply about the command."""
        match root := _root_cause(error):
            case CallsheetError():
                return root
            case _ if _is_out_of_memory(root):
                return StorageFull(
                    f"{self.origin} is out of memory", remedy=f"Raise its maxmemory, or {DELETE_THREADS}"
                )
            case exceptions.ResponseError() if _FULL.match(str(root)):
                return StorageFull(
                    f"{self.origin} cannot write to its disk: {root}", remedy="Free some space."
                )
            case _ if _is_refusal(root) or (root is not error and isinstance(root, exceptions.ResponseError)):
                return self._refusal(root)
            case _ if isinstance(root, _UNAVAILABLE) or _SERVER_STATE.match(str(root)):
                return StorageDown(f"{self.origin} cannot be used: {root}", remedy=self._remedy)
        return None


def _right_remedy(reply: str) -> str:
    """Return how to give the user the right that a reply says it lacks."""
    if command := _COMMAND.search(reply):
        right = f"+{command[1]}"
    elif kind := re.search(r"access (?:a|one of the) (key|channel)", reply):
        right = "~* (all keys)" if kind[1] == "key" else "&* (all channels)"
    else:
        right = "the commands that docs/operations.md lists"
    return f"Give the user in REDIS_URL this right with ACL SETUSER: {right}."


def _root_cause(error: Exception) -> Exception:
    """Return the error itself, or the one that redis-py wrapped while connecting."""
    cause = error.__cause__
    return cause if isinstance(cause, CallsheetError | exceptions.RedisError) else error


def _is_refusal(error: Exception) -> bool:
    """Return whether the server refuses this user, so that retrying is useless."""
    if isinstance(error, exceptions.RedisClusterException):
        # The cluster client keeps only the text of the cause.
        return any(sign in str(error) for sign in ("AuthenticationError", "Cluster mode is not enabled"))
    return isinstance(
        error,
        exceptions.AuthenticationError
        | exceptions.AuthenticationWrongNumberOfArgsError
        | exceptions.AuthorizationError
        | exceptions.NoPermissionError
        | exceptions.InvalidResponse,
    ) or (isinstance(error, exceptions.ResponseError) and _LACKS_RIGHT.search(str(error)) is not None)


def is_full(error: Exception) -> bool:
    """Return whether memory or disk have no room for a write."""
    return _is_out_of_memory(error) or (
        isinstance(error, exceptions.ResponseError) and _FULL.match(str(error)) is not None
    )


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory is full; redis-py drops the reply's first word, unless it is wrapped."""
    full = _FULL.match(str(error))
    return isinstance(error, exceptions.OutOfMemoryError) or (full is not None and full[0].endswith("OOM"))


def can_retry(error: Exception) -> bool:
    """Return whether a retry may succeed."""
    root = _root_cause(error)
    return not _is_refusal(root) and not isinstance(root, Refused | Broken)


MAX_CONNECTIONS: Final = 2
"""Connections per event loop: one may be busy with a long history while the other serves the rest."""

_OPTIONS: Final = {"socket_timeout": None, "health_check_interval": 0}
"""For the connections: the batcher limits the time of a batch, and sees whether its connection was lost."""

_MANY_WAITING: Final = 8
"""Waiting requests that open a second connection at once, so that server and clients work in parallel."""
_MAX_WAIT_S: Final = 0.005
"""Time that a request waits for a busy connection before a second one opens."""
_CLOSE_TIMEOUT_S: Final = 2.0
"""Time for batches in flight to finish when the connections are closed."""

_RETRY: Final = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.01), 10)
"""For connections created without retries, as from_url and Sentinel do."""

_pack_utf8: Final = cast("Callable[[Sequence[Argument]], bytes]", pack_command)
"""hiredis' type stub allows only commands of one word."""

FSYNC_MS: Final = 10_000
"""Longest wait for a write to reach the disk."""


def _pack(words: Sequence[Argument]) -> bytes:
    """Return a command as bytes; half of a surrogate pair is U+FFFD, so that no text fails a write."""
    try:
        return _pack_utf8(words)
    except UnicodeEncodeError:
        return _pack_utf8(tuple(utf8_safe(word) if isinstance(word, str) else word for word in words))


class _Request:
    """The calls of one caller, packed, and the future of their replies."""

    __slots__ = ("calls", "created_s", "packed", "replies")

    def __init__(
        self, calls: Sequence[ScriptCall | Command], loop: asyncio.AbstractEventLoop, *, scripts_loaded: bool
    ) -> None:
        self.calls = calls
        # Packed here, so that an invalid argument fails its own caller only. redis-py's asyncio connections
        # pack in Python, which takes six times as long.
        self.packed = [_pack(each.evalsha_args() if scripts_loaded else each.eval_args()) for each in calls]
        self.created_s = loop.time()
        self.replies: asyncio.Future[list[Any]] = loop.create_future()

    @property
    def durable(self) -> bool:
        """True if the replies may be delayed until the writes are on disk."""
        return any(each.durable for each in self.calls)

    def resolve(self, replies: list[Any]) -> None:
        """Pass the replies, or the error of the whole batch, to the caller if it still waits."""
        if not self.replies.done():
            self.replies.set_result(replies)


class _Connection:
    """A redis-py connection that carries one batch at a time."""

    def __init__(self, connection: AbstractConnection) -> None:
        self.connection: Final = connection
        self.task: asyncio.Task[None] | None = None
        """The task that sends batches over it."""
        self._loop = asyncio.get_running_loop()
        self._deadline_s: float | None = None
        """End of the batch's time by the loop's clock; None between batches."""
        self._timer: asyncio.TimerHandle | None = None
        """One for many batches, because a timer for each would cost too much."""
        self._overdue = False

    def start_timer(self, timeout_s: float) -> None:
        """Cancel the task in `timeout_s` seconds unless `stop_timer` is called."""
        self._overdue = False
        self._deadline_s = self._loop.time() + timeout_s
        if not self._timer:
            self._timer = self._loop.call_at(self._deadline_s, self._check_deadline)

    def stop_timer(self) -> None:
        """Let the task end in its own time."""
        self._deadline_s = None

    def timed_out(self) -> bool:
        """Return whether the timer alone has cancelled the task, and then undo that."""
        return self._overdue and self.task is not None and not self.task.uncancel()

    def _check_deadline(self) -> None:
        """Cancel the task of an overdue batch, or set the timer for the current one."""
        self._timer = None
        if self._deadline_s is None or not self.task:
            return
        if self._deadline_s <= self._loop.time():
            self._overdue = self.task.cancel()
        else:
            self._timer = self._loop.call_at(self._deadline_s, self._check_deadline)

    async def is_clean(self) -> bool:
        """Return whether it is connected and holds no reply that nobody has asked for."""
        return self.connection.is_connected and not await self.connection.can_read()

    async def reconnect(self) -> None:
        """Close the connection and open it again."""
        await self.close()
        await self.connection.connect()  # type: ignore[no-untyped-call]  # redis-py's

    async def send(self, commands: Sequence[bytes]) -> list[Any]:
        """Return a reply for each command; an error reply is returned as an exception.

        Raises `redis.ConnectionError` for a connection that is lost or leads to the wrong server. The
        connection must be closed after any exception.
        """
        connection = self.connection
        await connection.send_packed_command(b"".join(commands), check_health=False)
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ReadOnlyError as error:
                # After a failover, the next connection reaches the new primary.
                raise RedisConnectionError(str(error)) from error
            except ResponseError as error:
                replies.append(error)
        return replies

    async def close(self) -> None:
        """Close the connection. Safe to call twice."""
        if self._timer and self._deadline_s is None:
            self._timer.cancel()
            self._timer = None
        await self.connection.disconnect()


class Batcher:
    """Batched connections of one event loop, of the kind that `pool` makes."""

    def __init__(self, pool: ConnectionPool, policy: CommandPolicy, *, wait_aof: bool = False) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self._pool = pool
        self._policy = policy
        self._wait_aof = wait_aof
        self._queue: list[_Request] = []
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._queue_timer: asyncio.TimerHandle | None = None

    async def execute_batch(
        self, calls: Sequence[ScriptCall | Command], *, scripts_loaded: bool = True
    ) -> list[Any]:
        """Run the calls in order and return their replies. Raises the first error.

        Unless `scripts_loaded`, the scripts' source is sent.
        """
        request = _Request(calls, self.loop, scripts_loaded=scripts_loaded)
        self._queue.append(request)
        if not self._busy or (len(self._queue) >= _MANY_WAITING and len(self._busy) < MAX_CONNECTIONS):
            self._start_connection()
        elif not self._queue_timer:
            self._check_queue_at(request.created_s + _MAX_WAIT_S)
        replies = await request.replies
        kinds = [*map(type, replies)]
        if scripts_loaded and NoScriptError in kinds:
            # Repeat all from there on, to keep the order; calls are idempotent.
            missing = kinds.index(NoScriptError)
            replies[missing:] = await self.execute_batch(calls[missing:], scripts_loaded=False)
        for number, reply in enumerate(replies):
            if isinstance(reply, Exception):
                if not (is_full(reply) and _WAITS.get()):
                    self._policy.raise_error(reply)
                await asyncio.sleep(_FULL_RETRY_S)
                return [*replies[:number], *await self.execute_batch(calls[number:])]
        return replies

    async def aclose(self) -> None:
        """Close the connections after the batches in flight, which are cancelled if the server is silent."""
        if in_flight := [connection.task for connection in self._busy if connection.task]:
            _, late = await asyncio.wait(in_flight, timeout=_CLOSE_TIMEOUT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._queue_timer:
            self._queue_timer.cancel()
            self._queue_timer = None
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    def _start_connection(self) -> None:
        connection = self._idle.pop() if self._idle else self._new_connection()
        # The task runs after everything that is ready now, so concurrent calls share its first batch. It has
        # no context, because it outlives the run that happens to start it.
        connection.task = self.loop.create_task(self._send_queue(connection), context=Context())
        self._busy.add(connection)

    def _new_connection(self) -> _Connection:
        # The pool may be a caller's own, as that of a `RedisSaver`.
        kind = translating(self._pool.connection_class)
        return _Connection(kind(**self._pool.connection_kwargs | _OPTIONS))

    def _check_queue_at(self, time_s: float) -> None:
        self._queue_timer = self.loop.call_at(time_s, self._check_queue)

    def _check_queue(self) -> None:
        """Start another connection if a request has waited too long; otherwise set the timer again."""
        self._queue_timer = None
        if not self._queue or len(self._busy) >= MAX_CONNECTIONS:
            return
        due_s = self._queue[0].created_s + _MAX_WAIT_S
        if due_s <= self.loop.time():
            self._start_connection()
        else:
            self._check_queue_at(due_s)

    async def _send_queue(self, connection: _Connection) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._send_batch(connection, batch)
        finally:
            # Not in a callback of the task, which would run after the next call has looked here.
            self._idle.append(connection)
            self._busy.discard(connection)

    async def _send_batch(self, connection: _Connection, batch: Sequence[_Request]) -> None:
        connection.start_timer(self._policy.timeout_s)
        try:
            replies = await self._send_with_retry(connection, batch)
        except asyncio.CancelledError:
            connection.stop_timer()
            if not connection.timed_out():
                for request in batch:
                    request.replies.cancel()
                raise
            await self._fail(connection, batch, TimeoutError("no answer"))
        except (RedisError, OSError) as error:
            connection.stop_timer()
            await self._fail(connection, batch, error)
        else:
            connection.stop_timer()
            for request, own_replies in zip(batch, replies, strict=True):
                request.resolve(own_replies)

    async def _fail(self, connection: _Connection, batch: Sequence[_Request], error: Exception) -> None:
        await connection.close()
        # Fail the queued requests too: they would wait as long for the same error.
        failed = [*batch, *self._queue]
        self._queue.clear()
        for request in failed:
            request.resolve([error])

    async def _send_with_retry(self, connection: _Connection, batch: Sequence[_Request]) -> list[list[Any]]:
        """Return the replies by request, reconnecting as often as redis-py would."""
        failures: list[RedisError] = []
        if await connection.is_clean():
            try:
                return await self._round_trip(connection, batch)
            except RedisError as error:
                failures.append(error)

        async def attempt() -> list[list[Any]]:
            if failures:
                # Counts as the first attempt, so that redis-py waits before the next.
                raise failures.pop()
            await connection.reconnect()
            return await self._round_trip(connection, batch)

        retry = connection.connection.retry
        if not retry.get_retries():
            retry = _RETRY
        return await retry.call_with_retry(attempt, lambda _: connection.close())

    async def _round_trip(self, connection: _Connection, batch: Sequence[_Request]) -> list[list[Any]]:
        """Return the replies by request."""
        commands = [*chain(*[request.packed for request in batch])]
        waits = self._wait_aof and any(request.durable for request in batch)
        if waits:
            commands.append(_WAIT_AOF)
        flat = iter(await connection.send(commands))
        replies = [[*islice(flat, len(request.packed))] for request in batch]
        fsync_error = _fsync_error(next(flat)) if waits else None
        if fsync_error:
            return [
                [fsync_error] * len(own_replies) if request.durable else own_replies
                for request, own_replies in zip(batch, replies, strict=True)
            ]
        return replies


def _fsync_error(reply: Any) -> Exception | None:
    """Return the failure that a reply to WAITAOF reports."""
    if isinstance(reply, list) and reply[0] < 1:
        return RedisTimeoutError(f"the write did not reach the disk within {FSYNC_MS} ms")
    return reply if isinstance(reply, Exception) else None


_WAIT_AOF: Final = _pack(("WAITAOF", 1, 0, FSYNC_MS))

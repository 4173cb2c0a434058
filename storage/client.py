"""redis-py's clients with three rules added: few connections, an end to every wait, and our own errors."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster, UnixDomainSocketConnection
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from state.errors import Broken, CallsheetError, Refused, StorageBarred, StorageDown, StorageSilent
from storage.address import Address
from storage.embedded import Lease

PATIENCE_S: Final = 30.0
"""How long a command may take, waiting and new attempts included, unless told otherwise."""
_CONNECT_S: Final = 3.0
_HEALTH_CHECK_S: Final = 30

_AWAY: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.RedisClusterException,
)
_OWN_TROUBLE: Final = re.compile(
    r"(?:Error running script.*-)?(?:OOM|MISCONF|READONLY|NOREPLICAS|LOADING|BUSY|MASTERDOWN|CLUSTERDOWN)\b",
    re.DOTALL,
)
"""Answers about the server's state rather than the command; older servers wrap them where a script failed."""

T = TypeVar("T")


class Bounds:
    """What every command of one client is held to."""

    def __init__(self, origin: str, remedy: str, most: int, patience_s: float) -> None:
        self.origin: Final = origin
        self.most: Final = most
        self.patience_s: Final = patience_s
        self._remedy: Final = remedy
        self._turns = asyncio.Semaphore(most)

    def again(self) -> "Bounds":
        """The same bounds, with as many turns of their own."""
        return Bounds(self.origin, self._remedy, self.most, self.patience_s)

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, in turn and in time; its failures as `StorageDown` or a kind of it.

        An answer that refuses the command itself (no such script, wrong type) stays redis-py's error.
        """
        try:
            async with asyncio.timeout(self.patience_s), self._turns:
                return await call()
        except TimeoutError as error:
            rule = f"{self.origin} gave no answer within {self.patience_s:g} s"
            raise StorageSilent(rule, remedy=self._remedy) from error
        except (exceptions.RedisError, exceptions.RedisClusterException) as error:
            if translated := self._translated(error):
                raise translated from error
            raise

    def _translated(self, error: Exception) -> CallsheetError | None:
        """What the failure means to who does not know Redis; None when it is an answer to the command."""
        match root := _root(error):
            case CallsheetError():
                return root
            case exceptions.OutOfMemoryError():
                return StorageDown(f"{self.origin} has no memory left", remedy="Raise its maxmemory.")
            case exceptions.ResponseError() if str(root).startswith("MISCONF"):
                return StorageDown(
                    f"{self.origin} cannot write to its disk: {root}", remedy="Free some space."
                )
            case _ if _refused(root) or (root is not error and isinstance(root, exceptions.ResponseError)):
                return StorageBarred(
                    f"{self.origin} refuses the connection: {root}", remedy="Correct REDIS_URL."
                )
            case _ if isinstance(root, _AWAY) or _OWN_TROUBLE.match(str(root)):
                return StorageDown(f"{self.origin} cannot be used: {root}", remedy=self._remedy)
        return None


def _root(error: Exception) -> Exception:
    """The error itself, or the one that redis-py wrapped while it connected."""
    cause = error.__cause__
    return cause if isinstance(cause, CallsheetError | exceptions.RedisError) else error


def _refused(error: Exception) -> bool:
    """Whether the server was reached and will not let this user in, now or later."""
    if isinstance(error, exceptions.RedisClusterException):
        # The cluster client keeps no more of the reason than its text.
        return any(sign in str(error) for sign in ("AuthenticationError", "Cluster mode is not enabled"))
    return isinstance(
        error,
        exceptions.AuthenticationError
        | exceptions.AuthenticationWrongNumberOfArgsError
        | exceptions.AuthorizationError
        | exceptions.NoPermissionError,
    )


class _Pipeline(Pipeline):
    bounds: Bounds

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        return await self.bounds.run(lambda: super(_Pipeline, self).execute(*args, **options))


class _ClusterPipeline(ClusterPipeline):
    bounds: Bounds

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        return await self.bounds.run(lambda: super(_ClusterPipeline, self).execute(*args, **options))


class Client(Redis):
    """A client of one server."""

    bounds: Bounds

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """The answer to one command."""
        send = super().execute_command
        return await self.bounds.run(lambda: send(*args, **options))  # type: ignore[no-untyped-call]  # redis-py's

    def pipeline(self, transaction: Any = True, shard_hint: Any = None) -> Pipeline:  # noqa: FBT002 - redis-py's
        """An empty pipeline, in MULTI and EXEC unless told otherwise; its execution counts as one command."""
        made = _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.bounds = self.bounds
        return made


class ClusterClient(RedisCluster):
    """A client of a cluster."""

    bounds: Bounds
    pipeline_bounds: Bounds
    """Turns of their own: a pipeline that meets a moved slot sends single commands while it has its turn."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """The answer to one command, from the node that has its keys."""
        send = super().execute_command
        return await self.bounds.run(lambda: send(*args, **options))

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        """An empty pipeline; its execution counts as one command. redis-py offers no shard hints here."""
        if shard_hint:
            return super().pipeline(transaction, shard_hint)
        made = _ClusterPipeline(self, transaction)  # type: ignore[abstract]  # redis-py's own is no different
        made.bounds = self.pipeline_bounds
        return made


class _Retry(Retry):
    """Try again what may go better next time: not a refused password, not a server that cannot start."""

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[T]],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,  # noqa: FBT001, FBT002 - redis-py's signature
    ) -> T:
        return await super().call_with_retry(do, fail, is_retryable or _may_pass, with_failure_count)


def _may_pass(error: Exception) -> bool:
    root = _root(error)
    return not _refused(root) and not isinstance(root, Refused | Broken)


class _Reviving(UnixDomainSocketConnection):
    """A connection that starts the embedded server again when it is gone."""

    def __init__(self, *, lease: Lease, **options: Any) -> None:
        super().__init__(**options)
        self._lease = lease

    async def _connect(self) -> None:
        try:
            await super()._connect()  # type: ignore[no-untyped-call]  # redis-py's
        except (FileNotFoundError, ConnectionRefusedError):
            await asyncio.to_thread(self._lease.revive)
            await super()._connect()  # type: ignore[no-untyped-call]  # redis-py's


def at(address: Address, bounds: Bounds) -> Client | ClusterClient:
    """A client for `address` that is not connected yet.

    A command whose connection is lost is sent again, so every write must be safe to arrive twice.
    """
    options = _options() | {"socket_connect_timeout": _CONNECT_S}
    if address.cluster:
        options["max_connections"] = 2 * bounds.most
        cluster = cast("ClusterClient", ClusterClient.from_url(address.url, **options))
        cluster.bounds = bounds
        cluster.pipeline_bounds = bounds.again()
        return cluster
    return _pooled(ConnectionPool.from_url(address.url, **options), bounds)


def embedded(lease: Lease, bounds: Bounds) -> Client:
    """A client of the embedded server that is not connected yet."""
    pool = ConnectionPool(connection_class=_Reviving, lease=lease, path=str(lease.socket), **_options())
    return _pooled(pool, bounds)


def _pooled(pool: ConnectionPool, bounds: Bounds) -> Client:
    client = Client(connection_pool=pool)
    client.auto_close_connection_pool = True
    client.bounds = bounds
    return client


def _options() -> dict[str, Any]:
    return {
        "protocol": 2,
        # Naming the library would cost a file's reading in the event loop, and a round trip per connection.
        "driver_info": None,
        "health_check_interval": _HEALTH_CHECK_S,
        # One clock for the whole command costs less than redis-py's one for each read and write.
        "socket_timeout": None,
        "retry": _Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.01), 10),
    }

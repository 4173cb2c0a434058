"""redis-py's clients with three rules added: few connections, an end to every wait, and our own errors."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster, UnixDomainSocketConnection
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from callsheet.state.errors import Broken
from callsheet.storage.embedded.server import Lease
from callsheet.storage.redis.address import Address
from callsheet.storage.redis.batching import Batcher
from callsheet.storage.redis.command_policy import CommandPolicy, can_retry
from callsheet.storage.redis.scripts import Command, ScriptCall

T = TypeVar("T")
_CONNECT_S: Final = 3.0
_HEALTH_CHECK_S: Final = 30


class _Pipeline(Pipeline):
    bounds: CommandPolicy

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        return await self.bounds.run(lambda: super(_Pipeline, self).execute(*args, **options))


class _ClusterPipeline(ClusterPipeline):
    bounds: CommandPolicy

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        return await self.bounds.run(lambda: super(_ClusterPipeline, self).execute(*args, **options))


class Client(Redis):
    """A client of one server, in one event loop."""

    bounds: CommandPolicy

    @cached_property
    def batcher(self) -> Batcher:
        """The lanes that scripts take, in the first event loop that asks for them."""
        pool = self.connection_pool
        options = pool.connection_kwargs | {"socket_timeout": None}
        return Batcher(lambda: pool.connection_class(**options), self.bounds)

    def execute_batch(self, asked: Sequence[ScriptCall | Command]) -> Coroutine[Any, Any, list[Any]]:
        """As `Batchable.execute_batch`."""
        lanes = self.batcher
        if lanes.loop is asyncio.get_running_loop():
            return lanes.execute_batch(asked)
        raise Broken("a client was used in another event loop than its own")

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 -- redis-py's
        """Close all connections."""
        if opened := self.__dict__.get("batcher"):
            await opened.aclose()
        await super().aclose(close_connection_pool)

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

    bounds: CommandPolicy
    pipeline_bounds: CommandPolicy
    """Turns of their own: a pipeline that meets a moved slot sends single commands while it has its turn."""

    async def execute_batch(self, asked: Sequence[ScriptCall | Command]) -> list[Any]:
        """As `Batchable.execute_batch`."""
        return [await self._ran(one) for one in asked]

    async def _ran(self, one: ScriptCall | Command) -> Any:
        try:
            return await self.execute_command(*one.by_name())
        except exceptions.NoScriptError:
            return await self.execute_command(*one.in_full())

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
        return await super().call_with_retry(do, fail, is_retryable or can_retry, with_failure_count)


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


def connect_to(address: Address, bounds: CommandPolicy) -> Client | ClusterClient:
    """A client for `address` that is not connected yet.

    A command whose connection is lost is sent again, so every write must be safe to arrive twice.
    """
    options = _options() | {"socket_connect_timeout": _CONNECT_S}
    if address.cluster:
        options["max_connections"] = 2 * bounds.most
        cluster = cast("ClusterClient", ClusterClient.from_url(address.url, **options))
        cluster.bounds = bounds
        cluster.pipeline_bounds = bounds.copy()
        return cluster
    return _pooled(ConnectionPool.from_url(address.url, **options), bounds)


def connect_embedded(lease: Lease, bounds: CommandPolicy) -> Client:
    """A client of the embedded server that is not connected yet."""
    pool = ConnectionPool(connection_class=_Reviving, lease=lease, path=str(lease.socket), **_options())
    return _pooled(pool, bounds)


def _pooled(pool: ConnectionPool, bounds: CommandPolicy) -> Client:
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

"""redis-py's clients with batching, few connections, timeouts and our own errors."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster, UnixDomainSocketConnection
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterNode, ClusterPipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff

from callsheet.state.errors import Broken, CallsheetError
from callsheet.state.unicode import utf8_safe_value
from callsheet.storage.embedded.server import ServerLease
from callsheet.storage.redis.address import Address
from callsheet.storage.redis.batching import Batcher
from callsheet.storage.redis.command_policy import CommandPolicy, can_retry
from callsheet.storage.redis.lost_connections import translating
from callsheet.storage.redis.scripts import Command, ScriptCall

T = TypeVar("T")
_CONNECT_S: Final = 3.0
_HEALTH_CHECK_S: Final = 30
_BACKOFF: Final = ExponentialWithJitterBackoff(cap=0.5, base=0.01)
_RETRIES: Final = 10


class _Pipeline(Pipeline):
    command_policy: CommandPolicy

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        return await self.command_policy.run(lambda: super(_Pipeline, self).execute(*args, **options))


class _ClusterPipeline(ClusterPipeline):
    command_policy: CommandPolicy

    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        return await self.command_policy.run(lambda: super(_ClusterPipeline, self).execute(*args, **options))


class Client(Redis):
    """A client of one server, in one event loop."""

    command_policy: CommandPolicy

    @cached_property
    def batcher(self) -> Batcher:
        """The connections for batches, in the first event loop that uses them."""
        return Batcher(self.connection_pool, self.command_policy)

    def execute_batch(self, calls: Sequence[ScriptCall | Command]) -> Coroutine[Any, Any, list[Any]]:
        """Run the calls, as `Batchable.execute_batch`."""
        batcher = self.batcher
        if batcher.loop is asyncio.get_running_loop():
            return batcher.execute_batch(calls)
        raise Broken("a Redis client was used outside its event loop")

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 -- redis-py's
        """Close all connections."""
        if batcher := self.__dict__.get("batcher"):
            await batcher.aclose()
        await super().aclose(close_connection_pool)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Return the reply to one command."""
        send = super().execute_command
        return await self.command_policy.run(lambda: send(*args, **options))  # type: ignore[no-untyped-call]  # redis-py's

    def pipeline(self, transaction: Any = True, shard_hint: Any = None) -> Pipeline:  # noqa: FBT002 - redis-py's
        """Return an empty pipeline, whose execution counts as one command."""
        pipeline = _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.command_policy = self.command_policy
        return pipeline


class ClusterClient(RedisCluster):
    """A client of a cluster."""

    command_policy: CommandPolicy
    pipeline_policy: CommandPolicy
    """Separate slots: a pipeline that meets a moved slot sends single commands while it holds its own."""

    async def execute_batch(self, calls: Sequence[ScriptCall | Command]) -> list[Any]:
        """Run the calls, as `Batchable.execute_batch`."""
        return [await self._execute(call) for call in calls]

    async def _execute(self, call: ScriptCall | Command) -> Any:
        try:
            return await self.execute_command(*call.evalsha_args())
        except exceptions.NoScriptError:
            return await self.execute_command(*call.eval_args())

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Return the reply to one command, from the node that has its keys.

        Half of a surrogate pair is sent as U+FFFD.
        """
        send, safe_args = super().execute_command, utf8_safe_value(args)
        return await self.command_policy.run(lambda: send(*safe_args, **options))

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        """Return an empty pipeline, whose execution counts as one command."""
        if shard_hint:
            # redis-py raises its own error for shard hints.
            return super().pipeline(transaction, shard_hint)
        pipeline = _ClusterPipeline(self, transaction)  # type: ignore[abstract]  # as redis-py's own
        pipeline.command_policy = self.pipeline_policy
        return pipeline


class _Retry(Retry):
    """Retries unless it is useless, as for a refused password or a server that cannot start."""

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[T]],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,  # noqa: FBT001, FBT002 - redis-py's signature
    ) -> T:
        return await super().call_with_retry(do, fail, is_retryable or can_retry, with_failure_count)


class _RestartingRetry(_Retry):
    """Retries that restart the embedded server when it is gone."""

    def __init__(self, lease: ServerLease) -> None:
        super().__init__(_BACKOFF, _RETRIES)
        # A function, because redis-py gives each connection a deep copy.
        self._restart: Callable[[], Awaitable[None]] = lambda: asyncio.to_thread(lease.revive)

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[T]],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,  # noqa: FBT001, FBT002 - redis-py's signature
    ) -> T:
        async def attempt() -> T:
            try:
                return await do()
            except exceptions.ConnectionError as error:
                if isinstance(error.__context__, FileNotFoundError | ConnectionRefusedError):
                    await self._restart_server()
                raise

        return await super().call_with_retry(attempt, fail, is_retryable, with_failure_count)

    async def _restart_server(self) -> None:
        try:
            await self._restart()
        except CallsheetError as error:
            raise exceptions.ConnectionError(str(error)) from error


def connect_to(address: Address, policy: CommandPolicy) -> Client | ClusterClient:
    """Return a client for `address`, not connected yet.

    A command whose connection is lost is sent again, so every write must be idempotent.
    """
    options = _options() | {"socket_connect_timeout": _CONNECT_S}
    if address.cluster:
        options["max_connections"] = 2 * policy.max_concurrent
        options["startup_nodes"] = [ClusterNode(host, port) for host, port in address.other_nodes]
        cluster = cast("ClusterClient", ClusterClient.from_url(address.url, **options))
        cluster.command_policy = policy
        cluster.pipeline_policy = policy.copy()
        # redis-py has no argument for it. Nodes that are found later get these options, too.
        cluster.connection_kwargs["connection_class"] = translating(
            cluster.connection_kwargs["connection_class"]
        )
        for node in cluster.startup_nodes:
            node.connection_class = cluster.connection_kwargs["connection_class"]
        return cluster
    return _client(ConnectionPool.from_url(address.url, **options), policy)


def connect_embedded(lease: ServerLease, policy: CommandPolicy) -> Client:
    """Return a client of the embedded server, not connected yet."""
    options = _options() | {"retry": _RestartingRetry(lease), "path": str(lease.socket)}
    return _client(ConnectionPool(connection_class=UnixDomainSocketConnection, **options), policy)


async def connection_error(client: Client | ClusterClient, timeout_s: float) -> CallsheetError | None:
    """Return why a new connection fails at once; None if it opens, or waits longer, or for a cluster."""
    if isinstance(client, ClusterClient):
        return None
    connection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # redis-py's
    connection.retry = Retry(NoBackoff(), 0)
    try:
        async with asyncio.timeout(timeout_s):
            # Not with the slots of other commands, which wait for the server.
            await client.command_policy.copy().run(connection.connect)
    except CallsheetError as error:
        return error
    except (TimeoutError, exceptions.RedisError):
        # Silent, or an answer that is no refusal.
        return None
    finally:
        await connection.disconnect()
    return None


def _client(pool: ConnectionPool, policy: CommandPolicy) -> Client:
    pool.connection_class = translating(pool.connection_class)
    client = Client(connection_pool=pool)
    client.auto_close_connection_pool = True
    client.command_policy = policy
    return client


def _options() -> dict[str, Any]:
    return {
        "protocol": 2,
        # Sending the library's name costs a blocking file read and a round trip per connection.
        "driver_info": None,
        "health_check_interval": _HEALTH_CHECK_S,
        # CommandPolicy limits the whole command, which is cheaper than a timeout on each read and write.
        "socket_timeout": None,
        "retry": _Retry(_BACKOFF, _RETRIES),
    }

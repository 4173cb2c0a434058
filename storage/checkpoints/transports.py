"""Transports for round trips: batched connections per event loop, a cluster client, or a blocking client."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from threading import Lock
from typing import Any, Final

import redis
from redis.asyncio import Redis, RedisCluster, SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import ClusterNode
from redis.exceptions import NoScriptError
from redis.retry import Retry

from callsheet.state.errors import Invalid, StorageDown, StorageFull
from callsheet.storage.redis.batching import FSYNC_MS, TIMEOUT_S, Batcher, CommandPolicy, is_full
from callsheet.storage.redis.connection import Client
from callsheet.storage.redis.scripts import Argument, ScriptCall

_UNLIMITED: Final = 1 << 30
_CLUSTER_CONCURRENCY: Final = 16
"""Concurrent calls to a cluster, whose client opens a connection for each."""
_BLOCKING_CONNECTIONS: Final = 8
_SHORT_TIMEOUT_S: Final = 2.0
"""Seconds that an event loop may be blocked by one command."""
_REMEDY: Final = "Start the server, or correct the URL."
_DEFAULT_ADDRESS: Final = {"host": "localhost", "port": 6379}
_ADDRESS_OPTIONS: Final = ("host", "port", "path", "db")
_COMMON_OPTIONS: Final = (
    "username", "password", "credential_provider", "client_name", "socket_timeout",
    "socket_connect_timeout", "socket_keepalive", "socket_keepalive_options", "health_check_interval",
    "protocol",
)  # fmt: skip


ExecuteBatch = Callable[[Sequence[ScriptCall]], Awaitable[list[Any]]]
"""Runs the calls in order and returns their replies. Raises the first error."""


class Transports:
    """The transports of one client, opened on first use."""

    def __init__(self, client: Redis | RedisCluster, blocking: Any = None, *, wait_aof: bool = False) -> None:
        """`blocking` is the `redis.Redis` or `redis.RedisCluster` for callers without an event loop."""
        _check_client(client, wait_aof=wait_aof)
        self.clustered: Final = isinstance(client, RedisCluster)
        self._client = client
        self._blocking = blocking
        self._own_blocking: Any = None
        self._lock = Lock()
        self._wait_aof = wait_aof
        self._by_loop: dict[asyncio.AbstractEventLoop, ExecuteBatch] = {}
        self._closers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}

    async def for_running_loop(self) -> ExecuteBatch:
        """Return the transport of the running event loop."""
        loop = asyncio.get_running_loop()
        if execute_batch := self._by_loop.get(loop):
            return execute_batch
        execute_batch, own_batcher = self._open()
        self._by_loop[loop] = execute_batch
        closer = self._closers[loop] = self._close_with(loop, own_batcher)
        await anext(closer)
        return execute_batch

    def blocking(self) -> Callable[[Sequence[ScriptCall]], list[Any]]:
        """Return the transport for callers without an event loop."""
        origin = _origin(self._client)
        if self._blocking is None:
            with self._lock, _translated_errors(origin):
                # Another thread may have been quicker.
                if self._own_blocking is None:
                    self._blocking = self._own_blocking = _blocking_twin(self._client)
        return _BlockingTransport(self._blocking, origin, wait_aof=self._wait_aof).execute_batch

    async def aclose(self) -> None:
        """Close what was opened here; the given clients stay open."""
        if closer := self._closers.get(asyncio.get_running_loop()):
            await closer.aclose()
        if self._own_blocking is not None:
            self._own_blocking.close()
            self._blocking = self._own_blocking = None

    def _open(self) -> tuple[ExecuteBatch, Batcher | None]:
        """Return a transport, and the batcher to close with it if one was created."""
        if isinstance(self._client, Client) and not self._wait_aof:
            # Through the client's own batcher, the saver's calls leave together with the client's others.
            shared = self._client.batcher
            if shared.loop is asyncio.get_running_loop():
                return shared.execute_batch, None
        if not isinstance(self._client, RedisCluster):
            policy = CommandPolicy(_origin(self._client), _REMEDY, _UNLIMITED, TIMEOUT_S)
            batcher = Batcher(self._client.connection_pool, policy, wait_aof=self._wait_aof)
            return batcher.execute_batch, batcher
        if self._by_loop:
            remedy = "Create a saver for each event loop."
            raise Invalid("a saver on a cluster works in one event loop only", remedy=remedy)
        return _ClusterTransport(self._client).execute_batch, None

    async def _close_with(
        self, loop: asyncio.AbstractEventLoop, own_batcher: Batcher | None
    ) -> AsyncGenerator[None]:
        # An event loop closes its asynchronous generators when it ends; it offers no other hook.
        try:
            yield
        finally:
            self._by_loop.pop(loop, None)
            self._closers.pop(loop, None)
            if own_batcher:
                await own_batcher.aclose()


@contextmanager
def blocking_transport(
    client: Redis | RedisCluster,
) -> Iterator[Callable[[Sequence[ScriptCall]], list[Any]]]:
    """Yield a transport that blocks the event loop, on connections of its own. Raises `StorageDown`."""
    origin = _origin(client)
    with _translated_errors(origin), closing(_blocking_twin(client, _SHORT_TIMEOUT_S)) as twin:
        yield _BlockingTransport(twin, origin, wait_aof=False).execute_batch


class _ClusterTransport:
    """Sends each call to the cluster node that has its keys."""

    def __init__(self, client: RedisCluster) -> None:
        self._client = client
        self._policy = CommandPolicy(_origin(client), _REMEDY, _CLUSTER_CONCURRENCY, TIMEOUT_S)

    async def execute_batch(self, calls: Sequence[ScriptCall]) -> list[Any]:
        return [await self._policy.run(partial(self._execute, call)) for call in calls]

    async def _execute(self, call: ScriptCall) -> Any:
        try:
            return await self._client.execute_command(*call.evalsha_args())
        except NoScriptError:
            return await self._client.execute_command(*call.eval_args())


class _BlockingTransport:
    """Blocking calls. Safe to share between threads."""

    def __init__(self, client: Any, origin: str, *, wait_aof: bool) -> None:
        self._client = client
        self._origin = origin
        self._wait_aof = wait_aof

    def execute_batch(self, calls: Sequence[ScriptCall]) -> list[Any]:
        with _translated_errors(self._origin):
            return [self._execute(call) for call in calls]

    def _execute(self, call: ScriptCall) -> Any:
        send = self._send_and_wait_aof if self._wait_aof and call.durable else self._client.execute_command
        try:
            return send(*call.evalsha_args())
        except NoScriptError:
            return send(*call.eval_args())

    def _send_and_wait_aof(self, *command: Argument) -> Any:
        # In one pipeline, because WAITAOF covers only the writes of its own connection.
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command(*command)
        pipeline.execute_command("WAITAOF", 1, 0, FSYNC_MS)
        reply, synced = pipeline.execute()
        if synced[0] < 1:
            raise redis.TimeoutError(f"the write did not reach the disk within {FSYNC_MS} ms")
        return reply


@contextmanager
def _translated_errors(origin: str) -> Iterator[None]:
    """Raise connection failures as `StorageDown`."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError, redis.RedisClusterException) as error:
        raise StorageDown(f"{origin} cannot be used: {error}", remedy=_REMEDY) from error
    except redis.ResponseError as error:
        if not is_full(error):
            raise
        raise StorageFull(
            f"{origin} refuses writes: {error}", remedy="Free memory and disk space."
        ) from error


def _check_client(client: object, *, wait_aof: bool) -> None:
    """Raise `Invalid` for a client that no transport supports."""
    if isinstance(client, RedisCluster):
        if wait_aof:
            remedy = "Set appendfsync to always on every node instead."
            raise Invalid("wait_aof=True does not work on a cluster", remedy=remedy)
    elif not isinstance(client, Redis):
        remedy = "Pass a redis.asyncio.Redis or RedisCluster, or use RedisSaver.from_url."
        raise Invalid(f"{client!r} is not an asyncio client of redis-py", remedy=remedy)
    if client.get_encoder().decode_responses:
        raise Invalid(f"{client!r} decodes responses", remedy="Create it with decode_responses=False.")


def _origin(client: Any) -> str:
    """Return the server's name for error messages."""
    if policy := getattr(client, "command_policy", None):
        return str(policy.origin)
    if isinstance(client, RedisCluster):
        return "the cluster"
    options = client.connection_pool.connection_kwargs
    return f"Redis at {options.get('path') or '{host}:{port}'.format(**_DEFAULT_ADDRESS | options)}"


def _blocking_twin(client: Redis | RedisCluster, timeout_s: float = TIMEOUT_S) -> Any:
    """Return a blocking client of the same servers, with at most `_BLOCKING_CONNECTIONS` to a single one."""
    # Timeouts are not retried: the caller has waited long enough by then.
    retry = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.01), 10, (redis.ConnectionError,))
    if isinstance(client, RedisCluster):
        nodes = [
            ClusterNode(node.host, node.port)  # type: ignore[no-untyped-call]  # redis-py's
            for node in client.startup_nodes
        ]
        secure = issubclass(client.connection_kwargs.get("connection_class", object), SSLConnection)
        options = _common_options(client.connection_kwargs, timeout_s) | ({"ssl": True} if secure else {})
        return redis.RedisCluster(startup_nodes=nodes, retry=retry, **options)
    pool = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        remedy = "Pass Sentinel's blocking client as sync_client."
        raise Invalid("behind Sentinel, the saver's blocking methods need their own client", remedy=remedy)
    address = {key: value for key, value in pool.connection_kwargs.items() if key in _ADDRESS_OPTIONS}
    connection_class: type[Any] = redis.Connection
    if "path" in address:
        connection_class = redis.UnixDomainSocketConnection
    elif issubclass(pool.connection_class, SSLConnection):
        connection_class = redis.SSLConnection
    return redis.Redis(
        connection_pool=redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]  # redis-py's
            connection_class=connection_class,
            max_connections=_BLOCKING_CONNECTIONS,
            timeout=TIMEOUT_S,
            retry=retry,
            **address,
            **_common_options(pool.connection_kwargs, timeout_s),
        )
    )


def _common_options(options: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return the connection options that a blocking client shares, with a timeout in any case."""
    common = {
        key: value for key, value in options.items() if key in _COMMON_OPTIONS or key.startswith("ssl_")
    }
    return common | {"socket_timeout": min(common.get("socket_timeout") or TIMEOUT_S, timeout_s)}

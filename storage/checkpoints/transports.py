"""Transports for round trips: batched connections per event loop, a cluster client, or a blocking client."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, Final, Protocol

import redis
from redis.asyncio import Redis, RedisCluster, SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import ClusterNode
from redis.exceptions import NoScriptError
from redis.retry import Retry

from callsheet.state.errors import Invalid, StorageDown
from callsheet.storage.redis.batching import FSYNC_MS, Batcher
from callsheet.storage.redis.client import Client
from callsheet.storage.redis.command_policy import TIMEOUT_S, CommandPolicy
from callsheet.storage.redis.scripts import Argument, ScriptCall

_ANY_NUMBER: Final = 1 << 30
_CLUSTER_CALLS: Final = 16
"""Calls under way at once to a cluster, whose client opens a connection for each."""
_BLOCKING_CONNECTIONS: Final = 8
_REMEDY: Final = "Start the server, or correct the URL."
_NOWHERE: Final = {"host": "localhost", "port": 6379}
_WHERE: Final = ("host", "port", "path", "db")
_SAME_FOR_BOTH: Final = (
    "username", "password", "credential_provider", "client_name", "socket_timeout",
    "socket_connect_timeout", "socket_keepalive", "socket_keepalive_options", "health_check_interval",
    "protocol",
)  # fmt: skip


class Transport(Protocol):
    """A way to the server from one event loop."""

    async def execute_batch(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The replies to the calls, which run in this order. Raises the first that is an error."""

    async def aclose(self) -> None:
        """Close what was opened for this wire."""


class Transports:
    """The ways to the server of one client, opened as they are needed."""

    def __init__(self, client: Redis | RedisCluster, blocking: Any = None, *, wait_aof: bool = False) -> None:
        """`blocking` is the `redis.Redis` or `redis.RedisCluster` that callers without an event loop use."""
        _check(client, wait_aof=wait_aof)
        self.clustered: Final = isinstance(client, RedisCluster)
        self._client = client
        self._blocking = blocking
        self._own: Any = None
        self._lock = Lock()
        self._wait_aof = wait_aof
        self._wires: dict[asyncio.AbstractEventLoop, Transport] = {}
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}

    async def for_running_loop(self) -> Transport:
        """The wire of the running event loop."""
        loop = asyncio.get_running_loop()
        if wire := self._wires.get(loop):
            return wire
        wire = self._wires[loop] = self._opened()
        keeper = self._keepers[loop] = self._kept(loop, wire)
        await anext(keeper)
        return wire

    def blocking(self) -> "BlockingTransport":
        """The wire of callers without an event loop."""
        origin = _origin(self._client)
        if self._blocking is None:
            with self._lock, _named(origin):
                # Another thread may have been quicker.
                if self._own is None:
                    self._blocking = self._own = _blocking_twin(self._client)
        return BlockingTransport(self._blocking, origin, wait_aof=self._wait_aof)

    async def aclose(self) -> None:
        """Close what was opened here; the client that was given stays open."""
        if keeper := self._keepers.get(asyncio.get_running_loop()):
            await keeper.aclose()
        if self._own is not None:
            self._own.close()
            self._blocking = self._own = None

    def _opened(self) -> Transport:
        if isinstance(self._client, Client) and not self._wait_aof:
            lanes = self._client.batcher
            if lanes.loop is asyncio.get_running_loop():
                return _SharedTransport(lanes)
        if not isinstance(self._client, RedisCluster):
            pool = self._client.connection_pool
            options = pool.connection_kwargs | {"socket_timeout": None}
            bounds = CommandPolicy(_origin(self._client), _REMEDY, _ANY_NUMBER, TIMEOUT_S)
            return Batcher(lambda: pool.connection_class(**options), bounds, wait_aof=self._wait_aof)
        if self._wires:
            remedy = "Give each event loop a saver of its own."
            raise Invalid("a saver on a cluster works in one event loop, the first", remedy=remedy)
        return _ClusterTransport(self._client)

    async def _kept(self, loop: asyncio.AbstractEventLoop, wire: Transport) -> AsyncGenerator[None]:
        # An event loop remembers asynchronous generators and closes them at its end; nothing else of it does.
        try:
            yield
        finally:
            self._wires.pop(loop, None)
            self._keepers.pop(loop, None)
            await wire.aclose()


class _SharedTransport:
    """The lanes of a client that has some: what others ask of it at the same moment leaves together."""

    def __init__(self, lanes: Batcher) -> None:
        self.execute_batch = lanes.execute_batch

    async def aclose(self) -> None:
        """Nothing was opened: the lanes are the client's."""


class _ClusterTransport:
    """Calls to a cluster, each to the node that has its keys."""

    def __init__(self, client: RedisCluster) -> None:
        self._client = client
        self._bounds = CommandPolicy(_origin(client), _REMEDY, _CLUSTER_CALLS, TIMEOUT_S)

    async def execute_batch(self, calls: Sequence[ScriptCall]) -> list[Any]:
        return [await self._bounds.run(partial(self._reply, call)) for call in calls]

    async def aclose(self) -> None:
        """Nothing was opened: the connections are the client's."""

    async def _reply(self, call: ScriptCall) -> Any:
        try:
            return await self._client.execute_command(*call.by_name())
        except NoScriptError:
            return await self._client.execute_command(*call.in_full())


class BlockingTransport:
    """Calls from a thread that waits for them. Safe to share between threads."""

    def __init__(self, client: Any, origin: str, *, wait_aof: bool) -> None:
        self._client = client
        self._origin = origin
        self._wait_aof = wait_aof

    def execute_batch(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The replies to the calls, which run in this order. Raises the first that is an error."""
        with _named(self._origin):
            return [self._reply(call) for call in calls]

    def _reply(self, call: ScriptCall) -> Any:
        send = self._durably if self._wait_aof and call.durable else self._client.execute_command
        try:
            return send(*call.by_name())
        except NoScriptError:
            return send(*call.in_full())

    def _durably(self, *command: Argument) -> Any:
        # One pipeline, for WAITAOF waits for what its own connection wrote.
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command(*command)
        pipeline.execute_command("WAITAOF", 1, 0, FSYNC_MS)
        reply, synced = pipeline.execute()
        if synced[0] < 1:
            raise redis.TimeoutError(f"nothing reached the disk within {FSYNC_MS} ms")
        return reply


@contextmanager
def _named(origin: str) -> Iterator[None]:
    """Raise what keeps a server from answering as `StorageDown` with its name."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError, redis.RedisClusterException) as error:
        raise StorageDown(f"{origin} cannot be used: {error}", remedy=_REMEDY) from error


def _check(client: object, *, wait_aof: bool) -> None:
    """`Invalid` for a client no wire can be made for."""
    if isinstance(client, RedisCluster):
        if wait_aof:
            remedy = "Set appendfsync to always on every node instead."
            raise Invalid("wait_aof=True does not work on a cluster", remedy=remedy)
    elif not isinstance(client, Redis):
        remedy = "Pass a redis.asyncio.Redis or RedisCluster, or use RedisSaver.from_url."
        raise Invalid(f"{client!r} is not an asyncio client of redis-py", remedy=remedy)
    if client.get_encoder().decode_responses:
        raise Invalid(f"{client!r} decodes what it reads", remedy="Make it with decode_responses=False.")


def _origin(client: Any) -> str:
    """Which server this is, for people."""
    if bounds := getattr(client, "bounds", None):
        return str(bounds.origin)
    if isinstance(client, RedisCluster):
        return "the cluster"
    options = client.connection_pool.connection_kwargs
    return f"Redis at {options.get('path') or '{host}:{port}'.format(**_NOWHERE | options)}"


def _blocking_twin(client: Redis | RedisCluster) -> Any:
    """A blocking client of the same servers; to one server over at most `_BLOCKING_CONNECTIONS`."""
    # Not for a server that says nothing: the wait for it has been long enough.
    retry = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.01), 10, (redis.ConnectionError,))
    if isinstance(client, RedisCluster):
        nodes = [
            ClusterNode(node.host, node.port)  # type: ignore[no-untyped-call]  # redis-py's
            for node in client.startup_nodes
        ]
        secure = issubclass(client.connection_kwargs.get("connection_class", object), SSLConnection)
        options = _same(client.connection_kwargs) | ({"ssl": True} if secure else {})
        return redis.RedisCluster(startup_nodes=nodes, retry=retry, **options)
    if isinstance(client.connection_pool, SentinelConnectionPool):
        remedy = "Pass the blocking client that Sentinel makes as sync_client."
        raise Invalid("the saver's blocking methods need a client of their own here", remedy=remedy)
    pool = client.connection_pool
    where = {key: value for key, value in pool.connection_kwargs.items() if key in _WHERE}
    kind: type[Any] = redis.Connection
    if "path" in where:
        kind = redis.UnixDomainSocketConnection
    elif issubclass(pool.connection_class, SSLConnection):
        kind = redis.SSLConnection
    return redis.Redis(
        connection_pool=redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]  # redis-py's
            connection_class=kind,
            max_connections=_BLOCKING_CONNECTIONS,
            timeout=TIMEOUT_S,
            retry=retry,
            **where,
            **_same(pool.connection_kwargs),
        )
    )


def _same(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a connection's options that a blocking one takes, with an end to every wait."""
    same = {key: value for key, value in options.items() if key in _SAME_FOR_BOTH or key.startswith("ssl_")}
    return same | {"socket_timeout": same.get("socket_timeout") or TIMEOUT_S}

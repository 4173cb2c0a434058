"""Choosing, opening and checking the connection to Redis: redis-py's clients, with batching and limits."""

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster, UnixDomainSocketConnection
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterNode, ClusterPipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.credentials import UsernamePasswordCredentialProvider
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from callsheet.state.errors import Broken, CallsheetError, Invalid, StorageDown, StorageRefused, TimedOut
from callsheet.state.unicode import utf8_safe_value
from callsheet.storage.embedded import folders, watchdog
from callsheet.storage.embedded import server as embedded
from callsheet.storage.embedded.server import ServerLease
from callsheet.storage.redis import address
from callsheet.storage.redis.address import Address
from callsheet.storage.redis.batching import (
    TIMEOUT_S,
    Batcher,
    CommandPolicy,
    can_retry,
    is_lost_connection,
    translating,
)
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


def _connect_embedded(lease: ServerLease, policy: CommandPolicy) -> Client:
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


async def is_loading(client: Client | ClusterClient, timeout_s: float) -> bool:
    """Return whether the server reads its file after a start; False for a cluster, and without an answer."""
    if isinstance(client, ClusterClient):
        return False
    connection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # redis-py's
    connection.retry = Retry(NoBackoff(), 0)
    try:
        async with asyncio.timeout(timeout_s):
            await client.command_policy.copy().run(connection.connect)
            await connection.send_command("PING", check_health=False)
            await connection.read_response()
    except exceptions.BusyLoadingError:
        return True
    except (CallsheetError, TimeoutError, exceptions.RedisError):
        return False
    finally:
        await connection.disconnect()
    return False


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


URL_VARIABLE: Final = "REDIS_URL"
OLDEST_VERSION: Final = (6, 2)
"""The oldest Redis with every command used here."""
_CHECK_TIMEOUT_S: Final = 10.0
_LOADING_S: Final = 600.0
"""Longest wait for a server that reads its file."""
_LOADING_POLL_S: Final = 0.25
_log = logging.getLogger(__name__)
_REMEDY: Final = f"Start the server, or correct {URL_VARIABLE}."
_SILENT_REMEDY: Final = f"{_REMEDY} With TLS it begins with rediss://, without with redis://."


class Attached(Protocol):
    """Something that is closed with a storage."""

    async def aclose(self) -> None:
        """Close it. Safe to call twice."""


@dataclass(frozen=True, slots=True)
class Storage:
    """An open connection to one Redis or Valkey, or to a cluster of them."""

    redis: Any
    """A `client.Client` or `client.ClusterClient`, whose replies are bytes.

    Any, because redis-py types its replies too widely (`bytes | str`, sync or async). A command whose
    connection is lost is sent again, so every write must be idempotent.
    """
    url: str
    """For other clients of the same server. Never show it: it may contain the password."""
    origin: str
    """Name of the server for messages, without the password."""
    lease: embedded.ServerLease | None = None
    """Keeps the embedded server running; None for any other server."""
    attached: dict[str, Attached] = field(default_factory=dict, compare=False)
    """Open files, memory and connections that are closed with this one, by name."""

    def __repr__(self) -> str:
        return f"Storage({self.origin!r})"

    async def aclose(self) -> None:
        """Close all connections and the lease. Safe to call twice."""
        try:
            while self.attached:
                await self.attached.popitem()[1].aclose()
            await self.redis.aclose()
        finally:
            if self.lease:
                self.lease.close()


def docket_options(storage: Storage, max_connections: int) -> list[dict[str, Any]]:
    """Return Docket's options for the server; on a cluster each names a node, any of which may be down."""
    server = address.parse(storage.url)
    options: dict[str, object] = {"max_connections": max_connections}
    if isinstance(storage.redis, ClusterClient):
        login = [storage.redis.connection_kwargs[name] or "" for name in ("username", "password")]
        # One of Docket's connections to a cluster takes the login in a URL without decoding it.
        provider = UsernamePasswordCredentialProvider(*login) if any(login) else None
        nodes = [(str(node.host), int(node.port)) for node in storage.redis.get_nodes()]
        random.shuffle(nodes)
        return [{"url": server.docket_url(options, node), "credential_provider": provider} for node in nodes]
    # With retries on lost connections: Docket keeps those that a restarted Redis has closed, and a delivery
    # over one of them would wait for a whole lease. Clients of clusters always retry, without the option.
    return [{"url": server.docket_url(options | {"retry_on_timeout": "true"})}]


@contextmanager
def translated_errors(storage: Storage) -> Iterator[None]:
    """Raise `StorageDown` for failures of connections other than those of `storage.redis`."""
    try:
        yield
    except (RedisError, RedisClusterException, OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_lost_connection(error):
            raise
        rule = f"{storage.origin} cannot be used: {error}"
        raise StorageDown(rule, remedy=_REMEDY) from error


@asynccontextmanager
async def connect(
    url: str | None = None, data_dir: Path | None = None, *, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[Storage]:
    """Open a storage as `open_storage` does, and close it at the end."""
    async with aclosing(await open_storage(url, data_dir, timeout_s=timeout_s)) as storage:
        yield storage


async def open_storage(
    url: str | None = None, data_dir: Path | None = None, *, timeout_s: float = TIMEOUT_S
) -> Storage:
    """Return a storage that the caller closes. A command fails after `timeout_s` seconds, retries included.

    Connects to `url` if given; else, unless `data_dir` is given, to the server in `REDIS_URL`; else to the
    embedded server of `data_dir` or the default data folder. Raises `Invalid` for a wrong URL, password,
    database or version, `StorageDown` if the server does not answer, and what `ensure_running` raises.
    """
    if url:
        return await _open_remote(url, "", timeout_s)
    if not data_dir and (from_environment := os.environ.get(URL_VARIABLE)):
        return await _open_remote(from_environment, f"{URL_VARIABLE} ", timeout_s)
    return await _open_embedded(data_dir, timeout_s)


async def _open_remote(url: str, source: str, timeout_s: float) -> Storage:
    server = address.parse(url)
    origin = f"{source}{server.redacted_url}"
    policy = CommandPolicy(origin, _REMEDY, server.max_connections, timeout_s)
    storage = Storage(connect_to(server, policy), url, origin)
    try:
        await _check_server(storage)
    except BaseException:
        await storage.aclose()
        raise
    return storage


async def _open_embedded(data_dir: Path | None, timeout_s: float) -> Storage:
    # In a thread, because both calls block.
    lease = await asyncio.to_thread(lambda: embedded.ensure_running(data_dir or folders.default_data_dir()))
    origin = f"the embedded Valkey in {str(lease.home)!r}"
    remedy = f"Try again; its log is {str(lease.home / watchdog.LOG)!r}."
    policy = CommandPolicy(origin, remedy, address.MAX_CONNECTIONS, timeout_s)
    return Storage(_connect_embedded(lease, policy), lease.url, origin, lease)


async def read_info(storage: Storage, section: str | None = None) -> Mapping[str, Any]:
    """Return what INFO says; without the right to it, version, mode and role as HELLO says them."""
    try:
        info: Mapping[str, Any] = await (storage.redis.info(section) if section else storage.redis.info())
    except StorageRefused as error:
        if not isinstance(error.__cause__, exceptions.NoPermissionError):
            raise
        if isinstance(storage.redis, ClusterClient):
            raise
        return await _read_hello(storage)
    return info


async def _read_hello(storage: Storage) -> Mapping[str, Any]:
    reply: Any = await storage.redis.execute_command("HELLO")
    pairs = reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
    facts = {_text(name): _text(value) for name, value in pairs}
    return {
        "redis_version": facts["version"],
        "redis_mode": facts["mode"],
        "role": facts["role"],
        "hello": True,
    }


def _text(part: object) -> str:
    return part.decode() if isinstance(part, bytes) else str(part)


async def _check_server(storage: Storage) -> None:
    """Raise unless the server answers, accepts the credentials and is supported."""
    await _wait_for_data(storage)
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_S):
            info = await read_info(storage, "server")
    except (TimeoutError, TimedOut) as error:
        raise StorageDown(
            f"{storage.origin} cannot be reached: it does not answer", remedy=_SILENT_REMEDY
        ) from error
    except ResponseError as error:
        rule = f"{storage.origin} refuses the connection: {error}"
        raise Invalid(rule, remedy=f"Correct {URL_VARIABLE}.") from error
    version = str(info["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        rule = f"{storage.origin} is Redis {version}, and the oldest supported version is {oldest}"
        raise Invalid(rule, remedy=f"Upgrade it, or unset {URL_VARIABLE} to use the embedded Valkey.")
    mode = info.get("redis_mode", info.get("server_mode"))
    if mode == "cluster" and not isinstance(storage.redis, ClusterClient):
        raise Invalid(f"{storage.origin} is a cluster", remedy="Write its URL as redis+cluster://…")


async def _wait_for_data(storage: Storage) -> None:
    """Wait while the server reads its file after a start; raise `StorageDown` if that takes too long."""
    deadline_s = time.monotonic() + _LOADING_S
    is_logged = False
    while await is_loading(storage.redis, _CONNECT_S):
        if not is_logged:
            _log.warning("%s is loading its data; waiting for it", storage.origin)
            is_logged = True
        if time.monotonic() > deadline_s:
            rule = f"{storage.origin} is loading its data for longer than {_LOADING_S:g} s"
            raise StorageDown(rule, remedy="Start again once it has read its file.")
        await asyncio.sleep(_LOADING_POLL_S)

"""Choosing, opening and checking the connection to Redis."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from redis.credentials import UsernamePasswordCredentialProvider
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from callsheet.state.errors import Invalid, StorageDown, TimedOut
from callsheet.storage.embedded import folders, watchdog
from callsheet.storage.embedded import server as embedded
from callsheet.storage.redis import address, client
from callsheet.storage.redis.command_policy import TIMEOUT_S, CommandPolicy
from callsheet.storage.redis.lost_connections import is_lost_connection

URL_VARIABLE: Final = "REDIS_URL"
OLDEST_VERSION: Final = (6, 2)
"""The oldest Redis with every command used here."""
_CHECK_TIMEOUT_S: Final = 10.0
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
    if isinstance(storage.redis, client.ClusterClient):
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
    storage = Storage(client.connect_to(server, policy), url, origin)
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
    return Storage(client.connect_embedded(lease, policy), lease.url, origin, lease)


async def _check_server(storage: Storage) -> None:
    """Raise unless the server answers, accepts the credentials and is supported."""
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_S):
            info = await storage.redis.info("server")
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
    if mode == "cluster" and not isinstance(storage.redis, client.ClusterClient):
        raise Invalid(f"{storage.origin} is a cluster", remedy="Write its URL as redis+cluster://…")

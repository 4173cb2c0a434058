"""The connection to Redis: chosen here, checked here, and named in every message about it."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.exceptions import RedisError, ResponseError

from callsheet.state.errors import Invalid, StorageDown, TimedOut
from callsheet.storage.embedded import folders, watchdog
from callsheet.storage.embedded import server as embedded
from callsheet.storage.redis import address, client
from callsheet.storage.redis.command_policy import TIMEOUT_S, CommandPolicy

URL_VARIABLE: Final = "REDIS_URL"
OLDEST_VERSION: Final = (6, 2)
"""The oldest Redis that has every command used here."""
_GREETING_S: Final = 10.0
_REMEDY: Final = f"Start the server, or correct {URL_VARIABLE}."


@dataclass(frozen=True, slots=True)
class Storage:
    """An open connection to one Redis or Valkey, or to a cluster of them."""

    redis: Any
    """A `client.Client` or `client.ClusterClient`, whose answers are bytes.

    Any, because redis-py gives its answers types they never have (`bytes | str`, sync or async). A command
    whose connection is lost is sent again, so every write must be safe to arrive twice.
    """
    url: str
    """For other clients of the same server; holds the password, so never show it."""
    origin: str
    """For people: which server this is, without the password."""
    lease: embedded.Lease | None = None
    """This process's share in the embedded server; None for any other."""

    def __repr__(self) -> str:
        return f"Storage({self.origin!r})"

    async def aclose(self) -> None:
        """Close all connections and give up the lease. Twice is safe."""
        try:
            await self.redis.aclose()
        finally:
            if self.lease:
                self.lease.close()


@contextmanager
def translated_errors(storage: Storage) -> Iterator[None]:
    """Raise `StorageDown` for what goes wrong with a connection that is not one of `storage.redis`."""
    try:
        yield
    except (RedisError, OSError) as error:
        rule = f"{storage.origin} cannot be used: {error}"
        raise StorageDown(rule, remedy=_REMEDY) from error


@asynccontextmanager
async def connect(
    url: str | None = None, data_dir: Path | None = None, *, patience_s: float = TIMEOUT_S
) -> AsyncIterator[Storage]:
    """What `opened` returns, closed at the end of the `async with`."""
    storage = await open_storage(url, data_dir, patience_s=patience_s)
    try:
        yield storage
    finally:
        await storage.aclose()


async def open_storage(
    url: str | None = None, data_dir: Path | None = None, *, patience_s: float = TIMEOUT_S
) -> Storage:
    """A storage that the caller closes. A command fails after `patience_s` seconds, attempts and all.

    On `url` if given; else, unless `data_dir` is given, on the server that `REDIS_URL` names; else on the
    embedded server of `data_dir` or the default data folder. `Invalid` for a wrong URL, password, database or
    version, `StorageDown` when the server does not answer, and what `embedded.ensure_running` raises.
    """
    if url:
        return await _remote(url, "", patience_s)
    if not data_dir and (named := os.environ.get(URL_VARIABLE)):
        return await _remote(named, f"{URL_VARIABLE} ", patience_s)
    return await _embedded(data_dir, patience_s)


async def _remote(url: str, source: str, patience_s: float) -> Storage:
    where = address.parse(url)
    origin = f"{source}{where.redacted_url}"
    held_to = CommandPolicy(origin, _REMEDY, where.max_connections, patience_s)
    storage = Storage(client.connect_to(where, held_to), url, origin)
    try:
        await _greet(storage)
    except BaseException:
        await storage.aclose()
        raise
    return storage


async def _embedded(data_dir: Path | None, patience_s: float) -> Storage:
    # In a thread: the start waits for another process, and even finding the folder reads files.
    lease = await asyncio.to_thread(lambda: embedded.ensure_running(data_dir or folders.default_data_dir()))
    origin = f"the embedded Valkey in {str(lease.home)!r}"
    remedy = f"Try again; its log is {str(lease.home / watchdog.LOG)!r}."
    held_to = CommandPolicy(origin, remedy, address.MAX_CONNECTIONS, patience_s)
    redis = client.connect_embedded(lease, held_to)
    return Storage(redis, lease.url, origin, lease)


async def _greet(storage: Storage) -> None:
    """Check that the server is there, lets us in, and is one that we can work with."""
    try:
        async with asyncio.timeout(_GREETING_S):
            facts = await storage.redis.info("server")
    except (TimeoutError, TimedOut) as error:
        raise StorageDown(
            f"{storage.origin} cannot be reached: it does not answer", remedy=_REMEDY
        ) from error
    except ResponseError as error:
        rule = f"{storage.origin} refuses the connection: {error}"
        raise Invalid(rule, remedy=f"Correct {URL_VARIABLE}.") from error
    version = str(facts["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        rule = f"{storage.origin} is Redis {version}, and the oldest supported version is {oldest}"
        raise Invalid(rule, remedy=f"Upgrade it, or unset {URL_VARIABLE} to use the embedded Valkey.")
    mode = facts.get("redis_mode", facts.get("server_mode"))
    if mode == "cluster" and not isinstance(storage.redis, client.ClusterClient):
        raise Invalid(f"{storage.origin} is a cluster", remedy="Write its URL as redis+cluster://…")

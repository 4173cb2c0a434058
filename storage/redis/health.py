"""Health of the Redis server: its disk, memory and role, and the problems an operator should know."""

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from callsheet.storage.redis import keys
from callsheet.storage.redis.batching import DELETE_THREADS
from callsheet.storage.redis.connection import Storage, read_info
from callsheet.storage.redis.scripts import Batchable, Script, ScriptCall

_NEARLY_FULL: Final = 0.9
"""Share of the memory limit from which memory is reported as a problem."""
_SUBSCRIPTION_S: Final = 2.0
"""Seconds for the answer to a subscription."""
_log = logging.getLogger(__name__)

_TIME: Final = Script.with_clock("return now_us()")
_MARK: Final = Script("""
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
""")
_COUNT: Final = Script("return redis.call('INCR', KEYS[1])")


@dataclass(frozen=True)
class ServerHealth:
    """Facts from a server's INFO; on a cluster, of one node."""

    name: str
    """Product and version, such as `Valkey 9.1.2`."""
    cluster: bool
    replica: bool
    """True for a replica, which takes no writes."""
    persistent: bool
    """True if every change goes to an append-only file."""
    disk_ok: bool
    """True if the last writes to disk succeeded, or there is no persistence."""
    used_bytes: int
    limit_bytes: int
    """Memory limit; 0 for none."""
    eviction_policy: str
    """Eviction policy at that limit; only `noeviction` loses nothing."""
    evicted_keys: int
    """Keys evicted since the server started."""
    clients: int
    latency_s: float
    """Duration of the INFO command."""
    watched: bool = True
    """False if the user has no right to INFO, so that memory, disk and eviction are unknown."""


@dataclass(frozen=True)
class HealthProblem:
    """A problem of the server that an operator should know."""

    component: str
    """`storage` if nothing can be written, or the part at fault or at risk, such as `queue` or `memory`."""
    fatal: bool
    """True if requests fail already."""
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return message and remedy."""
        return f"{self.message}. {self.remedy}"


class DataMarker:
    """Keys that show whether writes are accepted, and whether data that this process has seen is gone.

    A random text shows that the data is another one; a number that every check counts up, that it went back
    in time. What was lost after the last check is not noticed.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: bytes | None = None
        self._checks = 0
        """The highest number of checks that was read."""
        self._loss = ""

    async def check(self) -> list[HealthProblem]:
        """Write the keys; return the loss of data as a problem. Raises as any write does."""
        checks_before = self._checks
        marking = ScriptCall(_MARK, [keys.DATA_MARKER], [uuid.uuid4().hex])
        counting = ScriptCall(_COUNT, [keys.DATA_CHECKS])
        current, checks = await self._storage.redis.execute_batch([marking, counting])
        known, self._known = self._known, current
        if known not in {None, current}:
            self._record("was emptied or replaced", "what was stored before is gone")
            self._checks = checks
        elif checks <= checks_before:
            self._record("went back in time", "its newest changes are gone")
            self._checks = checks
        # Checks at the same time may be answered in any order.
        self._checks = max(self._checks, checks)
        if not self._loss:
            return []
        message = f"{self._storage.origin} {self._loss} since this server started"
        remedy = "If that was not intended, restore a backup (docs/runbook.md); then restart this server."
        return [HealthProblem("persistence", fatal=False, message=message, remedy=remedy)]

    def _record(self, loss: str, consequence: str) -> None:
        self._loss = loss
        _log.error("%s %s: %s", self._storage.origin, loss, consequence)


class OutageLog:
    """Logs the problems that make requests fail: once for each change, however often they are read."""

    def __init__(self) -> None:
        self._known: list[str] = []

    def report(self, problems: Sequence[HealthProblem]) -> None:
        """Log the fatal problems, or their end, if they differ from the last ones."""
        fatal = [str(problem) for problem in problems if problem.fatal]
        if fatal == self._known:
            return
        self._known = fatal
        if fatal:
            _log.error("unhealthy: %s", " ".join(fatal))
        else:
            _log.info("healthy again")


async def read_health(storage: Storage) -> ServerHealth:
    """Return the server's current health; raises what any command raises."""
    started_s = time.monotonic()
    info = await read_info(storage)
    return _parse_info(info, time.monotonic() - started_s)


async def server_time_s(redis: Batchable) -> float:
    """Return the server's time, in seconds since 1970; on a cluster, that of one node."""
    return int(await _TIME(redis, [keys.DATA_MARKER])) / 1e6


async def subscription_error(storage: Storage, pattern: str) -> RedisError | None:
    """Return the server's refusal of a subscription to these channels; None if it takes it."""
    try:
        async with storage.redis.pubsub() as subscription:
            await subscription.psubscribe(pattern)
            await subscription.get_message(timeout=_SUBSCRIPTION_S)
    except RedisError as error:
        return error
    return None


def health_problems(health: ServerHealth) -> list[HealthProblem]:
    """Return the server's problems, worst first."""
    problems = []

    def report(part: str, message: str, remedy: str) -> None:
        fatal = part == "storage"
        problems.append(HealthProblem(part, fatal=fatal, message=f"{health.name} {message}", remedy=remedy))

    if health.replica:
        report("storage", "is a replica and takes no writes", "Point REDIS_URL to the primary.")
    if not health.disk_ok:
        report("storage", "could not write to its disk", "Free some space; its log has the reason.")
    if health.limit_bytes and health.used_bytes > _NEARLY_FULL * health.limit_bytes:
        share, limit_mib = health.used_bytes / health.limit_bytes, health.limit_bytes / 2**20
        message = f"uses {share:.0%} of the {limit_mib:.0f} MiB it may use"
        report("memory", message, f"Raise maxmemory, or {DELETE_THREADS}")
    if health.evicted_keys:
        message = f"has evicted {health.evicted_keys} keys because its memory was full"
        report("memory", message, "Set maxmemory-policy to noeviction.")
    return problems


def health_warnings(health: ServerHealth) -> list[HealthProblem]:
    """Return the settings of the server that may lose data later."""
    if not health.watched:
        message = "memory, disk and eviction are not watched, because the user in REDIS_URL may not run INFO"
        remedy = "Give it the right: ACL SETUSER name +info."
        return [HealthProblem("memory", fatal=False, message=message, remedy=remedy)]
    warnings = []
    if not health.persistent:
        message = "no append-only file: changes after the last snapshot are lost if Redis stops"
        warnings.append(
            HealthProblem("persistence", fatal=False, message=message, remedy="Set appendonly to yes.")
        )
    if health.eviction_policy != "noeviction":
        message = f"maxmemory-policy {health.eviction_policy} deletes keys when memory is full"
        warnings.append(
            HealthProblem(
                "memory", fatal=False, message=message, remedy="Set maxmemory-policy to noeviction."
            )
        )
    return warnings


def _parse_info(info: Mapping[str, Any], answered_s: float) -> ServerHealth:
    valkey = info.get("valkey_version")
    disk = [info.get(name, "ok") for name in ("aof_last_write_status", "rdb_last_bgsave_status")]
    return ServerHealth(
        name=f"Valkey {valkey}" if valkey else f"Redis {info['redis_version']}",
        cluster=bool(info.get("cluster_enabled")),
        replica=info.get("role", "master") != "master",
        persistent=bool(info.get("aof_enabled")),
        disk_ok=all(status == "ok" for status in disk),
        used_bytes=int(info.get("used_memory", 0)),
        limit_bytes=int(info.get("maxmemory", 0)),
        eviction_policy=str(info.get("maxmemory_policy", "unknown")),
        evicted_keys=int(info.get("evicted_keys", 0)),
        clients=int(info.get("connected_clients", 0)),
        latency_s=answered_s,
        watched=not info.get("hello"),
    )

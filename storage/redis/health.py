"""How the Redis server is: what it says of its disk, its memory and its role, and what of that is trouble."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from callsheet.storage.redis.connection import Storage

_NEARLY_FULL: Final = 0.9
"""Share of its memory limit from which a server is worth a look."""


@dataclass(frozen=True)
class ServerHealth:
    """What a server says of itself; on a cluster, one node of it."""

    name: str
    """Product and version, such as `Valkey 9.1.2`."""
    cluster: bool
    replica: bool
    """Whether it is a copy that takes no writes."""
    persistent: bool
    """Whether every change goes to an append-only file."""
    disk_ok: bool
    """Whether its last writes to disk succeeded; True for a server that keeps nothing on disk."""
    used_bytes: int
    limit_bytes: int
    """Most memory it may use; 0 for no limit."""
    policy: str
    """What it does once that is reached; only `noeviction` loses nothing."""
    evicted: int
    """Keys it has thrown away for want of memory since it started."""
    clients: int
    answered_s: float
    """Seconds it took to say all this."""


@dataclass(frozen=True)
class HealthProblem:
    """Something about the server that an operator should know."""

    part: str
    """`storage` where nothing can be written, else what is in danger: `memory`, `persistence`."""
    fatal: bool
    """Whether requests fail already."""
    message: str
    remedy: str


async def read_health(storage: Storage) -> ServerHealth:
    """Return how the server is now; raises what any command raises."""
    began = time.monotonic()
    found: Mapping[str, Any] = await storage.redis.info()
    return _read(found, time.monotonic() - began)


async def server_time_s(storage: Storage) -> float:
    """Return the server's time, in seconds since 1970."""
    seconds, micros = await storage.redis.time()
    return float(seconds) + float(micros) / 1e6


def health_problems(seen: ServerHealth) -> list[HealthProblem]:
    """Return what is wrong with the server, worst first."""
    found = []
    if seen.replica:
        told = f"{seen.name} is a replica and takes no writes"
        found.append(
            HealthProblem("storage", fatal=True, message=told, remedy="Point REDIS_URL to the primary.")
        )
    if not seen.disk_ok:
        told = f"{seen.name} could not write to its disk"
        found.append(
            HealthProblem(
                "storage", fatal=True, message=told, remedy="Free some space; its log has the reason."
            )
        )
    if seen.limit_bytes and seen.used_bytes > _NEARLY_FULL * seen.limit_bytes:
        share = f"{seen.used_bytes / seen.limit_bytes:.0%}"
        told = f"{seen.name} uses {share} of the {seen.limit_bytes / 2**20:.0f} MiB it may use"
        found.append(
            HealthProblem("memory", fatal=False, message=told, remedy="Raise maxmemory, or delete threads.")
        )
    if seen.evicted:
        told = f"{seen.name} has thrown away {seen.evicted} keys for want of memory"
        found.append(
            HealthProblem("memory", fatal=False, message=told, remedy="Set maxmemory-policy to noeviction.")
        )
    return found


def _read(facts: Mapping[str, Any], answered_s: float) -> ServerHealth:
    valkey = facts.get("valkey_version")
    disk = [facts.get(name, "ok") for name in ("aof_last_write_status", "rdb_last_bgsave_status")]
    return ServerHealth(
        name=f"Valkey {valkey}" if valkey else f"Redis {facts['redis_version']}",
        cluster=bool(facts.get("cluster_enabled")),
        replica=facts.get("role", "master") != "master",
        persistent=bool(facts.get("aof_enabled")),
        disk_ok=all(status == "ok" for status in disk),
        used_bytes=int(facts.get("used_memory", 0)),
        limit_bytes=int(facts.get("maxmemory", 0)),
        policy=str(facts.get("maxmemory_policy", "unknown")),
        evicted=int(facts.get("evicted_keys", 0)),
        clients=int(facts.get("connected_clients", 0)),
        answered_s=answered_s,
    )

"""Limits on every command to a server: concurrency, timeout, and errors translated into our own."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from redis import exceptions

from callsheet.state.errors import Broken, CallsheetError, Refused, StorageDown, StorageRefused, StorageSilent

TIMEOUT_S: Final = 30.0
"""Default timeout of a command, including its wait for a slot and its retries."""
DELETE_THREADS: Final = "delete threads that you no longer need; what is not exported before is lost."
"""Advice for a full memory."""
_UNAVAILABLE: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.RedisClusterException,
)
_SERVER_STATE: Final = re.compile(
    r"(?:Error running script.*-)?(?:OOM|MISCONF|READONLY|NOREPLICAS|LOADING|BUSY|MASTERDOWN|CLUSTERDOWN)\b",
    re.DOTALL,
)
"""Error replies about the server's state, not the command; older servers wrap them if a script failed."""

T = TypeVar("T")


class CommandPolicy:
    """The limits on the commands of one client."""

    def __init__(self, origin: str, remedy: str, max_concurrent: int, timeout_s: float) -> None:
        self.origin: Final = origin
        self.max_concurrent: Final = max_concurrent
        self.timeout_s: Final = timeout_s
        self._remedy: Final = remedy
        self._slots = asyncio.Semaphore(max_concurrent)

    def copy(self) -> "CommandPolicy":
        """Return the same limits with separate slots."""
        return CommandPolicy(self.origin, self._remedy, self.max_concurrent, self.timeout_s)

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`; raise its failures as `StorageDown` or a kind of it.

        An error reply about the command itself (no such script, wrong type) stays redis-py's error.
        """
        try:
            async with asyncio.timeout(self.timeout_s), self._slots:
                return await call()
        except TimeoutError as error:
            rule = f"{self.origin} gave no answer within {self.timeout_s:g} s"
            raise StorageSilent(rule, remedy=self._remedy) from error
        except (exceptions.RedisError, exceptions.RedisClusterException) as error:
            if translated := self._translate(error):
                raise translated from error
            raise

    def _refusal(self, error: Exception) -> StorageRefused:
        if isinstance(error, exceptions.InvalidResponse):
            return StorageRefused(
                f"{self.origin} is no Redis, or expects TLS: its answer is not in Redis' protocol",
                remedy="Correct REDIS_URL; for a server with TLS it begins with rediss://.",
            )
        return StorageRefused(f"{self.origin} refuses the connection: {error}", remedy="Correct REDIS_URL.")

    def _translate(self, error: Exception) -> CallsheetError | None:
        """Return our error for the failure; None if it is a reply about the command."""
        match root := _root_cause(error):
            case CallsheetError():
                return root
            case exceptions.OutOfMemoryError():
                return StorageDown(
                    f"{self.origin} is out of memory", remedy=f"Raise its maxmemory, or {DELETE_THREADS}"
                )
            case exceptions.ResponseError() if str(root).startswith("MISCONF"):
                return StorageDown(
                    f"{self.origin} cannot write to its disk: {root}", remedy="Free some space."
                )
            case _ if _is_refusal(root) or (root is not error and isinstance(root, exceptions.ResponseError)):
                return self._refusal(root)
            case _ if isinstance(root, _UNAVAILABLE) or _SERVER_STATE.match(str(root)):
                return StorageDown(f"{self.origin} cannot be used: {root}", remedy=self._remedy)
        return None


def _root_cause(error: Exception) -> Exception:
    """Return the error itself, or the one that redis-py wrapped while connecting."""
    cause = error.__cause__
    return cause if isinstance(cause, CallsheetError | exceptions.RedisError) else error


def _is_refusal(error: Exception) -> bool:
    """Return whether the server refuses this user, so that retrying is useless."""
    if isinstance(error, exceptions.RedisClusterException):
        # The cluster client keeps only the text of the cause.
        return any(sign in str(error) for sign in ("AuthenticationError", "Cluster mode is not enabled"))
    return isinstance(
        error,
        exceptions.AuthenticationError
        | exceptions.AuthenticationWrongNumberOfArgsError
        | exceptions.AuthorizationError
        | exceptions.NoPermissionError
        | exceptions.InvalidResponse,
    )


def can_retry(error: Exception) -> bool:
    """Return whether a retry may succeed."""
    root = _root_cause(error)
    return not _is_refusal(root) and not isinstance(root, Refused | Broken)

"""What every command to a server is held to: turns, an end to every wait, and failures of our own kind."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from redis import exceptions

from callsheet.state.errors import Broken, CallsheetError, Refused, StorageDown, StorageRefused, StorageSilent

TIMEOUT_S: Final = 30.0
"""How long a command may take, waiting and new attempts included, unless told otherwise."""
_AWAY: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.RedisClusterException,
)
_OWN_TROUBLE: Final = re.compile(
    r"(?:Error running script.*-)?(?:OOM|MISCONF|READONLY|NOREPLICAS|LOADING|BUSY|MASTERDOWN|CLUSTERDOWN)\b",
    re.DOTALL,
)
"""Answers about the server's state rather than the command; older servers wrap them where a script failed."""

T = TypeVar("T")


class CommandPolicy:
    """What every command of one client is held to."""

    def __init__(self, origin: str, remedy: str, most: int, patience_s: float) -> None:
        self.origin: Final = origin
        self.most: Final = most
        self.patience_s: Final = patience_s
        self._remedy: Final = remedy
        self._turns = asyncio.Semaphore(most)

    def copy(self) -> "CommandPolicy":
        """The same bounds, with as many turns of their own."""
        return CommandPolicy(self.origin, self._remedy, self.most, self.patience_s)

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, in turn and in time; its failures as `StorageDown` or a kind of it.

        An answer that refuses the command itself (no such script, wrong type) stays redis-py's error.
        """
        try:
            async with asyncio.timeout(self.patience_s), self._turns:
                return await call()
        except TimeoutError as error:
            rule = f"{self.origin} gave no answer within {self.patience_s:g} s"
            raise StorageSilent(rule, remedy=self._remedy) from error
        except (exceptions.RedisError, exceptions.RedisClusterException) as error:
            if translated := self._translated(error):
                raise translated from error
            raise

    def _translated(self, error: Exception) -> CallsheetError | None:
        """What the failure means to who does not know Redis; None when it is an answer to the command."""
        match root := _root(error):
            case CallsheetError():
                return root
            case exceptions.OutOfMemoryError():
                return StorageDown(f"{self.origin} has no memory left", remedy="Raise its maxmemory.")
            case exceptions.ResponseError() if str(root).startswith("MISCONF"):
                return StorageDown(
                    f"{self.origin} cannot write to its disk: {root}", remedy="Free some space."
                )
            case _ if _refused(root) or (root is not error and isinstance(root, exceptions.ResponseError)):
                return StorageRefused(
                    f"{self.origin} refuses the connection: {root}", remedy="Correct REDIS_URL."
                )
            case _ if isinstance(root, _AWAY) or _OWN_TROUBLE.match(str(root)):
                return StorageDown(f"{self.origin} cannot be used: {root}", remedy=self._remedy)
        return None


def _root(error: Exception) -> Exception:
    """The error itself, or the one that redis-py wrapped while it connected."""
    cause = error.__cause__
    return cause if isinstance(cause, CallsheetError | exceptions.RedisError) else error


def _refused(error: Exception) -> bool:
    """Whether the server was reached and will not let this user in, now or later."""
    if isinstance(error, exceptions.RedisClusterException):
        # The cluster client keeps no more of the reason than its text.
        return any(sign in str(error) for sign in ("AuthenticationError", "Cluster mode is not enabled"))
    return isinstance(
        error,
        exceptions.AuthenticationError
        | exceptions.AuthenticationWrongNumberOfArgsError
        | exceptions.AuthorizationError
        | exceptions.NoPermissionError,
    )


def can_retry(error: Exception) -> bool:
    """Return whether trying again may help."""
    root = _root(error)
    return not _refused(root) and not isinstance(root, Refused | Broken)

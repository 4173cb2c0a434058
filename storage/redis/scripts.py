"""Atomic steps: Lua that runs inside Redis, called like a function."""

import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol

Argument = str | bytes | int | float
"""What a script may be given: text goes as UTF-8, numbers as their decimal digits."""


class Script:
    """One script; calling it is one round trip, and all it does happens at once or not at all.

    Redis keeps scripts by their SHA-1 and forgets them when it restarts, so the text is sent only to a
    server that does not know it. On a cluster all keys must share a hash tag.
    """

    def __init__(self, source: str) -> None:
        self.source: Final = source
        self.sha: Final = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, redis: "Batchable", keys: Sequence[str], args: Sequence[Argument] = ()) -> Any:
        """Return what the script returns: int, bytes, None, or a list of those."""
        return (await redis.execute_batch([ScriptCall(self, keys, args)]))[0]


class Command(NamedTuple):
    """One command, safe to send twice; its reply is as Redis gives it, from a cluster as redis-py does."""

    words: tuple[Argument, ...]
    """Of one slot."""
    durable: bool = False
    """As for `Asked`."""

    def by_name(self) -> tuple[Argument, ...]:
        """The command itself."""
        return self.words

    def in_full(self) -> tuple[Argument, ...]:
        """The same."""
        return self.words


class ScriptCall(NamedTuple):
    """One run of a script that has not begun yet. It must be safe to run twice."""

    script: Script
    keys: Sequence[str]
    """Of one slot."""
    args: Sequence[Argument] = ()
    durable: bool = False
    """Whether the reply may be held back until the effect is on disk."""

    def by_name(self) -> tuple[Argument, ...]:
        """The command for a server that has seen the script."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.args)

    def in_full(self) -> tuple[Argument, ...]:
        """The command for a server that has not."""
        return ("EVAL", self.script.source, len(self.keys), *self.keys, *self.args)


class Batchable(Protocol):
    """A way to a server, or to a cluster."""

    async def execute_batch(self, asked: Sequence[ScriptCall | Command]) -> list[Any]:
        """Return what the scripts return, run in this order in one round trip; on a cluster, one for each.

        Each happens at once or not at all, but not all of them together. Raises the first error.
        """


def execute_all(redis: Batchable, asked: Sequence[ScriptCall | Command]) -> Coroutine[Any, Any, list[Any]]:
    """Return what the scripts return, as `Trips.execute_batch`."""
    return redis.execute_batch(asked)


async def execute(redis: Batchable, *words: Argument) -> Any:
    """Return the reply to one command, sent with the scripts of the moment."""
    return (await redis.execute_batch([Command(words)]))[0]


async def hgetall(redis: Batchable, key: str) -> dict[bytes, bytes]:
    """Return all fields of a hash; none where there is no hash."""
    told: Any = await execute(redis, "HGETALL", key)
    return told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))

"""Atomic steps: Lua that runs inside Redis, called like a function."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError

Word = str | bytes | int | float
"""What a script may be given: text goes as UTF-8, numbers as their decimal digits."""


class Script:
    """One script; calling it is one round trip, and all it does happens at once or not at all.

    Redis keeps scripts by their SHA-1 and forgets them when it restarts, so the text is sent only to a
    server that does not know it. On a cluster all keys must share a hash tag.
    """

    def __init__(self, source: str) -> None:
        self.source: Final = source
        self.sha: Final = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(
        self, redis: Redis | RedisCluster, keys: Sequence[str | bytes], args: Sequence[Word] = ()
    ) -> Any:
        """Return what the script returns: int, bytes, None, or a list of those."""
        words = (len(keys), *keys, *args)
        try:
            return await redis.execute_command("EVALSHA", self.sha, *words)
        except NoScriptError:
            return await redis.execute_command("EVAL", self.source, *words)


@dataclass(frozen=True)
class Asked:
    """One call of a script that has not been made yet."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Word] = ()


async def together(redis: Redis | RedisCluster, asked: Sequence[Asked]) -> list[Any]:
    """Return what the scripts return, called in this order in one round trip; on a cluster, one to each node.

    Each happens at once or not at all, but not all of them together. Raises the first error.
    """
    if len(asked) == 1:
        return [await one.script(redis, one.keys, one.args) for one in asked]
    pipeline = redis.pipeline(transaction=False)
    for one in asked:
        pipeline.execute_command("EVALSHA", one.script.sha, len(one.keys), *one.keys, *one.args)
    answers = await pipeline.execute(raise_on_error=False)
    for at, one in enumerate(asked):
        if isinstance(answers[at], NoScriptError):
            answers[at] = await one.script(redis, one.keys, one.args)
        elif isinstance(answers[at], Exception):
            raise answers[at]
    return list(answers)

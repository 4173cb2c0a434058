"""Lua scripts and commands as values, executed in batches."""

import hashlib
from collections.abc import Coroutine, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

Argument = str | bytes | int | float
"""An argument of a script: text is sent as UTF-8, a number as its decimal digits."""


_CLOCK: Final = """
local us
local function now_us()
  if not us then
    local time = redis.call('TIME')
    us = time[1] .. string.format('%06d', time[2])
  end
  return us
end
local function now_ms() return string.sub(now_us(), 1, -4) end
"""
"""The server's time since 1970 as digits: workers' clocks may differ by more than a lease. A script reads it
once, so that all its writes have one time."""


class Script:
    """A Lua script, executed atomically in one round trip.

    Redis knows scripts by their SHA-1 and forgets them when it restarts, so the source is sent only to a
    server that lacks it. On a cluster all keys must share a hash tag.
    """

    def __init__(self, source: str) -> None:
        self.source: Final = source
        self.sha: Final = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    @classmethod
    def with_clock(cls, source: str) -> "Script":
        """Return a script that may call `now_ms` and `now_us`."""
        return cls(_CLOCK + source)

    async def __call__(self, redis: "Batchable", keys: Sequence[str], args: Sequence[Argument] = ()) -> Any:
        """Return what the script returns: int, bytes, None, or a list of those."""
        return (await redis.execute_batch([ScriptCall(self, keys, args)]))[0]


class Command(NamedTuple):
    """One idempotent command. The reply is raw, but parsed by redis-py on a cluster."""

    words: tuple[Argument, ...]
    durable: bool = False
    """As for `ScriptCall`."""

    def evalsha_args(self) -> tuple[Argument, ...]:
        """Return the command itself."""
        return self.words

    def eval_args(self) -> tuple[Argument, ...]:
        """Return the command itself."""
        return self.words


class ScriptCall(NamedTuple):
    """One idempotent call of a script, not yet sent."""

    script: Script
    keys: Sequence[str]
    """All in one slot."""
    args: Sequence[Argument] = ()
    durable: bool = False
    """True if the reply may be delayed until the write is on disk."""

    def evalsha_args(self) -> tuple[Argument, ...]:
        """Return the command for a server that knows the script."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.args)

    def eval_args(self) -> tuple[Argument, ...]:
        """Return the command for a server that lacks the script."""
        return ("EVAL", self.script.source, len(self.keys), *self.keys, *self.args)


def combine(calls: Sequence[ScriptCall]) -> ScriptCall:
    """Return one atomic call that executes all of them in order and replies with their replies.

    All keys must be in one slot. A call that refuses to act does not stop the next one.
    """
    scripts = tuple(dict.fromkeys(call.script for call in calls))
    keys, args = list[str](), list[Argument]()
    for call in calls:
        keys += call.keys
        args += (scripts.index(call.script) + 1, len(call.keys), len(call.args), *call.args)
    return ScriptCall(_combined_script(scripts), keys, args, durable=any(call.durable for call in calls))


@lru_cache
def _combined_script(scripts: tuple[Script, ...]) -> Script:
    functions = ",\n".join(f"function(KEYS, ARGV)\n{script.source}\nend" for script in scripts)
    return Script(f"local scripts = {{\n{functions}\n}}\n{_CALL_ALL}")


_CALL_ALL: Final = """
local function slice(list, first, count)
  local part = {}
  for i = 1, count do part[i] = list[first + i - 1] end
  return part
end
local replies, key, arg = {}, 1, 1
while arg <= #ARGV do
  local keys, args = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local reply = scripts[tonumber(ARGV[arg])](slice(KEYS, key, keys), slice(ARGV, arg + 3, args))
  replies[#replies + 1] = reply or false
  key, arg = key + keys, arg + 3 + args
end
return replies
"""


class Batchable(Protocol):
    """A client of a server or cluster that executes calls in batches."""

    async def execute_batch(self, calls: Sequence[ScriptCall | Command]) -> list[Any]:
        """Run the calls in order and return their replies, in one round trip (on a cluster, one each).

        Each call is atomic, the batch is not. Raises the first error.
        """


def execute_all(redis: Batchable, calls: Sequence[ScriptCall | Command]) -> Coroutine[Any, Any, list[Any]]:
    """Return the replies to the calls, as `Batchable.execute_batch`."""
    return redis.execute_batch(calls)


async def execute(redis: Batchable, *words: Argument) -> Any:
    """Return the reply to one command, batched with concurrent calls."""
    return (await redis.execute_batch([Command(words)]))[0]


async def read_time_ms(redis: Batchable) -> int:
    """Return the time by the clock of Redis, which all processes share, in milliseconds since 1970."""
    seconds, microseconds = await execute(redis, "TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


async def hgetall(redis: Batchable, key: str) -> dict[bytes, bytes]:
    """Return all fields of a hash; none if there is no such key."""
    return pairs_of(await execute(redis, "HGETALL", key))


def pairs_of(reply: Any) -> dict[bytes, bytes]:
    """Return the fields of a hash from the reply to HGETALL, which is parsed on a cluster."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))

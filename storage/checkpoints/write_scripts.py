"""Storing a checkpoint, and storing a task's writes: the steps that happen every turn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from callsheet.storage.checkpoints.lua import THREAD
from callsheet.storage.checkpoints.message_log import LogWitness
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall

STALE: Final = -1
"""Where new elements landed when nothing was stored, since what was trusted holds no more."""
FENCED: Final = -2
"""The same, since a later attempt has the thread."""

_PUT: Final = Script(
    THREAD
    + r"""
local epoch, field, record, ttl_ms, known, position, mark, witness, fresh, plain, lists = unpack(ARGV, 1, 11)
if fenced(epoch) then return {'', -2} end
-- The caller counts on elements, or on an entry in the register, of a thread that is gone or was rewritten,
-- or of what came with a checkpoint that the server has lost.
if known ~= '' and not holds(known, position, mark) then return {'', -1} end
if witness ~= '' and redis.call('HEXISTS', records, witness) == 0 then return {'', -1} end
redis.call('HSETNX', records, GENERATION, fresh)
local at = 12
for _ = 1, plain do
  redis.call('HSET', values, ARGV[at], ARGV[at + 1])
  at = at + 2
end
local first = at + 2 * lists
local start = redis.call('LLEN', log)
push(ARGV, first, #ARGV)
local function landed(offset) return string.format('%.0f', start + offset) end
for table_at = at, first - 2, 2 do
  local pieces = string.gsub(ARGV[table_at + 1], '@(%d+)', landed)
  redis.call('HSET', values, ARGV[table_at], pieces)
end
redis.call('HSET', records, field, record)
redis.call('ZADD', ids, 0, field)
touch(tonumber(ttl_ms))
return {redis.call('HGET', records, GENERATION), start}
"""
)

_PUT_WRITES: Final = Script(
    THREAD
    + r"""
if fenced(ARGV[1]) then return -2 end
for at = 3, #ARGV, 3 do
  local key, replaces, rest = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local there = redis.call('ZRANGEBYLEX', writes, '[' .. key, '[' .. key .. '\255', 'LIMIT', 0, 1)[1]
  if there and replaces == '1' then redis.call('ZREM', writes, there) end
  if not there or replaces == '1' then redis.call('ZADD', writes, 0, key .. rest) end
end
touch(tonumber(ARGV[2]))
return 1
"""
)


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as it will be stored."""

    field: bytes
    record: bytes
    plain: Sequence[tuple[bytes, bytes]]
    """Values by field, each whole."""
    lists: Sequence[tuple[bytes, bytes]]
    """Lists by field, each as pieces; `@` counts within `elements`."""
    elements: Sequence[bytes]
    """What the lists add to the log, marked."""


class PutPrecondition(NamedTuple):
    """What a put counts on."""

    known: LogWitness
    """The log its pieces point into."""
    witness: bytes
    """The checkpoint its entry in the register came with; empty if the thread is entered along with it."""


class Fence(NamedTuple):
    """Which attempt at a run writes."""

    key: str
    """Of the thread as a whole, whose field `epoch` is the newest attempt's."""
    epoch: str


def put(
    keys: Sequence[str],
    stored: StoredCheckpoint,
    ttl_ms: int,
    trusted: PutPrecondition,
    fresh: bytes,
    fence: Fence | None,
) -> ScriptCall:
    """Store a checkpoint whole. Replies with the log's generation and where the new elements landed.

    If what is trusted no longer holds, nothing is stored and the second reply is `STALE`; `FENCED` if a later
    attempt than the fence's has the thread. A thread that is new gets the generation `fresh`.
    """
    flat = [part for pair in (*stored.plain, *stored.lists) for part in pair]
    known, witness = trusted
    head = (stored.field, stored.record, ttl_ms, *known, witness, fresh, len(stored.plain), len(stored.lists))
    return _fenced(_PUT, keys, (*head, *flat, *stored.elements), fence)


def put_writes(
    keys: Sequence[str], writes: Iterable[tuple[bytes, bool, bytes]], ttl_ms: int, fence: Fence | None
) -> ScriptCall:
    """Store a task's writes: each one once, unless it is of the kind that replaces the one before.

    Replies with `FENCED`, and stores nothing, if a later attempt than the fence's has the thread.
    """
    flat: list[Argument] = [ttl_ms]
    for key, replaces, rest in writes:
        flat += (key, int(replaces), rest)
    return _fenced(_PUT_WRITES, keys, flat, fence)


def _fenced(script: Script, keys: Sequence[str], args: Sequence[Argument], fence: Fence | None) -> ScriptCall:
    if fence is None:
        return ScriptCall(script, keys, ("", *args), durable=True)
    return ScriptCall(script, (*keys, fence.key), (fence.epoch, *args), durable=True)

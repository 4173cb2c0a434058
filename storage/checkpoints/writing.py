"""Storing checkpoints and pending writes: the operations of every step of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.types import ERROR

from callsheet.state.errors import Fenced
from callsheet.storage.checkpoints.codec import value_field, writes_prefix
from callsheet.storage.checkpoints.context import CheckpointRef, Operation, SaverContext
from callsheet.storage.checkpoints.lua import THREAD
from callsheet.storage.checkpoints.message_log import (
    UNKNOWN_LOG,
    ListDrafts,
    LogWitness,
    ThreadLog,
    belongs_in_log,
    new_mark,
)
from callsheet.storage.redis.scripts import Argument, Script, ScriptCall

STALE: Final = -1
"""Reply when nothing was stored because a precondition no longer holds."""
FENCED: Final = -2
"""Reply when nothing was stored because a later attempt owns the thread."""
_HANDLED_ERROR: Final = "__error_source_node__"
"""Channel in which LangGraph notes that another node handles a failed task's error."""

_PUT: Final = Script(
    THREAD
    + r"""
local epoch, field, record, ttl_ms, generation, position, mark = unpack(ARGV, 1, 7)
local indexed, fresh, plain, lists = unpack(ARGV, 8, 11)
if fenced(epoch) then return {'', -2} end
local before = redis.call('HMGET', records, GENERATION, indexed, field, COUNTER)
local known, is_indexed, stored, count = unpack(before, 1, 4)
-- The thread may have been deleted or rewritten, or the server may have lost its last writes: then log
-- elements, or the index entry made with an earlier checkpoint, that the caller relies on are gone.
if generation ~= '' and not log_matches(known, generation, position, mark) then return {'', -1} end
if indexed ~= '' and not is_indexed then return {'', -1} end
local tables = 12 + 2 * plain
local first = tables + 2 * lists
local start = (in_slices('RPUSH', log, ARGV, first, #ARGV) or 0) - (#ARGV - first + 1)
local function resolve(offset) return string.format('%.0f', start + offset) end
for at = tables + 1, first - 1, 2 do ARGV[at] = string.gsub(ARGV[at], '@(%d+)', resolve) end
in_slices('HSET', values, ARGV, 12, first - 1)
local number, added = number_before(stored or ''), {}
if not stored then
  count = (count or 0) + 1
  number = string.format('\255%010x', count)
  added = {COUNTER, string.format('%.0f', count)}
end
if not known then added[#added + 1] = GENERATION; added[#added + 1] = fresh end
redis.call('HSET', records, field, number .. record, unpack(added))
local prefix, id = split(field)
if count == 1 then redis.call('ZADD', ids, 0, COUNTER, 0, prefix .. number .. id)
else redis.call('ZADD', ids, 0, prefix .. number .. id) end
set_ttl(tonumber(ttl_ms))
return {known or fresh, start}
"""
)

# A task stores its writes once, except after a crash or an error; then each of them is compared.
_PUT_WRITES: Final = Script(
    THREAD
    + r"""
local epoch, ttl_ms, task = unpack(ARGV, 1, 3)
if fenced(epoch) then return -2 end
local is_new = redis.call('ZLEXCOUNT', writes, '[' .. task, '(' .. task .. '\255') == 0
local added, place = {}, {}
for at = 4, #ARGV, 3 do
  local key, replaces, payload = ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2]
  local stored
  if not is_new then
    stored = redis.call('ZRANGEBYLEX', writes, '[' .. key, '[' .. key .. '\255', 'LIMIT', 0, 1)[1]
  end
  if stored and replaces then redis.call('ZREM', writes, stored) end
  if place[key] and replaces then
    added[place[key]] = key .. payload
  elseif not place[key] and (not stored or replaces) then
    added[#added + 1] = 0
    added[#added + 1] = key .. payload
    place[key] = #added
  end
end
in_slices('ZADD', writes, added, 1, #added)
set_ttl(tonumber(ttl_ms))
return 1
"""
)


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint in its stored form."""

    field: bytes
    record: bytes
    plain: Sequence[tuple[bytes, bytes]]
    """Fields and serialised values."""
    lists: Sequence[tuple[bytes, bytes]]
    """Fields and piece tables; `@` counts within `elements`."""
    elements: Sequence[bytes]
    """The marked elements that the lists append to the log."""


class PutPrecondition(NamedTuple):
    """The state of the server that a put relies on."""

    log: LogWitness
    """The log its pieces refer to."""
    indexed: bytes
    """The checkpoint stored with the thread's index entry; empty if the put comes with a new entry."""


class AttemptFence(NamedTuple):
    """The attempt at a run that writes."""

    key: str
    """Hash of the thread, whose field `epoch` is the newest attempt's."""
    epoch: str


def _put_call(
    keys: Sequence[str],
    stored: StoredCheckpoint,
    ttl_ms: int,
    expected: PutPrecondition,
    fresh: bytes,
    fence: AttemptFence | None,
) -> ScriptCall:
    """Store a checkpoint. Replies with the log's generation and the position of the first new element.

    The second reply is `STALE` or `FENCED` if nothing was stored. A new thread gets the generation `fresh`.
    """
    flat = [part for pair in (*stored.plain, *stored.lists) for part in pair]
    counts = len(stored.plain), len(stored.lists)
    args = (stored.field, stored.record, ttl_ms, *expected.log, expected.indexed, fresh, *counts)
    return _with_fence(_PUT, keys, (*args, *flat, *stored.elements), fence)


def _put_writes_call(
    keys: Sequence[str],
    prefix: bytes,
    writes: Iterable[tuple[bytes, bool, bytes]],
    ttl_ms: int,
    fence: AttemptFence | None,
) -> ScriptCall:
    """Store a task's writes, as `Codec.encode_writes` gives them. Replies `FENCED` if nothing was stored.

    A write that is already stored stays, unless the new one replaces it.
    """
    flat: list[Argument] = [ttl_ms, prefix]
    for key, replaces, payload in writes:
        flat += (key, int(replaces), payload)
    return _with_fence(_PUT_WRITES, keys, flat, fence)


def _with_fence(
    script: Script, keys: Sequence[str], args: Sequence[Argument], fence: AttemptFence | None
) -> ScriptCall:
    if fence is None:
        return ScriptCall(script, keys, ("", *args), durable=True)
    return ScriptCall(script, (*keys, fence.key), (fence.epoch, *args), durable=True)


def put(
    context: SaverContext,
    parent: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    fence: AttemptFence | None,
) -> Operation[RunnableConfig]:
    """Store a checkpoint as the child of `parent` and return its config. Raises `Fenced`.

    Takes one round trip, or two if the thread's log is no longer the one in the cache.
    """
    thread, run, policy = parent.thread, str(metadata.get("run_id") or ""), context.policy
    log = context.logs.get(thread)
    while True:
        mark = new_mark()
        drafts = ListDrafts(log, context.codec.dump, mark)
        stored = _stored_checkpoint(context, parent, checkpoint, metadata, new_versions, drafts)
        index_calls = context.index_calls(thread, log, run)
        field, indexed = stored.field, b"" if index_calls else log.index_entry.checkpoint
        expected = PutPrecondition(log.witness, indexed)
        call = _put_call(policy.keys(thread), stored, policy.ttl_ms, expected, mark, fence)
        # The garbage collector visits whatever lives across the yield, and this is large.
        del stored
        *_, (generation, start) = yield [*index_calls, call]
        if start == FENCED:
            raise takeover_error(thread)
        if start != STALE:
            break
        log = ThreadLog(UNKNOWN_LOG)
    log = context.logs.put(thread, log if log.generation else ThreadLog(generation))
    drafts.commit(log, start)
    if index_calls:
        context.remember_entry(log, run, field)
    return parent._replace(checkpoint=checkpoint["id"]).config()


def put_writes(
    context: SaverContext,
    ref: CheckpointRef,
    writes: Sequence[tuple[str, Any]],
    task: tuple[str, str],
    fence: AttemptFence | None,
) -> Operation[None]:
    """Store the writes of the task `(path, id)`, pending at `ref`. Raises `Fenced`.

    With a fence, the partial writes of a failed or cancelled task are left out: LangGraph takes a task that
    has written anything for finished, and would not run it again
    (https://github.com/langchain-ai/langgraph, `langgraph/pregel/_task_status.py`).
    """
    if fence:
        writes = _without_partial_writes(writes)
    if writes:
        prefix, policy = writes_prefix(ref.field, task), context.policy
        encoded = context.codec.encode_writes(prefix, writes)
        (reply,) = yield [_put_writes_call(policy.keys(ref.thread), prefix, encoded, policy.ttl_ms, fence)]
        if reply == FENCED:
            raise takeover_error(ref.thread)


def _without_partial_writes(writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    channels = {channel for channel, _ in writes}
    # A task whose error another node handles counts as finished.
    if ERROR not in channels or _HANDLED_ERROR in channels:
        return writes
    return [write for write in writes if write[0] in WRITES_IDX_MAP]


def takeover_error(thread: str) -> Fenced:
    """Return the error of an attempt that does not have its thread any more."""
    return Fenced(f"thread {thread!r} was taken over by a later attempt")


def _stored_checkpoint(
    context: SaverContext,
    parent: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    drafts: ListDrafts,
) -> StoredCheckpoint:
    plain, lists = [], []
    namespace, values = parent.namespace, checkpoint["channel_values"]
    for channel, version in new_versions.items():
        if channel not in values:
            continue
        field, value = value_field(namespace, channel, version), values[channel]
        if belongs_in_log(value):
            lists.append((field, drafts.add(namespace, channel, value)))
        else:
            plain.append((field, drafts.dump(value)))
    record = context.codec.encode_record(parent.checkpoint, checkpoint, metadata)
    ref = parent._replace(checkpoint=checkpoint["id"])
    return StoredCheckpoint(ref.field, record, plain, lists, drafts.elements)

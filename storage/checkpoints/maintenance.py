"""Deletion, pruning, copying and sizes of threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import maintenance_scripts, thread_index
from callsheet.storage.checkpoints.codec import decode_name, encode_name
from callsheet.storage.checkpoints.context import Operation, SaverContext
from callsheet.storage.checkpoints.lua import THREAD
from callsheet.storage.checkpoints.message_log import new_mark
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script


def prune(context: SaverContext, thread: str, strategy: str) -> Operation[None]:
    """Keep the latest checkpoints of the thread (`keep_latest`), or none (`delete`)."""
    if strategy == "delete":
        yield from delete(context, thread)
    elif strategy == "keep_latest":
        yield [maintenance_scripts.keep_latest(context.policy.keys(thread), new_mark())]
    else:
        raise Invalid(f"unknown prune strategy {strategy!r}", remedy="Use 'keep_latest' or 'delete'.")


def delete(context: SaverContext, thread: str) -> Operation[None]:
    """Delete the whole thread."""
    policy = context.policy
    yield [
        thread_index.remove(policy.thread_index, encode_name(thread)),
        maintenance_scripts.delete(policy.keys(thread)),
    ]
    context.logs.remove(thread)


def delete_for_runs(context: SaverContext, runs: Sequence[str]) -> Operation[None]:
    """Delete every checkpoint of the runs, on any thread.

    A thread that loses its last checkpoint stays in the index, because another process may be writing to it.
    """
    policy, names = context.policy, list(map(encode_name, runs))
    if not names:
        return
    (threads,) = yield [thread_index.threads_of_runs(policy.thread_index, names)]
    if threads:
        thread_keys = [policy.keys(decode_name(thread)) for thread in threads]
        yield [maintenance_scripts.delete_for_runs(each, new_mark(), names) for each in thread_keys]
        yield [thread_index.remove_runs(policy.thread_index, names)]


def copy(context: SaverContext, source: str, target: str) -> Operation[None]:
    """Replace `target` with a copy of `source`; do nothing if there is no source."""
    if source == target:
        return
    policy, target_name = context.policy, encode_name(target)
    index_call = thread_index.add_copy(
        policy.thread_index, encode_name(source), policy.entry_ttl_ms, target_name
    )
    source_keys, target_keys = policy.keys(source), policy.keys(target)
    if policy.clustered:
        (dumps,) = yield [maintenance_scripts.dump(source_keys)]
        if dumps:
            restore = maintenance_scripts.restore(target_keys, dumps, new_mark(), policy.ttl_ms)
            yield [index_call, restore]
    else:
        call = maintenance_scripts.copy(source_keys, target_keys, new_mark(), policy.ttl_ms)
        _, copied = yield [index_call, call]
        if copied == maintenance_scripts.NOTHING:
            yield [thread_index.remove(policy.thread_index, target_name)]


_SIZE: Final = Script(
    THREAD
    + r"""
local function total(list) local n = 0; for _, item in ipairs(list) do n = n + #item end; return n end
local record_bytes = 0
for _, field in ipairs(redis.call('HKEYS', records)) do
  if field ~= GENERATION and field ~= COUNTER then
    record_bytes = record_bytes + redis.call('HSTRLEN', records, field)
  end
end
local names, versions, bytes = {}, {}, {}
for _, field in ipairs(redis.call('HKEYS', values)) do
  local channel = string.match(field, '^[^%z]*%z([^%z]*)')
  if not versions[channel] then
    names[#names + 1], versions[channel], bytes[channel] = channel, 0, 0
  end
  versions[channel] = versions[channel] + 1
  bytes[channel] = bytes[channel] + redis.call('HSTRLEN', values, field)
end
local channels = {}
for at, channel in ipairs(names) do channels[at] = {channel, versions[channel], bytes[channel]} end
local elements = 0
for first = 0, redis.call('LLEN', log) - 1, 1000 do
  elements = elements + total(redis.call('LRANGE', log, first, first + 999))
end
local pending = redis.call('ZRANGE', writes, 0, -1)
return {#members(), record_bytes, channels, elements, #pending, total(pending)}
"""
)


@dataclass(frozen=True)
class Size:
    """Stored size of a thread's checkpoints, in counts and bytes."""

    checkpoints: tuple[int, int]
    """Number of checkpoints, and their bytes without values."""
    channels: dict[str, tuple[int, int]]
    """Number of stored versions and their bytes, by channel."""
    elements: int
    """Bytes of list elements, which the versions of a list share."""
    writes: tuple[int, int]
    """Number of pending writes, and their bytes."""


async def size(storage: Storage, thread: str) -> Size:
    """Return the size of a thread; zeros if it has no checkpoints."""
    reply: Any = await _SIZE(storage.redis, keys.checkpoints(thread), [])
    count, record_bytes, channels, elements, pending, pending_bytes = reply
    by_channel = {decode_name(name): (versions, size_bytes) for name, versions, size_bytes in channels}
    return Size((count, record_bytes), by_channel, elements, (pending, pending_bytes))

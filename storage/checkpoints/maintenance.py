"""Deletion, pruning, copying and sizes of threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import maintenance_scripts, thread_index
from callsheet.storage.checkpoints.codec import decode_name, encode_name
from callsheet.storage.checkpoints.context import Operation, SaverContext
from callsheet.storage.checkpoints.lua import THREAD
from callsheet.storage.checkpoints.message_log import fresh_mark
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script


def prune(books: SaverContext, thread: str, strategy: str) -> Operation[None]:
    """Keep what a thread needs to go on (`keep_latest`), or nothing (`delete`)."""
    if strategy == "delete":
        return delete(books, thread)
    if strategy == "keep_latest":
        return keep_latest(books, thread)
    remedy = "Use 'keep_latest' or 'delete'."
    raise Invalid(f"there is no strategy {strategy!r} of pruning", remedy=remedy)


def delete(books: SaverContext, thread: str) -> Operation[None]:
    """Take away the whole thread."""
    rules = books.policy
    yield [
        thread_index.forget(rules.thread_index, encode_name(thread)),
        maintenance_scripts.delete(rules.keys(thread)),
    ]
    books.logs.forget([thread])


def keep_latest(books: SaverContext, thread: str) -> Operation[None]:
    """Keep the newest checkpoint of each namespace, and the ancestors its values are made from."""
    yield [maintenance_scripts.keep_latest(books.policy.keys(thread), fresh_mark())]


def delete_for_runs(books: SaverContext, runs: Sequence[str]) -> Operation[None]:
    """Take away every checkpoint of the runs, on whichever thread.

    A thread that loses its last checkpoint stays in the register: another process may be writing to it.
    """
    rules, names = books.policy, list(map(encode_name, runs))
    if not names:
        return
    (threads,) = yield [thread_index.threads_of_runs(rules.thread_index, names)]
    if threads:
        keys = [rules.keys(decode_name(thread)) for thread in threads]
        yield [maintenance_scripts.delete_for_runs(each, fresh_mark(), names) for each in keys]
        yield [thread_index.forget_runs(rules.thread_index, names)]


def copy(books: SaverContext, source: str, target: str) -> Operation[None]:
    """Make `target` a copy of `source`, whatever it was; a source that does not exist changes nothing."""
    if source == target:
        return
    rules = books.policy
    entry = thread_index.enter_copy(
        rules.thread_index, encode_name(source), rules.entry_ttl_ms, encode_name(target)
    )
    if rules.clustered:
        (dumps,) = yield [maintenance_scripts.dump(rules.keys(source))]
        if dumps:
            yield [entry, maintenance_scripts.restore(rules.keys(target), dumps, fresh_mark(), rules.ttl_ms)]
    else:
        keys = rules.keys(source), rules.keys(target)
        _, copied = yield [entry, maintenance_scripts.copy(*keys, fresh_mark(), rules.ttl_ms)]
        if copied == maintenance_scripts.NOTHING:
            yield [thread_index.forget(rules.thread_index, encode_name(target))]


_SIZE: Final = Script(
    THREAD
    + r"""
local function all(list) local n = 0; for _, one in ipairs(list) do n = n + #one end; return n end
local kept = 0
for _, field in ipairs(redis.call('HKEYS', records)) do
  if field ~= GENERATION then kept = kept + redis.call('HSTRLEN', records, field) end
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
  elements = elements + all(redis.call('LRANGE', log, first, first + 999))
end
local waiting = redis.call('ZRANGE', writes, 0, -1)
return {redis.call('ZCARD', ids), kept, channels, elements, #waiting, all(waiting)}
"""
)


@dataclass(frozen=True)
class Size:
    """What a thread's checkpoints take up, in bytes as they are stored."""

    checkpoints: tuple[int, int]
    """How many, and their bytes without values."""
    channels: dict[str, tuple[int, int]]
    """By channel, how many versions of its value there are, and their bytes."""
    elements: int
    """Bytes of the elements of lists, which the versions of a list share."""
    writes: tuple[int, int]
    """How many writes wait to be part of a checkpoint, and their bytes."""


async def size(storage: Storage, thread: str) -> Size:
    """Return what a thread takes up; of one without checkpoints, zeros."""
    told: Any = await _SIZE(storage.redis, keys.checkpoints(thread), [])
    count, kept, channels, elements, waiting, waiting_bytes = told
    by_channel = {decode_name(name): (versions, taken) for name, versions, taken in channels}
    return Size((count, kept), by_channel, elements, (waiting, waiting_bytes))

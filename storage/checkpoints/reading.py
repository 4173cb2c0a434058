"""Reads: the newest checkpoint, given ones, a page of history, and the writes of a channel."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
)

from callsheet.storage.checkpoints import read_scripts, thread_index
from callsheet.storage.checkpoints.codec import (
    LIST,
    NUL,
    Codec,
    Record,
    decode_name,
    encode_name,
    join_names,
    value_field,
)
from callsheet.storage.checkpoints.context import CheckpointRef, Operation, SaverContext
from callsheet.storage.checkpoints.message_log import ThreadLog, decode_table, strip_mark
from callsheet.storage.redis.scripts import ScriptCall

Row = tuple[bytes, bytes, Sequence[bytes]]
"""A checkpoint's field, record and pending writes."""

SharedValues = dict[int, Any]
"""List elements already returned by one listing, by position."""


class ReadReply:
    """Decodes the checkpoints of one read, with their values."""

    def __init__(
        self, codec: Codec, log: ThreadLog, values: Sequence[bytes], shared: SharedValues | None
    ) -> None:
        """`values` alternates fields and values.

        With `shared`, checkpoints that have an element in common get one object for it. Without, every value
        is a fresh copy, and lists are remembered in `log` for the next put.
        """
        self._codec = codec
        self._log = log
        self._values = dict(zip(values[::2], values[1::2], strict=True))
        self._shared = shared
        self._tables: dict[bytes, list[int]] = {}

    def checkpoint_tuple(self, thread: str, row: Row) -> CheckpointTuple:
        """Return the checkpoint of one row."""
        field, data, members = row
        namespace, identity = map(decode_name, field.split(NUL, 1))
        ref = CheckpointRef(thread, namespace, identity)
        record = self._codec.decode_record(data)
        return CheckpointTuple(
            config=ref.config(),
            checkpoint=self._checkpoint(ref, record),
            metadata=record.metadata,
            parent_config=ref._replace(checkpoint=record.parent).config() if record.parent else None,
            pending_writes=[self._codec.decode_write(member[len(field) + 1 :]) for member in members],
        )

    def _checkpoint(self, ref: CheckpointRef, record: Record) -> Checkpoint:
        values = {}
        for channel, version in record.versions.items():
            field = value_field(ref.namespace, channel, version)
            stored = self._values.get(field)
            if stored is not None:
                values[channel] = self._value((ref.namespace, channel), field, stored)
        separate = {"id": ref.checkpoint, "channel_values": values, "channel_versions": record.versions}
        return cast("Checkpoint", record.body | separate)

    def _value(self, key: tuple[str, str], field: bytes, stored: bytes) -> Any:
        if stored[:1] != LIST:
            return self._codec.load(stored)
        positions = self._tables.get(field)
        if positions is None:
            positions = self._tables[field] = decode_table(stored[1:])
        if self._shared is not None:
            return self._shared_list(positions, self._shared)
        values, self._log.lists[key] = self._log.values(positions, self._codec.load)
        return values

    def _shared_list(self, positions: list[int], shared: SharedValues) -> list[Any]:
        for position in positions:
            if position not in shared:
                shared[position] = self._log.value(position, self._codec.load)
        return [shared[position] for position in positions]


def read_one(context: SaverContext, ref: CheckpointRef) -> Operation[CheckpointTuple | None]:
    """Return the checkpoint, or the newest of the namespace if `ref` names none."""

    def call(reader: read_scripts.Reader) -> ScriptCall:
        if ref.checkpoint:
            return read_scripts.given(reader, [ref.field])
        return read_scripts.latest(reader, encode_name(ref.namespace))

    checkpoints = yield from _read(context, ref.thread, call)
    return checkpoints[0] if checkpoints else None


def read_history(
    context: SaverContext, ref: CheckpointRef, channels: Sequence[str]
) -> Operation[Mapping[str, DeltaChannelHistory]]:
    """Return each channel's writes at the ancestors of `ref`, back to one that has its stored value."""
    if not channels:
        return {}
    codec, keys = context.codec, context.policy.keys(ref.thread)
    names = list(map(encode_name, dict.fromkeys(channels)))
    (steps,) = yield [
        read_scripts.history(keys, encode_name(ref.namespace), encode_name(ref.checkpoint), names)
    ]
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    histories: dict[str, DeltaChannelHistory] = {channel: {"writes": writes[channel]} for channel in channels}
    for members, seeds in steps:
        for member in reversed(members):
            write = codec.decode_write(member)
            writes[write[1]].append(write)
        for channel, value, elements in seeds:
            is_list = value[:1] == LIST
            histories[decode_name(channel)]["seed"] = (
                [codec.load(strip_mark(element)) for element in elements] if is_list else codec.load(value)
            )
    for newest_first in writes.values():
        newest_first.reverse()
    return histories


def _read(
    context: SaverContext,
    thread: str,
    call: Callable[[read_scripts.Reader], ScriptCall],
    shared: SharedValues | None = None,
) -> Operation[list[CheckpointTuple]]:
    log, policy = context.logs.get(thread), context.policy
    reader = read_scripts.Reader(policy.keys(thread), log.spans, log.witness, policy.read_ttl_ms)
    ((generation, cache_valid, rows, values, elements),) = yield [call(reader)]
    log = context.logs.put(thread, log if cache_valid else ThreadLog(generation))
    if reader.ttl_ms and rows and (index_calls := context.index_calls(thread, log)):
        yield index_calls
        context.remember_entry(log)
    for start, span in zip(elements[::2], elements[1::2], strict=True):
        log.add(start, span)
    reply = ReadReply(context.codec, log, values, shared)
    return [reply.checkpoint_tuple(thread, row) for row in rows]


PAGE_SIZE: Final = 200
"""Checkpoints per round trip: enough to make it cheap, few enough not to block the server."""


class ListFilter(NamedTuple):
    """Filter of a listing; an empty or None field matches everything."""

    thread: str
    namespace: str | None
    checkpoint: str
    before: str
    metadata: Mapping[str, Any]

    def matches(self, metadata: CheckpointMetadata) -> bool:
        """Return whether `metadata` has every required value."""
        actual: Mapping[str, Any] = dict(metadata)
        return all(actual.get(key) == value for key, value in self.metadata.items())


def list_filter(
    config: RunnableConfig | None, metadata: Mapping[str, Any] | None, before: RunnableConfig | None
) -> ListFilter:
    """Return the filter for the arguments of LangGraph's `list`."""
    configurable = (config or {}).get("configurable") or {}
    older_than = (before or {}).get("configurable") or {}
    return ListFilter(
        thread=str(configurable.get("thread_id") or ""),
        namespace=configurable.get("checkpoint_ns"),
        checkpoint=configurable.get("checkpoint_id") or "",
        before=older_than.get("checkpoint_id") or "",
        metadata=metadata or {},
    )


class Listing:
    """One listing: thread by thread, newest first within a thread."""

    def __init__(self, context: SaverContext, criteria: ListFilter, limit: int | None) -> None:
        self._context = context
        self._criteria = criteria
        self._remaining = limit
        self._threads = deque([criteria.thread]) if criteria.thread else None
        self._start_thread()

    def next_page(self) -> Operation[list[CheckpointTuple]]:
        """Return the next checkpoints; an empty list at the end."""
        if self._threads is None:
            (names,) = yield [thread_index.threads(self._context.policy.thread_index)]
            self._threads = deque(map(decode_name, names))
        while self._threads and (self._remaining is None or self._remaining > 0):
            page = yield from self._fetch(self._threads[0])
            if self._exhausted:
                self._threads.popleft()
                self._start_thread()
            matching = [each for each in page if self._criteria.matches(each.metadata)][: self._remaining]
            if matching:
                self._remaining = None if self._remaining is None else self._remaining - len(matching)
                return matching
        return []

    def _start_thread(self) -> None:
        self._exhausted = False
        self._cursor = self._criteria.before
        self._fields: deque[bytes] | None = None
        self._shared: SharedValues = {}

    def _fetch(self, thread: str) -> Operation[list[CheckpointTuple]]:
        criteria, size = self._criteria, PAGE_SIZE
        if self._remaining is not None and not criteria.metadata:
            size = min(PAGE_SIZE, self._remaining)
        if criteria.namespace is None or criteria.checkpoint:
            return (yield from self._fetch_given(thread, size))
        namespace, before = encode_name(criteria.namespace), encode_name(self._cursor)

        def call(reader: read_scripts.Reader) -> ScriptCall:
            return read_scripts.page(reader, namespace, before, size)

        page = yield from _read(self._context, thread, call, self._shared)
        self._exhausted = len(page) < size
        if page:
            self._cursor = page[-1].checkpoint["id"]
        return page

    def _fetch_given(self, thread: str, size: int) -> Operation[list[CheckpointTuple]]:
        """Fetch one checkpoint, or those of all namespaces, which no lex range covers in order of age."""
        if self._fields is None:
            self._fields = deque((yield from self._matching_fields(thread)))
        batch = [self._fields.popleft() for _ in range(min(size, len(self._fields)))]
        self._exhausted = not self._fields
        if not batch:
            return []

        def call(reader: read_scripts.Reader) -> ScriptCall:
            return read_scripts.given(reader, batch)

        return (yield from _read(self._context, thread, call, self._shared))

    def _matching_fields(self, thread: str) -> Operation[list[bytes]]:
        criteria = self._criteria
        if criteria.checkpoint and criteria.namespace is not None:
            fields = [join_names(criteria.namespace, criteria.checkpoint)]
        else:
            (fields,) = yield [read_scripts.fields(self._context.policy.keys(thread))]
        ids = [(decode_name(field.split(NUL, 1)[1]), field) for field in fields]
        return [
            field
            for identity, field in sorted(ids, reverse=True)
            if criteria.checkpoint in {"", identity} and (not criteria.before or identity < criteria.before)
        ]

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
from callsheet.storage.checkpoints.message_log import ThreadLog, decode_table, unmarked
from callsheet.storage.redis.scripts import ScriptCall

Row = tuple[bytes, bytes, Sequence[bytes]]
"""A checkpoint's field, record and pending writes."""


class ReadReply:
    """Checkpoints of one thread with the values they name."""

    def __init__(
        self,
        codec: Codec,
        log: ThreadLog,
        values: Sequence[bytes],
        shared: dict[int, Any] | None = None,
    ) -> None:
        """`values` is field and value in turn.

        With `shared`, an element that several checkpoints have is one object in all of them, and in all other
        answers with the same `shared`; without, every value is the caller's own, and lists are remembered.
        """
        self._codec = codec
        self._log = log
        self._values = dict(zip(values[::2], values[1::2], strict=True))
        self._shared = shared
        self._tables: dict[bytes, list[int]] = {}

    def checkpoint_tuple(self, thread: str, row: Row) -> CheckpointTuple:
        """The checkpoint of the row."""
        field, data, members = row
        namespace, identity = map(decode_name, field.split(NUL, 1))
        at = CheckpointRef(thread, namespace, identity)
        record = self._codec.decode_record(data)
        return CheckpointTuple(
            config=at.config(),
            checkpoint=self._checkpoint(at, record),
            metadata=record.metadata,
            parent_config=at._replace(checkpoint=record.parent).config() if record.parent else None,
            pending_writes=self._codec.decode_writes(field, members),
        )

    def _checkpoint(self, at: CheckpointRef, record: Record) -> Checkpoint:
        values = {}
        for channel, version in record.versions.items():
            field = value_field(at.namespace, channel, version)
            stored = self._values.get(field)
            if stored is not None:
                values[channel] = self._value((at.namespace, channel), field, stored)
        rest = {"id": at.checkpoint, "channel_values": values, "channel_versions": record.versions}
        return cast("Checkpoint", record.rest | rest)

    def _value(self, key: tuple[str, str], field: bytes, stored: bytes) -> Any:
        if stored[:1] != LIST:
            return self._codec.load(stored)
        table = self._tables.get(field)
        if table is None:
            table = self._tables[field] = decode_table(stored[1:])
        return self._own(key, table) if self._shared is None else self._common(table, self._shared)

    def _own(self, key: tuple[str, str], table: list[int]) -> list[Any]:
        values, self._log.lists[key] = self._log.values(table, self._codec.load)
        return values

    def _common(self, table: list[int], shared: dict[int, Any]) -> list[Any]:
        for position in table:
            if position not in shared:
                shared[position] = self._log.value(position, self._codec.load)
        return [shared[position] for position in table]


SharedValues = dict[int, Any]
"""Elements given out already in one listing, by position."""


def read_one(books: SaverContext, at: CheckpointRef) -> Operation[CheckpointTuple | None]:
    """The checkpoint there, or the newest of the namespace."""
    if at.checkpoint:
        found = yield from _read(books, at.thread, lambda reader: read_scripts.given(reader, [at.field]))
    else:
        found = yield from _read(
            books, at.thread, lambda reader: read_scripts.latest(reader, encode_name(at.namespace))
        )
    return found[0] if found else None


def read_given(
    books: SaverContext, thread: str, fields: Sequence[bytes], shared: SharedValues
) -> Operation[list[CheckpointTuple]]:
    """The checkpoints of those fields that exist, in that order."""
    return (yield from _read(books, thread, lambda reader: read_scripts.given(reader, fields), shared))


def read_page(
    books: SaverContext, before: CheckpointRef, limit: int, shared: SharedValues
) -> Operation[list[CheckpointTuple]]:
    """At most `limit` checkpoints of the namespace older than `before`, newest first."""
    namespace, older = encode_name(before.namespace), encode_name(before.checkpoint)

    def ask(reader: read_scripts.Reader) -> ScriptCall:
        return read_scripts.page(reader, namespace, older, limit)

    return (yield from _read(books, before.thread, ask, shared))


def read_fields(books: SaverContext, thread: str) -> Operation[list[bytes]]:
    """The fields of all checkpoints of the thread."""
    (found,) = yield [read_scripts.fields(books.policy.keys(thread))]
    return list(found)


def read_history(
    books: SaverContext, at: CheckpointRef, channels: Sequence[str]
) -> Operation[Mapping[str, DeltaChannelHistory]]:
    """What each channel is made of: the writes at the ancestors of `at`, back to one that has its value."""
    if not channels:
        return {}
    names = list(map(encode_name, dict.fromkeys(channels)))
    keys = books.policy.keys(at.thread)
    (steps,) = yield [
        read_scripts.history(keys, encode_name(at.namespace), encode_name(at.checkpoint), names)
    ]
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    found: dict[str, DeltaChannelHistory] = {channel: {"writes": writes[channel]} for channel in channels}
    for members, seeds in steps:
        for member in reversed(members):
            write = books.codec.decode_write(member)
            writes[write[1]].append(write)
        for channel, value, elements in seeds:
            found[decode_name(channel)]["seed"] = (
                [books.codec.load(unmarked(element)) for element in elements]
                if value[:1] == LIST
                else books.codec.load(value)
            )
    for newest_first in writes.values():
        newest_first.reverse()
    return found


def _read(
    books: SaverContext,
    thread: str,
    ask: Callable[[read_scripts.Reader], ScriptCall],
    shared: SharedValues | None = None,
) -> Operation[list[CheckpointTuple]]:
    log, ttl_ms = books.logs.get(thread), books.policy.read_ttl_ms
    reader = read_scripts.Reader(books.policy.keys(thread), log.spans, log.known, ttl_ms)
    ((generation, held, rows, values, elements),) = yield [ask(reader)]
    log = books.logs.adopt(thread, log if held else ThreadLog(generation))
    if ttl_ms and rows and (entry := books.index_entry(thread, log)):
        yield entry
        books.record_entry(log)
    for start, found in zip(elements[::2], elements[1::2], strict=True):
        log.add(start, found)
    answer = ReadReply(books.codec, log, values, shared)
    return [answer.checkpoint_tuple(thread, row) for row in rows]


PAGE_SIZE: Final = 200
"""Checkpoints fetched at once: enough to make the trips cheap, few enough not to hold up the server."""


class ListFilter(NamedTuple):
    """Which checkpoints are listed; what is empty or None does not choose."""

    thread: str
    namespace: str | None
    checkpoint: str
    before: str
    metadata: Mapping[str, Any]

    def matches(self, metadata: CheckpointMetadata) -> bool:
        """Whether it has the metadata."""
        known: Mapping[str, Any] = dict(metadata)
        return all(known.get(key) == value for key, value in self.metadata.items())


def list_filter(
    config: RunnableConfig | None, metadata: Mapping[str, Any] | None, before: RunnableConfig | None
) -> ListFilter:
    """What LangGraph's arguments of `list` choose."""
    chosen = (config or {}).get("configurable") or {}
    older = (before or {}).get("configurable") or {}
    return ListFilter(
        thread=str(chosen.get("thread_id") or ""),
        namespace=chosen.get("checkpoint_ns"),
        checkpoint=chosen.get("checkpoint_id") or "",
        before=older.get("checkpoint_id") or "",
        metadata=metadata or {},
    )


class Listing:
    """One listing: thread by thread, newest first within a thread."""

    def __init__(self, books: SaverContext, choice: ListFilter, limit: int | None) -> None:
        self._books = books
        self._choice = choice
        self._left = limit
        self._threads = deque([choice.thread]) if choice.thread else None
        self._begin()

    def next_page(self) -> Operation[list[CheckpointTuple]]:
        """The next checkpoints; none at the end."""
        if self._threads is None:
            (names,) = yield [thread_index.threads(self._books.policy.thread_index)]
            self._threads = deque(map(decode_name, names))
        while self._threads and (self._left is None or self._left > 0):
            found = yield from self._next(self._threads[0])
            if self._exhausted:
                self._threads.popleft()
                self._begin()
            suitable = [each for each in found if self._choice.matches(each.metadata)][: self._left]
            if suitable:
                self._left = None if self._left is None else self._left - len(suitable)
                return suitable
        return []

    def _begin(self) -> None:
        self._exhausted = False
        self._cursor = self._choice.before
        self._fields: deque[bytes] | None = None
        self._shared: SharedValues = {}

    def _next(self, thread: str) -> Operation[list[CheckpointTuple]]:
        choice, size = self._choice, PAGE_SIZE
        if self._left is not None and not choice.metadata:
            size = min(PAGE_SIZE, self._left)
        if choice.namespace is None or choice.checkpoint:
            return (yield from self._next_fields(thread, size))
        before = CheckpointRef(thread, choice.namespace, self._cursor)
        found = yield from read_page(self._books, before, size, self._shared)
        self._exhausted = len(found) < size
        if found:
            self._cursor = found[-1].checkpoint["id"]
        return found

    def _next_fields(self, thread: str, size: int) -> Operation[list[CheckpointTuple]]:
        """From a given checkpoint or of all namespaces, which no range of the server covers."""
        if self._fields is None:
            self._fields = deque((yield from self._all_fields(thread)))
        batch = [self._fields.popleft() for _ in range(min(size, len(self._fields)))]
        self._exhausted = not self._fields
        if not batch:
            return []
        return (yield from read_given(self._books, thread, batch, self._shared))

    def _all_fields(self, thread: str) -> Operation[list[bytes]]:
        choice = self._choice
        if choice.checkpoint and choice.namespace is not None:
            found = [join_names(choice.namespace, choice.checkpoint)]
        else:
            found = yield from read_fields(self._books, thread)
        ids = [(decode_name(field.split(NUL, 1)[1]), field) for field in found]
        return [
            field
            for identity, field in sorted(ids, reverse=True)
            if choice.checkpoint in {"", identity} and (not choice.before or identity < choice.before)
        ]

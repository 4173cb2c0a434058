"""Reading checkpoints: the newest, given ones, or a page of history; and the writes a channel is made of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite

from storage.checkpoints import read_scripts as scripts
from storage.checkpoints.answers import Answer
from storage.checkpoints.books import Books
from storage.checkpoints.message_log import ThreadLog, unmarked
from storage.checkpoints.places import Place
from storage.checkpoints.records import LIST, name, text
from storage.checkpoints.round_trips import Exchange
from storage.scripts import Asked

Shared = dict[int, Any]
"""Elements given out already in one listing, by position."""


def one(books: Books, at: Place) -> Exchange[CheckpointTuple | None]:
    """The checkpoint there, or the newest of the namespace."""
    if at.checkpoint:
        found = yield from _read(books, at.thread, lambda reader: scripts.given(reader, [at.field]))
    else:
        found = yield from _read(books, at.thread, lambda reader: scripts.latest(reader, name(at.namespace)))
    return found[0] if found else None


def given(
    books: Books, thread: str, fields: Sequence[bytes], shared: Shared
) -> Exchange[list[CheckpointTuple]]:
    """The checkpoints of those fields that exist, in that order."""
    return (yield from _read(books, thread, lambda reader: scripts.given(reader, fields), shared))


def page(books: Books, before: Place, limit: int, shared: Shared) -> Exchange[list[CheckpointTuple]]:
    """At most `limit` checkpoints of the namespace older than `before`, newest first."""
    namespace, older = name(before.namespace), name(before.checkpoint)

    def ask(reader: scripts.Reader) -> Asked:
        return scripts.page(reader, namespace, older, limit)

    return (yield from _read(books, before.thread, ask, shared))


def fields(books: Books, thread: str) -> Exchange[list[bytes]]:
    """The fields of all checkpoints of the thread."""
    (found,) = yield [scripts.fields(books.rules.keys(thread))]
    return list(found)


def history(books: Books, at: Place, channels: Sequence[str]) -> Exchange[Mapping[str, DeltaChannelHistory]]:
    """What each channel is made of: the writes at the ancestors of `at`, back to one that has its value."""
    if not channels:
        return {}
    names = list(map(name, dict.fromkeys(channels)))
    keys = books.rules.keys(at.thread)
    (steps,) = yield [scripts.history(keys, name(at.namespace), name(at.checkpoint), names)]
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    found: dict[str, DeltaChannelHistory] = {channel: {"writes": writes[channel]} for channel in channels}
    for members, seeds in steps:
        for member in reversed(members):
            write = books.codec.read_write(member)
            writes[write[1]].append(write)
        for channel, value, elements in seeds:
            found[text(channel)]["seed"] = (
                [books.codec.load(unmarked(element)) for element in elements]
                if value[:1] == LIST
                else books.codec.load(value)
            )
    for newest_first in writes.values():
        newest_first.reverse()
    return found


def _read(
    books: Books, thread: str, ask: Callable[[scripts.Reader], Asked], shared: Shared | None = None
) -> Exchange[list[CheckpointTuple]]:
    log, ttl_ms = books.logs.of(thread), books.rules.read_ttl_ms
    reader = scripts.Reader(books.rules.keys(thread), log.spans, log.known, ttl_ms)
    ((generation, held, rows, values, elements),) = yield [ask(reader)]
    log = books.logs.adopt(thread, log if held else ThreadLog(generation))
    if ttl_ms and rows and (entry := books.entry(thread, log)):
        yield entry
        books.note_entry(log)
    for start, found in zip(elements[::2], elements[1::2], strict=True):
        log.add(start, found)
    answer = Answer(books.codec, log, values, shared)
    return [answer.checkpoint_tuple(thread, row) for row in rows]

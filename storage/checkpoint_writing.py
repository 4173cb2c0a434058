"""Storing checkpoints and pending writes: what LangGraph does at every step of a run."""

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

from storage import checkpoint_write_scripts as scripts
from storage.checkpoint_books import Books
from storage.checkpoint_places import Place
from storage.checkpoint_records import value_field
from storage.list_drafts import Drafts, goes_to_log
from storage.message_log import UNKNOWN, ThreadLog, fresh_mark
from storage.round_trips import Exchange


def put(
    books: Books,
    parent: Place,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Exchange[RunnableConfig]:
    """Store a checkpoint as the child of `parent`; the result names it.

    One round trip; two if the thread's log is no longer the one this process last saw.
    """
    at = parent._replace(checkpoint=checkpoint["id"])
    run = str(metadata.get("run_id") or "")
    changed = {
        channel: (value_field(at.namespace, channel, version), checkpoint["channel_values"][channel])
        for channel, version in new_versions.items()
        if channel in checkpoint["channel_values"]
    }
    record = books.codec.record(parent.checkpoint, checkpoint, metadata)
    log = books.logs.of(at.thread)
    while True:
        mark = fresh_mark()
        drafts = Drafts(log, books.codec.dump, mark)
        stored = _stored(at, record, changed, drafts)
        entry = books.entry(at.thread, log, run)
        keys, ttl_ms = books.rules.keys(at.thread), books.rules.ttl_ms
        call = scripts.put(keys, stored, ttl_ms, log.known, mark)
        *_, (generation, start) = yield [*entry, call]
        if start != scripts.STALE:
            break
        log = ThreadLog(UNKNOWN)
    log = books.logs.adopt(at.thread, log if log.generation else ThreadLog(generation))
    drafts.settle(log, start)
    if entry:
        books.note_entry(log, run)
    return at.config()


def put_writes(
    books: Books, at: Place, writes: Sequence[tuple[str, Any]], task: tuple[str, str]
) -> Exchange[None]:
    """Store what the task `(path, id)` wrote, pending at `at`."""
    if writes:
        drafted = books.codec.writes(at.field, task, writes)
        yield [scripts.put_writes(books.rules.keys(at.thread), drafted, books.rules.ttl_ms)]


def _stored(
    at: Place, record: bytes, changed: dict[str, tuple[bytes, Any]], drafts: Drafts
) -> scripts.Stored:
    plain, lists = [], []
    for channel, (field, value) in changed.items():
        if goes_to_log(value):
            lists.append((field, drafts.add(at.namespace, channel, value)))
        else:
            plain.append((field, drafts.dump(value)))
    return scripts.Stored(at.field, record, plain, lists, drafts.elements)

"""Storing checkpoints and pending writes: what LangGraph does at every step of a run."""

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.types import ERROR

from callsheet.state.errors import Fenced
from callsheet.storage.checkpoints import write_scripts
from callsheet.storage.checkpoints.codec import value_field
from callsheet.storage.checkpoints.context import CheckpointRef, Operation, SaverContext
from callsheet.storage.checkpoints.message_log import (
    UNKNOWN_LOG,
    ListDrafts,
    ThreadLog,
    fresh_mark,
    goes_to_log,
)

_TAKEN_CARE_OF: Final = "__error_source_node__"
"""Channel in which LangGraph notes that a failed task's error goes to another node."""


def put(
    books: SaverContext,
    parent: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    fence: write_scripts.Fence | None,
) -> Operation[RunnableConfig]:
    """Store a checkpoint as the child of `parent`; the result names it. Raises `Fenced`.

    One round trip; two if the thread's log is no longer the one this process last saw.
    """
    thread, run = parent.thread, str(metadata.get("run_id") or "")
    log = books.logs.get(thread)
    while True:
        mark = fresh_mark()
        drafts = ListDrafts(log, books.codec.dump, mark)
        stored = _stored(books, parent, checkpoint, metadata, new_versions, drafts)
        entry = books.index_entry(thread, log, run)
        field, trusted = (
            stored.field,
            write_scripts.PutPrecondition(log.known, b"" if entry else log.entered.witness),
        )
        call = write_scripts.put(books.policy.keys(thread), stored, books.policy.ttl_ms, trusted, mark, fence)
        # What waits is visited by the garbage collector again and again; this would be much of it.
        del stored
        *_, (generation, start) = yield [*entry, call]
        if start == write_scripts.FENCED:
            raise _fenced(thread)
        if start != write_scripts.STALE:
            break
        log = ThreadLog(UNKNOWN_LOG)
    log = books.logs.adopt(thread, log if log.generation else ThreadLog(generation))
    drafts.commit(log, start)
    if entry:
        books.record_entry(log, run, field)
    return parent._replace(checkpoint=checkpoint["id"]).config()


def put_writes(
    books: SaverContext,
    at: CheckpointRef,
    writes: Sequence[tuple[str, Any]],
    task: tuple[str, str],
    fence: write_scripts.Fence | None,
) -> Operation[None]:
    """Store what the task `(path, id)` wrote, pending at `at`. Raises `Fenced`.

    What an attempt's task had written before it failed or was cancelled is left out: LangGraph takes a task
    for finished that has written anything, and would not run it again
    (https://github.com/langchain-ai/langgraph, `langgraph/pregel/_task_status.py`).
    """
    if fence:
        writes = _without_halves(writes)
    if writes:
        drafted = books.codec.encode_writes(at.field, task, writes)
        call = write_scripts.put_writes(books.policy.keys(at.thread), drafted, books.policy.ttl_ms, fence)
        (reply,) = yield [call]
        if reply == write_scripts.FENCED:
            raise _fenced(at.thread)


def _without_halves(writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    channels = {channel for channel, _ in writes}
    # A failure that another node takes care of is such an end.
    if ERROR not in channels or _TAKEN_CARE_OF in channels:
        return writes
    return [write for write in writes if write[0] in WRITES_IDX_MAP]


def _fenced(thread: str) -> Fenced:
    return Fenced(f"thread {thread!r} was taken over by a later attempt")


def _stored(
    books: SaverContext,
    parent: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    drafts: ListDrafts,
) -> write_scripts.StoredCheckpoint:
    plain, lists = [], []
    namespace, values = parent.namespace, checkpoint["channel_values"]
    for channel, version in new_versions.items():
        if channel not in values:
            continue
        field, value = value_field(namespace, channel, version), values[channel]
        if goes_to_log(value):
            lists.append((field, drafts.add(namespace, channel, value)))
        else:
            plain.append((field, drafts.dump(value)))
    record = books.codec.encode_record(parent.checkpoint, checkpoint, metadata)
    at = parent._replace(checkpoint=checkpoint["id"])
    return write_scripts.StoredCheckpoint(at.field, record, plain, lists, drafts.elements)

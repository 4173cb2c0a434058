"""Storing checkpoints and pending writes: the operations of every step of a run."""

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
    belongs_in_log,
    new_mark,
)

_HANDLED_ERROR: Final = "__error_source_node__"
"""Channel in which LangGraph notes that another node handles a failed task's error."""


def put(
    context: SaverContext,
    parent: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    fence: write_scripts.Fence | None,
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
        expected = write_scripts.PutPrecondition(log.witness, indexed)
        call = write_scripts.put(policy.keys(thread), stored, policy.ttl_ms, expected, mark, fence)
        # The garbage collector visits whatever lives across the yield, and this is large.
        del stored
        *_, (generation, start) = yield [*index_calls, call]
        if start == write_scripts.FENCED:
            raise _fenced_error(thread)
        if start != write_scripts.STALE:
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
    fence: write_scripts.Fence | None,
) -> Operation[None]:
    """Store the writes of the task `(path, id)`, pending at `ref`. Raises `Fenced`.

    With a fence, the partial writes of a failed or cancelled task are left out: LangGraph takes a task that
    has written anything for finished, and would not run it again
    (https://github.com/langchain-ai/langgraph, `langgraph/pregel/_task_status.py`).
    """
    if fence:
        writes = _without_partial_writes(writes)
    if writes:
        encoded = context.codec.encode_writes(ref.field, task, writes)
        policy = context.policy
        (reply,) = yield [write_scripts.put_writes(policy.keys(ref.thread), encoded, policy.ttl_ms, fence)]
        if reply == write_scripts.FENCED:
            raise _fenced_error(ref.thread)


def _without_partial_writes(writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    channels = {channel for channel, _ in writes}
    # A task whose error another node handles counts as finished.
    if ERROR not in channels or _HANDLED_ERROR in channels:
        return writes
    return [write for write in writes if write[0] in WRITES_IDX_MAP]


def _fenced_error(thread: str) -> Fenced:
    return Fenced(f"thread {thread!r} was taken over by a later attempt")


def _stored_checkpoint(
    context: SaverContext,
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
        if belongs_in_log(value):
            lists.append((field, drafts.add(namespace, channel, value)))
        else:
            plain.append((field, drafts.dump(value)))
    record = context.codec.encode_record(parent.checkpoint, checkpoint, metadata)
    ref = parent._replace(checkpoint=checkpoint["id"])
    return write_scripts.StoredCheckpoint(ref.field, record, plain, lists, drafts.elements)

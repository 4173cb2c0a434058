"""Settings and shared parts of a saver: key policy, checkpoint references and operations.

An operation is a generator that yields the calls of one round trip and receives their replies. So one
implementation serves an asyncio connection, a blocking one and a cluster.
"""

import time
from collections.abc import Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from langchain_core.runnables import RunnableConfig

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import thread_index
from callsheet.storage.checkpoints.codec import Codec, encode_name, join_names
from callsheet.storage.checkpoints.message_log import IndexEntry, LogCache, ThreadLog
from callsheet.storage.redis import keys
from callsheet.storage.redis.keys import CheckpointKeys, ThreadIndexKeys
from callsheet.storage.redis.scripts import ScriptCall


class CheckpointRef(NamedTuple):
    """A checkpoint in a namespace of a thread; the newest one if `checkpoint` is empty."""

    thread: str
    namespace: str
    checkpoint: str

    @property
    def field(self) -> bytes:
        """The checkpoint's field."""
        return join_names(self.namespace, self.checkpoint)

    def config(self) -> RunnableConfig:
        """Return LangGraph's config for this checkpoint."""
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint,
            }
        }


def checkpoint_ref(config: RunnableConfig) -> CheckpointRef:
    """Return the checkpoint that a config names; raise `Invalid` if it has no thread id."""
    configurable = config.get("configurable") or {}
    if not configurable.get("thread_id"):
        remedy = "Pass config={'configurable': {'thread_id': …}}."
        raise Invalid(f"the config {config!r} names no thread", remedy=remedy)
    return CheckpointRef(
        str(configurable["thread_id"]),
        configurable.get("checkpoint_ns") or "",
        configurable.get("checkpoint_id") or "",
    )


T = TypeVar("T")

Operation = Generator[Sequence[ScriptCall], list[Any], T]
"""Yields the calls of a round trip in order, receives their replies, and returns the result."""


class StepStore(Protocol):
    """Stores the steps of one thread in transactions with something else, such as their events.

    Each method executes the calls and returns their replies. The last call is of the thread's slot, and in
    the transaction; the others may be executed before it on their own.
    """

    thread: str

    async def store_writes(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Store a task's writes."""

    async def store_checkpoint(
        self, ref: CheckpointRef, source: str, values: Mapping[str, Any], calls: Sequence[ScriptCall]
    ) -> list[Any]:
        """Store a checkpoint with these values of channels.

        `source` is LangGraph's, "input" for one before the first step.
        """


STEP_STORE: Final[ContextVar[StepStore | None]] = ContextVar("step_store", default=None)
"""Stores the fenced writes and checkpoints of this context, instead of the saver's own connection."""

_ENTRY_TTL_FACTOR: Final = 1.25
"""Lifetime of a thread's index entry relative to the thread's; it is renewed after half the surplus."""


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """Prefix and lifetime of a saver's keys."""

    prefix: str
    ttl_ms: int = 0
    """Lifetime of a thread after its last write; 0 for no expiry."""
    read_ttl_ms: int = 0
    """Lifetime of a thread after a read; 0 for no change."""
    clustered: bool = False
    """True if two threads may be on different nodes."""

    def keys(self, thread: str) -> CheckpointKeys:
        """Return the keys of the thread."""
        return keys.checkpoints(thread, self.prefix)

    @property
    def thread_index(self) -> ThreadIndexKeys:
        """The keys of the thread index."""
        return keys.thread_index(self.prefix)

    @property
    def entry_ttl_ms(self) -> int:
        """Lifetime of an index entry; 0 for no expiry."""
        return int(self.ttl_ms * _ENTRY_TTL_FACTOR)

    @property
    def entry_valid_s(self) -> float:
        """Seconds until an index entry must be renewed."""
        return self.ttl_ms * (_ENTRY_TTL_FACTOR - 1) / 2000 if self.ttl_ms else float("inf")


@dataclass(frozen=True, slots=True)
class SaverContext:
    """A saver without its connections."""

    codec: Codec
    policy: KeyPolicy
    logs: LogCache

    def index_calls(self, thread: str, log: ThreadLog, run: str | None = None) -> list[ScriptCall]:
        """Return the call that adds thread and run to the index; none while the last entry is valid."""
        entry, policy = log.index_entry, self.policy
        if run in {entry.run, None} and time.monotonic() < entry.valid_until_s:
            return []
        encoded_run = encode_name(run or entry.run)
        return [thread_index.add(policy.thread_index, encode_name(thread), policy.entry_ttl_ms, encoded_run)]

    def remember_entry(self, log: ThreadLog, run: str | None = None, checkpoint: bytes = b"") -> None:
        """Note that the call of `index_calls` was made, and which checkpoint was stored with it."""
        valid_until_s = time.monotonic() + self.policy.entry_valid_s
        if run is None:
            log.index_entry = log.index_entry._replace(valid_until_s=valid_until_s)
        else:
            log.index_entry = IndexEntry(run, valid_until_s, checkpoint)

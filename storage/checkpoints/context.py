"""Settings and shared parts of a saver: key policy, checkpoint references and operations.

An operation is written once, as a generator that yields the calls of one round trip and is sent their
replies; whoever drives it does so over an asyncio connection, a blocking one, or a cluster.
"""

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import thread_index
from callsheet.storage.checkpoints.codec import Codec, encode_name, join_names
from callsheet.storage.checkpoints.message_log import IndexEntry, LogCache, ThreadLog
from callsheet.storage.redis import keys
from callsheet.storage.redis.keys import CheckpointKeys, ThreadIndexKeys
from callsheet.storage.redis.scripts import ScriptCall


class CheckpointRef(NamedTuple):
    """A checkpoint, or if `checkpoint` is empty the newest one, of a namespace of a thread."""

    thread: str
    namespace: str
    checkpoint: str

    @property
    def field(self) -> bytes:
        """The checkpoint's field."""
        return join_names(self.namespace, self.checkpoint)

    def config(self) -> RunnableConfig:
        """How LangGraph names the place."""
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint,
            }
        }


def checkpoint_ref(config: RunnableConfig) -> CheckpointRef:
    """The place a config names; `Invalid` without a thread id."""
    chosen = config.get("configurable") or {}
    if not chosen.get("thread_id"):
        remedy = "Pass config={'configurable': {'thread_id': …}}."
        raise Invalid(f"the config {config!r} names no thread", remedy=remedy)
    return CheckpointRef(
        str(chosen["thread_id"]), chosen.get("checkpoint_ns") or "", chosen.get("checkpoint_id") or ""
    )


T = TypeVar("T")

Operation = Generator[Sequence[ScriptCall], list[Any], T]
"""Yields the calls of a round trip, in the order they must run; is sent their replies; returns the result."""


BEFORE_CHECKPOINT: Final[ContextVar[Callable[[], Awaitable[None]] | None]] = ContextVar("ahead", default=None)
"""Is awaited before a checkpoint leaves that is stored in this context."""


_REGISTER_MARGIN: Final = 1.25
"""How much longer than a thread its entry in the register lives; it is renewed at half the surplus."""


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """What a saver's keys are called and how long they live."""

    prefix: str
    ttl_ms: int = 0
    """How long a thread lives after it was last written; 0 is for ever."""
    refresh_on_read: bool = False
    """Whether reading counts as writing for that."""
    clustered: bool = False
    """Whether two threads may be on different nodes."""

    def keys(self, thread: str) -> CheckpointKeys:
        """The keys of the thread."""
        return keys.checkpoints(thread, self.prefix)

    @property
    def thread_index(self) -> ThreadIndexKeys:
        """The keys of the register."""
        return keys.thread_index(self.prefix)

    @property
    def read_ttl_ms(self) -> int:
        """How long reading keeps a thread alive; 0 is no change."""
        return self.ttl_ms if self.refresh_on_read else 0

    @property
    def entry_ttl_ms(self) -> int:
        """How long an entry in the register lives; 0 is for ever."""
        return int(self.ttl_ms * _REGISTER_MARGIN)

    @property
    def entry_valid_s(self) -> float:
        """How long after an entry there is no need to renew it."""
        return self.ttl_ms * (_REGISTER_MARGIN - 1) / 2000 if self.ttl_ms else float("inf")


@dataclass(frozen=True, slots=True)
class SaverContext:
    """A saver without a connection."""

    codec: Codec
    policy: KeyPolicy
    logs: LogCache

    def index_entry(self, thread: str, log: ThreadLog, run: str | None = None) -> list[ScriptCall]:
        """The call that makes the thread, and the run if any, findable; none if it was made and holds."""
        entered = log.entered
        if run in {entered.run, None} and time.monotonic() < entered.until_s:
            return []
        rules = self.policy
        return [
            thread_index.enter(
                rules.thread_index, encode_name(thread), rules.entry_ttl_ms, encode_name(run or entered.run)
            )
        ]

    def record_entry(self, log: ThreadLog, run: str | None = None, witness: bytes = b"") -> None:
        """Remember that the call of `entry` was made, and what was stored after it."""
        until_s = time.monotonic() + self.policy.entry_valid_s
        if run is None:
            log.entered = log.entered._replace(until_s=until_s)
        else:
            log.entered = IndexEntry(run, until_s, witness)

"""The saver: LangGraph's checkpointer interface in blocking and asynchronous form."""

import random
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.types import PregelTask
from redis.asyncio import Redis, RedisCluster

from callsheet import storage
from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import maintenance, pending, reading, writing
from callsheet.storage.checkpoints.codec import Codec
from callsheet.storage.checkpoints.context import (
    STEP_STORE,
    KeyPolicy,
    Operation,
    SaverContext,
    StepStore,
    checkpoint_ref,
)
from callsheet.storage.checkpoints.message_log import CACHED_BYTES, LogCache
from callsheet.storage.checkpoints.reading import Listing, list_filter
from callsheet.storage.checkpoints.transports import ExecuteBatch, Transports
from callsheet.storage.checkpoints.writing import AttemptFence
from callsheet.storage.redis.keys import CHECKPOINT_PREFIX, run_keys

T = TypeVar("T")

_RANDOM_BITS: Final = 20
_MIN_TTL_S: Final = 0.1


class SaverOptions(TypedDict, total=False):
    """Options of a saver."""

    sync_client: Any
    """`redis.Redis` or `redis.RedisCluster` for the blocking methods; derived from the other if absent."""
    prefix: str
    """Prefix of all keys. Savers with different prefixes do not see each other's threads."""
    ttl_s: float | None
    """Lifetime of a thread after its last write; None for no expiry."""
    refresh_on_read: bool
    """Renew that lifetime on each read."""
    wait_aof: bool
    """Make each write wait for the server's disk (Redis 7.2 or newer, or Valkey; with AOF)."""
    serde: SerializerProtocol | None
    """Serialiser for values; None for LangGraph's own."""
    fence: str
    """Key in a config's `configurable` with the epoch of the attempt at a run. If a later attempt owns the
    thread, a write raises `Fenced`. A config without the key is not checked; nor is any by default."""
    cached_bytes: int
    """Limit on the serialised messages cached in this process."""
    kept_checkpoints: int
    """Newest checkpoints of each namespace of a thread that `akeep_newest` keeps; 0, the default, for all."""


class RedisSaver(BaseCheckpointSaver[int]):
    """A checkpointer for any LangGraph graph, with blocking and asynchronous methods on one object.

    Every operation is atomic on the server and idempotent, so it is retried after a lost connection. A failed
    read raises: it is never an empty thread. Safe to share between threads and event loops; several processes
    may use one thread.
    """

    def __init__(self, client: Redis | RedisCluster, **options: Unpack[SaverOptions]) -> None:
        """Raise `Invalid` for an unusable client or option. Opens no connection yet."""
        super().__init__(serde=options.get("serde"))
        wait_aof = options.get("wait_aof", False)
        self._transports = Transports(client, options.get("sync_client"), wait_aof=wait_aof)
        self._policy = _key_policy(options, clustered=self._transports.clustered)
        self._cached_bytes = options.get("cached_bytes", CACHED_BYTES)
        self._logs = LogCache(self._cached_bytes)
        self._fence = options.get("fence", "")
        self._kept = options.get("kept_checkpoints", 0)

    @classmethod
    @asynccontextmanager
    async def from_url(cls, url: str, **options: Unpack[SaverOptions]) -> AsyncIterator[Self]:
        """Open a saver with its own connections, closed at the end. Raises what `storage.connect` raises.

        `url` is `redis://…`, `rediss://…`, `unix://…` or `redis+cluster://…`.
        """
        async with storage.connect(url) as opened, aclosing(cls(opened.redis, **options)) as saver:
            yield saver

    def __copy__(self) -> Self:
        """Return a saver on the same connections with an empty cache, because its serialiser may change."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._logs = LogCache(self._cached_bytes)
        return twin

    async def aclose(self) -> None:
        """Close the connections that the saver opened, but not the given client. Safe to call twice."""
        await self._transports.aclose()

    def setup(self) -> None:
        """Do nothing; for compatibility with other savers."""

    async def asetup(self) -> None:
        """Do nothing, as `setup`."""

    def get_next_version(self, current: int | None, channel: None) -> int:  # noqa: ARG002 - LangGraph's signature
        """Return a version after `current` that no other process derives from the same `current`.

        Otherwise two runs that continue one checkpoint could write under one version, and the later would
        change the history of the earlier. So the lowest 20 bits are random; versions stay below 2**53.
        """
        if isinstance(current, str):
            # The thread began under a saver with text versions, such as LangGraph's in-memory one.
            current = int(str(current).split(".")[0])
        count = int(current or 0)
        count = count >> _RANDOM_BITS if count >= 1 << _RANDOM_BITS else count
        return (count + 1) << _RANDOM_BITS | random.getrandbits(_RANDOM_BITS)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as the child of the one in `config`, and return its own config."""
        ref = checkpoint_ref(config)._replace(checkpoint=checkpoint["id"])
        steps, source, values = (
            self._step_store(config, ref.thread),
            metadata.get("source", ""),
            checkpoint["channel_values"],
        )
        return await self._execute(
            self._put(config, checkpoint, metadata, new_versions),
            partial(steps.store_checkpoint, ref, source, values) if steps else None,
        )

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Blocking form of `aput`."""
        return self._execute_blocking(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes, pending at the checkpoint in `config`. A write already stored is kept."""
        steps = self._step_store(config, checkpoint_ref(config).thread)
        await self._execute(
            self._put_writes(config, writes, (task_path, task_id)), steps.store_writes if steps else None
        )

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Blocking form of `aput_writes`."""
        self._execute_blocking(self._put_writes(config, writes, (task_path, task_id)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint in `config`, or the newest; None if there is none. A failed read raises."""
        return await self._execute(reading.read_one(self._context, checkpoint_ref(config)))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Blocking form of `aget_tuple`."""
        return self._execute_blocking(reading.read_one(self._context, checkpoint_ref(config)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, newest first; without a thread those of all, thread by thread.

        Checkpoints of one listing that have a list element in common share one object for it.
        """
        listing = Listing(self._context, list_filter(config, filter, before), limit)
        while page := await self._execute(listing.next_page()):
            for checkpoint in page:
                yield checkpoint

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Blocking form of `alist`."""
        listing = Listing(self._context, list_filter(config, filter, before), limit)
        while page := self._execute_blocking(listing.next_page()):
            yield from page

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's last stored value and the ancestors' writes since then, oldest first."""
        return await self._execute(reading.read_history(self._context, checkpoint_ref(config), channels))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Blocking form of `aget_delta_channel_history`."""
        return self._execute_blocking(reading.read_history(self._context, checkpoint_ref(config), channels))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the whole thread."""
        await self._execute(maintenance.delete(self._context, str(thread_id)))

    def delete_thread(self, thread_id: str) -> None:
        """Blocking form of `adelete_thread`."""
        self._execute_blocking(maintenance.delete(self._context, str(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete every checkpoint whose metadata has one of the run ids."""
        await self._execute(maintenance.delete_for_runs(self._context, run_ids))

    async def akeep_pending(
        self, config: RunnableConfig, tasks: Sequence[PregelTask], answers: Collection[str] | None = None
    ) -> frozenset[str]:
        """Keep the pending writes of a thread's tasks as they are before the config's run.

        `adelete_own_run` restores them. Answers of a failed run to the questions with the ids in `answers` go
        first; all of them if it is empty.
        Returns the ids of questions that an earlier attempt came to with the same answers: they are taken.
        Raises `Fenced` if a later attempt has the thread.
        """
        ref, run = checkpoint_ref(config), str(config["configurable"]["run_id"])
        if fence := self._fence_of(config, ref.thread):
            continuing = pending.ContinuingRun(run, tasks, answers)
            return await self._execute(pending.keep_pending(self._context, ref, continuing, fence))
        return frozenset()

    async def awithdraw_answers(self, config: RunnableConfig) -> None:
        """Have the questions wait that the config's run has answered in a task that did not end.

        Raises `Fenced` if a later attempt has the thread.
        """
        thread, run = str(config["configurable"]["thread_id"]), str(config["configurable"]["run_id"])
        if fence := self._fence_of(config, thread):
            await self._execute(pending.withdraw_answers(self._context, thread, run, fence))

    async def arelease_answers(self, config: RunnableConfig) -> None:
        """Keep the answers of the config's run, which failed, until another brings answers.

        Raises `Fenced` if a later attempt has the thread.
        """
        thread, run = str(config["configurable"]["thread_id"]), str(config["configurable"]["run_id"])
        if fence := self._fence_of(config, thread):
            await self._execute(pending.release_answers(self._context, thread, run, fence))

    async def adelete_own_run(self, config: RunnableConfig) -> None:
        """Delete every checkpoint of the config's run, and its writes at those of earlier runs.

        Raises `Fenced` if a later attempt has the thread.
        """
        thread, run = str(config["configurable"]["thread_id"]), str(config["configurable"]["run_id"])
        fence = self._fence_of(config, thread)
        await self._execute(maintenance.delete_for_runs(self._context, [run], thread, fence))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Blocking form of `adelete_for_runs`."""
        self._execute_blocking(maintenance.delete_for_runs(self._context, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Replace the target thread with a copy of the source."""
        await self._execute(maintenance.copy(self._context, str(source_thread_id), str(target_thread_id)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Blocking form of `acopy_thread`."""
        self._execute_blocking(maintenance.copy(self._context, str(source_thread_id), str(target_thread_id)))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's newest checkpoint and the ancestors it needs, or `delete` the threads."""
        for thread in thread_ids:
            await self._execute(maintenance.prune(self._context, str(thread), strategy))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Blocking form of `aprune`."""
        for thread in thread_ids:
            self._execute_blocking(maintenance.prune(self._context, str(thread), strategy))

    async def akeep_newest(self, thread_id: str) -> None:
        """Remove the oldest checkpoints beyond `kept_checkpoints`, unless a run has the thread."""
        if self._kept:
            await self._execute(maintenance.keep_newest(self._context, thread_id, self._kept))

    @property
    def _context(self) -> SaverContext:
        return SaverContext(Codec(self.serde), self._policy, self._logs)

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Operation[RunnableConfig]:
        metadata, parent = get_checkpoint_metadata(config, metadata), checkpoint_ref(config)
        fence = self._fence_of(config, parent.thread)
        return writing.put(self._context, parent, checkpoint, metadata, new_versions, fence)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: tuple[str, str]
    ) -> Operation[None]:
        ref = checkpoint_ref(config)
        return writing.put_writes(self._context, ref, writes, task, self._fence_of(config, ref.thread))

    def _fence_of(self, config: RunnableConfig, thread: str) -> AttemptFence | None:
        epoch = config["configurable"].get(self._fence) if self._fence else None
        if epoch is None:
            return None
        return AttemptFence(run_keys(thread).thread, str(epoch))

    def _step_store(self, config: RunnableConfig, thread: str) -> StepStore | None:
        steps = STEP_STORE.get()
        return steps if steps and steps.thread == thread and self._fence_of(config, thread) else None

    async def _execute(self, operation: Operation[T], execute_batch: ExecuteBatch | None = None) -> T:
        execute_batch = execute_batch or await self._transports.for_running_loop()
        try:
            calls = next(operation)
            while True:
                calls = operation.send(await execute_batch(calls))
        except StopIteration as end:
            return cast("T", end.value)

    def _execute_blocking(self, operation: Operation[T]) -> T:
        execute_batch = self._transports.blocking()
        try:
            calls = next(operation)
            while True:
                calls = operation.send(execute_batch(calls))
        except StopIteration as end:
            return cast("T", end.value)


@asynccontextmanager
async def saver() -> AsyncIterator[RedisSaver]:
    """Open a saver on this process's storage, for `checkpointer.path` in langgraph.json."""
    async with aclosing(RedisSaver((await storage.current()).redis)) as opened:
        yield opened


def _key_policy(options: SaverOptions, *, clustered: bool) -> KeyPolicy:
    prefix, ttl_s = options.get("prefix", CHECKPOINT_PREFIX), options.get("ttl_s")
    if not prefix or set(prefix) & set("{}"):
        raise Invalid(f"prefix {prefix!r} is empty or has braces", remedy="Use text without braces.")
    if ttl_s is not None and ttl_s < _MIN_TTL_S:
        remedy = f"Use at least {_MIN_TTL_S:g} s, or None for no expiry."
        raise Invalid(f"ttl_s={ttl_s!r} is too short", remedy=remedy)
    ttl_ms = int((ttl_s or 0) * 1000)
    return KeyPolicy(prefix, ttl_ms, ttl_ms if options.get("refresh_on_read") else 0, clustered)

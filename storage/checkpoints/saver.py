"""The saver: LangGraph's checkpointer interface in blocking and asynchronous form."""

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
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
from redis.asyncio import Redis, RedisCluster

from callsheet import storage
from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import maintenance, reading, writing
from callsheet.storage.checkpoints.codec import Codec
from callsheet.storage.checkpoints.context import (
    BEFORE_CHECKPOINT,
    KeyPolicy,
    Operation,
    SaverContext,
    checkpoint_ref,
)
from callsheet.storage.checkpoints.message_log import CACHED_BYTES, LogCache
from callsheet.storage.checkpoints.reading import Listing, list_filter
from callsheet.storage.checkpoints.transports import Transports
from callsheet.storage.checkpoints.write_scripts import Fence
from callsheet.storage.redis.keys import CHECKPOINT_PREFIX, run_keys

T = TypeVar("T")

_RANDOM_BITS: Final = 20
_SHORTEST_S: Final = 0.1


class SaverOptions(TypedDict, total=False):
    """How a saver differs from the usual one."""

    sync_client: Any
    """The `redis.Redis` or `redis.RedisCluster` of the blocking methods; made like the other if absent."""
    prefix: str
    """What all keys begin with; savers of different prefixes do not see each other's threads."""
    ttl_s: float | None
    """How long a thread lives after it was last written; for ever if None."""
    refresh_on_read: bool
    """Whether reading a thread counts as writing for that."""
    wait_aof: bool
    """Whether a write returns only once it is on the server's disk (Redis from 7.2 on, Valkey; with AOF)."""
    serde: SerializerProtocol | None
    """How values become bytes; LangGraph's own serialiser if None."""
    fence: str
    """Key of a config's `configurable` that has the epoch of the attempt at a run. Where a later one has
    the thread, a write raises `Fenced`. Without the key, and by default, anybody may write."""
    cached_bytes: int
    """How much of the threads' messages this process may remember."""


class RedisSaver(BaseCheckpointSaver[int]):
    """A checkpointer for any LangGraph graph; the blocking and the asynchronous methods work on one object.

    Every operation is one atomic step on the server and safe to repeat, so a lost connection is retried
    without anyone noticing. A read that fails raises: it is never an empty thread. Safe to share between
    threads and event loops, and between processes on one thread.
    """

    def __init__(self, client: Redis | RedisCluster, **options: Unpack[SaverOptions]) -> None:
        """`Invalid` for a client or an option that cannot work. Opens no connection yet."""
        super().__init__(serde=options.get("serde"))
        self._wires = Transports(client, options.get("sync_client"), wait_aof=options.get("wait_aof", False))
        self._rules = _rules(options, clustered=self._wires.clustered)
        self._cached_bytes = options.get("cached_bytes", CACHED_BYTES)
        self._logs = LogCache(self._cached_bytes)
        self._fence = options.get("fence", "")

    @classmethod
    @asynccontextmanager
    async def from_url(cls, url: str, **options: Unpack[SaverOptions]) -> AsyncIterator[Self]:
        """A saver of its own connections, closed at the end. Raises what `storage.connect` raises.

        `url` is `redis://…`, `rediss://…`, `unix://…` or `redis+cluster://…`.
        """
        async with storage.connect(url) as opened:
            saver = cls(opened.redis, **options)
            try:
                yield saver
            finally:
                await saver.aclose()

    def __copy__(self) -> Self:
        """A saver over the same connections that remembers nothing, for its serialiser may be another."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._logs = LogCache(self._cached_bytes)
        return twin

    async def aclose(self) -> None:
        """Close what the saver opened. The client it was given stays open; twice is safe."""
        await self._wires.aclose()

    def setup(self) -> None:
        """Do nothing: there is nothing to set up. Other savers have this method."""

    async def asetup(self) -> None:
        """Do nothing, as `setup`."""

    def get_next_version(self, current: int | None, channel: None) -> int:  # noqa: ARG002 - LangGraph's signature
        """A version after `current`, which no other process that also saw `current` will choose.

        Two runs that go on from one checkpoint must not write under one version: the later would change the
        history of the earlier. So the lowest 20 bits are random; the whole stays below 2**53.
        """
        if isinstance(current, str):
            # The thread began under a saver whose versions are text, such as LangGraph's in-memory one.
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
        """Store a checkpoint as the child of the one `config` names; the result names it."""
        if ahead := BEFORE_CHECKPOINT.get():
            await ahead()
        return await self._execute(self._put(config, checkpoint, metadata, new_versions))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `aput`."""
        return self._execute_blocking(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, pending at the checkpoint `config` names. What is there stays as it is."""
        await self._execute(self._put_writes(config, writes, (task_path, task_id)))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `aput_writes`."""
        self._execute_blocking(self._put_writes(config, writes, (task_path, task_id)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint `config` names, or the newest; None if there is none. An error is raised."""
        return await self._execute(reading.read_one(self._books, checkpoint_ref(config)))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `aget_tuple`."""
        return self._execute_blocking(reading.read_one(self._books, checkpoint_ref(config)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread, newest first; without a thread those of all, thread by thread.

        An element that several checkpoints of one listing have in a list is one object in all of them.
        """
        listing = Listing(self._books, list_filter(config, filter, before), limit)
        while page := await self._execute(listing.next_page()):
            for found in page:
                yield found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """As `alist`."""
        listing = Listing(self._books, list_filter(config, filter, before), limit)
        while page := self._execute_blocking(listing.next_page()):
            yield from page

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What each channel is made of: ancestors' writes, oldest first, from the last stored value on."""
        return await self._execute(reading.read_history(self._books, checkpoint_ref(config), channels))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `aget_delta_channel_history`."""
        return self._execute_blocking(reading.read_history(self._books, checkpoint_ref(config), channels))

    async def adelete_thread(self, thread_id: str) -> None:
        """Take away everything of the thread."""
        await self._execute(maintenance.delete(self._books, str(thread_id)))

    def delete_thread(self, thread_id: str) -> None:
        """As `adelete_thread`."""
        self._execute_blocking(maintenance.delete(self._books, str(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Take away every checkpoint whose metadata has one of the run ids."""
        await self._execute(maintenance.delete_for_runs(self._books, run_ids))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `adelete_for_runs`."""
        self._execute_blocking(maintenance.delete_for_runs(self._books, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Make one thread a copy of another, whatever it was before."""
        await self._execute(maintenance.copy(self._books, str(source_thread_id), str(target_thread_id)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `acopy_thread`."""
        self._execute_blocking(maintenance.copy(self._books, str(source_thread_id), str(target_thread_id)))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace and what it is made from, or `delete` the threads."""
        for thread in thread_ids:
            await self._execute(maintenance.prune(self._books, str(thread), strategy))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `aprune`."""
        for thread in thread_ids:
            self._execute_blocking(maintenance.prune(self._books, str(thread), strategy))

    @property
    def _books(self) -> SaverContext:
        return SaverContext(Codec(self.serde), self._rules, self._logs)

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Operation[RunnableConfig]:
        metadata, parent = get_checkpoint_metadata(config, metadata), checkpoint_ref(config)
        fence = self._fence_of(config, parent.thread)
        return writing.put(self._books, parent, checkpoint, metadata, new_versions, fence)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: tuple[str, str]
    ) -> Operation[None]:
        at = checkpoint_ref(config)
        return writing.put_writes(self._books, at, writes, task, self._fence_of(config, at.thread))

    def _fence_of(self, config: RunnableConfig, thread: str) -> Fence | None:
        epoch = config["configurable"].get(self._fence) if self._fence else None
        if epoch is None:
            return None
        return Fence(run_keys(thread).thread, str(epoch))

    async def _execute(self, exchange: Operation[T]) -> T:
        wire = await self._wires.for_running_loop()
        try:
            calls = next(exchange)
            while True:
                calls = exchange.send(await wire.execute_batch(calls))
        except StopIteration as end:
            return cast("T", end.value)

    def _execute_blocking(self, exchange: Operation[T]) -> T:
        wire = self._wires.blocking()
        try:
            calls = next(exchange)
            while True:
                calls = exchange.send(wire.execute_batch(calls))
        except StopIteration as end:
            return cast("T", end.value)


@asynccontextmanager
async def saver() -> AsyncIterator[RedisSaver]:
    """A saver on the storage that this process uses: what `checkpointer.path` in langgraph.json names."""
    opened = RedisSaver((await storage.current()).redis)
    try:
        yield opened
    finally:
        await opened.aclose()


def _rules(options: SaverOptions, *, clustered: bool) -> KeyPolicy:
    prefix, ttl_s = options.get("prefix", CHECKPOINT_PREFIX), options.get("ttl_s")
    if not prefix or set(prefix) & set("{}"):
        raise Invalid(f"prefix {prefix!r} cannot begin a key", remedy="Use text without braces.")
    if ttl_s is not None and ttl_s < _SHORTEST_S:
        remedy = f"Use at least {_SHORTEST_S:g} s, or None to keep threads for ever."
        raise Invalid(f"ttl_s={ttl_s!r} is too short to live by", remedy=remedy)
    refresh = options.get("refresh_on_read", False)
    return KeyPolicy(prefix, int((ttl_s or 0) * 1000), refresh_on_read=refresh, clustered=clustered)

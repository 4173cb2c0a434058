"""Events of runs: one Redis stream per thread, written by the scripts of runs and read by any process.

Pub/sub announces new events to each process over one connection, which is probed when it is silent. Messages
are lost while it is down: then subscribers poll, and on a cluster, whose nodes may lose messages.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from callsheet.state.errors import CallsheetError, StorageDown
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage, translated_errors
from callsheet.storage.redis.scripts import Script
from callsheet.storage.runs import scripts

ATTEMPT_STARTED = "metadata"
"""Name of the first event of an attempt; its data is `{run_id, attempt}`."""
END = "end"
"""Name of the last event of a run; its data is the ending, or `PAUSED`, as plain text instead of JSON."""
PAUSED = "paused"
"""Ending of a run that succeeded and waits for a person's answer."""
GAP = "gap"
"""Name of the event that stands for those which are not stored any more; it is not stored itself. Its data is
`{"first": id}` with the first event that is stored, or null."""
PROTOCOL_PREFIX = "v2/"
"""Name prefix of events that only the second stream protocol sends."""
START_ID = "0-0"
"""Id before the first event."""
STATE_UPDATED = "state_update"
"""Name of the event after a manual state update; its data is the checkpoint as JSON."""
_ID: Final = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
_MAX_COUNTER: Final = 2**64 - 1
_MAX_EVENTS: Final = 500
"""Most events per read."""
_TARGET_BYTES: Final = 256 * 1024
"""Approximate bytes per read, which bounds the memory of many readers of large events."""
_RECONNECT_S: Final = 0.5
"""Delay before the next attempt after a lost connection."""
_PROBE_S: Final = 2.0
"""Silence after which the connection is probed, and time for its answer."""
_IDLE_CHANNEL: Final = "callsheet"
"""Channel without messages; it opens the connection before the first thread is subscribed."""


Topic = Literal["events", "cancel", "end"]
"""Kind of message: new events on the thread; its active run is to be cancelled; a run has ended."""
_ENDINGS_OF_ATTEMPTS: Final = frozenset({b"success", PAUSED.encode(), b"error", b"timeout"})
"""Endings of runs that were executed; a run may be cancelled before it is."""
_IS_STORED: Final = Script("return #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])")
_DELETED: Final = b"gone"
"""Message for all subscribers of a thread that was deleted."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a thread."""

    id: str
    """Grows from event to event within a thread."""
    run: str
    """Empty for an event of the thread itself."""
    name: str
    data: bytes
    """JSON."""
    checkpoint: str = ""
    """For values of a graph: the newest checkpoint of their namespace that the run had stored, if any."""
    names: tuple[str, ...] = ()
    """Names of all values if `data` holds only those that the checkpoint lacks, else empty."""


class NewEvent(NamedTuple):
    """An event to be stored."""

    name: str
    data: bytes
    checkpoint: str = ""
    names: bytes = b""
    """JSON list of the names of all values if the checkpoint holds those that `data` lacks."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Limits on the events that are kept for a thread; `scripts.MAX_EVENTS` limits their number."""

    max_bytes: int = 16_000_000
    max_age_s: float = keys.DAY_S
    """At most a day: a thread's events expire together that long after the last one."""


class EventCursor:
    """Reader of a thread's events from a position on, about a quarter of a megabyte at a time."""

    def __init__(self, storage: Storage, thread: str, after: str) -> None:
        self._storage = storage
        self._thread = thread
        self.after = after
        """Id of the last event that was read."""
        self.is_at_end = False
        """True once a read returned all events that there were."""
        self._limit = 16
        self._has_read = False
        """True once the event `after` was read, so that a gap behind it is noticed."""

    async def read_next(self) -> list[Event]:
        """Return the next events, oldest first; an empty list if there are none yet.

        `GAP` comes first if events behind the last one that was read were trimmed meanwhile.
        """
        events = await read_after(self._storage, self._thread, self.after, self._limit)
        self.is_at_end = len(events) < self._limit
        if not events:
            return events
        is_behind = self._has_read and len(events) == self._limit and not await self._is_stored(self.after)
        gap = [gap_before(events[0].id)] if is_behind else []
        self._has_read, self.after = True, events[-1].id
        average_bytes = max(1, sum(len(event.data) for event in events) / len(events))
        self._limit = int(max(1, min(_MAX_EVENTS, self._limit * 8, _TARGET_BYTES / average_bytes)))
        return [*gap, *events]

    async def _is_stored(self, event_id: str) -> bool:
        return bool(await _IS_STORED(self._storage.redis, [keys.run_keys(self._thread).events], [event_id]))


def is_event_id(text: str) -> bool:
    """Return whether a text is an event id that Redis takes as a position: it refuses the greatest one."""
    return (
        bool(_ID.fullmatch(text))
        and max(order_of(text)) <= _MAX_COUNTER
        and min(order_of(text)) < _MAX_COUNTER
    )


def order_of(event_id: str) -> tuple[int, int]:
    """Return the sort key of an event id."""
    ms, _, counter = event_id.partition("-")
    return int(ms), int(counter)


def id_before(event_id: str) -> str:
    """Return the greatest id before this one; `ms-0` is before all events of a Unix time in milliseconds."""
    ms, counter = order_of(event_id)
    return f"{ms}-{counter - 1}" if counter else f"{ms - 1}-{_MAX_COUNTER}"


async def append(storage: Storage, thread: str, name: str, data: bytes) -> None:
    """Append an event that belongs to no run."""
    await scripts.APPEND_EVENT(storage.redis, keys.run_keys(thread), [name, data])


async def read_after(storage: Storage, thread: str, event_id: str, limit: int = _MAX_EVENTS) -> list[Event]:
    """Return the thread's events after `event_id`, oldest first."""
    entries = await storage.redis.xrange(keys.run_keys(thread).events, min=f"({event_id}", count=limit)
    return [_event(entry_id, fields) for entry_id, fields in entries]


async def find(storage: Storage, thread: str, event_id: str) -> Event | None:
    """Return the thread's event with this id; None if it has none, or none any more."""
    entries = await storage.redis.xrange(keys.run_keys(thread).events, min=event_id, max=event_id)
    return _event(*entries[0]) if entries else None


async def first_after_gap(storage: Storage, thread: str, event_id: str) -> str | None:
    """Return the id of the first stored event, empty for none, if events after `event_id` may be lost.

    None if all of them are stored. Events are trimmed from the oldest on, or expire together.
    """
    head = next(iter(await read_after(storage, thread, START_ID, limit=1)), None)
    if head and order_of(head.id) <= order_of(event_id):
        return None
    names = keys.run_keys(thread)
    oldest = [name.decode() for name in await storage.redis.zrange(names.runs, 0, 0)]
    if not oldest or (head and head.run in oldest and begins_run(head)):
        return None
    created_ms, status = await storage.redis.hmget(keys.run(thread, oldest[0]), ["createdMs", "status"])
    # Before the thread's first run there are only updates of its state; a run that waits has no events.
    if head is None:
        return "" if status and status != b"pending" else None
    return head.id if created_ms and order_of(head.id)[0] > int(created_ms) else None


def gap_before(first: str) -> Event:
    """Return the event for the events before the id `first` that are not stored any more."""
    data = json.dumps({"first": first or None}).encode()
    return Event(id_before(first) if first else START_ID, "", GAP, data)


def begins_run(event: Event) -> bool:
    """Return whether nothing of its run comes before an event: its first attempt, or its end without one."""
    if event.name == END:
        return event.data not in _ENDINGS_OF_ATTEMPTS
    return event.name == ATTEMPT_STARTED and json.loads(event.data).get("attempt", 1) == 1


async def newest_id(storage: Storage, thread: str) -> str:
    """Return the id of the thread's newest event, or the id before the first."""
    entries = await storage.redis.xrevrange(keys.run_keys(thread).events, count=1)
    return entries[0][0].decode() if entries else START_ID


async def newest_of_run(storage: Storage, thread: str, run: str, among: int) -> dict[str, Event]:
    """Return the run's newest event of each name, by name, from the thread's `among` newest events."""
    entries = await storage.redis.xrevrange(keys.run_keys(thread).events, count=among)
    events = [_event(entry_id, fields) for entry_id, fields in reversed(entries)]
    return {event.name: event for event in events if event.run == run}


def _event(entry_id: bytes, fields: dict[bytes, bytes]) -> Event:
    run, name, checkpoint = (fields.get(key, b"").decode() for key in (b"run", b"event", b"checkpoint"))
    names = tuple(json.loads(fields.get(b"names", b"[]")))
    return Event(entry_id.decode(), run, name, fields[b"data"], checkpoint, names)


class Signal(asyncio.Event):
    """Event that is set by each message of its topic."""

    thread_deleted = False
    """True once a message said that the thread was deleted."""


class Announcements:
    """Subscriptions of this process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._client = _single_node(storage.redis)
        self._pubsub: Any = self._client.pubsub()
        self._signals: dict[str, dict[Signal, bytes]] = {}
        """Signals and their topics by channel."""
        self._subscribed: set[str] = set()
        self._is_heard = False
        """True between a message, or an answer to a probe, and the loss of the connection."""

    @property
    def is_reliable(self) -> bool:
        """False if announcements may be lost, so that subscribers must look for themselves."""
        return self._is_heard and not self._is_cluster

    @asynccontextmanager
    async def subscribe(self, thread: str, topic: Topic = "events") -> AsyncIterator[Signal]:
        """Yield a signal for a topic of the thread; it is also set when the subscription begins."""
        async with self.subscribe_to(keys.run_keys(thread).events, topic) as signal:
            yield signal

    @asynccontextmanager
    async def subscribe_to(self, channel: str, topic: Topic = "events") -> AsyncIterator[Signal]:
        """Yield a signal for a topic of any channel, as `subscribe`."""
        signal = Signal()
        signals = self._signals.setdefault(channel, {})
        signals[signal] = topic.encode()
        try:
            # Every subscriber retries until one succeeds, since the first may fail or be cancelled.
            if channel not in self._subscribed:
                await self._subscribe(channel)
            else:
                signal.set()
            yield signal
        finally:
            del signals[signal]
            if not signals and self._signals.get(channel) is signals:
                del self._signals[channel]
                self._subscribed.discard(channel)
                with suppress(StorageDown), translated_errors(self._storage):
                    await self._pubsub.unsubscribe(channel)

    async def _subscribe(self, channel: str) -> None:
        try:
            with translated_errors(self._storage):
                await self._pubsub.subscribe(channel)
        except StorageDown:
            if not self._is_cluster:
                raise
            # Only this node may be gone. The listener moves to another one with all channels.
            self._notify(channel, None)
        else:
            self._subscribed.add(channel)

    def has_subscriber(self, thread: str) -> bool:
        """Return whether anything in this process is subscribed to the thread's events."""
        signals = self._signals.get(keys.run_keys(thread).events) or {}
        return b"events" in signals.values()

    async def open(self) -> None:
        """Connect; call it before the first `subscribe`, because redis-py would connect twice."""
        with translated_errors(self._storage):
            await self._pubsub.subscribe(_IDLE_CHANNEL)

    async def listen(self) -> None:
        """Receive messages until cancelled; reconnects after a lost connection."""
        try:
            while True:
                await self._receive()
        finally:
            self._is_heard = False

    async def _receive(self) -> None:
        try:
            message = await self._next_message()
        except (CallsheetError, RedisError, OSError):
            # Messages may have been lost, so every subscriber looks for itself.
            self._is_heard = False
            for channel in self._signals:
                self._notify(channel, None)
            await asyncio.sleep(_RECONNECT_S)
            if self._is_cluster:
                await self._change_node()
        else:
            self._is_heard = True
            if message["type"] in {"message", "subscribe"}:
                data = message["data"] if message["type"] == "message" else None
                self._notify(message["channel"].decode(), data)

    async def _next_message(self) -> Any:
        """Return the next message; raises `redis.ConnectionError` for a connection that does not answer.

        A connection may be lost without a sign, as behind a firewall that forgets it.
        """
        message = await self._pubsub.get_message(timeout=_PROBE_S)
        if message is None:
            await self._pubsub.ping()
            message = await self._pubsub.get_message(timeout=_PROBE_S)
        if message is None:
            await self._pubsub.connection.disconnect()
            raise RedisConnectionError("the connection for announcements does not answer")
        return message

    @property
    def _is_cluster(self) -> bool:
        return self._client is not self._storage.redis

    async def _change_node(self) -> None:
        """Subscribe to all channels at another node of the cluster, the first that takes the subscription."""
        while True:
            former, former_client = self._pubsub, self._client
            self._client = _single_node(self._storage.redis)
            self._pubsub = self._client.pubsub()
            await former.aclose()
            await former_client.aclose()
            channels = {*self._signals}
            with suppress(StorageDown), translated_errors(self._storage):
                await self._pubsub.subscribe(_IDLE_CHANNEL, *channels)
                self._subscribed |= channels
                return
            await asyncio.sleep(_RECONNECT_S)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._pubsub.aclose()
        if self._is_cluster:
            await self._client.aclose()

    def _notify(self, channel: str, message: bytes | None) -> None:
        """Set the signals for this message; all of the channel's signals for None."""
        for signal, topic in self._signals.get(channel, {}).items():
            if message in {topic, _DELETED, None}:
                signal.thread_deleted = signal.thread_deleted or message == _DELETED
                signal.set()


async def wait_for_signal(signal: asyncio.Event, timeout_s: float | None) -> bool:
    """Return True when the signal is set, or False after `timeout_s` seconds; None waits without limit."""
    # Not wait_for: in Python 3.11 it may swallow a cancellation that arrives together with the signal.
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            return await signal.wait()
    return False


def _single_node(redis: Redis | RedisCluster) -> Redis:
    """Return a client of one server; cluster nodes forward published messages to each other."""
    if isinstance(redis, RedisCluster):
        node = redis.get_random_node()
        # Without many retries, since another node will do.
        options = node.connection_kwargs | {"retry": Retry(NoBackoff(), 1)}
        return Redis.from_pool(ConnectionPool(connection_class=node.connection_class, **options))
    return redis

"""Pub/sub notification of this process about events on threads, whichever process wrote them.

Each process has one connection. Messages are lost while it is down, so subscribers must poll as well;
notifications only make them faster.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import RedisError

from callsheet.state.errors import CallsheetError, StorageDown
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage, translated_errors

_RECONNECT_S: Final = 0.5
"""Delay before the next attempt after a lost connection."""
_IDLE_CHANNEL: Final = "callsheet"
"""Channel without messages; it opens the connection before the first thread is subscribed."""


Topic = Literal["events", "cancel", "end"]
"""Kind of message: new events on the thread; its active run is to be cancelled; a run has ended."""
_DELETED: Final = b"gone"
"""Message for all subscribers of a thread that was deleted."""


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

    @asynccontextmanager
    async def subscribe(self, thread: str, topic: Topic = "events") -> AsyncIterator[Signal]:
        """Yield a signal for a topic of the thread; it is also set when the subscription begins."""
        channel, signal = keys.run_keys(thread).events, Signal()
        signals = self._signals.setdefault(channel, {})
        signals[signal] = topic.encode()
        try:
            # Every subscriber retries until one succeeds, since the first may fail or be cancelled.
            if channel not in self._subscribed:
                with translated_errors(self._storage):
                    await self._pubsub.subscribe(channel)
                self._subscribed.add(channel)
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
        while True:
            try:
                message = await self._pubsub.get_message(timeout=None)
            except (CallsheetError, RedisError, OSError):
                # Messages may have been lost, so every subscriber looks for itself.
                for channel in self._signals:
                    self._notify(channel, None)
                await asyncio.sleep(_RECONNECT_S)
            else:
                if message and message["type"] in {"message", "subscribe"}:
                    data = message["data"] if message["type"] == "message" else None
                    self._notify(message["channel"].decode(), data)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._pubsub.aclose()
        if self._client is not self._storage.redis:
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
        return Redis(host=node.host, port=int(node.port), **_login(node.connection_kwargs))
    return redis


def _login(options: dict[str, Any]) -> dict[str, Any]:
    names = ("username", "password", "protocol", "ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname")
    return {name: options[name] for name in names if options.get(name) is not None}

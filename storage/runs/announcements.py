"""Hearing at once that a thread has new events, whichever process wrote them.

One connection per process listens. What it says may be missed when it breaks, so listeners look by themselves
now and then; it only spares them the waiting.
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

_AGAIN_S: Final = 0.5
"""How long after a lost connection another is tried."""
_OWN: Final = "callsheet"
"""A channel on which nothing is said: the connection is there before the first thread is listened to."""


Topic = Literal["events", "cancel", "end"]
"""What is announced on a thread: new events; that its active run is to be cancelled; that a run has ended."""
_GONE: Final = b"gone"
"""What is announced to whoever listens to a thread, for whatever: it was taken away."""


class Signal(asyncio.Event):
    """Is set whenever what one listens for happens."""

    gone = False
    """Whether the thread was taken away, as far as one has heard."""


class Announcements:
    """The threads this process listens to."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._client = _single(storage.redis)
        self._listener: Any = self._client.pubsub()
        self._heard: dict[str, dict[Signal, bytes]] = {}
        self._subscribed: set[str] = set()

    @asynccontextmanager
    async def subscribe(self, thread: str, what: Topic = "events") -> AsyncIterator[Signal]:
        """Return a bell for what happens on the thread; it is set, too, when listening begins."""
        channel, bell = keys.run_keys(thread).events, Signal()
        bells = self._heard.setdefault(channel, {})
        bells[bell] = what.encode()
        try:
            # By each until it is done: whoever was first may fail, or give up.
            if channel not in self._subscribed:
                with translated_errors(self._storage):
                    await self._listener.subscribe(channel)
                self._subscribed.add(channel)
            else:
                bell.set()
            yield bell
        finally:
            del bells[bell]
            if not bells and self._heard.get(channel) is bells:
                del self._heard[channel]
                self._subscribed.discard(channel)
                with suppress(StorageDown), translated_errors(self._storage):
                    await self._listener.unsubscribe(channel)

    def has_subscriber(self, thread: str) -> bool:
        """Return whether somebody in this process listens for the thread's events."""
        bells = self._heard.get(keys.run_keys(thread).events) or {}
        return b"events" in bells.values()

    async def open(self) -> None:
        """Connect; before the first thread is listened to, since redis-py would connect twice."""
        with translated_errors(self._storage):
            await self._listener.subscribe(_OWN)

    async def listen(self) -> None:
        """Listen until cancelled, through lost connections."""
        while True:
            try:
                message = await self._listener.get_message(timeout=None)
            except (CallsheetError, RedisError, OSError):
                self._ring(*self._heard)
                await asyncio.sleep(_AGAIN_S)
            else:
                if message and message["type"] in {"message", "subscribe"}:
                    what = message["data"] if message["type"] == "message" else None
                    self._ring(message["channel"].decode(), what=what)

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._listener.aclose()
        if self._client is not self._storage.redis:
            await self._client.aclose()

    def _ring(self, *channels: str, what: bytes | None = None) -> None:
        """Ring for `what` was announced, or for all that may have been missed."""
        for channel in channels:
            for bell, wanted in self._heard.get(channel, {}).items():
                if what in {wanted, _GONE, None}:
                    bell.gone = bell.gone or what == _GONE
                    bell.set()


async def wait_for_signal(bell: asyncio.Event, patience_s: float | None) -> bool:
    """Wait until the bell has rung, or for as long as that; return whether it did."""
    # Not wait_for: in Python 3.11 it may swallow a cancellation that comes with the ringing.
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            return await bell.wait()
    return False


def _single(redis: Redis | RedisCluster) -> Redis:
    """A client of one server: any node of a cluster hears what is published on another."""
    if isinstance(redis, RedisCluster):
        node = redis.get_random_node()
        return Redis(host=node.host, port=int(node.port), **_login(node.connection_kwargs))
    return redis


def _login(options: dict[str, Any]) -> dict[str, Any]:
    kept = ("username", "password", "protocol", "ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname")
    return {name: options[name] for name in kept if options.get(name) is not None}

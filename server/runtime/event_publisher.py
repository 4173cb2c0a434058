"""Publishes the events of an attempt in order and in batches, while the attempt goes on."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from callsheet.server.runtime.encoding import Event
from callsheet.server.runtime.event_buffer import LocalEventBuffer
from callsheet.storage.runs.records import Attempt
from callsheet.storage.runs.runs import Runs

_MAX_WAITING: Final = 256
"""Events that may wait; further ones make the caller wait."""
BATCH_DELAY_S: Final = 0.01
"""Delay that remote followers do not notice."""


class EventPublisher:
    """Publishes to the thread's stream in Redis and to the local buffer."""

    def __init__(
        self,
        runs: Runs,
        attempt: Attempt,
        buffer: LocalEventBuffer | None,
        has_local_follower: Callable[[], bool] = lambda: False,
        batch_delay_s: float = BATCH_DELAY_S,
    ) -> None:
        """Without a local follower, events wait `batch_delay_s` so that more leave together."""
        self._runs = runs
        self._attempt = attempt
        self._buffer = buffer
        self._has_local_follower = has_local_follower
        self._batch_delay_s = batch_delay_s
        self._batches = 0
        self._waiting: list[Event] = []
        self._sending: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None

    async def publish(self, events: Sequence[Event]) -> None:
        """Queue the events; raise the error of an earlier batch, as `flush`."""
        if self._sending and self._sending.done():
            self._sending.result()
        self._waiting += events
        if self._waiting and not self._due and (self._sending is None or self._sending.done()):
            self._schedule()
        if len(self._waiting) > _MAX_WAITING:
            await self.flush()

    async def send_now(self) -> None:
        """Flush buffered events before the caller's next write; raises as `flush`."""
        if self._sending and not self._sending.done() and self._waiting:
            await self.flush()
        elif self._due:
            self._start_sending()
            # The batch is queued to storage once its task has started.
            await asyncio.sleep(0)

    async def flush(self) -> None:
        """Wait until all events are stored; raises `Fenced` if a later attempt has the thread."""
        while sending := self._start_sending() if self._due else self._sending:
            # The waiter may be cancelled; a batch that is being sent must arrive.
            await asyncio.shield(sending)
            if not self._due:
                return

    async def drain(self) -> list[Event]:
        """Stop sending and return the unsent events, which leave with the run's end; raises as `flush`."""
        self._unschedule()
        unsent, self._waiting = self._waiting, []
        await self.flush()
        return unsent

    async def discard(self) -> None:
        """Stop sending and drop the unsent events."""
        self._unschedule()
        self._waiting.clear()
        # The task's context refers to this publisher: the cycle would keep the run's events.
        sending, self._sending = self._sending, None
        if sending:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def _schedule(self) -> None:
        """Send the waiting events: at once for a local follower, else after the delay."""
        if self._has_local_follower():
            self._start_sending()
        else:
            self._due = asyncio.get_running_loop().call_later(self._batch_delay_s, self._start_sending)

    def _start_sending(self) -> "asyncio.Task[None]":
        self._unschedule()
        # The task starts after other ready tasks, which may publish more.
        sending = self._sending = asyncio.create_task(self._send())
        return sending

    def _unschedule(self) -> None:
        if self._due:
            self._due.cancel()
            self._due = None

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self._batches += 1
            ids = await self._runs.emit(self._attempt, self._batches, batch)
            if self._buffer:
                self._buffer.add(ids, batch)
            if self._waiting and not self._has_local_follower():
                self._schedule()
                return

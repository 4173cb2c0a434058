"""Telling what an attempt does while it does it: events leave in order, in batches, beside the work."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from callsheet.server.runtime.encoding import Event
from callsheet.server.runtime.event_buffer import LocalEventBuffer
from callsheet.storage.runs.records import Attempt
from callsheet.storage.runs.runs import Runs

_MOST: Final = 256
"""Events that may wait to leave; who tells more waits for them."""
BATCH_DELAY_S: Final = 0.01
"""What those who follow a run from elsewhere do not notice."""


class EventPublisher:
    """Tells the thread of an attempt's run, and whoever follows it in this process."""

    def __init__(
        self,
        runs: Runs,
        attempt: Attempt,
        transcript: LocalEventBuffer | None,
        heard: Callable[[], bool] = lambda: False,
        moment_s: float = BATCH_DELAY_S,
    ) -> None:
        """`heard` returns whether somebody in this process follows the run now.

        Where nobody does, what is told waits `moment_s` for more to leave with.
        """
        self._runs = runs
        self._attempt = attempt
        self._transcript = transcript
        self._heard = heard
        self._moment_s = moment_s
        self._batches = 0
        self._waiting: list[Event] = []
        self._sending: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None

    async def publish(self, events: Sequence[Event]) -> None:
        """Have the events told soon; raises what telling earlier ones failed with, as `flush`."""
        if self._sending and self._sending.done():
            self._sending.result()
        self._waiting += events
        if self._waiting and not self._due and (self._sending is None or self._sending.done()):
            self._leave_soon()
        if len(self._waiting) > _MOST:
            await self.flush()

    async def send_now(self) -> None:
        """Have what was told until now leave before what the caller sends next; raises as `flush`."""
        if self._sending and not self._sending.done() and self._waiting:
            await self.flush()
        elif self._due:
            self._leave()
            # It is in the queue to storage once its task has begun.
            await asyncio.sleep(0)

    async def flush(self) -> None:
        """Wait until all is told; raises `Fenced` when a later attempt has the thread."""
        while sending := self._leave() if self._due else self._sending:
            # Whoever waits may be cancelled; what is on its way arrives.
            await asyncio.shield(sending)
            if not self._due:
                return

    async def drain(self) -> list[Event]:
        """Tell no more, and return what is left to be told with the run's end; raises as `flush`."""
        self._stay()
        kept, self._waiting = self._waiting, []
        await self.flush()
        return kept

    async def discard(self) -> None:
        """Tell no more, and forget what was not told."""
        self._stay()
        self._waiting.clear()
        if self._sending:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def _leave_soon(self) -> None:
        """Have what waits leave: at once where somebody here follows, else in a moment."""
        if self._heard():
            self._leave()
        else:
            self._due = asyncio.get_running_loop().call_later(self._moment_s, self._leave)

    def _leave(self) -> "asyncio.Task[None]":
        self._stay()
        # It begins after whatever else is ready now, which may have more to tell.
        sending = self._sending = asyncio.create_task(self._send())
        return sending

    def _stay(self) -> None:
        if self._due:
            self._due.cancel()
            self._due = None

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self._batches += 1
            ids = await self._runs.emit(self._attempt, self._batches, batch)
            if self._transcript:
                self._transcript.add(ids, batch)
            if self._waiting and not self._heard():
                self._leave_soon()
                return

"""Telling what an attempt does while it does it: events leave in order, in batches, beside the work."""

import asyncio
from collections.abc import Sequence
from typing import Final

from server.encoding import Event
from server.transcripts import Transcript
from storage.run_records import Attempt
from storage.runs import Runs

_MOST: Final = 256
"""Events that may wait to leave; who tells more waits for them."""


class Teller:
    """Tells the thread of an attempt's run, and whoever follows it in this process."""

    def __init__(self, runs: Runs, attempt: Attempt, transcript: Transcript | None) -> None:
        self._runs = runs
        self._attempt = attempt
        self._transcript = transcript
        self._batches = 0
        self._waiting: list[Event] = []
        self._sending: asyncio.Task[None] | None = None

    async def tell(self, events: Sequence[Event]) -> None:
        """Have the events told soon; raises what telling earlier ones failed with, as `flush`."""
        if self._sending and self._sending.done():
            self._sending.result()
        self._waiting += events
        if self._waiting and (self._sending is None or self._sending.done()):
            # It begins after whatever else is ready now, which may have more to tell.
            self._sending = asyncio.create_task(self._send())
        if len(self._waiting) > _MOST:
            await self.flush()

    async def flush(self) -> None:
        """Wait until all is told; raises `Fenced` when a later attempt has the thread."""
        if self._sending:
            # Whoever waits may be cancelled; what is on its way arrives.
            await asyncio.shield(self._sending)

    async def rest(self) -> list[Event]:
        """Tell no more, and return what is left to be told with the run's end; raises as `flush`."""
        kept, self._waiting = self._waiting, []
        await self.flush()
        return kept

    async def stop(self) -> None:
        """Tell no more, and forget what was not told."""
        self._waiting.clear()
        if self._sending:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self._batches += 1
            ids = await self._runs.emit(self._attempt, self._batches, batch)
            if self._transcript:
                self._transcript.add(ids, batch)

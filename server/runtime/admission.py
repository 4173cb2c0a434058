"""Admission of runs to a process: slots, load and crash-loop isolation.

Runs that mostly wait all go at once within moments. Those that need a processor stay with whichever process
has one left: a thread that computes keeps all others of its process waiting, and the event loop with them.

So that which kills dies alone, and those that merely shared its processes come further. One that has come
further is none any more, and what takes hours is not waited for.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.runtime.execution import Redeliver
from callsheet.state.errors import Unavailable

_PATIENCE_S: Final = 2.0
"""How long a run that was brought here waits for a place before another process may have it."""


class RunSlots:
    """The places of one process."""

    def __init__(self, places: int, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._left = asyncio.Semaphore(places)
        self._taken = 0
        self._share = max(1, places // 2)
        """So many of the runs it records a process begins itself; the rest goes to whoever has the time."""

    async def try_acquire(self) -> bool:
        """Take a place for a run that this process is about to record, if it may have one; never waits."""
        if self._taken >= self._share or self._left.locked():
            return False
        await self._left.acquire()
        self._taken += 1
        return True

    def release(self) -> None:
        """Give a place back."""
        self._taken -= 1
        self._left.release()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a place; raises `Redeliver` where none becomes free for a while."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._left.acquire()
        except TimeoutError:
            raise Redeliver("this process has as many runs as it may") from None
        self._taken += 1
        try:
            yield
        finally:
            self.release()


CHECK_INTERVAL_S: Final = 0.01
"""How long a process is watched between two takings."""
UNCONDITIONAL_RUNS: Final = 2
"""Runs that a process is at before it asks itself whether it has the time: one works while one ends."""
_LATE_S: Final = 0.004
"""By how much an event loop is late that has no time; Python's threads take turns of 5 ms."""
_SHARE: Final = 0.4
"""Share of a processor that nodes need in a process that has no time; others may be at that one, too."""


class LoadSample(NamedTuple):
    """What a clock shows."""

    at_s: float
    beside_s: float
    """Processor time that this process has used so far in all threads but the calling one."""


def sample_load() -> LoadSample:
    """Return the moment, to be called by the thread of the event loop."""
    return LoadSample(time.monotonic(), time.process_time() - time.thread_time())


class LoadAdmission:
    """Says when a process takes more: it is asked again a breath after every no, and between two takings."""

    def __init__(self, most: int, clock: Callable[[], LoadSample] = sample_load) -> None:
        """`most` runs are carried out here at once."""
        self.most = most
        self._clock = clock
        self._breath: LoadSample | None = None
        """When the breath began that is being drawn."""

    def has_capacity(self, here: int) -> bool:
        """Whether to take some more now; `here` are under way that were taken before."""
        began, moment = self._breath, self._clock()
        if began and here < self.most and (here < UNCONDITIONAL_RUNS or _had_time(began, moment)):
            self._breath = None
            return True
        self._breath = moment
        return False


def _had_time(began: LoadSample, ended: LoadSample) -> bool:
    """Whether a process could have done more in a breath."""
    took_s = ended.at_s - began.at_s
    return took_s < CHECK_INTERVAL_S + _LATE_S and ended.beside_s - began.beside_s < took_s * _SHARE


_LOOK_S: Final = 0.5
"""How often one looks whether a suspect has come further."""
_AGAIN_S: Final = 1.0
"""How long one waits that was delivered to a process that is at another."""


class CrashLoopIsolation:
    """The suspect that this process is at, if it is at one."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver
        self._taken = asyncio.Lock()

    @asynccontextmanager
    async def isolate(self, thread: str) -> AsyncIterator[None]:
        """Be at no other suspect until this thread has a new checkpoint, or the `async with` ends.

        Raises `Redeliver` while this process is at another.
        """
        if self._taken.locked():
            raise Redeliver("another run that may end its process is under way here", again_s=_AGAIN_S)
        await self._taken.acquire()
        try:
            # Before anything is done here: what comes later is further.
            place = await self._place(thread)
        except BaseException:
            self._taken.release()
            raise
        watching = asyncio.create_task(self._further(thread, place))
        watching.add_done_callback(lambda _: self._taken.release())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _further(self, thread: str, place: str) -> None:
        """Wait until the thread's newest checkpoint is another than `place`."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with suppress(Unavailable):
                if await self._place(thread) != place:
                    return

    async def _place(self, thread: str) -> str:
        newest = await self._saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        return newest.checkpoint["id"] if newest else ""

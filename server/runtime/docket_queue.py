"""The task queue on Docket: delivers a run to a process, and again if that process dies.

Docket only delivers; the run's record (`storage/runs/runs.py`) decides, so submitting twice is harmless.
Docket imports slowly, so `server/runtime/task_queue.py` imports this module on first use.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from docket import CurrentExecution, Docket, Execution, Worker
from docket.dependencies import AdmissionBlocked

from callsheet.server.runtime.admission import CHECK_INTERVAL_S, LoadAdmission
from callsheet.server.runtime.execution import Drained, Redeliver
from callsheet.state.errors import Fenced, StorageDown
from callsheet.storage.redis.connection import Storage, translated_errors

_NAME: Final = "callsheet"
_EXECUTION_TTL: Final = timedelta(seconds=60)
"""Time that Docket remembers a delivery."""
_CHECK: Final = timedelta(milliseconds=250)
_LOAD_CHECK: Final = timedelta(seconds=CHECK_INTERVAL_S)
_EXTRA_CONNECTIONS: Final = 50
_RETRY_DELAYS_S: Final = (0.02, 0.2)
"""Delays before a submission is retried: Docket keeps connections that a restarted Redis has closed."""
_BATCH: Final = 2
"""Deliveries taken at once. With more, a process would starve others of runs that compute."""

Execute = Callable[[str, str], Awaitable[None]]
"""Executes (thread id, run id); raises `Fenced` if another process has taken the run over."""


class DocketQueue:
    """Deliveries by Docket, on the same Redis."""

    def __init__(self, storage: Storage, *, lease_s: float, pace: LoadAdmission) -> None:
        self._storage = storage
        self._lease = timedelta(seconds=lease_s)
        mark = "&" if "?" in storage.url else "?"
        most = 4 * pace.most + _EXTRA_CONNECTIONS
        # With retries on lost connections: Docket keeps those that a restarted Redis has closed, and a
        # delivery over one of them would wait for a whole lease.
        url = f"{storage.url}{mark}max_connections={most}&retry_on_timeout=true"
        self._docket = Docket(name=_NAME, url=url, execution_ttl=_EXECUTION_TTL)
        self._carry: Execute | None = None
        self._slots = _Slots(pace)
        # Docket reads the annotations of the parameters.
        self._docket.register(self.execute)

    async def __aenter__(self) -> Self:
        await self._docket.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._docket.__aexit__(kind, error, trace)

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        """Deliver the run, now or when it is due. A run that is queued already is not queued twice."""
        when = datetime.fromtimestamp(due_ms / 1000, UTC) if due_ms else None
        for pause_s in (*_RETRY_DELAYS_S, None):
            try:
                with translated_errors(self._storage):
                    await self._docket.add(self.execute, when=when, key=run)(thread, run)
            except StorageDown:
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            else:
                return

    async def work(self, execute: Execute) -> None:
        """Execute deliveries until cancelled, then wait for those in progress."""
        self._carry = execute
        async with _LoadAwareWorker(
            self._slots,
            self._docket,
            redelivery_timeout=self._lease,
            reconnection_delay=timedelta(seconds=1),
            scheduling_resolution=_CHECK,
            message_batch=_BATCH,
        ) as worker:
            await worker.run_forever()
        if (task := asyncio.current_task()) and task.cancelling():
            # Docket swallows the cancellation; whoever awaits this task must see it.
            raise asyncio.CancelledError

    async def has_workers(self) -> bool:
        """Return True if a process that executes runs has sent a heartbeat lately."""
        with translated_errors(self._storage):
            return bool(await self._docket.workers())

    async def execute(
        self,
        thread: str,
        run: str,
        execution: Execution = CurrentExecution(),
    ) -> None:
        """Execute one delivery."""
        if self._carry is None:
            raise AdmissionBlocked(execution)
        try:
            with self._slots.hold():
                await self._carry(thread, run)
        except Drained as error:
            # Return it to the stream, for another process.
            raise AdmissionBlocked(execution) from error
        except Redeliver as error:
            raise AdmissionBlocked(execution, retry_delay=timedelta(seconds=error.retry_s)) from error
        except Fenced as error:
            # The message belongs to the process that took over; acknowledging it would lose that delivery.
            raise AdmissionBlocked(execution, handled=True) from error


class _Slots:
    """Free slots for deliveries, by the present load."""

    def __init__(self, pace: LoadAdmission) -> None:
        self._pace = pace
        self._running = 0
        self._coming = 0
        """Deliveries that the last poll may have taken and that have not begun."""
        self._poll_ends_s = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count a delivery that executes."""
        self._running += 1
        self._coming = max(0, self._coming - 1)
        try:
            yield
        finally:
            self._running -= 1

    def offer(self) -> int:
        """Return how many deliveries may execute at once, for the next poll; 0 while the process is busy."""
        now_s = time.monotonic()
        if now_s >= self._poll_ends_s:
            self._coming = 0
        if not self._pace.has_capacity(self._running + self._coming):
            return 0
        self._coming, self._poll_ends_s = _BATCH, now_s + _CHECK.total_seconds()
        return self._pace.most


class _LoadAwareWorker(Worker):
    """Docket's worker with slots by the present load.

    Docket reads `concurrency` before every poll, and `minimum_check_interval` after it.
    """

    def __init__(self, slots: _Slots, docket: Docket, **options: Any) -> None:
        self._slots = slots
        super().__init__(docket, **options)

    @property
    def concurrency(self) -> int:
        """Deliveries that may execute at once."""
        slots = self._slots.offer()
        self.minimum_check_interval = _CHECK if slots else _LOAD_CHECK
        return slots

    @concurrency.setter
    def concurrency(self, most: int) -> None:
        """Accept Docket's default, which the load replaces."""

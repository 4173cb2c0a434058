"""The task engine: brings runs to a process that carries them out, again if that one dies.

Docket only delivers: a run's record (`storage/runs/runs.py`) is the truth, so submitting twice is harmless.
Docket imports slowly, so `server/runtime/task_queue.py` imports this module on first use.
"""

import asyncio
from collections.abc import Awaitable, Callable
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
_KEPT: Final = timedelta(seconds=60)
"""How long the engine remembers what it delivered."""
_CHECK: Final = timedelta(milliseconds=250)
_BREATH: Final = timedelta(seconds=CHECK_INTERVAL_S)
_EXTRA_CONNECTIONS: Final = 50
_PAUSES_S: Final = (0.02, 0.2)
"""Before a submission is tried again: Docket keeps connections that a restarted server has forgotten."""
_AT_A_TIME: Final = 2
"""Deliveries that are taken in one go: whoever takes many leaves others idle, where runs need processors."""

Execute = Callable[[str, str], Awaitable[None]]
"""Carries out the run of a thread: (thread id, run id); raises `Fenced` where another has taken it over."""


class DocketQueue:
    """Deliveries by Docket, on the same Redis as everything else."""

    def __init__(self, storage: Storage, *, lease_s: float, pace: LoadAdmission) -> None:
        self._storage = storage
        self._lease = timedelta(seconds=lease_s)
        self._pace = pace
        mark = "&" if "?" in storage.url else "?"
        most = 4 * pace.most + _EXTRA_CONNECTIONS
        # It has redis-py try a lost connection again, too: Docket keeps those that a restarted server has
        # forgotten, and a delivery that meets one waits for a whole lease.
        url = f"{storage.url}{mark}max_connections={most}&retry_on_timeout=true"
        self._docket = Docket(name=_NAME, url=url, execution_ttl=_KEPT)
        self._carry: Execute | None = None
        # Its parameters are read by Docket, and have to be annotated with what it knows.
        self._docket.register(self.execute)

    async def __aenter__(self) -> Self:
        await self._docket.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._docket.__aexit__(kind, error, trace)

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        """Have the run carried out, now or when it is due; one that is delivered already is left alone."""
        when = datetime.fromtimestamp(due_ms / 1000, UTC) if due_ms else None
        for pause_s in (*_PAUSES_S, None):
            try:
                with translated_errors(self._storage):
                    await self._docket.add(self.execute, when=when, key=run)(thread, run)
            except StorageDown:
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            else:
                return

    async def work(self, carry: Execute) -> None:
        """Carry out what is delivered, until cancelled; what is under way then is waited for."""
        self._carry = carry
        async with _Paced(
            self._docket,
            self._pace,
            redelivery_timeout=self._lease,
            reconnection_delay=timedelta(seconds=1),
            scheduling_resolution=_CHECK,
            message_batch=_AT_A_TIME,
        ) as worker:
            await worker.run_forever()
        if (task := asyncio.current_task()) and task.cancelling():
            # Docket ends as if nothing had happened, and whoever waits for a cancelled task would go on.
            raise asyncio.CancelledError

    async def execute(
        self,
        thread: str,
        run: str,
        execution: Execution = CurrentExecution(),
    ) -> None:
        """Carry out one delivery."""
        if self._carry is None:
            raise AdmissionBlocked(execution)
        try:
            await self._carry(thread, run)
        except Drained as error:
            # Back into the stream, for another process.
            raise AdmissionBlocked(execution) from error
        except Redeliver as error:
            raise AdmissionBlocked(execution, retry_delay=timedelta(seconds=error.again_s)) from error
        except Fenced as error:
            # The message belongs to whoever took over; acknowledging it would lose that delivery.
            raise AdmissionBlocked(execution, handled=True) from error


class _Paced(Worker):
    """Docket's worker, which asks how much it may take, and how long to wait, before every look.

    Docket sets both once; what they say depends on the moment.
    """

    def __init__(self, docket: Docket, pace: LoadAdmission, **terms: Any) -> None:
        self._pace = pace
        self._may = False
        super().__init__(docket, concurrency=pace.most, minimum_check_interval=_CHECK, **terms)

    @property
    def concurrency(self) -> int:
        """How many may be under way here: none where it is not the moment to take any."""
        self._may = self._pace.has_capacity(len(self._tasks_by_key))
        return self._pace.most if self._may else 0

    @concurrency.setter
    def concurrency(self, most: int) -> None:
        pass

    @property
    def minimum_check_interval(self) -> timedelta:
        """How long to wait: for a delivery, or before asking again."""
        return _CHECK if self._may else _BREATH

    @minimum_check_interval.setter
    def minimum_check_interval(self, interval: timedelta) -> None:
        pass

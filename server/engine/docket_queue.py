"""The task queue on Docket: delivers a run to a process, and again if that process dies.

Docket only delivers; the run's record (`storage/runs/runs.py`) decides, so submitting twice is harmless.
Docket imports slowly, so `server/engine/task_queue.py` imports this module on first use.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from docket import CurrentExecution, Docket, Execution, Worker
from docket.dependencies import AdmissionBlocked

from callsheet.server.engine.admission import CHECK_INTERVAL_S, LoadAdmission
from callsheet.server.engine.execution import Drained, Redeliver
from callsheet.state.errors import Broken, CallsheetError, Fenced, StorageDown, StorageRefused
from callsheet.storage.redis.connection import Storage, docket_options, translated_errors
from callsheet.storage.redis.health import subscription_error

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
_WATCH_S: Final = 0.5
_SILENT_CHECKS: Final = 6
"""Checks without a completed poll after which Docket's worker counts as broken."""
_READS_OF_A_POLL: Final = 3
"""Reads of free slots that show a completed poll: at the start, and before two polls."""
_REMEDY: Final = (
    "Correct the permissions of the user in REDIS_URL, or SSL_CERT_FILE for a cluster with TLS: "
    "docs/operations.md has both."
)
_DOCTOR: Final = "Run callsheet doctor."

Execute = Callable[[str, str], Awaitable[None]]
"""Executes (thread id, run id); raises `Fenced` if another process has taken the run over."""


class DocketQueue:
    """Deliveries by Docket, on the same Redis."""

    def __init__(self, storage: Storage, *, lease_s: float, pace: LoadAdmission, name: str = _NAME) -> None:
        self._storage = storage
        self._name = name
        self._lease = timedelta(seconds=lease_s)
        self._most = 4 * pace.most + _EXTRA_CONNECTIONS
        self._carry: Execute | None = None
        self._polls = _Polls()
        self._slots = _Slots(pace)
        self._docket: _ObservedDocket
        self._restarts = 0
        """Restarts of Docket's worker since it last got an answer."""
        self._begun = False
        self.failure: CallsheetError | None = None
        """The reason why this process takes no deliveries; None while it does, and at the start."""

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._docket.__aexit__(kind, error, trace)

    @property
    def has_worked(self) -> bool:
        """True once this process has asked for deliveries and got an answer."""
        return self._polls.any

    @property
    def stream_key(self) -> str:
        """Key of the stream of deliveries."""
        return self._docket.stream_key

    async def _open(self) -> None:
        """Open Docket on the server, or through the first node of a cluster that answers."""
        failure: StorageDown | None = None
        for options in docket_options(self._storage, self._most):
            docket = _ObservedDocket(self._polls, name=self._name, execution_ttl=_EXECUTION_TTL, **options)
            # Docket reads the annotations of the parameters.
            docket.register(self.execute)
            try:
                with translated_errors(self._storage):
                    await docket.__aenter__()
            except StorageDown as error:
                await docket.__aexit__(None, None, None)
                failure = error
            else:
                self._docket = docket
                return
        raise failure or StorageDown(f"{self._storage.origin} has no nodes", remedy=_REMEDY)

    async def _reopen(self) -> None:
        former = self._docket
        await self._open()
        await former.__aexit__(None, None, None)

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
        """Execute deliveries until cancelled, then wait for those in progress.

        Raises `StorageRefused` if Docket gets no answers although Redis answers.
        """
        self._carry = execute
        if self._begun:
            # The node of a cluster that Docket listens to may be gone.
            await self._reopen()
        self._begun = True
        async with _LoadAwareWorker(
            self._slots,
            self._polls,
            self._docket,
            redelivery_timeout=self._lease,
            reconnection_delay=timedelta(seconds=1),
            scheduling_resolution=_CHECK,
            message_batch=_BATCH,
        ) as worker:
            tasks = asyncio.create_task(worker.run_forever()), asyncio.create_task(self._watch())
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                # Docket swallows the cancellation, and waits for the deliveries in progress.
                await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                if not self.has_worked and not isinstance(error, CallsheetError):
                    self.failure = Broken(f"the task queue cannot start: {error}", remedy=_DOCTOR)
                raise error

    async def _watch(self) -> None:
        """Raise `StorageRefused` once Docket gets no answers although Redis answers."""
        silent = 0
        while True:
            await asyncio.sleep(_WATCH_S)
            if answered := self._polls.clear():
                self._restarts, self.failure = 0, None
            # A check counts once, however late; while deliveries are in progress, Docket may wait for them.
            silent = 0 if answered or self._slots.running else silent + 1
            if silent >= _SILENT_CHECKS:
                if await self._answers():
                    await self.raise_failure()
                silent = 0

    async def raise_failure(self) -> None:
        """Raise the reason why no delivery arrives, as `StorageRefused`."""
        # Docket tells nobody that its subscription is refused.
        refusal = self._polls.error or await subscription_error(self._storage, self._docket.key("cancel:*"))
        rule = f"the task queue on {self._storage.origin} cannot be used: {refusal or 'it gets no answer'}"
        failure = StorageRefused(rule, remedy=_REMEDY)
        # The first time, a node of a cluster may have gone, and another one will do.
        if self._restarts:
            self.failure = failure
        self._restarts += 1
        raise failure

    async def _answers(self) -> bool:
        try:
            await self._storage.redis.exists(self.stream_key)
        except StorageDown as error:
            return isinstance(error, StorageRefused)
        return True

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


class _Polls:
    """Answers to the polls of Docket's worker, which polls several times a second."""

    def __init__(self) -> None:
        self.any = False
        """True once a poll was answered."""
        self.error: Exception | None = None
        """The newest error of Docket since the last answer."""
        self._reads = 0
        self._answered = False

    def read(self) -> None:
        """Record that Docket was offered slots, as it is at its start and before each poll."""
        self._reads += 1
        if self._reads >= _READS_OF_A_POLL:
            self.any = self._answered = True
            self.error = None

    def fail(self, error: Exception) -> None:
        """Record an error, after which Docket starts again."""
        self.error = error
        self._reads = 0

    def clear(self) -> bool:
        """Return whether a poll was answered since the last call."""
        answered, self._answered = self._answered, False
        return answered


class _ObservedDocket(Docket):
    """Docket that tells its errors: its worker logs them and tries again for ever."""

    def __init__(self, polls: _Polls, **options: Any) -> None:
        self._polls = polls
        super().__init__(**options)

    @asynccontextmanager
    async def redis(self) -> AsyncIterator[Any]:
        """Yield the client."""
        async with super().redis() as client:
            try:
                yield client
            except Exception as error:
                self._polls.fail(error)
                raise


class _Slots:
    """Free slots for deliveries, by the present load."""

    def __init__(self, pace: LoadAdmission) -> None:
        self._pace = pace
        self.running = 0
        """Deliveries that execute."""
        self._coming = 0
        """Deliveries that the last poll may have taken and that have not begun."""
        self._poll_ends_s = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count a delivery that executes."""
        self.running += 1
        self._coming = max(0, self._coming - 1)
        try:
            yield
        finally:
            self.running -= 1

    def offer(self) -> int:
        """Return how many deliveries may execute at once, for the next poll; 0 while the process is busy."""
        now_s = time.monotonic()
        if now_s >= self._poll_ends_s:
            self._coming = 0
        if not self._pace.has_capacity(self.running + self._coming):
            return 0
        self._coming, self._poll_ends_s = _BATCH, now_s + _CHECK.total_seconds()
        return self._pace.most


class _LoadAwareWorker(Worker):
    """Docket's worker with slots by the present load.

    Docket reads `concurrency` before every poll, and `minimum_check_interval` after it.
    """

    def __init__(self, slots: _Slots, polls: _Polls, docket: Docket, **options: Any) -> None:
        self._slots = slots
        self._polls = polls
        super().__init__(docket, **options)

    @property
    def concurrency(self) -> int:
        """Deliveries that may execute at once."""
        slots = self._slots.offer()
        if slots:
            self._polls.read()
        self.minimum_check_interval = _CHECK if slots else _LOAD_CHECK
        return slots

    @concurrency.setter
    def concurrency(self, most: int) -> None:
        """Accept Docket's default, which the load replaces."""


async def check_delivery(storage: Storage, patience_s: float) -> None:
    """Send a delivery through a queue of its own; raise `StorageDown` if it does not arrive."""
    arrived = asyncio.Event()

    async def execute(*_: str) -> None:
        arrived.set()

    queue = DocketQueue(
        storage, lease_s=patience_s, pace=LoadAdmission(1), name=f"{_NAME}:{uuid.uuid4().hex}"
    )
    async with queue:
        await queue.submit("", "check")
        await storage.redis.expire(queue.stream_key, _EXECUTION_TTL)
        tasks = asyncio.create_task(queue.work(execute)), asyncio.create_task(arrived.wait())
        try:
            await asyncio.wait(tasks, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not arrived.is_set():
                await queue.raise_failure()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

"""The task queue on Docket: delivers a run to a process, and again if that process dies.

Docket only delivers; the run's record (`storage/runs/runs.py`) decides, so submitting twice is harmless.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from docket import CurrentExecution, Docket, Execution, Worker
from docket.dependencies import AdmissionBlocked

from callsheet.server.engine.execution import Drained, Redeliver
from callsheet.state.errors import Broken, CallsheetError, Fenced, StorageDown, StorageRefused
from callsheet.storage.redis.connection import Storage, docket_options, translated_errors
from callsheet.storage.redis.health import subscription_error

_NAME: Final = "callsheet"
_EXECUTION_TTL: Final = timedelta(seconds=60)
"""Time that Docket remembers a delivery."""
_CHECK: Final = timedelta(milliseconds=250)
_EXTRA_CONNECTIONS: Final = 50
_RETRY_DELAYS_S: Final = (0.02, 0.2)
"""Delays before a submission is retried: Docket keeps connections that a restarted Redis has closed."""
_BATCH: Final = 1
"""Deliveries taken by one poll. With more, a process would starve others of runs that compute."""
_WATCH_S: Final = 0.5
_SILENT_CHECKS: Final = 6
"""Checks without a completed poll after which Docket's worker counts as broken."""
_READS_OF_A_POLL: Final = 3
"""Reads of the slots that show a completed poll: at the start, and before two polls."""
_REMEDY: Final = (
    "Correct the permissions of the user in REDIS_URL, or SSL_CERT_FILE for a cluster with TLS: "
    "docs/operations.md has both."
)
_DOCTOR: Final = "Run callsheet doctor."

Execute = Callable[[str, str], Awaitable[None]]
"""Executes (thread id, run id); raises `Fenced` if another process has taken the run over."""


class TaskQueue:
    """Deliveries of runs to the processes that execute them."""

    def __init__(self, storage: Storage, lease_s: float, *, at_once: int, name: str = _NAME) -> None:
        """The process takes at most `at_once` deliveries at a time."""
        self._storage = storage
        self._name = name
        self._lease = timedelta(seconds=lease_s)
        self._at_once = at_once
        self._carry: Execute | None = None
        self._polls = _Polls()
        self._running = 0
        """Deliveries that execute."""
        self._docket: _ObservedDocket | None = None
        self._opening = asyncio.Lock()
        self._restarts = 0
        """Restarts of Docket's worker since it last got an answer."""
        self._begun = False
        self._failed_start = asyncio.Event()
        self.failure: CallsheetError | None = None
        """The reason why no deliveries are sent or taken; None while they are, and at the start."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._docket:
            await self._docket.__aexit__(kind, error, trace)

    async def open(self) -> "_ObservedDocket":
        """Return Docket, opened by the first call that can.

        Raises `StorageDown` in an outage, which `/health` reports as one, and `Broken` for any other reason.
        """
        async with self._opening:
            if self._docket is None:
                try:
                    self._docket = await self._open()
                except StorageDown:
                    raise
                except Exception as error:
                    raise self._cannot_start(error) from error
                self.failure = None
            return self._docket

    def _cannot_start(self, error: BaseException) -> CallsheetError:
        self.failure = Broken(f"the task queue cannot start: {error}", remedy=_DOCTOR)
        return self.failure

    async def _open(self) -> "_ObservedDocket":
        """Open Docket on the server, or through the first node of a cluster that answers."""
        failure: StorageDown | None = None
        for options in docket_options(self._storage, 4 * self._at_once + _EXTRA_CONNECTIONS):
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
                return docket
        raise failure or StorageDown(f"{self._storage.origin} has no nodes", remedy=_REMEDY)

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        """Deliver the run, now or when it is due. A run that is queued already is not queued twice."""
        when = datetime.fromtimestamp(due_ms / 1000, UTC) if due_ms else None
        for pause_s in (*_RETRY_DELAYS_S, None):
            try:
                with translated_errors(self._storage):
                    docket = await self.open()
                    await docket.add(self.execute, when=when, key=run)(thread, run)
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
        try:
            await self._work()
        finally:
            if self.failure and not self._polls.any:
                self._failed_start.set()

    async def wait_for_failed_start(self) -> CallsheetError:
        """Return the failure once `work` could not begin although Redis answers."""
        await self._failed_start.wait()
        return self.failure or Broken("the task queue failed at its start")

    async def _work(self) -> None:
        former = await self.open()
        if self._begun:
            # The node of a cluster that Docket listens to may be gone.
            self._docket = await self._open()
            await former.__aexit__(None, None, None)
        self._begun = True
        async with _WatchedWorker(
            self._polls,
            await self.open(),
            concurrency=self._at_once,
            redelivery_timeout=self._lease,
            reconnection_delay=timedelta(seconds=1),
            minimum_check_interval=_CHECK,
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
                if not self._polls.any and not isinstance(error, CallsheetError):
                    self._cannot_start(error)
                raise error

    async def _watch(self) -> None:
        """Raise `StorageRefused` once Docket gets no answers although Redis answers."""
        silent = 0
        while True:
            await asyncio.sleep(_WATCH_S)
            if answered := self._polls.clear():
                self._restarts, self.failure = 0, None
            # A check counts once, however late; while deliveries are in progress, Docket may wait for them.
            silent = 0 if answered or self._running else silent + 1
            if silent >= _SILENT_CHECKS:
                if await self._answers():
                    await self.raise_failure()
                silent = 0

    async def raise_failure(self) -> None:
        """Raise the reason why no delivery arrives, as `StorageRefused`."""
        # Docket tells nobody that its subscription is refused.
        docket = await self.open()
        refusal = self._polls.error or await subscription_error(self._storage, docket.key("cancel:*"))
        rule = f"the task queue on {self._storage.origin} cannot be used: {refusal or 'it gets no answer'}"
        failure = StorageRefused(rule, remedy=_REMEDY)
        # The first time, a node of a cluster may have gone, and another one will do.
        if self._restarts:
            self.failure = failure
        self._restarts += 1
        raise failure

    async def _answers(self) -> bool:
        try:
            await self._storage.redis.exists((await self.open()).stream_key)
        except StorageDown as error:
            return isinstance(error, StorageRefused)
        return True

    async def has_workers(self) -> bool:
        """Return True if a process that executes runs has sent a heartbeat lately."""
        with translated_errors(self._storage):
            return bool(await (await self.open()).workers())

    async def execute(
        self,
        thread: str,
        run: str,
        execution: Execution = CurrentExecution(),
    ) -> None:
        """Execute one delivery."""
        if self._carry is None:
            raise AdmissionBlocked(execution)
        self._running += 1
        try:
            await self._carry(thread, run)
        except Drained as error:
            # Return it to the stream, for another process.
            raise AdmissionBlocked(execution) from error
        except Redeliver as error:
            raise AdmissionBlocked(execution, retry_delay=timedelta(seconds=error.retry_s)) from error
        except Fenced as error:
            # The message belongs to the process that took over; acknowledging it would lose that delivery.
            raise AdmissionBlocked(execution, handled=True) from error
        finally:
            self._running -= 1


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
        """Record that Docket counted its slots, as it does at its start and before each poll."""
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


class _WatchedWorker(Worker):
    """Docket's worker, which reads `concurrency` before every poll."""

    def __init__(self, polls: _Polls, docket: Docket, *, concurrency: int, **options: Any) -> None:
        self._polls = polls
        self._concurrency = concurrency
        super().__init__(docket, concurrency=concurrency, **options)

    @property
    def concurrency(self) -> int:
        """Deliveries that may execute at once."""
        self._polls.read()
        return self._concurrency

    @concurrency.setter
    def concurrency(self, most: int) -> None:
        self._concurrency = most


async def check_queue(storage: Storage, patience_s: float) -> None:
    """Send a delivery through a queue of its own; raise `StorageDown` if it does not arrive."""
    arrived = asyncio.Event()

    async def execute(*_: str) -> None:
        arrived.set()

    name = f"{_NAME}:{uuid.uuid4().hex}"
    queue = TaskQueue(storage, patience_s, at_once=1, name=name)
    async with queue:
        await queue.submit("", "check")
        await storage.redis.expire((await queue.open()).stream_key, _EXECUTION_TTL)
        tasks = asyncio.create_task(queue.work(execute)), asyncio.create_task(arrived.wait())
        try:
            await asyncio.wait(tasks, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not arrived.is_set():
                await queue.raise_failure()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

"""The task queue, loaded in the background: Docket's libraries take half a second to import.

No request waits for that. Deliveries meanwhile are submitted afterwards; if this process dies before, the
periodic check for abandoned runs submits them.
"""

import asyncio
import importlib
import logging
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from callsheet.server.engine.admission import LoadAdmission
from callsheet.server.engine.background import BackgroundTasks
from callsheet.state.errors import Broken, CallsheetError, StorageDown
from callsheet.storage.redis.connection import Storage

if TYPE_CHECKING:
    from callsheet.server.engine.docket_queue import DocketQueue, Execute

_RETRY_S: Final = 1.0
_REMEDY: Final = "Run callsheet doctor."
_log = logging.getLogger(__name__)


class TaskQueue:
    """Delivers runs to the processes that execute them."""

    def __init__(self, storage: Storage, lease_s: float, *, at_once: int, start_delay_s: float = 0) -> None:
        """The process takes deliveries after `start_delay_s`, at most `at_once` at a time."""
        self._storage = storage
        self._lease_s = lease_s
        self._at_once = at_once
        self._start_delay_s = start_delay_s
        self._queue: DocketQueue | None = None
        self._load_failure: CallsheetError | None = None
        self._failed_start = asyncio.Event()
        self._import_lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._background = BackgroundTasks()

    async def __aenter__(self) -> Self:
        if self._start_delay_s:
            self._background.start(self._load_until_done())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._background.stop()
        await self._stack.__aexit__(kind, error, trace)

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        """Deliver the run, now or when it is due. A run that is queued already is not queued twice."""
        if self._queue:
            await self._queue.submit(thread, run, due_ms)
        else:
            self._background.start(self._import_and_submit(thread, run, due_ms))

    async def _import_and_submit(self, thread: str, run: str, due_ms: int) -> None:
        await (await self._load()).submit(thread, run, due_ms)

    async def work(self, execute: "Execute") -> None:
        """Execute deliveries until cancelled, then wait for those in progress."""
        await asyncio.sleep(self._start_delay_s)
        try:
            await (await self._load()).work(execute)
        finally:
            if self.failure and not (self._queue and self._queue.has_worked):
                self._failed_start.set()

    @property
    def failure(self) -> CallsheetError | None:
        """The reason why deliveries cannot be sent or are not executed here; None if there is none."""
        return self._queue.failure if self._queue else self._load_failure

    async def wait_for_failed_start(self) -> CallsheetError:
        """Return the failure once `work` could not begin although Redis answers."""
        await self._failed_start.wait()
        return self.failure or Broken("the task queue failed at its start")

    async def has_workers(self) -> bool:
        """Return True if a process executes runs; also while the queue is not loaded yet."""
        return self._queue is None or await self._queue.has_workers()

    async def _load_until_done(self) -> None:
        """Load the queue once the first requests are over."""
        await asyncio.sleep(self._start_delay_s)
        while self._queue is None:
            try:
                await self._load()
            except CallsheetError as error:
                _log.warning("%s", error)
                await asyncio.sleep(_RETRY_S)

    async def _load(self) -> "DocketQueue":
        async with self._import_lock:
            if self._queue is None:
                try:
                    module = await _import_docket()
                    engine: DocketQueue = module.DocketQueue(
                        self._storage, lease_s=self._lease_s, pace=LoadAdmission(self._at_once)
                    )
                    self._queue = await self._stack.enter_async_context(engine)
                except StorageDown:
                    # An outage, which /health reports as one.
                    raise
                except Exception as error:
                    self._load_failure = Broken(f"the task queue cannot start: {error}", remedy=_REMEDY)
                    raise self._load_failure from error
            return self._queue


async def check_queue(storage: Storage, patience_s: float) -> None:
    """Send a delivery through a queue of its own; raise the reason if it does not arrive."""
    await (await _import_docket()).check_delivery(storage, patience_s)


async def _import_docket() -> Any:
    return await asyncio.to_thread(importlib.import_module, "callsheet.server.engine.docket_queue")

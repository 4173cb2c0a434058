"""The task queue, loaded in the background: Docket's libraries take half a second to import.

No request waits for that. Deliveries meanwhile are submitted afterwards; if this process dies before, the
periodic check for abandoned runs submits them.
"""

import asyncio
import importlib
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from callsheet.server.runtime.admission import LoadAdmission
from callsheet.server.runtime.background import BackgroundTasks
from callsheet.storage.redis.connection import Storage, translated_errors

if TYPE_CHECKING:
    from callsheet.server.runtime.docket_queue import DocketQueue, Execute


class TaskQueue:
    """Delivers runs to the processes that execute them."""

    def __init__(self, storage: Storage, lease_s: float, *, at_once: int, start_delay_s: float = 0) -> None:
        """The process takes deliveries after `start_delay_s`, at most `at_once` at a time."""
        self._storage = storage
        self._lease_s = lease_s
        self._at_once = at_once
        self._start_delay_s = start_delay_s
        self._queue: DocketQueue | None = None
        self._import_lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._background = BackgroundTasks()

    async def __aenter__(self) -> Self:
        if self._start_delay_s:
            self._background.start(self._prepare())
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
        await self._prepare()
        await (await self._load()).work(execute)

    async def has_workers(self) -> bool:
        """Return True if a process executes runs; also while the queue is not loaded yet."""
        return self._queue is None or await self._queue.has_workers()

    async def _prepare(self) -> None:
        """Load the queue once the first requests are over."""
        await asyncio.sleep(self._start_delay_s)
        await self._load()

    async def _load(self) -> "DocketQueue":
        async with self._import_lock:
            if self._queue is None:
                module = await asyncio.to_thread(
                    importlib.import_module, "callsheet.server.runtime.docket_queue"
                )
                engine: DocketQueue = module.DocketQueue(
                    self._storage, lease_s=self._lease_s, pace=LoadAdmission(self._at_once)
                )
                with translated_errors(self._storage):
                    self._queue = await self._stack.enter_async_context(engine)
            return self._queue

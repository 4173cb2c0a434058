"""The task engine, made beside the first requests: its libraries take half a second to import.

No request waits for that. What is to be delivered meanwhile is submitted after it, and where this process
ends before, whoever looks for runs that nobody is at submits it.
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
    """Brings runs to whichever process carries them out."""

    def __init__(self, storage: Storage, lease_s: float, *, at_once: int, settling_s: float = 0) -> None:
        """`settling_s` after its start the process begins to take what others recorded, `at_once` at most."""
        self._storage = storage
        self._lease_s = lease_s
        self._at_once = at_once
        self._settling_s = settling_s
        self._made: DocketQueue | None = None
        self._making = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._beside = BackgroundTasks()

    async def __aenter__(self) -> Self:
        if self._settling_s:
            self._beside.start(self._settled())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._beside.stop()
        await self._stack.__aexit__(kind, error, trace)

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        """Have the run carried out, now or when it is due; one that is delivered already is left alone."""
        if self._made:
            await self._made.submit(thread, run, due_ms)
        else:
            self._beside.start(self._submitted(thread, run, due_ms))

    async def _submitted(self, thread: str, run: str, due_ms: int) -> None:
        await (await self._engine()).submit(thread, run, due_ms)

    async def work(self, carry: "Execute") -> None:
        """Carry out what is delivered, until cancelled; what is under way then is waited for."""
        await self._settled()
        await (await self._engine()).work(carry)

    async def _settled(self) -> None:
        """Be ready once the first requests are over."""
        await asyncio.sleep(self._settling_s)
        await self._engine()

    async def _engine(self) -> "DocketQueue":
        async with self._making:
            if self._made is None:
                module = await asyncio.to_thread(
                    importlib.import_module, "callsheet.server.runtime.docket_queue"
                )
                engine: DocketQueue = module.DocketQueue(
                    self._storage, lease_s=self._lease_s, pace=LoadAdmission(self._at_once)
                )
                with translated_errors(self._storage):
                    self._made = await self._stack.enter_async_context(engine)
            return self._made

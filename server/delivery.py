"""The task engine, made when it is first needed: its libraries take half a second to import."""

import asyncio
import importlib
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from storage.connection import Storage

if TYPE_CHECKING:
    from server.engine import Carry, Engine


class Delivery:
    """Brings runs to whichever process carries them out."""

    def __init__(self, storage: Storage, lease_s: float, *, at_once: int, settling_s: float = 0) -> None:
        """`settling_s` after its start the process begins to take what others recorded, `at_once` at most."""
        self._storage = storage
        self._lease_s = lease_s
        self._at_once = at_once
        self._settling_s = settling_s
        self._made: Engine | None = None
        self._making = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        """Have the run carried out, now or when it is due; one that is delivered already is left alone."""
        await (await self._engine()).submit(thread, run, due_ms)

    async def work(self, carry: "Carry") -> None:
        """Carry out what is delivered, until cancelled; what is under way then is waited for."""
        await asyncio.sleep(self._settling_s)
        await (await self._engine()).work(carry)

    async def _engine(self) -> "Engine":
        async with self._making:
            if self._made is None:
                module = await asyncio.to_thread(importlib.import_module, "server.engine")
                engine: Engine = module.Engine(
                    self._storage, lease_s=self._lease_s, concurrency=self._at_once
                )
                self._made = await self._stack.enter_async_context(engine)
            return self._made

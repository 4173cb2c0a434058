"""An attempt's lease as its own process knows it, for code that must not go on without it.

A process may stand still for longer than a lease: stopped, suspended, or busy with one long computation. When
it goes on, another process may have the thread, so it asks Redis before anything else.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar
from weakref import WeakSet

from callsheet.state.errors import StorageFull
from callsheet.storage.checkpoints.transports import blocking_transport
from callsheet.storage.redis.scripts import ScriptCall
from callsheet.storage.runs.records import Action, RunAttempt, now_s
from callsheet.storage.runs.runs import Runs

T = TypeVar("T")


class Lease:
    """The lease of one attempt."""

    def __init__(self, runs: Runs, attempt: RunAttempt) -> None:
        self.attempt: Final = attempt
        self._runs = runs
        self._ends_s = attempt.lease_ends_s
        self.tasks: Final[WeakSet[asyncio.Task[object]]] = WeakSet()
        """Tasks that the attempt's graph has started."""

    @property
    def has_expired(self) -> bool:
        """True if another process may have the thread."""
        return now_s() >= self._ends_s

    async def renew(self) -> Action | None:
        """Renew the lease; returns and raises as `Runs.renew`."""
        began_s = now_s()
        action = await self._runs.renew(self.attempt)
        self.extend(began_s)
        return action

    async def require(self) -> None:
        """Renew the lease if it has expired; raise `Fenced` when a later attempt has the thread."""
        if self.has_expired:
            await self.renew()

    def extend(self, began_s: float) -> None:
        """Note a renewal that began at `began_s`."""
        self._ends_s = began_s + self._runs.lease_s


LEASE: Final[ContextVar[Lease | None]] = ContextVar("callsheet_lease", default=None)
"""Lease of the attempt whose code is running; None outside attempts."""


def create_task(
    create: Callable[..., Any],
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    **options: Any,
) -> Any:
    """Create a task; one of an attempt is noted in its lease, and contained."""
    context = options.get("context")
    lease = context.get(LEASE) if context is not None else LEASE.get()
    contained = contain(work) if lease else work
    task = (
        create(contained, loop=loop, **options)
        if create is asyncio.Task
        else create(loop, contained, **options)
    )
    if lease:
        lease.tasks.add(task)
        # Of a task that is cancelled before its first step; else Python warns that nothing awaited the work.
        task.add_done_callback(lambda _: work.close())
    return task


async def contain(work: Coroutine[Any, Any, T]) -> T:
    """Await code of a graph; an exit or another error that is no `Exception` becomes a `RuntimeError`.

    `sys.exit` in a task would end the event loop, and with it every run of the process; the attempt would be
    repeated, in the next process, too.
    """
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(
            f"the graph's code raised {error!r}, which would end the process; raise an Exception instead"
        ) from error


def renew_blocking(runs: Runs, leases: Sequence[Lease]) -> list[Lease]:
    """Renew the leases while the event loop waits; return those that later attempts have.

    Raises `StorageDown` if storage does not answer.
    """
    began_s = now_s()
    with blocking_transport(runs.redis) as execute_batch:
        return [lease for lease in leases if not _is_kept(lease, began_s, execute_batch, runs)]


def _is_kept(
    lease: Lease, began_s: float, execute_batch: Callable[[Sequence[ScriptCall]], list[Any]], runs: Runs
) -> bool:
    """Renew a lease; return False if a later attempt has the thread."""
    try:
        [answer] = execute_batch([runs.renew_call(lease.attempt)])
    except StorageFull:
        # The script first looks for a later attempt, and none can begin while storage takes no writes.
        return True
    if answer == b"fenced":
        return False
    lease.extend(began_s)
    return True

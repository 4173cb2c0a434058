"""The end of runs and threads: cancellation, deletion, expiry."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.engine import background
from callsheet.server.engine.finalizer import erase_thread
from callsheet.server.http.context import AppContext
from callsheet.state.errors import Busy, Conflict, Missing
from callsheet.storage.artefacts.artefacts import BOUND_KINDS
from callsheet.storage.redis import health
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.records import Action, Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

SWEEP_INTERVAL_S: Final = 30.0
"""Seconds between two sweeps; times to live are in minutes."""
_BATCH: Final = 100
_MIN_DELAY_MS: Final = 60_000
"""Least time between two attempts to expire the same thread."""


class ThreadStorage(Protocol):
    """Storage of threads; `AppContext` is one."""

    @property
    def storage(self) -> Storage:
        """Everything but the checkpoints."""
        ...

    @property
    def saver(self) -> BaseCheckpointSaver[int]:
        """The checkpoints."""
        ...


async def delete_thread(ctx: ThreadStorage, record: Thread) -> None:
    """Delete a thread and all its data; raises `Busy` while a run holds it, and `Missing` if it is gone."""
    async with threads.hold(ctx.storage, record.id, record.owner, deletes=True):
        await erase_thread(ctx.storage, ctx.saver, record)


async def prune_thread(ctx: ThreadStorage, record: Thread) -> None:
    """Delete a thread's states but the newest; raises as `delete_thread`."""
    async with threads.hold(ctx.storage, record.id, record.owner):
        await _prune(ctx, record)


async def expire_thread(ctx: ThreadStorage, record: Thread, now_ms: int) -> bool:
    """Delete or prune a thread, and return whether it is still expired; raises as `delete_thread`.

    A thread that is being deleted is marked first: whoever uses it from then on is refused.
    """
    record = await threads.get(ctx.storage, record.id, record.owner)
    if record.expires_ms is None or record.expires_ms > now_ms or record.is_importing:
        return False
    deletes = not record.keeps_latest
    held = threads.hold(ctx.storage, record.id, record.owner, deletes=deletes, updated_ms=record.updated_ms)
    async with held:
        if deletes:
            await erase_thread(ctx.storage, ctx.saver, record)
        else:
            await _prune(ctx, record)
    return True


async def lasting_artefacts(ctx: ThreadStorage, record: Thread) -> list[str]:
    """Return `kind:id` of the thread's artefacts that a deletion of the thread leaves."""
    names = await threads.artefacts_of(ctx.storage, record.id)
    return [name for name in names if name.partition(":")[0] not in BOUND_KINDS]


async def _prune(ctx: ThreadStorage, record: Thread) -> None:
    await ctx.saver.aprune([record.id], strategy="keep_latest")


def start_sweeping(ctx: ThreadStorage) -> Callable[[], Awaitable[object]]:
    """Start the periodic sweep, and return the function that stops it."""
    return background.start_periodic(
        lambda: _sweep_due(ctx), SWEEP_INTERVAL_S, "expired threads are not deleted"
    )


async def _sweep_due(ctx: ThreadStorage) -> int:
    # This process's clock may be ahead, and what is deleted too early is lost.
    return await sweep(ctx, int(await health.server_time_s(ctx.storage.redis) * 1000))


async def sweep(ctx: ThreadStorage, now_ms: int) -> int:
    """Expire the threads that are due at `now_ms`, and return their number.

    A thread that a run or an import has is left to a later sweep; one that was used meanwhile is left alone.
    """
    count = 0
    while records := await threads.list_expired(ctx.storage, now_ms, _BATCH):
        for record in records:
            # Without a minimum, a thread with a very short time to live would be due again in this sweep.
            delay_ms = max(_MIN_DELAY_MS, record.lifetime_ms if record.keeps_latest else 0)
            await threads.postpone(ctx.storage, record, now_ms + delay_ms)
            with contextlib.suppress(Busy, Conflict, Missing):
                count += await expire_thread(ctx, record, now_ms)
    return count


_ATTEMPTS: Final = 3
_PATIENCE_S: Final = 30.0
"""Seconds in which the runs of a thread must end; longer than the lease of a process that died."""


async def end_run(ctx: AppContext, run: Run, action: Action = "interrupt") -> None:
    """Cancel a run and wait until it has ended; raises `Missing` if there is none."""
    since = await events.newest_id(ctx.storage, run.thread)
    if not await ctx.worker.cancel(run.thread, run.id, action):
        async for _ in ctx.worker.events.follow_run(run.thread, run.id, since):
            pass


async def delete_with_runs(ctx: AppContext, record: Thread) -> None:
    """Delete a thread with its runs; unfinished ones are cancelled first.

    Raises `Busy` if new runs keep coming, and as `retention.delete_thread`.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        await end_runs_of_thread(ctx, record.id)
        try:
            await delete_thread(ctx, record)
        except Busy:
            # A run was recorded meanwhile.
            if attempt == _ATTEMPTS:
                raise
        else:
            return


async def end_runs_of_thread(ctx: AppContext, thread: str) -> None:
    """Cancel a thread's runs, the newest first, so that no waiting one starts; wait until all have ended.

    Raises `Busy` if a run does not end in time.
    """
    unfinished = await ctx.worker.runs.list_unfinished(thread)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for run in unfinished:
                await _end_if_exists(ctx, run)
    except TimeoutError:
        raise Busy(f"a run on thread {thread!r} does not end", remedy="try again in a minute") from None


async def _end_if_exists(ctx: AppContext, run: Run) -> None:
    with suppress(Missing):
        await end_run(ctx, run)
    # Its record, which names its owner, is deleted before its last check.
    await ctx.worker.runs.unlist(run, run.updated_ms)

"""Cancelling runs and waiting for their end."""

import asyncio
from contextlib import suppress
from typing import Final

from callsheet.server.http.context import AppContext
from callsheet.server.langgraph import retention
from callsheet.server.langgraph.run_streams import ENDED, follow_run
from callsheet.server.langgraph.starting import StartedRun
from callsheet.state.errors import Busy, Missing
from callsheet.storage.runs import events
from callsheet.storage.runs.records import Action, Run
from callsheet.storage.threads.threads import Thread

_ATTEMPTS: Final = 3
_PATIENCE_S: Final = 30.0
"""Seconds in which the runs of a thread must end; longer than the lease of a process that died."""


async def end_run(ctx: AppContext, run: Run, action: Action = "interrupt") -> None:
    """Cancel a run and wait until it has ended; raises `Missing` if there is none."""
    since = await events.newest_id(ctx.storage, run.thread)
    if not await ctx.worker.cancel(run.thread, run.id, action):
        async for _ in follow_run(ctx, StartedRun(run.thread, run.id, since, resumable=False)):
            pass


async def delete_with_runs(ctx: AppContext, record: Thread) -> None:
    """Delete a thread with its runs; unfinished ones are cancelled first.

    Raises `Busy` if new runs keep coming, and as `retention.delete_thread`.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        await end_runs_of_thread(ctx, record.id)
        try:
            await retention.delete_thread(ctx, record)
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
    unfinished = [run for run in await ctx.worker.runs.list_runs(thread) if run.status not in ENDED]
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for run in unfinished:
                await _end_if_exists(ctx, run)
    except TimeoutError:
        raise Busy(f"a run on thread {thread!r} does not end", remedy="try again in a minute") from None


async def _end_if_exists(ctx: AppContext, run: Run) -> None:
    with suppress(Missing):
        await end_run(ctx, run)

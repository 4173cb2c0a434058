"""Turns of waiting runs: deliveries of the task queue are shared out by owner."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from callsheet.server.engine.execution import Drained, Redeliver
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.state.errors import Limited, TimedOut
from callsheet.storage.runs.records import Created, RunRequest
from callsheet.storage.runs.runs import Runs
from callsheet.storage.runs.waiting import WaitingRuns

_SWEEP_AFTER_S: Final = 10.0
"""Seconds after which a waiting run is looked at, in case it waits no more."""
_UNSERVED_AFTER_S: Final = 60.0
"""Seconds after which a run may wait because no process serves its graph."""
_log = logging.getLogger(__name__)

ExecuteRun = Callable[[str, str], Awaitable[bool]]
"""Makes an attempt at (thread id, run id); returns False if there is nothing to execute."""


class RunTurns:
    """The runs that wait for a process, and whose turn it is."""

    def __init__(self, waiting: WaitingRuns, runs: Runs, observer: Telemetry) -> None:
        self.waiting: Final = waiting
        self._runs = runs
        self._observer = observer
        self._unserved: set[str] = set()
        """Graphs that were logged."""

    async def create(self, request: RunRequest) -> Created:
        """Record a run that will wait for a process, or for its time.

        Raises as `Runs.create`, and `Limited` if too many runs wait already.
        """
        if request.due_ms:
            return await self._runs.create(request)
        try:
            await self.waiting.add(request.thread, request.id, request.owner, request.graph)
        except Limited as error:
            self._observer.count_refusal(str(error.details["bound"]))
            raise
        created: Created | None = None
        try:
            created = await self._runs.create(request)
            return created
        finally:
            await self._settle(request, created)

    async def _settle(self, request: RunRequest, created: Created | None) -> None:
        """Keep the entry of a request that was recorded as a new run; None for one that was refused."""
        if created and created.run == request.id and created.verdict == "start":
            return
        if created and created.run == request.id and created.verdict == "queued":
            await self.waiting.park(request.thread, request.id)
        else:
            await self.waiting.remove(request.thread, request.id)

    async def use_delivery(self, thread: str, run: str, graphs: Collection[str], execute: ExecuteRun) -> None:
        """Execute the run whose turn it is, which may be another one than that of the delivery.

        Raises as `execute`.
        """
        was_taken = False
        while True:
            turn = await self.waiting.take_turn(thread, run, graphs)
            was_taken = was_taken or turn.was_taken
            is_own = turn.run in {None, (thread, run)}
            if is_own and was_taken and await self._runs.execution_state(thread, run) != "free":
                return
            if turn.run is None and not was_taken:
                return
            if await self._execute(*(turn.run or (thread, run)), execute, is_own=is_own) or is_own:
                return

    async def _execute(self, thread: str, run: str, execute: ExecuteRun, *, is_own: bool) -> bool:
        try:
            return await execute(thread, run)
        except (Drained, Redeliver):
            if not is_own:
                # The delivery returns to the queue, and with it a turn.
                record = await self._runs.get(thread, run)
                await self.waiting.add(thread, run, record.owner, record.graph, is_bounded=False)
            raise

    async def unserved_runs(self, graphs: Collection[str]) -> Mapping[str, int]:
        """Return the numbers of runs that wait for other graphs for a minute; log each such graph once."""
        waiting = await self.waiting.count_by_graph(_UNSERVED_AFTER_S)
        unserved = {graph: count for graph, count in sorted(waiting.items()) if graph not in graphs}
        for graph in unserved.keys() - self._unserved:
            _log.warning(
                "runs wait for graph %r, which this process does not serve: %d", graph, unserved[graph]
            )
        self._unserved = set(unserved)
        return unserved

    async def overdue(self, max_wait_s: float) -> list[tuple[str, str]]:
        """Return the runs (thread, run) that have waited for longer; 0 for no limit.

        Entries of runs that do not wait any more are removed: the process that executed one may have died.
        """
        entries = await self.waiting.oldest(
            _SWEEP_AFTER_S if not max_wait_s else min(_SWEEP_AFTER_S, max_wait_s)
        )
        states = await asyncio.gather(*(self._runs.execution_state(*run) for run, _ in entries))
        overdue = []
        for (run, waited_s), state in zip(entries, states, strict=True):
            if state in {"over", "held"}:
                await self.waiting.remove(*run)
            elif state == "free" and 0 < max_wait_s <= waited_s:
                overdue.append(run)
        return overdue


def overdue_error(run: str, max_wait_s: float) -> TimedOut:
    """Return the error of a run that has waited for too long."""
    return TimedOut(
        f"run {run!r} waited for a process for longer than {max_wait_s:g} s",
        remedy="send it again later; the operator may add workers, or raise CALLSHEET_MAX_WAIT_S",
    )

"""Work after a run: list its failure, call its webhook, delete a temporary thread.

Unfinished work stays on the list of open runs, so that another process does it if this one dies.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.engine import answers
from callsheet.server.engine.background import BackgroundTasks
from callsheet.server.engine.cancellation import cancelled_outcome
from callsheet.state.errors import Busy, Conflict, Fenced, Missing
from callsheet.storage import questions, tool_calls
from callsheet.storage.artefacts.artefacts import delete_bound
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis import health
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.overview import FAILED_STATUSES, record_failure
from callsheet.storage.runs.records import (
    OPEN_STATUSES,
    Action,
    CancelResult,
    Ending,
    Run,
    RunAttempt,
    RunOutcome,
)
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

CallWebhook = Callable[[Run], Awaitable[None]]
"""Calls a run's webhook; retries by itself and gives up without raising."""
FINISHED_RUN_TTL_S: Final = 60.0
"""Seconds that a temporary thread is kept for readers."""
RETRY_S: Final = 120.0
"""Seconds until another process calls a webhook; longer than all attempts of the first."""


async def erase_thread(storage: Storage, saver: BaseCheckpointSaver[Any], record: Thread) -> None:
    """Delete all data of a thread that the caller holds."""
    # The record last: while it exists, an interrupted deletion can be repeated.
    await saver.adelete_thread(record.id)
    await tool_calls.forget_thread(storage, record.owner, record.id)
    await delete_bound(storage, record.owner, record.id)
    await threads.delete(storage, record)


class RunFinalizer:
    """Finalises ended runs in this process."""

    def __init__(
        self,
        storage: Storage,
        runs: Runs,
        saver: BaseCheckpointSaver[Any],
        call_webhook: CallWebhook | None,
    ) -> None:
        self._storage = storage
        self._runs = runs
        self._saver = saver
        self._tell = call_webhook
        self._background = BackgroundTasks()

    def recheck_after_s(self, record: Run) -> float:
        """Return the seconds until another process checks the ended run; 0 for never."""
        if record.request["webhook"]:
            return RETRY_S
        return FINISHED_RUN_TTL_S if record.request["temporary"] else 0

    async def cancel(self, thread: str, run: str, action: Action) -> tuple[CancelResult, str]:
        """Cancel a run as `Runs.cancel`; end one that no process executes.

        Its thread is held meanwhile, so that no other run reads checkpoints that are rolled back.
        """
        result = await self._runs.cancel(thread, run, action)
        if result[0] != "free":
            return result
        held = await self._runs.claim(thread, run, isolated=True)
        if held is None:
            return "over", ""
        # Another attempt that has it by now finds the cancellation, and does the same.
        return await self._end(held, action) if isinstance(held, RunAttempt) else ("asked", "")

    async def _end(self, attempt: RunAttempt, action: Action) -> tuple[CancelResult, str]:
        ending: Ending = "rolled-back" if action == "rollback" else "interrupted"
        try:
            saver = cast("RedisSaver", self._saver)
            outcome = await cancelled_outcome(self._runs, saver, attempt, ending)
            record = await self._runs.get(attempt.thread, attempt.run)
            changes_questions = await answers.update_waiting(self._storage, record, attempt, outcome)
            following = await self._runs.finish(attempt, outcome)
        except Fenced:
            # The attempt that has the thread by now finds the cancellation, and does the same.
            return "asked", ""
        await self._runs.schedule_check(attempt.thread, attempt.run, 0)
        if changes_questions:
            self.start_task(questions.announce(self._storage, record.owner))
        return "ended", following

    def start(self, thread: str, run: str) -> None:
        """Finalise a run in the background."""
        self.start_task(self.finalize(thread, run))

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Start background work that nobody awaits."""
        self._background.start(work)

    async def unlist(self, record: Run, attempt: RunAttempt, outcome: RunOutcome) -> None:
        """Remove a run that ended here from its owner's list; list one that failed for operators."""
        await self._runs.unlist(record, attempt.started_ms)
        if outcome.ending in FAILED_STATUSES and (ended := await self._find(record.thread, record.id)):
            await self._list_failure(ended)

    async def _find(self, thread: str, run: str) -> Run | None:
        try:
            return await self._runs.get(thread, run)
        except Missing:
            return None

    async def _list_failure(self, record: Run) -> None:
        """List a failed run for operators, once for each failure."""
        if record.status in FAILED_STATUSES and record.failure_listed_ms != record.updated_ms:
            await record_failure(self._storage, record)
            await self._runs.mark_failure_listed(record)

    async def finalize(self, thread: str, run: str) -> None:
        """Finalise an ended run; calling it twice is safe."""
        record = await self._find(thread, run)
        if record:
            await self._list_failure(record)
        if record and record.request["webhook"] and not record.webhook_called:
            if self._tell is None:
                # Left to a process that may call webhooks.
                return
            await self._tell(record)
            await self._runs.mark_webhook_called(thread, run)
        if record and record.status not in OPEN_STATUSES:
            await self._runs.unlist(record, record.updated_ms)
        if await self._delete_temporary(thread, run, record):
            await self._runs.unschedule_check(thread, run)
        else:
            await self._runs.schedule_check(thread, run, FINISHED_RUN_TTL_S)

    async def _delete_temporary(self, thread: str, run: str, record: Run | None) -> bool:
        """Delete the thread if it is temporary; return False if that must be repeated later."""
        # A temporary thread without a record has its run's id.
        has_record = thread != run
        if record and has_record and not record.request["temporary"]:
            return True
        if record and not await self._is_expired(record):
            return False
        if has_record:
            return await self._delete_recorded(thread, run, record)
        await self._saver.adelete_thread(thread)
        if record:
            await tool_calls.forget_thread(self._storage, record.owner, thread)
            await delete_bound(self._storage, record.owner, thread)
        await self._runs.delete_all(thread)
        return True

    async def _delete_recorded(self, name: str, run: str, record: Run | None) -> bool:
        """Delete the thread of an unwatched run; one that waits for a person, or was answered, stays.

        A run that was rolled back has no record. Returns False if the thread is in use, such as by an export,
        so that this must be repeated.
        """
        thread = await (
            threads.find(self._storage, name, record.owner)
            if record
            else threads.find_of_run(self._storage, name, run)
        )
        if thread is None or thread.status == "interrupted":
            return True
        try:
            async with threads.hold(self._storage, name, thread.owner, deletes=True, newest_run=run):
                await erase_thread(self._storage, self._saver, thread)
        except (Conflict, Missing):
            pass
        except Busy:
            return False
        return True

    async def prune(self, thread: str) -> None:
        """Remove the thread's oldest checkpoints, if there is a limit."""
        if isinstance(self._saver, RedisSaver):
            await self._saver.akeep_newest(thread)

    async def _is_expired(self, record: Run) -> bool:
        # Both times are Redis': this process's clock may be ahead of it by more than a minute.
        age_s = await health.server_time_s(self._runs.redis) - record.updated_ms / 1000
        return age_s >= FINISHED_RUN_TTL_S

    async def stop(self) -> None:
        """Cancel the background work; another process does it."""
        await self._background.stop()

"""Executes runs, wherever they were created: one at a time per thread, resumed after a crash."""

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, KeysView, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine import answers
from callsheet.server.engine.attempt_log import log_attempt
from callsheet.server.engine.background import cancel_and_wait, run_periodically
from callsheet.server.engine.cancellation import withdraw_answers
from callsheet.server.engine.crash_loop import CrashLoopIsolation
from callsheet.server.engine.encoding import ProtocolEncoder
from callsheet.server.engine.event_bus import EventBus
from callsheet.server.engine.event_publisher import EventPublisher
from callsheet.server.engine.execution import (
    BuildReply,
    Drained,
    Redeliver,
    RunExecution,
    failed_outcome,
    reply_of,
    unstorable_outcome,
    watch_leases,
)
from callsheet.server.engine.finalizer import RETRY_S, CallWebhook, RunFinalizer
from callsheet.server.engine.graph_factory import factory_of, mark
from callsheet.server.engine.graph_states import build_state
from callsheet.server.engine.loop_watch import watch_loop
from callsheet.server.engine.stored_values import StoredValues
from callsheet.server.engine.task_queue import TaskQueue
from callsheet.server.engine.turns import RunTurns, overdue_error
from callsheet.server.telemetry.logs import context_fields
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.state.errors import Broken, CallsheetError, Missing, StorageDown, Unavailable
from callsheet.storage import questions
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.batching import waiting_for_room
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.events import START_ID, Announcements, Event, EventLimits
from callsheet.storage.runs.records import (
    Action,
    CrashSuspect,
    Created,
    Run,
    RunAttempt,
    RunOutcome,
    RunRequest,
)
from callsheet.storage.runs.runs import KEPT_RUNS, Runs
from callsheet.storage.runs.waiting import WaitingLimits, WaitingRuns
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.tool_environment import ToolEnvironment, use_tool_environment

Ack = Callable[[], Awaitable[None]]
"""Call it once the reply has been sent."""
_POLL_S: Final = 0.2
_CHECK_S: Final = 2.0
"""Seconds between two checks for runs that no process executes."""
_SLOT_PATIENCE_S: Final = 2.0
"""Seconds that a run waits for a slot before it goes to another process."""
_RELEASE_S: Final = 1.5
"""Seconds for a cancelled run to release its thread, and for the queue to stop."""
_SEEN_S: Final = 2.0
"""Seconds for which a process that executes runs need not be looked for again."""
_RESTART_S: Final = 1.0
"""Seconds until the queue is started again after a failure."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class WorkerOptions:
    """Limits of runs, and what a run calls."""

    lease_s: float
    """Seconds that a silent attempt still holds its thread."""
    timeout_s: float = 3600.0
    """Longest duration of an attempt."""
    grace_s: float = 5.0
    """Seconds for a step to end once the process stops."""
    replies: Mapping[str, BuildReply] = field(default_factory=dict)
    """Reply builders by graph."""
    protocol: ProtocolEncoder | None = None
    """Encoder of LangGraph's second wire; None where it is not served."""
    call_webhook: CallWebhook | None = None
    """Calls webhooks; None if they are not allowed."""
    max_runs: int = 64
    """Runs that one process executes at once."""
    waiting: WaitingLimits = field(default_factory=WaitingLimits)
    """Most runs that may wait for a process."""
    max_wait_s: float = 0.0
    """Seconds that a run may wait for a process; 0 for no limit."""
    executor_patience_s: float = 10.0
    """Seconds that a request waits for a process that executes runs, if there is none."""
    heartbeat_s: float = 5.0
    """Seconds of silence until the reader of a stream gets a heartbeat."""
    event_limits: EventLimits = field(default_factory=EventLimits)
    """Limits on the events kept for a thread."""
    kept_runs: int = KEPT_RUNS
    """Newest runs of a thread that are kept; 0 for all."""
    tool_environment: ToolEnvironment = field(default_factory=ToolEnvironment)
    """Environment that tools and models are called in."""


class Worker:
    """Executes runs of graphs on threads."""

    def __init__(
        self,
        storage: Storage,
        saver: BaseCheckpointSaver[Any],
        graphs: Mapping[str, Pregel[Any, Any]],
        queue: TaskQueue,
        options: WorkerOptions,
        observer: Telemetry | None = None,
    ) -> None:
        """`observer` measures runs."""
        self.storage = storage
        self._saver = saver
        self._queue = queue
        self._announcements = Announcements(storage)
        self._options = options
        self._executions: dict[RunExecution, asyncio.Task[None]] = {}
        self._own_tasks: set[asyncio.Task[Any]] = set()
        """Tasks of runs that this process records, or started without a delivery."""
        self._executor_seen_s = -math.inf
        """Time at which another process was seen that executes runs."""
        self._isolation = CrashLoopIsolation(saver)
        self._slots = asyncio.Semaphore(options.max_runs)
        """The bound on the runs that this process executes at once, wherever they come from."""
        self._open = False
        """True while this process takes runs."""
        self._stopping = False
        self._observer = observer or Telemetry()
        self.runs = Runs(storage, options.lease_s, options.event_limits, options.kept_runs)
        self.turns: Final = RunTurns(WaitingRuns(storage, options.waiting), self.runs, self._observer)
        self.finalizer = RunFinalizer(self.storage, self.runs, saver, options.call_webhook)
        self.values = StoredValues(saver)
        self.events = EventBus(storage, self._announcements, options.heartbeat_s)
        self.graphs = {name: _attach(graph, saver) for name, graph in graphs.items()}

    @property
    def executions(self) -> KeysView[RunExecution]:
        """Attempts in progress."""
        return self._executions.keys()

    async def follow(self, thread: str, created: Created) -> tuple[dict[str, Any], Ack]:
        """Wait for the run's end; return its reply, and the function to call once it was sent.

        Until that call, an equal request gets the same reply again. Raises the run's own error.
        """
        ended = await self.events.wait_for_end(thread, created.run)
        return reply_of(created.run, ended), partial(self.runs.mark_answered, thread, created.run)

    async def reply(self, thread: str, run: str) -> dict[str, Any]:
        """Return the reply to a run that has ended; raise its error."""
        return reply_of(run, await self.runs.find(thread, run))

    async def submit(self, request: RunRequest) -> Created:
        """Create a run and have it executed as soon as possible, by this process if it has a free slot.

        A request equal to the thread's unfinished run resumes or joins that run. Raises as `Runs.create`, and
        `Limited` if too many runs wait already.
        """
        thread = request.thread
        origin = {"traceparent": self._observer.traceparent(), "key_id": context_fields().get("key_id")}
        if known := {name: value for name, value in origin.items() if value}:
            request = replace(request, request={**request.request, **known})
        request = await answers.with_answer_records(self.storage, request)
        if has_slot := self._has_room(request.graph):
            # This takes the free slot at once. A caller that leaves does not leave a claimed run behind.
            await self._slots.acquire()
            created = await asyncio.shield(self._start_task(self._create_in_slot(request)))
        else:
            created = await self.turns.create(request)
        if request.answers:
            await answers.announce(self.storage, request, created)
        if created.verdict in {"later", "attached"} or (created.verdict == "start" and not has_slot):
            await self._queue.submit(thread, created.run, request.due_ms if created.verdict == "later" else 0)
        return created

    async def _create_in_slot(self, request: RunRequest) -> Created:
        """Record a run, and begin it in the slot that is held for it; another verdict releases the slot."""
        claimed = None
        try:
            created, claimed = await self.runs.start(request)
        finally:
            if claimed is None:
                self._slots.release()
        if claimed or created.verdict == "start":
            self._start_task(self._execute_or_requeue(request.thread, created.run, claimed))
        return created

    def _has_room(self, graph: str) -> bool:
        """Return True if a run created here starts here; half of the slots are left to deliveries."""
        own_share = max(1, self._options.max_runs // 2)
        return (
            self._open
            and graph in self.graphs
            and len(self._own_tasks) < own_share
            and not self._slots.locked()
        )

    def _start_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._own_tasks.add(task)
        task.add_done_callback(self._own_tasks.discard)
        # Whoever awaits it gets its error, too.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _execute_or_requeue(
        self, thread: str, run: str, claimed: tuple[RunAttempt, Run] | None = None
    ) -> None:
        """Execute a run, or one that is `claimed` in a slot that is held for it."""
        try:
            await (self._execute_claimed(*claimed) if claimed else self.execute(thread, run))
        except (Drained, Redeliver):
            await self._queue.submit(thread, run)
        except CallsheetError as error:
            # Its lease expires, and the run is submitted again, unless another process continues it already.
            _log.info("run %s is left to another attempt: %s", run, error)

    async def cancel(self, thread: str, run: str, action: Action = "interrupt") -> bool:
        """Cancel a run; return True if it has ended now. Raises `Missing`."""
        done, following = await self.finalizer.cancel(thread, run, action)
        if done == "ended":
            self.finalizer.start_task(self.turns.waiting.remove(thread, run))
            self.finalizer.start(thread, run)
        if following:
            await self._queue.submit(thread, following)
        for execution in self._executions:
            if execution.run.id == run:
                execution.start_heartbeat()
        return done != "asked"

    def cancel_later(self, thread: str, run: str) -> None:
        """Cancel a run in the background; it may have ended."""
        self.finalizer.start_task(self._cancel_if_exists(thread, run))

    async def cancel_unstarted(self, thread: str, run: str) -> None:
        """Cancel a run that waits for a slot or for its thread; one that has a slot goes on."""
        if await self.turns.waiting.contains(thread, run):
            await self._cancel_if_exists(thread, run)

    async def _cancel_if_exists(self, thread: str, run: str) -> None:
        with suppress(Missing):
            await self.cancel(thread, run)

    async def state(self, thread: Thread) -> StateSnapshot:
        """Return the newest state of a thread; raises as `build_state`."""
        return await build_state(self.graphs[thread.graph], {"configurable": {"thread_id": thread.id}})

    async def work(self) -> None:
        """Execute submitted runs until cancelled, then hand over those in progress."""
        # The loops survive every error, also Docket's own.
        again = partial(run_periodically, despite=Exception)
        looking = asyncio.create_task(
            again(self._submit_abandoned, _CHECK_S, "cannot check for abandoned runs")
        )
        bring = partial(self._queue.work, self.use_delivery)
        engine = asyncio.create_task(again(bring, _RESTART_S, "the task queue failed"))
        self._open = True
        try:
            await asyncio.wait((looking, engine))
        finally:
            self._open, self._stopping = False, True
            for task in (looking, engine):
                task.cancel()
            await self._drain()
            # The queue returns the runs that are handed over, if it can reach storage.
            _, late = await asyncio.wait((looking, engine), timeout=_RELEASE_S)
            await cancel_and_wait(*late, within_s=_RELEASE_S)

    @property
    def queue_failure(self) -> CallsheetError | None:
        """The reason why the task queue delivers nothing to or from this process; None if there is none."""
        return self._queue.failure

    async def wait_for_failed_start(self) -> CallsheetError:
        """Return the failure once the task queue could not start although Redis answers."""
        return await self._queue.wait_for_failed_start()

    async def has_executor(self) -> bool:
        """Return True if this process, or another one on the same storage, executes runs."""
        return self._open or await self._queue.has_workers()

    async def require_executor(self) -> None:
        """Wait for a process that executes runs; raises `Unavailable` if none comes in time."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._options.executor_patience_s
        while loop.time() - self._executor_seen_s > _SEEN_S:
            if await self.has_executor():
                self._executor_seen_s = loop.time()
            elif loop.time() >= ends_s:
                raise Unavailable(
                    "no process executes runs, so nothing was started",
                    remedy="start one on the same Redis: callsheet worker",
                )
            else:
                await asyncio.sleep(_POLL_S)

    async def open(self) -> None:
        """Connect to the announcements of other processes."""
        await self._announcements.open()

    async def listen(self) -> None:
        """Receive the announcements of other processes until cancelled."""
        try:
            await self._announcements.listen()
        finally:
            await self._announcements.aclose()

    async def execute(self, thread: str, run: str) -> None:
        """Make an attempt at a run that was created here or follows on its thread.

        It does nothing if the run has ended or another run of the thread comes first. Raises `Fenced` if the
        lease is lost, `Drained` if this process stops, and `Redeliver` without a free slot, for a graph that
        is not served here, or for a crash suspect while another one runs here.
        """
        record = await self._require_served(thread, run)
        async with self._slot():
            await self._execute_in_slot(thread, run, record)

    async def use_delivery(self, thread: str, run: str) -> None:
        """Use a delivery of this run for the run whose turn it is; raises as `execute`."""
        await self._require_served(thread, run)
        async with self._slot():
            await self.turns.use_delivery(thread, run, self.graphs, self._execute_in_slot)

    async def _require_served(self, thread: str, run: str) -> Run | None:
        """Return a run, queued if it has become due; raise `Redeliver` if its graph is not served here."""
        record = await self.runs.find(thread, run)
        if record and record.graph not in self.graphs:
            # A run that is cancelled ends without its graph.
            if record.cancel and await self.cancel(thread, run, record.cancel):
                return None
            raise Redeliver(f"this process does not serve graph {record.graph!r}")
        if record and record.due_ms:
            await self.runs.admit(thread, run)
        return record

    async def _execute_in_slot(self, thread: str, run: str, record: Run | None = None) -> bool:
        """Claim a run and make an attempt; return False if there is nothing to do. Raises as `execute`."""
        record = record or await self.runs.find(thread, run)
        if record is None:
            return False
        async with AsyncExitStack() as held:
            attempt = await self._claim(thread, run, held)
            if attempt:
                await self._attempt(attempt, record)
            return attempt is not None

    async def _execute_claimed(self, attempt: RunAttempt, record: Run) -> None:
        try:
            await self._attempt(attempt, record)
        finally:
            self._slots.release()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold a slot; raise `Redeliver` if none becomes free in time."""
        try:
            async with asyncio.timeout(_SLOT_PATIENCE_S):
                await self._slots.acquire()
        except TimeoutError:
            raise Redeliver("no slot is free in this process") from None
        try:
            yield
        finally:
            self._slots.release()

    async def _attempt(self, attempt: RunAttempt, record: Run) -> None:
        """Execute a claimed attempt; raises as `execute`."""
        if self._stopping:
            await self.runs.release(attempt)
            raise Drained
        execution = self._execution(attempt, record)
        self._executions[execution] = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            with (
                use_tool_environment(self._options.tool_environment),
                self._observe(record) as tell,
                log_attempt(record, attempt) as line,
                waiting_for_room(),
            ):
                self._observer.count_attempt(record.graph, attempt.number, line.waited_s)
                outcome, error = await self._execute_to_end(execution)
                tell(outcome.ending)
                self._observer.count_failure(record.graph, error)
                line.log_outcome(outcome, error)
        except (Drained, asyncio.CancelledError) as error:
            await self.runs.release(attempt)
            raise Drained from error
        except StorageDown:
            self.finalizer.start_task(self._release_later(attempt))
            raise
        finally:
            del self._executions[execution]

    async def _release_later(self, attempt: RunAttempt) -> None:
        """Release a thread once storage answers again: an attempt that an outage ended did not crash."""
        while True:
            with suppress(StorageDown):
                return await self.runs.release(attempt)
            await asyncio.sleep(_POLL_S)

    async def _execute_to_end(self, execution: RunExecution) -> tuple[RunOutcome, Exception | None]:
        """Execute and end the run; return its outcome, and the error that ended it.

        A run whose outcome cannot be stored fails, as it would in any attempt.
        """
        attempt, record = execution.attempt, execution.run
        try:
            outcome = await execution.run_to_outcome()
            await self._finish(record, attempt, outcome)
        except (TypeError, ValueError, RecursionError) as error:
            outcome = unstorable_outcome(error)
            await self._finish(record, attempt, outcome)
            return outcome, error
        return outcome, execution.error

    def _execution(self, attempt: RunAttempt, record: Run) -> RunExecution:
        return RunExecution(
            self.runs,
            self._announcements,
            EventPublisher(
                self.runs,
                attempt,
                partial(self._announcements.has_subscriber, attempt.thread),
                values=self.values,
            ),
            attempt,
            record,
            self.graphs[record.graph],
            partial(self.events.stored_events, attempt.thread, attempt.run, START_ID),
            self._options.timeout_s,
            self._options.replies.get(record.graph) if record.request["reply"] else None,
            self._options.protocol,
            self._observer,
        )

    def _observe(self, run: Run) -> AbstractContextManager[Callable[[str], None]]:
        about = {"run_id": run.id, "thread_id": run.thread, "owner": run.owner}
        origin = {"parent": run.request.get("traceparent"), "key_id": run.request.get("key_id")}
        return self._observer.observe_run(
            run.graph, **about, **{name: str(value or "") for name, value in origin.items()}
        )

    async def _claim(self, thread: str, run: str, stack: AsyncExitStack) -> RunAttempt | None:
        """Claim a run; waits for the lease of an attempt that may be dead. None if there is nothing to do."""
        alone = False
        while True:
            claimed = await self.runs.claim(thread, run, isolated=alone)
            if isinstance(claimed, RunAttempt) or claimed is None:
                return claimed
            if self._stopping:
                raise Drained
            if isinstance(claimed, CrashSuspect):
                if await self._isolation.newest_checkpoint(thread) == claimed.checkpoint:
                    await stack.enter_async_context(self._isolation.isolate(thread))
                alone = True
            else:
                await asyncio.sleep(min(claimed.remaining_s, _POLL_S))

    async def _finish(self, record: Run, attempt: RunAttempt, outcome: RunOutcome) -> None:
        changes_questions = await answers.update_waiting(self.storage, record, attempt, outcome)
        outcome = await answers.with_words_recorded(self.storage, record, outcome)
        following = await self.runs.finish(attempt, outcome)
        self.finalizer.start_task(answers.audit(self.storage, record, outcome.answers))
        if changes_questions:
            self.finalizer.start_task(questions.announce(self.storage, record.owner))
        self.finalizer.start_task(self._finalize(record, attempt, outcome))
        if following:
            self._start_task(self._execute_or_requeue(attempt.thread, following))
            self.finalizer.start_task(self.turns.waiting.remove(attempt.thread, following))

    async def _finalize(self, record: Run, attempt: RunAttempt, outcome: RunOutcome) -> None:
        """Finalise an ended run; other processes do it if this one dies."""
        await self.finalizer.unlist(record, attempt, outcome)
        if look_s := self.finalizer.recheck_after_s(record):
            await self.runs.schedule_check(record.thread, record.id, look_s)
            await self.finalizer.finalize(record.thread, record.id)
        else:
            await self.runs.unschedule_check(record.thread, record.id)
        await self.finalizer.prune(record.thread)

    async def _submit_abandoned(self) -> None:
        """Submit runs that no process executes: the one that created or executed them died."""
        # Together, in one round trip.
        overdue, due = await asyncio.gather(
            self.turns.overdue(self._options.max_wait_s), self.runs.poll_due_checks(_CHECK_S)
        )
        while due:
            for thread, run in due:
                match await self.runs.execution_state(thread, run):
                    case "free" | "due":
                        await self._queue.submit(thread, run)
                    case "over":
                        # A webhook may take longer than the time to the next check.
                        await self.runs.schedule_check(thread, run, RETRY_S)
                        self.finalizer.start(thread, run)
            due = await self.runs.poll_due_checks(_CHECK_S)
        for thread, run in overdue:
            await self._give_up(thread, run)

    async def _give_up(self, thread: str, run: str) -> None:
        """End a run that has waited for too long."""
        record = await self.runs.get(thread, run)
        attempt = await self.runs.claim(thread, run, isolated=True)
        await self.turns.waiting.remove(thread, run)
        if not isinstance(attempt, RunAttempt):
            return
        error = overdue_error(run, self._options.max_wait_s)
        with self._observe(record) as tell, log_attempt(record, attempt) as line:
            outcome = failed_outcome(error)
            await withdraw_answers(cast("RedisSaver", self._saver), attempt)
            await self._finish(record, attempt, outcome)
            tell(outcome.ending)
            self._observer.count_failure(record.graph, error)
            line.log_outcome(outcome, error)

    async def _drain(self) -> None:
        """Let the runs in progress end their step; cancel those that take too long."""
        for execution in self._executions:
            execution.control.request_drain()
        if tasks := set(self._executions.values()):
            _, late = await asyncio.wait(tasks, timeout=self._options.grace_s)
            await cancel_and_wait(*late, within_s=_RELEASE_S)
        # They have released their threads, and now submit their runs to other processes.
        if self._own_tasks:
            await asyncio.wait(self._own_tasks, timeout=_RELEASE_S)
            await cancel_and_wait(*self._own_tasks, within_s=_RELEASE_S)


@asynccontextmanager
async def running_worker(
    storage: Storage,
    graphs: Mapping[str, Pregel[Any, Any]],
    options: WorkerOptions,
    *,
    saver: RedisSaver | None = None,
    executes: bool = True,
    observer: Telemetry | None = None,
) -> AsyncIterator[Worker]:
    """Yield a worker with our checkpointer on every graph; `executes` runs, or only creates them."""
    async with AsyncExitStack() as stack:
        if saver is None:
            saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
            stack.push_async_callback(saver.aclose)
        queue = await stack.enter_async_context(TaskQueue(storage, options.lease_s, at_once=options.max_runs))
        worker = Worker(storage, saver, graphs, queue, options, observer)
        stack.enter_context(watch_leases(worker.runs, worker.executions))
        stack.enter_context(watch_loop(observer))
        await worker.open()
        tasks = [asyncio.create_task(worker.listen())]
        if executes:
            tasks.append(asyncio.create_task(worker.work()))
        try:
            yield worker
        finally:
            for task in reversed(tasks):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await worker.finalizer.stop()


def progress_of(event: Event) -> dict[str, Any] | None:
    """Return what an event reports to the caller: a step, or words of the model, new or withdrawn."""
    data = json.loads(event.data) if event.name in {"custom", "messages"} else None
    if data is None or event.name == "custom":
        return data if isinstance(data, dict) else None
    chunk = data[0]
    if chunk.get("type") == "remove":
        return {"type": "withdrawn", "messageId": chunk["id"]}
    words = chunk["content"] if str(chunk.get("type")).startswith("AIMessage") else ""
    is_text = bool(words) and isinstance(words, str)
    return {"type": "text", "messageId": chunk.get("id"), "content": words} if is_text else None


def _attach(graph: Pregel[Any, Any], saver: BaseCheckpointSaver[Any]) -> Pregel[Any, Any]:
    # Eager, so that a task's events are streamed before its checkpoint is stored.
    copied = graph.copy(update={"checkpointer": saver, "stream_eager": True})
    # LangGraph ignores a misspelt key silently, and a run without persistence is never a fallback.
    if copied.checkpointer is not saver:
        raise Broken(f"graph {graph.name!r} did not take the saver")
    return mark(copied, factory_of(graph))

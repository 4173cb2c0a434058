"""Carries runs out, wherever they were created: one at a time on a thread, gone on with after a crash."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.operations.telemetry import Telemetry
from callsheet.server.runtime.admission import CrashLoopIsolation, RunSlots
from callsheet.server.runtime.background import cancel_and_wait, run_periodically
from callsheet.server.runtime.errors import deserialize_error
from callsheet.server.runtime.event_buffer import LocalEventBuffer
from callsheet.server.runtime.event_bus import EventBus
from callsheet.server.runtime.event_publisher import EventPublisher
from callsheet.server.runtime.execution import BuildReply, Drained, Redeliver, RunExecution
from callsheet.server.runtime.finalizer import RETRY_S, CallWebhook, RunFinalizer
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.task_queue import TaskQueue
from callsheet.state.errors import Broken, CallsheetError, Conflict, Fenced, Missing
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.announcements import Announcements
from callsheet.storage.runs.records import (
    Action,
    Attempt,
    CrashSuspect,
    Created,
    LeaseHeld,
    Outcome,
    Run,
    RunRequest,
)
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

Ack = Callable[[], Awaitable[None]]
"""To be called once a reply has arrived."""
OnProgress = Callable[[dict[str, Any]], None]
"""Is told of every step as it happens."""
_POLL_S: Final = 0.2
_LOOK_S: Final = 2.0
"""How often one looks for runs that nobody is at."""
_LET_GO_S: Final = 1.5
"""How long what was cut short may take to let its thread go, and what brings runs here to end."""
_AGAIN_S: Final = 1.0
"""How long no runs are brought here once what brings them has failed."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerOptions:
    """What runs are held to."""

    lease_s: float
    """How long an attempt that has fallen silent still holds its thread."""
    timeout_s: float = 3600.0
    """The longest an attempt may take."""
    grace_s: float = 5.0
    """How long a step may take to end once the process is told to stop."""
    settling_s: float = 0
    """How long after its start a process leaves deliveries to others: its own first requests come first."""
    replies: Mapping[str, BuildReply] = field(default_factory=dict)
    """By graph, what the callers of its jobs are told."""
    tell: CallWebhook | None = None
    """How webhooks are told; None where nobody may be."""
    at_once: int = 64
    """Runs that one process carries out at once."""


class Worker:
    """Runs graphs on threads, with everything they remember in storage."""

    def __init__(
        self,
        storage: Storage,
        saver: BaseCheckpointSaver[Any],
        graphs: Mapping[str, Pregel[Any, Any]],
        engine: TaskQueue,
        terms: WorkerOptions,
        observer: Telemetry | None = None,
    ) -> None:
        """`observer` looks on while runs are carried out."""
        self._storage = storage
        self._saver = saver
        self._engine = engine
        self._announcements = Announcements(storage)
        self._terms = terms
        self._under_way: dict[RunExecution, asyncio.Task[None]] = {}
        self._here: set[asyncio.Task[None]] = set()
        """Runs that nobody delivered: this process began them."""
        self._suspects = CrashLoopIsolation(saver)
        self._room = RunSlots(terms.at_once)
        self._open = False
        """Whether this process takes runs."""
        self._stopping = False
        self._observer = observer or Telemetry()
        self.runs = Runs(storage, terms.lease_s)
        self.aftermath = RunFinalizer(self.runs, saver, terms.tell)
        self.hub = EventBus(storage, self._announcements)
        self.graphs = {name: _remembering(graph, saver) for name, graph in graphs.items()}

    @property
    def running_count(self) -> int:
        """How many runs this process is at."""
        return len(self._under_way)

    async def run_and_ack(self, job: DomainRun, report: OnProgress = lambda _: None) -> dict[str, Any]:
        """Carry the job out, here or in another process, and return its reply."""
        reply, told = await self.run(job, report)
        await told()
        return reply

    async def run(self, job: DomainRun, report: OnProgress = lambda _: None) -> tuple[dict[str, Any], Ack]:
        """Carry the job out and return its reply, and what is to be called once its caller has it.

        A request that is the same as the thread's unfinished run takes that run up, or waits for it; and
        until a reply is told to have arrived, the same request is given it again. Raises `Busy` while another
        request runs on the thread, and what the run failed with.
        """
        thread = job.thread
        await threads.bind(self._storage, thread)
        made = await self.submit(thread.id, job.to_run_request())
        if made.verdict != "replay":
            async for event in self.hub.follow_run(thread.id, made.run, made.since, heartbeat_s=_LOOK_S):
                if event and event.name == "custom":
                    report(json.loads(event.data))
        return await self._reply(thread, made.run), partial(self.runs.mark_answered, thread.id, made.run)

    async def _reply(self, thread: Thread, run: str) -> dict[str, Any]:
        try:
            ended = await self.runs.get(thread.id, run)
        except Missing:
            ended = None
        if ended is None or ended.status == "interrupted":
            raise Conflict(f"run {run!r} was cancelled", remedy="send the request again")
        if ended.answer is None:
            raise deserialize_error(ended.error or {})
        return dict(ended.answer)

    async def submit(self, thread: str, wanted: RunRequest) -> Created:
        """Record a run and have it carried out as soon as it may, by this process if it has room."""
        if parent := self._observer.traceparent():
            wanted = replace(wanted, request={**wanted.request, "traceparent": parent})
        with ExitStack() as held:
            if claim := self._open and wanted.graph in self.graphs and await self._room.try_acquire():
                held.callback(self._room.release)
            made = await self.runs.create(thread, wanted, claim=claim)
            if made.attempt:
                held.pop_all()
                begun = self._begin(thread, made.run, self._attempted(made.attempt, wanted.to_run(thread)))
                begun.add_done_callback(lambda _: self._room.release())
                # Whoever asked follows it next, and is to find the transcript that it begins with.
                await asyncio.sleep(0)
        if made.verdict in {"start", "later", "attached"} and not made.attempt:
            await self._engine.submit(thread, made.run, wanted.due_ms if made.verdict == "later" else 0)
        return made

    def _begin(self, thread: str, run: str, attempt: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Carry a run out beside everything else, or leave it to another process."""
        task = asyncio.create_task(self._carried(thread, run, attempt))
        self._here.add(task)
        task.add_done_callback(self._here.discard)
        return task

    async def _carried(self, thread: str, run: str, attempt: Coroutine[Any, Any, None]) -> None:
        try:
            await attempt
        except (Drained, Redeliver):
            await self._engine.submit(thread, run)
        except Fenced:
            _log.info("run %s goes on elsewhere", run)
        except CallsheetError as error:
            # Its lease runs out, and it is submitted again then.
            _log.warning("run %s was lost: %s", run, error)

    async def cancel(self, thread: str, run: str, action: Action = "interrupt") -> bool:
        """Cancel a run, unless it had ended; return whether it has now. Raises `Missing`."""
        done, following = await self.runs.cancel(thread, run, action)
        if done == "ended":
            if action == "rollback":
                await self._saver.adelete_for_runs([run])
            self.aftermath.start(thread, run)
        if following:
            await self._engine.submit(thread, following)
        for execution in self._under_way:
            if execution.run.id == run:
                execution.start_heartbeat()
        return done != "asked"

    def cancel_later(self, thread: str, run: str) -> None:
        """Cancel a run that may have ended, without waiting for it."""
        self.aftermath.start_task(self._cancel_if_there(thread, run))

    async def _cancel_if_there(self, thread: str, run: str) -> None:
        with suppress(Missing):
            await self.cancel(thread, run)

    async def state(self, thread: Thread) -> StateSnapshot:
        """Return the newest state of a thread."""
        return await self.graphs[thread.graph].aget_state(_config(thread.id))

    async def work(self) -> None:
        """Carry out what is submitted, anywhere, until cancelled; what is under way then is handed over."""
        # Whatever a step fails with, Docket's own errors included, runs are looked for and brought again.
        again = partial(run_periodically, despite=Exception)
        looking = asyncio.create_task(again(self._submit_the_forgotten, _LOOK_S, "no runs are looked for"))
        bring = partial(self._engine.work, self.execute)
        engine = asyncio.create_task(again(bring, _AGAIN_S, "no runs are brought here"))
        self._open = True
        try:
            await asyncio.wait((looking, engine))
        finally:
            self._open, self._stopping = False, True
            for task in (looking, engine):
                task.cancel()
            await self._drain()
            # What brings runs here gives back those that are handed over, where it can reach storage.
            _, late = await asyncio.wait((looking, engine), timeout=_LET_GO_S)
            await cancel_and_wait(*late, within_s=_LET_GO_S)

    async def open(self) -> None:
        """Connect to what tells of other processes."""
        await self._announcements.open()

    async def listen(self) -> None:
        """Hear what happens in other processes, until cancelled."""
        try:
            await self._announcements.listen()
        finally:
            await self._announcements.aclose()

    async def execute(self, thread: str, run: str) -> None:
        """Make an attempt at a run, unless it is over or another's turn.

        Raises `Fenced` when it is lost, `Stopped` when this process is to end, and `Redeliver` for a graph
        that others serve, or a suspect while this process is at another.
        """
        record = await self._admitted(thread, run)
        if record and record.graph not in self.graphs:
            raise Redeliver(f"no graph {record.graph!r} is served here")
        async with AsyncExitStack() as held, self._room.hold():
            if record and (attempt := await self._claimed(thread, run, held)):
                await self._attempted(attempt, record)

    async def _attempted(self, attempt: Attempt, record: Run) -> None:
        """Make an attempt, to the run's end; raises as `carry_out`."""
        if self._stopping:
            await self.runs.release(attempt)
            raise Drained
        # What an earlier attempt told is in Redis alone.
        transcript = self.hub.transcripts.begin(attempt.begun) if attempt.number == 1 else None
        execution = self._execution(attempt, record, transcript)
        self._under_way[execution] = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            with self._watched(record) as tell:
                outcome = await execution.run_to_outcome()
                if outcome.ending == "rolled-back":
                    await self._saver.adelete_for_runs([record.id])
                await self._finish(record, attempt, outcome, transcript)
                tell(outcome.ending)
        except (Drained, asyncio.CancelledError) as error:
            await self.runs.release(attempt)
            raise Drained from error
        finally:
            del self._under_way[execution]
            if transcript:
                self.hub.transcripts.end(transcript)

    def _execution(self, attempt: Attempt, record: Run, transcript: LocalEventBuffer | None) -> RunExecution:
        return RunExecution(
            self.runs,
            self._announcements,
            EventPublisher(
                self.runs,
                attempt,
                transcript,
                partial(self.hub.has_local_follower, attempt.thread, transcript),
            ),
            attempt,
            record,
            self.graphs[record.graph],
            self._terms.timeout_s,
            self._terms.replies.get(record.graph) if record.request["reply"] else None,
        )

    def _watched(self, run: Run) -> AbstractContextManager[Callable[[str], None]]:
        parent = str(run.request.get("traceparent") or "")
        return self._observer.observe_run(
            run.graph, run_id=run.id, thread_id=run.thread, owner=run.owner, parent=parent
        )

    async def _admitted(self, thread: str, run: str) -> Run | None:
        try:
            record = await self.runs.get(thread, run)
        except Missing:
            return None
        if record.due_ms and not await self.runs.admit(thread, run):
            return None
        return record

    async def _claimed(self, thread: str, run: str, held: AsyncExitStack) -> Attempt | None:
        """Claim a run: waits for the lease of an attempt that may be dead; a suspect waits elsewhere."""
        alone = False
        while True:
            found = await self.runs.claim(thread, run, alone=alone)
            if self._stopping:
                if isinstance(found, Attempt):
                    await self.runs.release(found)
                raise Drained
            if isinstance(found, CrashSuspect):
                await held.enter_async_context(self._suspects.isolate(thread))
                alone = True
            elif isinstance(found, LeaseHeld):
                await asyncio.sleep(min(found.left_s, _POLL_S))
            else:
                return found

    async def _finish(
        self, record: Run, attempt: Attempt, outcome: Outcome, transcript: LocalEventBuffer | None
    ) -> None:
        following, ids = await self.runs.finish(attempt, outcome)
        if transcript:
            transcript.add(ids, outcome.events)
        self.aftermath.start_task(self._left(record))
        if following:
            self._begin(attempt.thread, following, self.execute(attempt.thread, following))

    async def _left(self, record: Run) -> None:
        """See to what is left to do for a run that has ended, and that others do where this process dies."""
        if look_s := self.aftermath.recheck_after_s(record):
            await self.runs.schedule_check(record.thread, record.id, look_s)
            await self.aftermath.finalize(record.thread, record.id)
        else:
            await self.runs.unschedule_check(record.thread, record.id)

    async def _submit_the_forgotten(self) -> None:
        """Submit what nobody is at: its worker died, or the one that recorded it did."""
        while found := await self.runs.poll_due_checks(_LOOK_S):
            for thread, run in found:
                match await self.runs.standing(thread, run):
                    case "free" | "due":
                        await self._engine.submit(thread, run)
                    case "over":
                        # Telling a webhook may take longer than the time to the next look.
                        await self.runs.schedule_check(thread, run, RETRY_S)
                        self.aftermath.start(thread, run)

    async def _drain(self) -> None:
        """Let what is under way end its step, and cut short what does not in time."""
        for execution in self._under_way:
            execution.control.request_drain()
        if tasks := set(self._under_way.values()):
            _, late = await asyncio.wait(tasks, timeout=self._terms.grace_s)
            await cancel_and_wait(*late, within_s=_LET_GO_S)
        # They have let their threads go by now, and see to it that another process goes on.
        if self._here:
            await asyncio.wait(self._here, timeout=_LET_GO_S)
            await cancel_and_wait(*self._here, within_s=_LET_GO_S)


@asynccontextmanager
async def running_worker(
    storage: Storage,
    graphs: Mapping[str, Pregel[Any, Any]],
    terms: WorkerOptions,
    *,
    saver: RedisSaver | None = None,
    carrying: bool = True,
    observer: Telemetry | None = None,
) -> AsyncIterator[Worker]:
    """A worker on `storage`, with a Redis saver attached to every graph; `carrying` runs out, or not."""
    async with AsyncExitStack() as stack:
        if saver is None:
            saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
            stack.push_async_callback(saver.aclose)
        delivery = TaskQueue(storage, terms.lease_s, at_once=terms.at_once, settling_s=terms.settling_s)
        engine = await stack.enter_async_context(delivery)
        worker = Worker(storage, saver, graphs, engine, terms, observer)
        await worker.open()
        tasks = [asyncio.create_task(worker.listen())]
        if carrying:
            tasks.append(asyncio.create_task(worker.work()))
        try:
            yield worker
        finally:
            for task in reversed(tasks):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await worker.aftermath.stop()


def _remembering(graph: Pregel[Any, Any], saver: BaseCheckpointSaver[Any]) -> Pregel[Any, Any]:
    copied = graph.copy(update={"checkpointer": saver})
    # A misspelt key is ignored without a word, and a run without persistence is never a fallback.
    if copied.checkpointer is not saver:
        raise Broken(f"graph {graph.name!r} did not take the saver")
    return copied


def _config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}

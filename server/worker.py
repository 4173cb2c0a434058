"""Carries runs out: one at a time on a thread, resumed where a crash left them, finished exactly once."""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from nodes.node import EPOCH, OWNER, RUN
from state.context import Context
from state.errors import Broken, Busy
from state.plan import dumped
from storage import threads
from storage.checkpoints import RedisSaver
from storage.connection import Storage
from storage.runs import Replay, Request, Run, Runs
from storage.threads import Thread

Report = Callable[[dict[str, Any]], None]
"""Is told of every step as it happens."""
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Job:
    """What a caller wants done on a thread."""

    thread: Thread
    input: Mapping[str, Any]
    """What the graph is given; JSON."""
    body: Mapping[str, Any]
    """The request as it came: two with the same body are the same request."""
    answer: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
    """Final state to the reply that an idempotency key repeats; JSON. It may be asked twice."""
    context: Context = field(default_factory=Context)
    idempotency_key: str | None = None

    def request(self) -> Request:
        """Return the job as storage knows it."""
        parts = dumped([self.thread.graph, self.thread.owner, self.body])
        print_ = hashlib.sha256(parts.encode()).hexdigest()
        return Request(str(uuid.uuid4()), print_, self.input, self.idempotency_key)


class Worker:
    """Runs graphs on threads, with everything they remember in storage."""

    def __init__(
        self,
        storage: Storage,
        saver: BaseCheckpointSaver[Any],
        graphs: Mapping[str, Pregel[Any, Any]],
        *,
        lease_s: float,
    ) -> None:
        self._storage = storage
        self._runs = Runs(storage, lease_s)
        self._graphs = {name: _remembering(graph, saver) for name, graph in graphs.items()}

    async def do(self, job: Job, report: Report = lambda _: None) -> dict[str, Any]:
        """Carry the job out and return its answer.

        A request that is the same as the thread's unfinished run takes that run up, or, where another process
        is at it, waits for its answer. Raises `Busy` while another request runs on the thread.
        """
        await threads.bind(self._storage, job.thread)
        run = await self._begin(job)
        if isinstance(run, Replay):
            return run.answer
        try:
            answer = await self._holding(run, self._carry_out(job, run, report))
        except asyncio.CancelledError:
            # The run stays unfinished, for whoever asks for it again; the thread is free at once.
            await self._runs.release(run)
            raise
        except Exception:
            await self._runs.finish(run, "error")
            raise
        await self._runs.finish(run, "success", answer)
        return answer

    async def state(self, thread: Thread) -> StateSnapshot:
        """Return the newest state of a thread."""
        return await self._graphs[thread.graph].aget_state(_config(thread.id))

    async def _begin(self, job: Job) -> Run | Replay:
        request = job.request()
        while True:
            try:
                return await self._runs.begin(job.thread.id, request)
            except Busy as busy:
                if not busy.details.get("same"):
                    raise
                finished = await self._finished_elsewhere(job, str(busy.details["run"]))
                if finished is not None:
                    return Replay(finished)

    async def _finished_elsewhere(self, job: Job, run_id: str) -> dict[str, Any] | None:
        """Wait for the same request at another worker: its answer, or None once it let go unfinished."""
        while (found := await self._runs.newest(job.thread.id)).held:  # noqa: ASYNC110 -- the other is elsewhere
            await asyncio.sleep(_POLL_S)
        if found.id != run_id or found.status != "success":
            return None
        return await job.answer((await self.state(job.thread)).values)

    async def _holding(self, run: Run, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Do the work while renewing the lease; when the lease is lost, the work is cancelled."""
        task = asyncio.create_task(work)
        beat = asyncio.create_task(self._beat(run))
        try:
            await asyncio.wait((task, beat), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                beat.result()
            return await task
        finally:
            for one in (task, beat):
                one.cancel()
            await asyncio.gather(task, beat, return_exceptions=True)

    async def _beat(self, run: Run) -> None:
        while True:
            await asyncio.sleep(self._runs.lease_s / 3)
            await self._runs.renew(run)

    async def _carry_out(self, job: Job, run: Run, report: Report) -> dict[str, Any]:
        return await job.answer(await self._final(job, run, report))

    async def _final(self, job: Job, run: Run, report: Report) -> Mapping[str, Any]:
        """Run the graph to its end, or its next question, and return the state it left."""
        graph = self._graphs[job.thread.graph]
        config = _config(job.thread.id, owner=job.thread.owner, run=run)
        given: Mapping[str, Any] | None = run.input
        if run.again:
            before = await graph.aget_state(config)
            # Only a checkpoint of this very run may be gone on from; else its input never arrived.
            if (before.metadata or {}).get(RUN) == run.id:
                # `next` is empty too when a step has written and the checkpoint after it is missing.
                if not before.tasks:
                    return cast("Mapping[str, Any]", before.values)
                given = None
        values: Mapping[str, Any] = {}
        stream = graph.astream(
            given, config, context=job.context, stream_mode=["custom", "values"], durability="sync"
        )
        async for mode, chunk in cast("AsyncIterator[tuple[str, dict[str, Any]]]", stream):
            if mode == "custom":
                report(chunk)
            else:
                values = chunk
        return values


@asynccontextmanager
async def working(
    storage: Storage, graphs: Mapping[str, Pregel[Any, Any]], *, lease_s: float
) -> AsyncIterator[Worker]:
    """A worker on `storage`, with the Redis saver attached to every graph."""
    saver = RedisSaver(storage.redis)
    try:
        yield Worker(storage, saver, graphs, lease_s=lease_s)
    finally:
        await saver.aclose()


def _remembering(graph: Pregel[Any, Any], saver: BaseCheckpointSaver[Any]) -> Pregel[Any, Any]:
    copied = graph.copy(update={"checkpointer": saver})
    # A misspelt key is ignored without a word, and a run without persistence is never a fallback.
    if copied.checkpointer is not saver:
        raise Broken(f"graph {graph.name!r} did not take the saver")
    return copied


def _config(thread: str, *, owner: str = "", run: Run | None = None) -> RunnableConfig:
    chosen: dict[str, Any] = {"thread_id": thread}
    if run:
        chosen |= {OWNER: owner, EPOCH: run.epoch, RUN: run.id}
    return {"configurable": chosen}

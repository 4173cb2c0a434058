"""A rollback by a process that stands still deletes nothing under the run that comes next (X8)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.runs.records import Action, RunAttempt, RunOutcome
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.doubles.waiting import eventually
from tests.engine.test_worker import TwoStepGraph, word_request

LEASE_S = 10.0
NEWEST: RunnableConfig = {"configurable": {"thread_id": "t"}}


class Queue:
    """A task queue that records the deliveries."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def submit(self, thread: str, run: str, due_ms: int = 0) -> None:
        self.runs.append(run)


class SlowSaver(RedisSaver):
    """A saver of a process that stands still right before it deletes."""

    def slow_down(self) -> "SlowSaver":
        self.at_deletion, self.may_delete = asyncio.Event(), asyncio.Event()
        return self

    async def _stand_still(self) -> None:
        self.at_deletion.set()
        await self.may_delete.wait()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._stand_still()
        await super().adelete_for_runs(run_ids)

    async def adelete_own_run(self, config: RunnableConfig) -> None:
        await self._stand_still()
        await super().adelete_own_run(config)


def config_of(attempt: RunAttempt) -> RunnableConfig:
    names = {"thread_id": attempt.thread, "checkpoint_ns": "", "run_id": attempt.run}
    return {"configurable": {**names, EPOCH_KEY: attempt.epoch}}


async def lost_run(runs: Runs, saver: RedisSaver) -> str:
    """Return a run whose process wrote a checkpoint, and died."""
    request = word_request()
    await runs.create(request)
    attempt = await runs.claim("t", request.id)
    assert isinstance(attempt, RunAttempt)
    await saver.aput(config_of(attempt), empty_checkpoint(), cast("Any", {"run_id": request.id}), {})
    await runs.release(attempt)
    return str(request.id)


async def test_the_next_run_begins_when_the_checkpoints_of_a_run_that_is_rolled_back_are_gone(
    storage: Storage,
) -> None:
    saver = SlowSaver(storage.redis, fence=EPOCH_KEY).slow_down()
    runs, queue = Runs(storage, LEASE_S), Queue()
    worker = Worker(storage, saver, {}, cast("Any", queue), WorkerOptions(LEASE_S))
    lost = await lost_run(runs, saver)
    cancelling = asyncio.create_task(worker.cancel("t", lost, "rollback"))
    await saver.at_deletion.wait()
    following = replace(word_request("other"), strategy="enqueue")
    await runs.create(following)
    assert not isinstance(await runs.claim("t", following.id), RunAttempt), (
        "it would read what is rolled back"
    )
    saver.may_delete.set()
    assert await cancelling
    assert queue.runs == [following.id]
    assert await saver.aget_tuple(NEWEST) is None
    assert isinstance(await runs.claim("t", following.id), RunAttempt)
    assert await runs.find("t", lost) is None


async def test_a_rollback_that_lost_its_thread_leaves_it_to_the_attempt_that_has_it(storage: Storage) -> None:
    saver = SlowSaver(storage.redis, fence=EPOCH_KEY).slow_down()
    runs, queue = Runs(storage, lease_s=0.2), Queue()
    worker = Worker(storage, saver, {}, cast("Any", queue), WorkerOptions(0.2))
    lost = await lost_run(runs, saver)
    cancelling = asyncio.create_task(worker.cancel("t", lost, "rollback"))
    await saver.at_deletion.wait()
    attempts: list[RunAttempt] = []

    async def is_claimed() -> bool:
        claimed = await runs.claim("t", lost, isolated=True)
        attempts.extend([claimed] if isinstance(claimed, RunAttempt) else [])
        return bool(attempts)

    await eventually(is_claimed, "the lease of the process that stands still has expired")
    saver.may_delete.set()
    assert not await cancelling, "it has not ended"
    assert await saver.aget_tuple(NEWEST) is not None
    assert await runs.renew(attempts[0]) == "rollback", "the attempt learns of it"


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_a_cancelled_run_whose_process_died_does_no_further_step(
    storage: Storage, action: Action
) -> None:
    """The attempt that takes the thread finds the cancellation before it does anything."""
    steps = TwoStepGraph()
    async with running_worker(storage, {"stage": steps.graph()}, WorkerOptions(LEASE_S)) as worker:
        request = word_request()
        await worker.runs.create(request)
        dead = await Runs(storage, lease_s=0.2).claim("t", request.id)
        assert isinstance(dead, RunAttempt)
        assert not await worker.cancel("t", request.id, action), "its process may be alive"
        await worker.execute("t", request.id)
        run = await worker.runs.find("t", request.id)
        assert (run.status if run else "rolled-back") == {"rollback": "rolled-back"}.get(
            action, "interrupted"
        )
        assert steps.first_calls == 0


@pytest.mark.parametrize("has_executor", [True, False])
async def test_a_rollback_of_an_answer_leaves_the_question_waiting(
    storage: Storage, *, has_executor: bool
) -> None:
    """Also where no process executes the run any more."""
    question = {"task": [{"id": "q", "value": "Send it?"}]}
    steps = TwoStepGraph()
    steps.may_continue.clear()
    async with running_worker(storage, {"stage": steps.graph()}, WorkerOptions(LEASE_S)) as worker:
        await threads.create(storage, NewThread("t", LOCAL, "stage"))
        asking, answering = word_request(), word_request("yes")
        await worker.runs.create(asking)
        attempt = await worker.runs.claim("t", asking.id)
        assert isinstance(attempt, RunAttempt)
        await worker.runs.finish(attempt, RunOutcome("success", "interrupted", question))
        await worker.runs.create(answering)
        executing = asyncio.create_task(worker.execute("t", answering.id)) if has_executor else None
        if executing:
            await steps.second_started.wait()
        await worker.cancel("t", answering.id, "rollback")
        if executing:
            await executing
        thread = await threads.get(storage, "t", LOCAL)
        assert (thread.status, thread.interrupts) == ("interrupted", question)

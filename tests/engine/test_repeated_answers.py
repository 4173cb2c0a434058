"""Answers of runs that another attempt or run continues: each is given once, to its own question (X8)."""

import asyncio
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, TypedDict, cast

import pytest
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import interrupt

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.execution import pending_interrupts, resume_command
from callsheet.server.engine.worker import Worker, running_worker
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis import keys
from callsheet.storage.runs.records import RunAttempt, RunRequest
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.doubles.waiting import eventually
from tests.engine.test_cancelled_answers import (
    OPTIONS,
    AnswerState,
    AskingGraph,
    TwoQuestions,
    ask,
    request,
)


async def execute(worker: Worker, run: RunRequest) -> None:
    """Execute a run in a task of its own, as the server does."""
    created = await worker.runs.create(run)
    await asyncio.create_task(worker.execute("t", created.run))


async def state_of(worker: Worker) -> Any:
    return await worker.state(await threads.get(worker.storage, "t", LOCAL))


@pytest.mark.parametrize("names_question", [True, False])
async def test_an_answer_whose_process_died_at_the_next_question_does_not_answer_that(
    storage: Storage, *, names_question: bool
) -> None:
    asking = TwoQuestions("")
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        answering = await asyncio.create_task(ask(worker))
        if not names_question:
            answering = request(command={"resume": "yes"})
        runs, graph = Runs(storage, lease_s=0.2), worker.graphs["asking"]
        await runs.create(answering)
        dead = await runs.claim("t", answering.id)
        assert isinstance(dead, RunAttempt)
        config: Any = {"configurable": {"thread_id": "t", "run_id": answering.id, EPOCH_KEY: dead.epoch}}
        tasks = (await state_of(worker)).tasks
        await cast("RedisSaver", graph.checkpointer).akeep_pending(config, tasks, ())
        given = resume_command(answering.request["command"], answering.request["answers"])
        await graph.ainvoke(given, config, durability="sync")
        await runs.release(dead)
        await asyncio.create_task(worker.execute("t", answering.id))
        state = await state_of(worker)
        assert [one.value for one in pending_interrupts(state)] == ["To all of them?"]
        await execute(worker, request(command={"resume": "all"}))
        assert (await state_of(worker)).values["answers"] == ["yes", "all"]


async def test_a_run_that_ends_a_question_after_the_run_before_is_no_second_attempt(storage: Storage) -> None:
    """It stored its checkpoint through the run before, whose late writes are refused."""
    asking = AskingGraph("ask")
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        answering = await asyncio.create_task(ask(worker))
        await worker.runs.create(answering)
        executing = asyncio.create_task(worker.execute("t", answering.id))
        await asking.is_waiting.wait()
        ending = replace(request(command={"goto": "__end__"}), strategy="enqueue")
        await worker.runs.create(ending)
        asking.may_continue.set()
        await executing

        async def has_ended() -> bool:
            return await worker.runs.has_ended("t", ending.id)

        await eventually(has_ended, "the question is ended", patience_s=5.0)


async def test_a_subgraph_with_a_state_of_its_own_gets_the_later_answer(storage: Storage) -> None:
    asking = TwoQuestions("")
    inner = StateGraph(AnswerState).add_node("ask", asking.ask).add_edge(START, "ask")
    outer = StateGraph(AnswerState).add_node("first", inner.compile(checkpointer=True))
    graph = outer.add_edge(START, "first").compile(name="asking")
    async with running_worker(storage, {"asking": graph}, OPTIONS) as worker:
        await asyncio.create_task(ask(worker))
        asking.fails = True
        await execute(worker, request(command={"resume": "yes"}))
        asking.fails = False
        await execute(worker, request(command={"resume": "no"}))
        await execute(worker, request(command={"resume": "all"}))
        assert (await state_of(worker)).values["answers"] == ["no", "all"]


class Both(TypedDict, total=False):
    answers: Annotated[list[str], operator.add]


class TwoTasks:
    """A graph that asks in two tasks at once; the second one fails, waits, or ends."""

    fails, waits = False, True

    def __init__(self) -> None:
        self.is_waiting = asyncio.Event()

    def graph(self) -> Pregel[Any, Any]:
        builder = StateGraph(Both).add_node("one", self.one).add_node("two", self.two)
        return builder.add_edge(START, "one").add_edge(START, "two").compile(name="asking")

    async def one(self, state: Both) -> Both:
        return {"answers": [interrupt("one?")]}

    async def two(self, state: Both) -> Both:
        answer = interrupt("two?")
        await asyncio.sleep(0.1)
        if self.fails:
            raise RuntimeError("the model is down")
        if self.waits:
            self.is_waiting.set()
            await asyncio.Event().wait()
        return {"answers": [answer]}


async def test_a_retry_that_is_rolled_back_leaves_what_the_failed_run_has_done(storage: Storage) -> None:
    asking = TwoTasks()
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        await threads.create(storage, NewThread("t", LOCAL, "asking"))
        await execute(worker, request(input={"answers": []}))
        answers: Mapping[str, str] = {one.id: one.value for one in pending_interrupts(await state_of(worker))}
        asking.fails = True
        await execute(worker, request(command={"resume": answers}))
        before = (await state_of(worker)).tasks
        assert [task.result for task in before] == [{"answers": ["one?"]}, None]
        asking.fails = False
        retry = request(input=None)
        executing = asyncio.create_task(execute(worker, retry))
        await asking.is_waiting.wait()
        await worker.cancel("t", retry.id, "rollback")
        await executing
        assert [task.result for task in (await state_of(worker)).tasks] == [{"answers": ["one?"]}, None]


async def test_an_answer_replaces_that_of_a_failed_run_to_the_same_question_alone(storage: Storage) -> None:
    asking = TwoTasks()
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        await threads.create(storage, NewThread("t", LOCAL, "asking"))
        await execute(worker, request(input={"answers": []}))
        ids = {one.value: one.id for one in pending_interrupts(await state_of(worker))}
        asking.fails, asking.waits = True, False
        for answer in ("early", "late"):
            await execute(worker, request(command={"resume": {ids["two?"]: answer}}))
        asking.fails = False
        await execute(worker, request(command={"resume": {ids["one?"]: "first"}}))
        state = await state_of(worker)
        assert (pending_interrupts(state), state.values) == ([], {"answers": ["first", "late"]})


async def test_what_is_kept_of_a_checkpoint_goes_with_it(storage: Storage) -> None:
    async with running_worker(storage, {"asking": AskingGraph("").graph()}, OPTIONS) as worker:
        await execute(worker, await asyncio.create_task(ask(worker)))
        await cast("RedisSaver", worker.graphs["asking"].checkpointer).aprune(["t"])
        kept: Any = await storage.redis.hgetall(keys.checkpoints("t")[1])
        assert not any(b"Send it?" in value for value in kept.values())

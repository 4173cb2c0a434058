"""An answer whose run is cancelled or fails: its question waits, or is answered, never both (X8)."""

import asyncio
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import interrupt

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.artefacts.service import RequestContext, resume_fields, run_request
from callsheet.server.engine.encoding import sha256_of
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.graph_factory import GraphFactory, mark
from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage, questions
from callsheet.storage.runs.records import Action, RunAttempt, RunRequest
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread, Thread
from tests.doubles.waiting import eventually

OPTIONS = WorkerOptions(lease_s=10.0)


class AnswerState(TypedDict, total=False):
    answers: list[str]
    sent: bool


class AskingGraph:
    """A graph that asks a person, notes the answer, and sends; both steps wait where `waits_in` says."""

    def __init__(self, waits_in: str, *, nested: bool = False) -> None:
        self.waits_in, self.nested = waits_in, nested
        self.is_waiting, self.may_continue = asyncio.Event(), asyncio.Event()

    def graph(self) -> Pregel[Any, Any]:
        asking = StateGraph(AnswerState)
        asking.add_node("ask", self.ask)
        asking.add_edge(START, "ask")
        builder = StateGraph(AnswerState)
        if self.nested:
            builder.add_node("first", asking.compile())
        else:
            builder.add_node("first", self.ask)
        builder.add_node("send", self.send)
        builder.add_edge(START, "first")
        builder.add_edge("first", "send")
        builder.add_edge("send", END)
        return builder.compile(name="asking")

    async def ask(self, state: AnswerState) -> AnswerState:
        answer = interrupt("Send it?")
        await self.stop_in("ask")
        return {"answers": [answer]}

    async def send(self, state: AnswerState) -> AnswerState:
        await self.stop_in("send")
        return {"sent": state["answers"] == ["yes"]}

    async def stop_in(self, step: str) -> None:
        if self.waits_in == step:
            self.is_waiting.set()
            await self.may_continue.wait()


def request(**fields: Any) -> RunRequest:
    thread = Thread("t", LOCAL, "asking")
    return run_request(thread, RequestContext(LOCAL, None), {"fields": str(fields)}, **fields)


async def ask(worker: Worker) -> RunRequest:
    """Have a run ask; return the run that answers "yes", which is not recorded yet."""
    await threads.create(worker.storage, NewThread("t", LOCAL, "asking"))
    asking = request(input={"answers": []})
    await worker.runs.create(asking)
    await worker.execute("t", asking.id)
    return await answer(worker, "yes")


async def answer(worker: Worker, text: str) -> RunRequest:
    thread = await threads.get(worker.storage, "t", LOCAL)
    [question] = pending_interrupts(await worker.state(thread))
    assert [one["id"] for several in thread.interrupts.values() for one in several] == [question.id]
    return request(**resume_fields({question.id: text}, {question.id: sha256_of(question.value)}))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("is_executed", [True, False])
@pytest.mark.parametrize("action", ["interrupt", "rollback"])
@pytest.mark.parametrize("step", ["ask", "send"])
async def test_a_thread_whose_answer_is_cancelled_waits_with_the_questions_of_its_state(
    storage: Storage, step: str, action: Action, *, is_executed: bool, nested: bool
) -> None:
    """Also where no process executes the answer any more. What is rolled back is not answered."""
    asking = AskingGraph(step, nested=nested)
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        answering = await ask(worker)
        await worker.runs.create(answering)
        executing = asyncio.create_task(worker.execute("t", answering.id))
        await asking.is_waiting.wait()
        if not is_executed:
            executing.cancel()
            await asyncio.gather(executing, return_exceptions=True)
        await worker.cancel("t", answering.id, action)

        async def has_ended() -> bool:
            return await worker.runs.has_ended("t", answering.id)

        await eventually(has_ended, "the answer is cancelled")
        asking.may_continue.set()
        thread = await threads.get(storage, "t", LOCAL)
        assert thread.status == "interrupted"
        if (step, action) == ("send", "interrupt"):
            assert (thread.interrupts, (await worker.state(thread)).next) == ({}, ("send",))
            return
        other = await answer(worker, "no")
        await worker.runs.create(other)
        await worker.execute("t", other.id)
        values = (await worker.state(thread)).values
        assert values == {"answers": ["no"], "sent": False}


class TwoQuestions(AskingGraph):
    """A graph whose first step asks two questions; it fails between them, or waits there."""

    fails = False

    async def ask(self, state: AnswerState) -> AnswerState:
        first = interrupt("Send it?")
        if self.fails:
            raise RuntimeError("the model is down")
        await self.stop_in("ask")
        return {"answers": [first, interrupt("To all of them?")]}


async def test_an_answer_whose_run_failed_is_not_given_instead_of_a_later_one(storage: Storage) -> None:
    asking = TwoQuestions("")
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        failing = await ask(worker)
        [name] = failing.request["answers"]
        asking.fails = True
        await worker.runs.create(failing)
        await worker.execute("t", failing.id)
        asking.fails = False
        other = request(**resume_fields({name: "no"}, dict(failing.request["questions"])))
        await worker.runs.create(other)
        await worker.execute("t", other.id)
        last = await answer(worker, "yes")
        await worker.runs.create(last)
        await worker.execute("t", last.id)
        thread = await threads.get(storage, "t", LOCAL)
        assert (await worker.state(thread)).values["answers"] == ["no", "yes"]


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_run_without_input_goes_on_with_the_answers_of_runs_that_failed_and_new_ones_replace_them(
    storage: Storage, failures: int, *, goes_on: bool
) -> None:
    asking = TwoQuestions("")
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:

        async def execute(run: RunRequest) -> None:
            created = await worker.runs.create(run)
            await worker.execute("t", created.run)

        failing = await ask(worker)
        [name] = failing.request["answers"]
        asking.fails = True
        await execute(failing)
        for _ in range(failures - 1):
            await execute(request(input=None))
        asking.fails = False
        others = resume_fields({name: "no"}, dict(failing.request["questions"]))
        await execute(request(input=None) if goes_on else request(**others))
        await execute(await answer(worker, "all"))
        thread = await threads.get(storage, "t", LOCAL)
        assert (await worker.state(thread)).values["answers"] == ["yes" if goes_on else "no", "all"]


async def test_an_answer_that_another_process_continues_answers_no_second_question(storage: Storage) -> None:
    """A restart between two questions of a step answered the second with the words for the first."""
    asking = TwoQuestions("ask")
    async with running_worker(storage, {"asking": asking.graph()}, OPTIONS) as worker:
        answering = await ask(worker)
        await worker.runs.create(answering)
        executing = asyncio.create_task(worker.execute("t", answering.id))
        await asking.is_waiting.wait()
        executing.cancel()
        await asyncio.gather(executing, return_exceptions=True)
        asking.may_continue.set()
        await worker.execute("t", answering.id)
        thread = await threads.get(storage, "t", LOCAL)
        [question] = pending_interrupts(await worker.state(thread))
        assert question.value == "To all of them?"


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_a_cancelled_run_whose_graph_does_not_load_any_more_ends_as_cancelled(
    storage: Storage, action: Action
) -> None:
    def fail() -> None:
        raise RuntimeError("a library is missing")

    graph = mark(AskingGraph("").graph(), GraphFactory(fail, {}, lambda graph: graph))
    async with running_worker(storage, {"asking": graph}, OPTIONS) as worker:
        asking = request(input={"answers": []})
        await worker.runs.create(asking)
        dead = await Runs(storage, lease_s=0.2).claim("t", asking.id)
        assert isinstance(dead, RunAttempt)
        assert not await worker.cancel("t", asking.id, action), "its process may be alive"
        await worker.execute("t", asking.id)
        run = await worker.runs.find("t", asking.id)
        assert (run.status if run else "") == ("interrupted" if action == "interrupt" else "")


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_a_cancelled_run_whose_graph_no_process_serves_any_more_ends(
    storage: Storage, action: Action
) -> None:
    """It held its thread until somebody cancelled it once more."""
    runs = Runs(storage, lease_s=0.2)
    asking = request(input={"answers": []})
    await runs.create(asking)
    assert isinstance(await runs.claim("t", asking.id), RunAttempt)
    assert await runs.cancel("t", asking.id, action) == ("asked", ""), "its process may be alive"
    await runs.schedule_check("t", asking.id, 0)
    async with running_worker(storage, {}, OPTIONS) as worker:

        async def has_ended() -> bool:
            return await worker.runs.has_ended("t", asking.id)

        await eventually(has_ended, "the run is cancelled")


async def test_the_question_of_a_run_that_is_cancelled_after_its_process_died_is_listed(
    storage: Storage,
) -> None:
    """The process died between the question and the end of its run."""
    graph = AskingGraph("").graph()
    async with running_worker(storage, {"asking": graph}, OPTIONS) as worker:
        await threads.create(storage, NewThread("t", LOCAL, "asking"))
        asking = request(input={"answers": []})
        runs = Runs(storage, lease_s=0.2)
        await runs.create(asking)
        dead = await runs.claim("t", asking.id)
        assert isinstance(dead, RunAttempt)
        config: Any = {"configurable": {"thread_id": "t", "run_id": asking.id, EPOCH_KEY: dead.epoch}}
        graph_input: Any = {"answers": []}
        await worker.graphs["asking"].ainvoke(graph_input, config, durability="sync")
        await runs.release(dead)
        assert await worker.cancel("t", asking.id)
        assert (await answer(worker, "yes")).questions
        assert (await questions.list_waiting(storage, LOCAL, None, 10)).ids == ("t",)
